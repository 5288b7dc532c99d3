"""A real MariaDB: databases of our own on it, gone after the test. It is at `URL`."""

import os
import secrets
from contextlib import closing
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa

URL = os.environ.get("BESTBEFORE_TEST_MARIADB", "mysql+pymysql://root@127.0.0.1:3306/mysql")


class Mariadb:
    """The server's side of it."""

    def __init__(self) -> None:
        self._server = sa.make_url(URL)

    def url(self, database: str) -> str:
        return self._server.set(database=database).render_as_string(hide_password=False)

    def connect(self, database: str | None = None, **how: Any) -> Any:
        """A connection of the driver, to which names in double quotes are names."""
        url = self._server
        return pymysql.connect(
            host=url.host,
            port=url.port or 3306,
            user=url.username,
            password=url.password or "",
            database=database or url.database,
            sql_mode="ANSI_QUOTES,STRICT_TRANS_TABLES",
            ssl_disabled=True,  # reading the authorities takes longer than all the rest
            **how,
        )

    def create_database(self) -> str:
        name = f"bestbefore_test_{os.getpid()}_{secrets.token_hex(4)}"
        self._execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return name

    def drop_database(self, name: str) -> None:
        self._execute(f"DROP DATABASE {name}")

    def _execute(self, statement: str) -> None:
        with closing(self.connect()) as connection:
            connection.cursor().execute(statement)


@pytest.fixture(scope="session")
def mariadb() -> Mariadb:
    server = Mariadb()
    try:
        server.connect(connect_timeout=5).close()
    except pymysql.OperationalError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no MariaDB at {URL}: {error}")
    return server
