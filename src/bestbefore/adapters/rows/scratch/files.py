"""Places for SQLite: a file of their own."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from glob import escape
from pathlib import Path

import sqlalchemy as sa

from bestbefore.adapters.rows.scratch.place import PREFIX, SEED, Place
from bestbefore.ports.tuning import ScratchRefused


class SqlitePlace(Place):
    """A file beside the database's, so on the same disk, with the same page size and journal."""

    def __init__(self, url: sa.URL, name: str) -> None:
        self._origin = Path(url.database or "")
        self._file = self._origin.with_name(f"{self._origin.name}.{name}")
        super().__init__(url.set(database=str(self._file)), name)
        self.space = None

    def create(self) -> None:
        try:
            with self._real() as real, closing(sqlite3.connect(self._file)) as copy:
                for pragma in ("page_size", "auto_vacuum", "journal_mode"):
                    (value,) = real.execute(f"PRAGMA {pragma}").fetchone()
                    copy.execute(f"PRAGMA {pragma} = {value}")
                copy.execute("PRAGMA user_version = 1")  # before that there is no file
        except sqlite3.Error as error:
            raise ScratchRefused(
                f"no place could be made for the copy: {self._file}: {error}; it has to be beside "
                "the database, as it is about the same disk"
            ) from error

    def clone(self, schema: str, table: str, called: str) -> None:  # noqa: ARG002
        with self._real() as real:
            definitions = _definitions(real, table)
        with self.connected() as connection, connection.begin():
            there = {name.lower() for name in sa.inspect(connection).get_table_names()}
            for name, sql in definitions:
                if name.lower() not in there:
                    connection.exec_driver_sql(sql)

    def archive(self, table: str) -> str:
        return table  # as its definition says

    def seed(self, table: str, columns: Sequence[str]) -> None:
        names = ", ".join(map(self.named, columns))
        self.run(f"CREATE TABLE {SEED} AS SELECT {names} FROM {self.named(table)} WHERE 0")  # noqa: S608

    @contextmanager
    def _real(self) -> Iterator[sqlite3.Connection]:
        address = f"{self._origin.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as real:
            yield real

    def beside(self) -> set[str]:
        """Names of places for the same database."""
        files = self._origin.parent.glob(f"{escape(self._origin.name)}.{PREFIX}*")
        return {file.suffix[1:].partition("-")[0] for file in files}

    def drop(self) -> None:
        for ending in ("", "-wal", "-shm", "-journal"):
            self._file.with_name(self._file.name + ending).unlink(missing_ok=True)

    def empty(self, connection: sa.Connection, table: str) -> None:
        connection.exec_driver_sql(f"DELETE FROM {self.named(table)}")  # noqa: S608

    def settle(self, engine: sa.Engine, table: str) -> None:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"ANALYZE {self.named(table)}")

    def engine(self) -> sa.Engine:
        engine = super().engine()

        @sa.event.listens_for(engine, "connect")
        def orphans(connection: sqlite3.Connection, _: object) -> None:
            # Tables that the copy refers to are there for the sake of its definition, and empty.
            connection.execute("PRAGMA foreign_keys = OFF")

        return engine


def _definitions(real: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    """What creates *table* with its indexes, and the tables it refers to, each with the name of the
    table."""
    wanted, found, statements = [table], {table.lower()}, []
    for name in wanted:
        statements += real.execute(
            "SELECT tbl_name, sql FROM sqlite_master WHERE lower(tbl_name) = lower(?) "
            "AND sql IS NOT NULL AND type IN ('table', 'index') ORDER BY type DESC",
            [name],
        ).fetchall()
        for _, _, referred, *_ in real.execute("SELECT * FROM pragma_foreign_key_list(?)", [name]):
            if referred.lower() not in found:
                found.add(referred.lower())
                wanted.append(referred)
    return statements
