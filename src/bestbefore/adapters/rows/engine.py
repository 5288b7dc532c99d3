"""Connections to a database of the data, and short transactions on them."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Access, Dialect
from bestbefore.adapters.rows.dialects import dialect_named

LOCK_SECONDS = 2
STATEMENT_SECONDS = 30
COUNT_SECONDS = 600
"""How long one statement may take that counts a whole table. It locks nothing, except on SQLite
without a write-ahead log."""


_FRESH_SECONDS = 5.0
"""Who used a connection so recently does not ask whether it is still there: to ask takes as long
as to delete a hundred rows."""


class Database:
    """Transactions in UTC, with timeouts, on one database.

    Nothing is connected before the first one. Raises ImportError where the driver is absent, and
    ValueError for a database we do not know.
    """

    def __init__(self, url: str) -> None:
        self.url = sa.make_url(url)
        self.dialect: Dialect = dialect_named(self.url.get_backend_name())
        # Where each write is followed by a rest, our threads take turns instead of filling it.
        self._turn = threading.Lock() if self.dialect.rest else nullcontext()
        self._reader = self._engine(Access(True, LOCK_SECONDS, STATEMENT_SECONDS))
        self._counter = self._engine(Access(True, LOCK_SECONDS, COUNT_SECONDS))
        self._writer = self._engine(Access(False, LOCK_SECONDS, STATEMENT_SECONDS))

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that only looks; every statement of it is expected to use an index."""
        with self._reader.connect() as connection, connection.begin():
            self.dialect.walks(connection)
            yield connection

    @contextmanager
    def counting(self) -> Iterator[sa.Connection]:
        """A transaction that only looks, and may look at all of a table."""
        with self._counter.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that writes, committed at its end. READ COMMITTED; on SQLite it holds the
        file's write lock from its start (O-DBF-03), and a rest for others follows it."""
        with self._turn:
            with self._writer.connect() as connection, connection.begin():
                yield connection
            if self.dialect.rest:
                time.sleep(self.dialect.rest)

    @contextmanager
    def alone(self) -> Iterator[sa.Connection]:
        """A connection without a transaction, for what the database does not do in one."""
        with self._writer.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            yield connection

    def dispose(self) -> None:
        """Close every connection."""
        for engine in (self._reader, self._counter, self._writer):
            engine.dispose()

    def _engine(self, access: Access) -> sa.Engine:
        engine = self.dialect.engine(self.url, access)

        @sa.event.listens_for(engine, "checkin")
        def _left(_connection: Any, record: Any) -> None:
            record.info["left"] = time.monotonic()

        @sa.event.listens_for(engine, "checkout")
        def _taken(connection: Any, record: Any, _proxy: Any) -> None:
            left = record.info.get("left")
            if left is not None and time.monotonic() - left > _FRESH_SECONDS:
                try:
                    engine.dialect.do_ping(connection)
                except engine.dialect.loaded_dbapi.Error as error:
                    raise sa.exc.DisconnectionError from error  # the pool makes another one

        return engine
