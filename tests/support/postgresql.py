"""Ledgers on a real PostgreSQL: a database per test process, a schema in it per test.

The database sorts text as people do (ICU, where the server has it), so that a test notices what
relies on the order of bytes. The server is at `URL`, where we may create databases.
"""

import os
import secrets
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from bestbefore.adapters.state.database import Database

URL = os.environ.get(
    "BESTBEFORE_TEST_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"
)
_LIKE_PEOPLE = "LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"


class Postgres:
    """The server's side of it. ``database`` is ours alone."""

    def __init__(self) -> None:
        self._server = sa.make_url(URL)
        with self.connect(str(self._server.database)) as connection:
            icu = connection.execute("SELECT FROM pg_collation WHERE collprovider = 'i' LIMIT 1")
            able = connection.info.server_version >= 150000 and icu.fetchone() is not None
        self.database = self.create_database(_LIKE_PEOPLE if able else "")
        # What the migrations do, to do it again in a fraction of their time.
        self._migrations: list[str] = []
        schema = self.create_schema()
        database = Database(self.url(schema))
        sa.event.listen(database._writer, "before_cursor_execute", self._record)
        database.prepare()
        database.dispose()
        self.drop_schema(schema)

    def url(self, schema: str) -> str:
        query = {"options": f"-csearch_path={schema}"}
        there = self._server.set(database=self.database, query=query)
        return there.render_as_string(hide_password=False)

    def database_url(self, database: str) -> str:
        return self._server.set(database=database).render_as_string(hide_password=False)

    def connect(self, database: str | None = None) -> psycopg.Connection:
        """A connection of the driver, each of whose statements is a transaction."""
        url = self.database_url(database or self.database)
        return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)

    def create_database(self, how: str = "") -> str:
        name = f"bestbefore_test_{os.getpid()}_{secrets.token_hex(4)}"
        with self.connect(str(self._server.database)) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' {how}")
            # Our processes are killed, the server never is: nothing here has to wait for a disk.
            connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        return name

    def drop_database(self, name: str) -> None:
        with self.connect(str(self._server.database)) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def create_schema(self, *, migrated: bool = False) -> str:
        name = f"test_{secrets.token_hex(4)}"
        statements = [f"CREATE SCHEMA {name}"]
        if migrated:
            statements += [f"SET search_path = {name}", *self._migrations]
        with self.connect() as connection:
            connection.execute("; ".join(statements))
        return name

    def drop_schema(self, name: str) -> None:
        with self.connect() as connection:
            connection.execute(f"DROP SCHEMA {name} CASCADE")

    def end_sessions(self, database: str | None = None) -> int:
        """Have the server close every connection to a database (ours), as a restart does."""
        with self.connect(str(self._server.database)) as connection:
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                [database or self.database],
            )
            return len(ended.fetchall())

    def _record(self, _connection: object, _cursor: object, statement: str, *_: object) -> None:
        changes = ("CREATE", "ALTER", "INSERT", "UPDATE")
        if statement.lstrip().startswith(changes):
            self._migrations.append(statement.partition("RETURNING")[0])


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    try:
        psycopg.connect(URL.replace("+psycopg", ""), connect_timeout=5).close()
    except psycopg.OperationalError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no PostgreSQL at {URL}: {error}")
    server = Postgres()
    yield server
    server.drop_database(server.database)


@pytest.fixture
def ledger_url(postgres: Postgres) -> Iterator[str]:
    """Where an empty ledger is, migrated."""
    name = postgres.create_schema(migrated=True)
    yield postgres.url(name)
    postgres.drop_schema(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def state(request: pytest.FixtureRequest) -> str | None:
    """Either state database, empty and ready: a URL, or None for the SQLite file of old."""
    return None if request.param == "sqlite" else request.getfixturevalue("ledger_url")


@pytest.fixture
def empty_url(postgres: Postgres) -> Iterator[str]:
    """Where nothing is."""
    name = postgres.create_schema()
    yield postgres.url(name)
    postgres.drop_schema(name)
