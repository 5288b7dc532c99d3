"""Ledgers on a real PostgreSQL: a database per test process, a schema in it per test. A schema with
a ledger is emptied after a test, and used again.

The database sorts text as people do (ICU, where the server has it), so that a test notices what
relies on the order of bytes. The server is at `URL`, where we may create databases.
"""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
import sqlalchemy as sa

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.schema import metadata

URL = os.environ.get(
    "BESTBEFORE_TEST_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"
)
_LIKE_PEOPLE = "LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
_SHAPE = """
    SELECT array_agg(line ORDER BY line) FROM (
        SELECT concat_ws(' ', relname, relkind, relacl, reloptions)
        FROM pg_class WHERE relnamespace = current_schema()::regnamespace
        UNION ALL SELECT concat_ws(' ', relname, attname, atttypid, attnotnull, attisdropped)
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = current_schema()::regnamespace
        UNION ALL SELECT concat_ws(' ', relname, tgname)
        FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relnamespace = current_schema()::regnamespace AND NOT tgisinternal
        UNION ALL SELECT conname FROM pg_constraint
        WHERE connamespace = current_schema()::regnamespace
        UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
        UNION ALL SELECT version_num FROM alembic_version
    ) AS shape (line)
"""
_CLEAR = "; ".join(
    [
        # TRUNCATE takes as long as making the tables: it gives each a new file.
        *(str(sa.delete(table)) for table in reversed(metadata.sorted_tables)),
        "SELECT setval(oid, 1, false) FROM pg_class "
        "WHERE relnamespace = current_schema()::regnamespace AND relkind = 'S'",
    ]
)
_OTHERS = """
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
    AND pid <> pg_backend_pid()
"""


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
        self._empty: list[str] = []
        with self._in_schema(self.lend_ledger()) as connection:
            self._shape = connection.execute(_SHAPE).fetchone()

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

    def create_schema(self) -> str:
        name = f"test_{secrets.token_hex(4)}"
        with self.connect() as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return name

    def lend_ledger(self) -> str:
        """A schema with an empty ledger in it, for `take_back`."""
        if self._empty:
            return self._empty.pop()
        name = self.create_schema()
        with self._in_schema(name) as connection:
            connection.execute("; ".join(self._migrations))
        return name

    def clear(self, name: str) -> None:
        """Empty a ledger that nobody uses at this moment."""
        with self._in_schema(name) as connection:
            connection.execute(_CLEAR)

    def take_back(self, name: str) -> None:
        """Empty a ledger for the next test. Where somebody may still write to it, or it is not what
        the migrations made, drop it."""
        with self._in_schema(name) as connection:
            late = time.monotonic() + 0.5
            while others := connection.execute(_OTHERS).rowcount:
                if time.monotonic() > late:
                    break
                time.sleep(0.002)  # whoever has just closed is still seen
            again = not others and connection.execute(_SHAPE).fetchone() == self._shape
            if again:
                connection.execute(_CLEAR)
        if again:
            self._empty.append(name)
        else:
            self.drop_schema(name)

    def drop_schema(self, name: str) -> None:
        with self.connect() as connection:
            connection.execute(f"DROP SCHEMA {name} CASCADE")

    @contextmanager
    def _in_schema(self, name: str) -> Iterator[psycopg.Connection]:
        with self.connect() as connection:
            connection.execute(f"SET search_path = {name}")
            yield connection

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
    name = postgres.lend_ledger()
    yield postgres.url(name)
    postgres.take_back(name)


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
