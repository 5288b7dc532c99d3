"""A state database of our own beside the configured one: a file, or a schema of the same server."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from bestbefore.adapters.sql_server import product
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.scratch import ScratchState

NAME = "bestbefore_gate"

_BESIDE = ("-wal", "-shm", "-journal", "-turn")
_OTHERS = "it is there already, so another gate is running, or was killed"


def beside(url: str) -> ScratchState:
    """The scratch of the state database at *url*; nothing is made yet."""
    parsed = make_url(url)
    return _File(parsed) if parsed.get_backend_name() == "sqlite" else _Schema(parsed)


class _File:
    def __init__(self, url: sa.URL) -> None:
        there = Path(str(url.database))
        self._file = there.with_name(f"{there.stem}.{NAME}{there.suffix}")
        self.name = str(self._file)
        self.url = f"sqlite:///{self._file}"

    def exists(self) -> bool:
        return self._file.exists()

    def create(self) -> None:
        try:
            self._file.touch(mode=0o600, exist_ok=False)
        except FileExistsError as error:
            raise LedgerError(f"state database {self.name}: {_OTHERS}") from error
        except OSError as error:
            raise LedgerError(
                f"state database {self.name}: {error.strerror}; the gate keeps a ledger of its own "
                "in that folder: let this user write there"
            ) from error

    def prove(self) -> None:
        """A file is what its name says."""

    def renew(self) -> None:
        empty = self._file.with_name(f"{self._file.name}.new")
        empty.touch(mode=0o600)
        self._unlink(_BESIDE)
        empty.replace(self._file)

    def remove(self) -> None:
        self._unlink((*_BESIDE, ".new", ""))

    def _unlink(self, suffixes: Iterable[str]) -> None:
        for suffix in suffixes:
            self._file.with_name(f"{self._file.name}{suffix}").unlink(missing_ok=True)

    def server(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"


class _Schema:
    def __init__(self, url: sa.URL) -> None:
        self._home = url
        options = " ".join((*_texts(url.query.get("options")), f"-csearch_path={NAME}"))
        self.url = url.update_query_dict({"options": options}).render_as_string(hide_password=False)
        self.name = f"{url.host or 'local'}/{url.database}, schema {NAME}"

    def exists(self) -> bool:
        with self._connection() as connection:
            return NAME in sa.inspect(connection).get_schema_names()

    def create(self) -> None:
        with self._connection() as connection:
            connection.execute(sa.schema.CreateSchema(NAME))
        try:
            self.prove()
        except LedgerError:
            self.remove()
            raise

    def prove(self) -> None:
        with self._connection(sa.make_url(self.url)) as connection:
            found = connection.scalar(sa.select(sa.func.current_schema()))
        if found != NAME:
            raise LedgerError(
                f"state database {self.name}: who asks for this schema is in "
                f"{found or 'none'} instead, so there is a pooler in between that drops `options`; "
                "have the gate read a file whose [state] url leads to PostgreSQL itself"
            )

    def renew(self) -> None:
        with self._connection() as connection:
            connection.execute(sa.schema.DropSchema(NAME, cascade=True))
            connection.execute(sa.schema.CreateSchema(NAME))

    def remove(self) -> None:
        with self._connection() as connection:
            connection.execute(sa.schema.DropSchema(NAME, cascade=True, if_exists=True))

    def server(self) -> str:
        with self._connection() as connection:
            return product(connection)

    @contextmanager
    def _connection(self, url: sa.URL | None = None) -> Iterator[sa.Connection]:
        engine = sa.create_engine(url or self._home, poolclass=sa.NullPool)
        try:
            with engine.begin() as connection:
                yield connection
        except sa.exc.DBAPIError as error:
            raise LedgerError(
                f"state database {self.name}: {str(error.orig).strip()}; the gate keeps a ledger "
                "of its own in a schema that it creates and removes: no other gate may be running, "
                "and the user of [state] url needs CREATE on the database"
            ) from error
        finally:
            engine.dispose()


def _texts(option: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if option is None:
        return ()
    return (option,) if isinstance(option, str) else option
