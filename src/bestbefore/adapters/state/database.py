"""One database: connections, transactions and its schema's version."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command, config, script
from alembic.runtime.migration import MigrationContext
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.pool import QueuePool

from bestbefore.ports.ledger import LedgerError

_MIGRATIONS = Path(__file__).with_name("migrations")
_NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "ceph"}
_BUSY_TIMEOUT_SECONDS = 30
_CACHE_KIB = 64 * 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """*moment* (aware) as microseconds since 1970 in UTC."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(value: int) -> datetime:
    """The instant stored as *value*."""
    return _EPOCH + timedelta(microseconds=value)


def maybe_moment(value: int | None) -> datetime | None:
    """The instant stored as *value*, if there is one."""
    return None if value is None else moment(value)


class Database:
    """Transactions on the state database.

    Writers of one process take turns on a lock, as SQLite lets one write anyway and waiting for
    a lock in the process is cheaper than for one in the file. Reads see the last commit.
    """

    def __init__(self, url: str) -> None:
        self.url = sa.make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        if self.is_sqlite:
            _refuse_network_file_system(self.url)
        self._writer, self._reader = _engines(self.url, is_sqlite=self.is_sqlite)
        self._turn = threading.Lock()

    def prepare(self) -> None:
        """Create or upgrade the schema, under a lock.

        Raises LedgerError where the schema is newer than this process.
        """
        expected = script.ScriptDirectory(str(_MIGRATIONS)).get_current_head()
        with self.read() as connection:
            found = MigrationContext.configure(connection).get_current_heads()
        if found == (expected,):
            return
        with self.write() as connection:
            found = MigrationContext.configure(connection).get_current_heads()
            known = {r.revision for r in script.ScriptDirectory(str(_MIGRATIONS)).walk_revisions()}
            if not known.issuperset(found):
                raise LedgerError(
                    f"state database {self.url!r}: its schema is {', '.join(found)}, which is "
                    f"newer than this process (expected {expected}); upgrade bestbefore here"
                )
            settings = config.Config()
            settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
            settings.attributes["connection"] = connection
            command.upgrade(settings, "head")

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that holds the write lock from its start.

        Taking it at once, instead of at the first write, is what keeps SQLite from answering
        "database is locked" to a transaction that read first (O-DBF-03).
        """
        with self._turn, self._writer.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection for reading; every statement sees the newest commit."""
        with self._reader.connect() as connection:
            yield connection

    def insert(self, table: sa.Table) -> Any:
        """An INSERT into *table* that can say what to do on a conflict, in this dialect."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    def dispose(self) -> None:
        """Close every connection."""
        self._writer.dispose()
        self._reader.dispose()


def _engines(url: sa.URL, *, is_sqlite: bool) -> tuple[sa.Engine, sa.Engine]:
    """A writing and a reading engine."""
    if not is_sqlite:
        return (
            sa.create_engine(url, pool_pre_ping=True),
            sa.create_engine(url, pool_pre_ping=True, isolation_level="AUTOCOMMIT"),
        )
    writer, reader = _sqlite_engine(url), _sqlite_engine(url)

    @sa.event.listens_for(writer, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return writer, reader


def _sqlite_engine(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(
        url,
        poolclass=QueuePool,
        connect_args={"timeout": _BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
    )

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin anything by itself
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            f"cache_size = -{_CACHE_KIB}",
            "temp_store = MEMORY",
        ):
            connection.execute(f"PRAGMA {pragma}")

    return engine


def _refuse_network_file_system(url: sa.URL) -> None:
    """SQLite's locks and shared memory do not work across machines (sqlite.org, "wal.html")."""
    if not url.database or url.database == ":memory:" or not Path("/proc/mounts").exists():
        return
    folder = Path(url.database).absolute().parent
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    inside = [(point, kind) for point, kind in mounts if folder.is_relative_to(point)]
    point, kind = max(inside, key=lambda mount: len(mount[0]), default=("/", ""))
    if kind in _NETWORK_FILE_SYSTEMS:
        raise LedgerError(
            f"state database {url.database}: {point} is a network file system ({kind}), where "
            "SQLite's locks do not hold; put it on a local disk"
        )
