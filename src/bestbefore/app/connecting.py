"""How stores and databases are reached. Nothing else knows vendors' names."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from bestbefore.app import plugins
from bestbefore.app.settings import DatabaseSettings, StoreSettings, kinds
from bestbefore.ports.clock import Clock
from bestbefore.ports.endpoints import EndpointMemory
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import RowDeleter, RowFiler, RowReader, RowRestorer
from bestbefore.ports.stores import Store


@dataclass(frozen=True, slots=True)
class Tables:
    """The sides of one database. ``close`` ends its connections, once nobody uses it any more."""

    reader: RowReader
    deleter: RowDeleter
    filer: RowFiler | None = None
    restorer: RowRestorer | None = None
    close: Callable[[], None] = lambda: None


def connect_store(settings: StoreSettings, clock: Clock, memory: EndpointMemory) -> Store:
    """All sides of one store.

    Raises LedgerError where what it takes is not installed, and StoreError where the environment
    leaves nothing to make a client with.
    """
    if settings.root is not None:
        from bestbefore.adapters.objects import directory

        root = settings.root
        return Store(
            directory.DirectoryLister(root),
            directory.DirectoryDeleter(root),
            files=directory.DirectoryFiles(root),
        )
    if settings.kind not in kinds.STORES:
        place = f"stores.{settings.name}"
        return plugins.connect(plugins.STORES, settings.kind, settings.options, place, Store)
    # Imported here: the vendor's client is an extra, and takes a while to import.
    try:
        from bestbefore.adapters.objects import s3
    except ImportError as error:
        raise LedgerError(
            f'a store of kind "{settings.kind}" needs {error.name}: pip install "bestbefore[s3]"'
        ) from error
    there = s3.S3Settings(
        endpoint_url=settings.endpoint_url,
        region=settings.region,
        access_key_id=settings.access_key_id,
        secret_access_key=settings.secret_access_key,
    )
    try:
        connection = s3.connect(there, clock, memory)
    except StoreError as error:
        said = f"stores.{settings.name}: {error}"
        raise StoreError(replace(error.failure, error=said)) from error
    return Store(
        s3.S3Lister(there, clock, connection=connection),
        s3.S3Deleter(there, clock, connection=connection),
        s3.S3Copier(there, clock, connection=connection),
        s3.S3Files(there, clock, connection=connection),
    )


def connect_tables(settings: DatabaseSettings) -> Tables:
    """Both sides of the tables of one database; raises LedgerError without its driver."""
    # Imported here: the driver is an extra.
    from bestbefore.adapters import rows

    try:
        reader, deleter = rows.connect(settings.url)
    except ImportError as error:
        raise LedgerError(
            f"databases.{settings.name} needs {error.name}: "
            f'pip install "bestbefore[{settings.extra}]"'
        ) from error
    restorer = rows.SqlRowRestorer(settings.url)

    def close() -> None:
        reader.close()
        restorer.close()

    return Tables(reader, deleter, deleter, restorer, close)
