"""One database: connections, transactions and its schema's version."""

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.pool import QueuePool

from bestbefore.ports.ledger import LedgerError

_MIGRATIONS = Path(__file__).with_name("migrations")
_VERSIONS = sorted(file.name[:4] for file in (_MIGRATIONS / "versions").glob("[0-9]*.py"))
_NEWEST = _VERSIONS[-1]
_NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "ceph"}
_BUSY_TIMEOUT_SECONDS = 30
_TURN_SECONDS = 10.0
_TURN_POLL_SECONDS = 0.002
_UNUSABLE = (sa.exc.OperationalError, sa.exc.DatabaseError)
_CACHE_KIB = 64 * 1024
# Pages of a random index are written again and again; checkpointing them every 4 MB, the default,
# would write most of them to the database file each time.
_CHECKPOINT_PAGES = 16_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """*moment* (aware) as microseconds since 1970 in UTC."""
    return (moment - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=4096)  # a page is seen at one moment, and objects come in bursts
def moment(value: int) -> datetime:
    """The instant stored as *value*."""
    return _EPOCH + timedelta(microseconds=value)


def maybe_moment(value: int | None) -> datetime | None:
    """The instant stored as *value*, if there is one."""
    return None if value is None else moment(value)


class Database:
    """Transactions on the state database. Reads see the last commit, and wait for nobody."""

    def __init__(self, url: str) -> None:
        self.url = sa.make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        if self.is_sqlite:
            _refuse_network_file_system(self.url)
        self._writer, self._reader = _engines(self.url, is_sqlite=self.is_sqlite)
        with self._explained():
            self._turn = _Turn(self.url if self.is_sqlite else None)

    def prepare(self) -> None:
        """Create or upgrade the schema, under a lock.

        Raises LedgerError where the schema is newer than this process.
        """
        with self.read() as connection:
            if _found_version(connection) == _NEWEST:
                return
        # Imported here: it takes longer than the rest of the program, and is rarely needed.
        from alembic import command, config

        with self.write() as connection:
            found = _found_version(connection)
            if found is not None and found not in _VERSIONS:
                raise LedgerError(
                    f"state database {self.url}: its schema is {found}, which is newer than this "
                    f"process (expected {_NEWEST}); upgrade bestbefore here"
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
        with self._explained(), self._turn, self._writer.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection for reading; every statement sees the newest commit."""
        with self._explained(), self._reader.connect() as connection:
            yield connection

    def insert(self, table: sa.Table) -> Any:
        """An INSERT into *table* that can say what to do on a conflict, in this dialect."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    def dispose(self) -> None:
        """Close every connection."""
        self._turn.close()
        self._writer.dispose()
        self._reader.dispose()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say of a database that cannot be used which one it is, and why."""
        try:
            yield
        except (OSError, sa.exc.DatabaseError) as error:
            # A file that is no database, or a damaged one, is a plain DatabaseError; its other
            # kinds are mistakes of ours.
            if isinstance(error, sa.exc.DatabaseError) and type(error) not in _UNUSABLE:
                raise
            reason = error.orig if isinstance(error, sa.exc.DatabaseError) else error.strerror
            raise LedgerError(
                f"state database {self.url}: {reason}; look at its place, its rights and the "
                "space left there"
            ) from error


class _Turn:
    """Whose turn it is to write, among the threads and processes that share one SQLite file.

    SQLite lets one write and has the others poll, with ever longer sleeps, so that a process in a
    tight loop starves them (seen: a plan of 10 s took 45 s). An advisory lock on a file beside the
    database gives each its turn within milliseconds instead, and the kernel lifts it when its
    holder is killed. It only orders; what keeps the data right is SQLite's own lock.
    """

    def __init__(self, url: sa.URL | None) -> None:
        self._threads = threading.Lock()
        self._file = None
        if url is not None and url.database:
            # Open for as long as the process lives, as the lock belongs to the open file.
            self._file = os.open(f"{url.database}-turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            if self._file is not None:
                self._wait(self._file)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._threads.release()

    def _wait(self, file: int) -> None:
        """Take the lock; after a while go on without it, as its holder may hang, and leave it to
        SQLite to say so."""
        deadline = time.monotonic() + _TURN_SECONDS
        while time.monotonic() < deadline:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(_TURN_POLL_SECONDS)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def execute_many(
    connection: sa.Connection, statement: Any, columns: Sequence[str], values: Sequence[Any]
) -> int:
    """Run *statement* for each tuple of *values*, given in the order of *columns*.

    Compiles once and hands the driver its own parameters: at a million rows SQLAlchemy's
    per-row work costs as much as the database's. Returns the number of rows changed. Values have
    to be of types that the driver takes as they are.
    """
    compiled = statement.compile(dialect=connection.dialect, column_keys=list(columns))
    if compiled.positional:
        order = [columns.index(name) for name in compiled.positiontup]
        parameters: list[Any] = (
            list(values)
            if order == list(range(len(columns)))
            else [tuple(row[i] for i in order) for row in values]
        )
    else:
        parameters = [dict(zip(columns, row, strict=True)) for row in values]
    return connection.exec_driver_sql(str(compiled), parameters).rowcount


def _found_version(connection: sa.Connection) -> str | None:
    """The schema's version as Alembic has written it, None in an empty database."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.execute(
        sa.text("SELECT version_num FROM alembic_version")
    ).scalar_one_or_none()
    return version


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
        _write_ahead(connection)
        for pragma in (
            "synchronous = FULL",
            "foreign_keys = ON",
            f"cache_size = -{_CACHE_KIB}",
            f"wal_autocheckpoint = {_CHECKPOINT_PAGES}",
            "temp_store = MEMORY",
        ):
            connection.execute(f"PRAGMA {pragma}")

    return engine


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging.

    Alone among statements, the first switch of a new file does not wait for a lock: two processes
    that start together would see "database is locked" at once, whatever the timeout.
    """
    deadline = time.monotonic() + _BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
        else:
            return


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
