"""What only PostgreSQL has: who excludes whom, what its errors mean, waking idle workers.

Imported when a state database is one, as the driver is an extra. Nothing here is kept in a
session beyond its transaction but the one connection that listens, so that a pooler that hands
out another session for each transaction (PgBouncer) changes nothing but the waking.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import psycopg
import sqlalchemy as sa
from psycopg.types.string import StrDumperUnknown, TextLoader
from sqlalchemy.dialects.postgresql import insert

from bestbefore.adapters.state.replay import Interrupted
from bestbefore.ports.ledger import LedgerUnavailable

log = logging.getLogger(__name__)

# A number nobody else is likely to think of, and another one for each schema with a ledger: the one
# whose tables are used, which need not be the first one in the search_path of every role.
LOCK = f"""{int.from_bytes(b"best")}, hashtext(coalesce((
    SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n
    ON n.oid = c.relnamespace WHERE c.oid = to_regclass('alembic_version')
), current_schema(), '')::text)"""  # noqa: S608  (a number)
_CHANNEL = "bestbefore"

# Who vanished in a transaction, or hangs in one, must not keep its locks; who waits longer than
# any decision over a run takes (a million operations: a minute) waits for something else.
# What a role sets for short statements is not meant for them. NULL in an array is a version that an
# object does not have.
_ENTER = (
    "SET LOCAL lock_timeout = '10min'; SET LOCAL statement_timeout = 0;"
    " SET LOCAL idle_in_transaction_session_timeout = '1min'; SET LOCAL array_nulls = on;"
    " SELECT pg_advisory_xact_lock{mode}({lock})"
)
_EXCLUSIVE = _ENTER.format(mode="", lock=LOCK)
_SHARED = _ENTER.format(mode="_shared", lock=LOCK)

_PATIENCE_SECONDS = 300.0
_RECONNECT_SECONDS = 0.5
_STEP_SECONDS = 0.05
_LISTEN_AGAIN_SECONDS = 10.0
_EMPTY_EVERY_SECONDS = 10.0

# One process works on the ledger with one thread and plans with another; the threads that talk
# to stores ask short questions.
_CONNECTIONS, _MORE_CONNECTIONS = 3, 3
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "application_name": "bestbefore",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}

_ROLLED_BACK = {"40001", "40P01"}  # serialization failure, deadlock
_NOT_THERE = {"42501", "25006", "3F000"}  # no right to; a standby, or read-only; no schema

_NUL, _SYMBOL = "\0", "\N{SYMBOL FOR NULL}"


class _Dumper(StrDumperUnknown):
    """Any text as one that PostgreSQL can store, which is all but U+0000.

    S3 keys may hold it. It is stored as U+2400 and "0", and U+2400 itself twice.
    """

    def dump(self, obj: str) -> bytes:
        if _NUL in obj or _SYMBOL in obj:
            obj = obj.replace(_SYMBOL, _SYMBOL * 2).replace(_NUL, f"{_SYMBOL}0")
        return obj.encode()


class _Loader(TextLoader):
    """The text that `_Dumper` stored."""

    def load(self, data: Any) -> str:
        text = str(data, "utf-8")
        if _SYMBOL in text:
            parts = text.split(_SYMBOL * 2)
            text = _SYMBOL.join(part.replace(f"{_SYMBOL}0", _NUL) for part in parts)
        return text


class Server:
    """The server behind a state database's connections; *name* is what people call that."""

    longest_rest = 2.0
    """Seconds. It is what a lost ring costs, and how often an idle worker asks."""

    def __init__(self, url: sa.URL, name: str) -> None:
        self._name = name
        options = {name: value for name, value in _DEFAULTS.items() if name not in url.query}
        self.writer = sa.create_engine(
            url,
            pool_size=_CONNECTIONS,
            max_overflow=_MORE_CONNECTIONS,
            pool_timeout=_PATIENCE_SECONDS,
            pool_pre_ping=True,
            use_native_hstore=False,
            # Whatever the database's or the role's default is: with a snapshot that is older than
            # our lock, what a transaction reads under it may long be over.
            isolation_level="READ COMMITTED",
            # A statement prepared in one transaction is unknown in the session of the next.
            connect_args=options | {"client_encoding": "utf8", "prepare_threshold": None},
        )
        self.reader = self.writer.execution_options(isolation_level="AUTOCOMMIT")
        self.give_up: Callable[[], bool] = lambda: False
        self.doorbell = Doorbell(self.reader)
        self._has_answered = False

        @sa.event.listens_for(self.writer, "connect")
        def _configure(connection: psycopg.Connection, _record: Any) -> None:
            connection.adapters.register_dumper(str, _Dumper)
            for name in ("text", "varchar"):
                connection.adapters.register_loader(name, _Loader)

    def connect(self, engine: sa.Engine) -> sa.Connection:
        """A connection. A server that answered before is waited for: it may be restarting.

        Raises LedgerError.
        """
        deadline: float | None = None
        while True:
            try:
                connection = engine.connect()
            except sa.exc.DBAPIError as error:
                now = time.monotonic()
                if deadline is None:
                    deadline = now + _PATIENCE_SECONDS
                    if self._has_answered:
                        log.warning(
                            "the state database is out of reach, waiting for it: %s", _said(error)
                        )
                if not self._has_answered or self.give_up() or now >= deadline:
                    raise LedgerUnavailable(self._refused(error)) from error
            else:
                self._has_answered = True
                return connection
            time.sleep(_RECONNECT_SECONDS)

    def rest(self, seconds: float, sleep: Callable[[float], None]) -> None:
        """Sleep for *seconds*, or until somebody rings, or it is time to stop."""
        while seconds > 0 and not (self.give_up() or self.doorbell.rang()):
            sleep(min(seconds, _STEP_SECONDS))
            seconds -= _STEP_SECONDS

    def enter(self, connection: sa.Connection, *, shared: bool) -> None:
        """Begin a transaction that excludes all others, or all but those that are *shared*."""
        connection.exec_driver_sql(_SHARED if shared else _EXCLUSIVE)
        self.doorbell.empty()

    def insert(self, table: sa.Table) -> Any:
        """See `Database.insert`."""
        return insert(table)

    def insert_new(
        self,
        connection: sa.Connection,
        table: sa.Table,
        columns: Sequence[str],
        values: Sequence[Any],
        unique: str,
    ) -> int:
        """See `Database.insert_new`. One statement over arrays: a third of the server's time."""
        arrays = ", ".join(
            f"%s::{table.c[name].type.compile(connection.dialect)}[]" for name in columns
        )
        statement = (
            f"INSERT INTO {table.name} ({', '.join(columns)}) "  # noqa: S608  (names of our own)
            f"SELECT * FROM unnest({arrays}) ON CONFLICT ({unique}) DO NOTHING"
        )
        transposed = tuple(map(list, zip(*values, strict=True)))
        return connection.exec_driver_sql(statement, transposed).rowcount

    def explained(self, error: sa.exc.DBAPIError, *, undone: bool) -> Exception:
        """What *error* means to whoever asked; *error* itself, if it is a mistake of ours.

        *undone* says that it came before the commit.
        """
        state, said = _state(error), f"state database {self._name}: {_said(error)}"
        if error.connection_invalidated or state in _ROLLED_BACK:
            if undone or state in _ROLLED_BACK:
                return Interrupted(f"{said}; nothing of this was kept, so repeat it", undone=True)
            return Interrupted(
                f"{said}; it broke off while the last step was written down, which may be there "
                "or not: look before you repeat it",
                undone=False,
            )
        if isinstance(error, sa.exc.OperationalError) or state in _NOT_THERE:
            return LedgerUnavailable(self._refused(error))
        return error

    def dispose(self) -> None:
        """Close every connection."""
        self.doorbell.close()
        self.writer.dispose()

    def _refused(self, error: sa.exc.DBAPIError) -> str:
        return (
            f"state database {self._name}: {_said(error)}; look at its address, the schema of its "
            "search_path, its rights and the space left there"
        )


