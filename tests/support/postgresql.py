"""Databases on a real PostgreSQL, one per test: made from a template, dropped at the end.

They sort text as people do (ICU, where the server has it), so that a test notices what relies on
the order of bytes. The server is at `URL`, where anybody may create databases.
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
_LIKE_PEOPLE = "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' ENCODING 'UTF8'"


class Postgres:
    """The server's side of it."""

    def __init__(self) -> None:
        self._url = sa.make_url(URL)
        self._made: list[str] = []
        self.template = self.create("TEMPLATE template0 " + self._sorting())
        database = Database(self.url(self.template))
        database.prepare()
        database.dispose()

    def url(self, name: str) -> str:
        return self._url.set(database=name).render_as_string(hide_password=False)

    def dsn(self, name: str) -> str:
        """For psycopg itself."""
        return self.url(name).replace("+psycopg", "")

    def create(self, how: str) -> str:
        """Make a database; returns its name."""
        name = f"bestbefore_test_{os.getpid()}_{secrets.token_hex(4)}"
        self.run(f"CREATE DATABASE {name} {how}")
        self._made.append(name)
        return name

    def copy(self) -> str:
        """A database with an empty ledger."""
        return self.create(f"TEMPLATE {self.template}")

    def drop(self, name: str) -> None:
        self._made.remove(name)
        self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def drop_all(self) -> None:
        for name in list(self._made):
            self.drop(name)

    def run(self, statement: str) -> None:
        with psycopg.connect(self.dsn(str(self._url.database)), autocommit=True) as connection:
            connection.execute(statement)

    def _sorting(self) -> str:
        with psycopg.connect(self.dsn(str(self._url.database)), autocommit=True) as connection:
            icu = connection.execute("SELECT 1 FROM pg_collation WHERE collprovider = 'i' LIMIT 1")
            able = connection.info.server_version >= 150000 and icu.fetchone()
        return _LIKE_PEOPLE if able else "ENCODING 'UTF8'"


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
    server.drop_all()


@pytest.fixture
def ledger_url(postgres: Postgres) -> Iterator[str]:
    """The URL of a database with an empty ledger."""
    name = postgres.copy()
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture
def empty_url(postgres: Postgres) -> Iterator[str]:
    """The URL of a database with nothing in it."""
    name = postgres.create("TEMPLATE template0 ENCODING 'UTF8'")
    yield postgres.url(name)
    postgres.drop(name)
