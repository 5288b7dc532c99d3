"""Databases for rows, empty ones, on PostgreSQL, MariaDB and SQLite."""

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from bestbefore.adapters import rows
from bestbefore.contracts.row_world import RowWorld
from support.mariadb import Mariadb
from support.postgresql import Postgres


@dataclass(frozen=True)
class RowDatabase:
    """``connect`` is the driver's, for others than the product; names in double quotes are names.
    ``schema`` is a second one, None where there is no such thing."""

    kind: str
    url: str
    connect: Callable[[], Any]
    schema: str | None = None

    def run(self, *statements: str) -> None:
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]

    @contextmanager
    def holding(self, *statements: str) -> Iterator[Any]:
        """A transaction with *statements*, rolled back at the end unless it has ended by then."""
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            yield connection
            connection.rollback()

    @contextmanager
    def world(self, url: str | None = None) -> Iterator[RowWorld]:
        """The product at *url*, which leads here."""
        reader, deleter = rows.connect(url or self.url)
        try:
            yield RowWorld(
                self.kind, reader, deleter, self.run, self.ask, self.holding, self.schema
            )
        finally:
            reader.close()

    def waiting(self) -> bool:
        """Whether a transaction of the product waits for a lock of another one."""
        if self.kind == "postgresql":
            query = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND datname = current_database() AND application_name = 'bestbefore'"
            )
        else:
            # Who asks more often than ten times a second gets the same answer again and again.
            time.sleep(random.uniform(0.11, 0.3))
            name = sa.make_url(self.url).database
            query = (
                "SELECT count(*) FROM information_schema.innodb_trx"  # noqa: S608
                f" WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE '%{name}%'"
            )
        return self.ask(query) != [(0,)]


@pytest.fixture(params=["postgresql", "mysql", "sqlite"])
def row_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RowDatabase]:
    match request.param:
        case "sqlite":
            yield _sqlite(tmp_path / "rows.db")
        case "postgresql":
            yield from _postgresql(request.getfixturevalue("postgres"))
        case _:
            yield from _mariadb(request.getfixturevalue("mariadb"))


@pytest.fixture
def statements(world: RowWorld) -> list[str]:
    """Everything that the reader of `world` sends from now on."""
    sent: list[str] = []

    def remember(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    database = world.reader._database  # type: ignore[attr-defined]
    for engine in (database._reader, database._counter):
        sa.event.listen(engine, "before_cursor_execute", remember)
    return sent


@pytest.fixture
def world(row_database: RowDatabase) -> Iterator[RowWorld]:
    with row_database.world() as made:
        yield made


def _sqlite(file: Path) -> RowDatabase:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(file)
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    connect().close()
    return RowDatabase("sqlite", f"sqlite:///{file}", connect)


def _postgresql(postgres: Postgres) -> Iterator[RowDatabase]:
    schemas = [postgres.create_schema() for _ in range(2)]
    url = postgres.url(schemas[0])
    yield RowDatabase(
        "postgresql", url, lambda: psycopg.connect(url.replace("+psycopg", "")), schemas[1]
    )
    for schema in reversed(schemas):
        postgres.drop_schema(schema)


def _mariadb(server: Mariadb) -> Iterator[RowDatabase]:
    names = [server.create_database() for _ in range(2)]
    yield RowDatabase("mysql", server.url(names[0]), lambda: server.connect(names[0]), names[1])
    for name in reversed(names):
        server.drop_database(name)