class Doorbell:
    """Hears in one process that another one rang: there may be something to do.

    Rings get lost: a connection breaks, or a pooler swallows them. So nobody rests without an
    end; polling finds what was not heard, and nothing here ever fails.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._connection: sa.Connection | None = None
        self._listen_again_at = 0.0
        self._empty_at = 0.0

    @staticmethod
    def ring(connection: sa.Connection) -> None:
        """Wake every idle worker once this transaction is committed."""
        connection.exec_driver_sql(f"NOTIFY {_CHANNEL}")

    def empty(self) -> None:
        """Forget, now and then, who rang while nobody rested: unread, it fills the server."""
        if self._connection is not None and time.monotonic() >= self._empty_at:
            self.rang()

    def close(self) -> None:
        """Stop listening."""
        with self._lock:
            self._hang_up()

    def rang(self) -> bool:
        """Whether somebody rang since the last time this was asked, or may have."""
        now = time.monotonic()
        self._empty_at = now + _EMPTY_EVERY_SECONDS
        with self._lock, suppress(sa.exc.DBAPIError, psycopg.Error):
            if self._connection is not None:
                try:
                    return bool(list(_driver(self._connection).notifies(timeout=0)))
                except psycopg.Error:
                    self._hang_up()
            elif now >= self._listen_again_at:
                self._listen_again_at = now + _LISTEN_AGAIN_SECONDS
                self._connection = self._engine.connect()
                self._connection.detach()
                self._connection.exec_driver_sql(f"LISTEN {_CHANNEL}")
                return True  # what was rung before this moment was not heard
        return False

    def _hang_up(self) -> None:
        if self._connection is not None:
            with suppress(sa.exc.DBAPIError, psycopg.Error):
                self._connection.close()
            self._connection = None


def _driver(connection: sa.Connection) -> psycopg.Connection:
    """The driver's own connection below *connection*."""
    return cast("psycopg.Connection", connection.connection.dbapi_connection)


def _said(error: sa.exc.DBAPIError) -> str:
    """What the server or the driver said, on one line and without the statement."""
    return " ".join(str(error.orig).split())


def _state(error: sa.exc.DBAPIError) -> str | None:
    return error.orig.sqlstate if isinstance(error.orig, psycopg.Error) else None
