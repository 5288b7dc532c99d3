"""One database: connections, transactions and its schema's version."""

import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import QueuePool

from bestbefore.adapters.state.replay import Full, replayed
from bestbefore.adapters.state.schema import metadata
from bestbefore.ports.ledger import LedgerError, LedgerUnavailable

if TYPE_CHECKING:
    from bestbefore.adapters.state.postgresql import Server

log = logging.getLogger(__name__)

T = TypeVar("T")

CHUNK = 500
_MIGRATIONS = Path(__file__).with_name("migrations")
_VERSIONS = sorted(file.name[:4] for file in (_MIGRATIONS / "versions").glob("[0-9]*.py"))
NEWEST = _VERSIONS[-1]
MOVED = "moved to "
"""In place of a version, before the place where the ledger is now."""
INCOMING = "incoming"
"""The beginning of what is in place of a version while a ledger is moved into this database."""

_NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "ceph"}
_BUSY_TIMEOUT_SECONDS = 30
_LONGEST_REST_SECONDS = 0.25
_TURN_SECONDS = 10.0
_TURN_POLL_SECONDS = 0.002
_FULL = {"SQLITE_FULL", "53100"}
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
        self.url = _parsed(url)
        self.name = _named(self.url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._server: Server | None = None
        self._wait_for_space: Callable[[], bool] = lambda: False
        self._out_of_space = False
        if self.is_sqlite:
            _refuse_network_file_system(self.url)
            self._writer, self._reader = _sqlite_engines(self.url, self.name)
        else:
            self._server = _server(self.url, self.name)
            self._writer, self._reader = self._server.writer, self._server.reader
        with self._explained():
            self._turn = _Turn(self.url) if self.is_sqlite else None

    @replayed
    def prepare(self) -> None:
        """Create or upgrade the schema, under a lock.

        Raises LedgerError where the schema is newer than this process, or the ledger was moved.
        """
        with self.read() as connection:
            if found_version(connection) == NEWEST:
                return
        # Imported here: it takes longer than the rest of the program, and is rarely needed.
        from alembic import command, config

        with self.write() as connection:
            found = found_version(connection)
            if found is None:
                self._refuse_other_encodings(connection)
            elif found not in _VERSIONS:
                raise LedgerError(f"state database {self.name}: {why_not(found)}")
            settings = config.Config()
            settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
            settings.attributes["connection"] = connection
            command.upgrade(settings, "head")

    def make_anew(self) -> None:
        """Create the newest schema where nothing is, to be thrown away: it has no version, and so
        cannot be upgraded. Takes a tenth of the time."""
        with self.write() as connection:
            metadata.create_all(connection)

    def probe(self) -> None:
        """Raise LedgerError unless the database is there, with the schema of this process."""
        with self.read() as connection:
            found = found_version(connection)
        if found != NEWEST:
            raise LedgerUnavailable(f"state database {self.name}: {why_not(str(found))}")

    @contextmanager
    def write(self, *, shared: bool = False) -> Iterator[sa.Connection]:
        """A transaction that no other one runs beside, from its start to its end.

        So what it reads stays true until it has written. On SQLite that is the file's one write
        lock; taking it at once, instead of at the first write, is what keeps SQLite from answering
        "database is locked" to a transaction that read first (O-DBF-03). On PostgreSQL it is a lock
        of our own.

        *Shared* ones may run beside each other there, so that workers do not wait for workers.
        That is for what decides nothing by reading first: each statement has to hold its condition
        itself, as in "of these, what is still held under this token". They lock rows of operations
        first, then of runs, then of tallies, the latter two in the order of their keys, so that no
        two of them ever wait for each other. Of operations they lock those that are theirs by a
        token, or else only what nobody has locked.
        """
        committing = False
        with (
            self._explained(undone=lambda: not committing),
            self._turn or nullcontext(),
            self._connect(self._writer) as connection,
            connection.begin(),
        ):
            if self._server is not None:
                self._server.enter(connection, shared=shared)
            yield connection
            committing = True
        if self._out_of_space:
            self._out_of_space = False
            log.info("state database %s: there is space again", self.name)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection for reading; every statement sees the newest commit."""
        with self._explained(), self._connect(self._reader) as connection:
            yield connection

    def insert(self, table: sa.Table) -> Any:
        """An INSERT into *table* that can say what to do on a conflict, in this dialect."""
        return sqlite.insert(table) if self._server is None else self._server.insert(table)

    def insert_new(
        self,
        connection: sa.Connection,
        table: sa.Table,
        columns: Sequence[str],
        values: Sequence[Any],
        unique: str,
    ) -> int:
        """Insert *values*, tuples in the order of *columns*, but for those whose *unique* column is
        there already. Returns how many were new."""
        if self._server is not None:
            return self._server.insert_new(connection, table, columns, values, unique)
        insert = self.insert(table).on_conflict_do_nothing(index_elements=[unique])
        return execute_many(connection, insert, columns, values)

    def ring(self, connection: sa.Connection) -> None:
        """Once this transaction is committed, have idle workers look at once where they can."""
        if self._server is not None:
            self._server.doorbell.ring(connection)

    @property
    def longest_rest(self) -> float:
        """For how long an idle worker may rest, being woken or not."""
        return _LONGEST_REST_SECONDS if self._server is None else self._server.longest_rest

    def rest(self, seconds: float, sleep: Callable[[float], None]) -> None:
        """Have *sleep* pass *seconds*, or less where somebody rings meanwhile."""
        if self._server is None:
            sleep(seconds)
        else:
            self._server.rest(seconds, sleep)

    def give_up_when(self, stopping: Callable[[], bool]) -> None:
        """Do not wait for a server that is out of reach once *stopping* says so."""
        if self._server is not None:
            self._server.give_up = stopping

    def wait_for_space(self, wait: Callable[[], bool]) -> None:
        """Have whoever finds no space left *wait* and try again, until that returns False."""
        self._wait_for_space = wait

    def dispose(self) -> None:
        """Close every connection."""
        if self._turn is not None:
            self._turn.close()
        if self._server is not None:
            self._server.dispose()
        self._writer.dispose()
        self._reader.dispose()

    def _connect(self, engine: sa.Engine) -> sa.Connection:
        return engine.connect() if self._server is None else self._server.connect(engine)

    def _refuse_other_encodings(self, connection: sa.Connection) -> None:
        """Keys hold any character, and have to come back as they were."""
        if self.is_sqlite:
            return
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise LedgerError(
                f"state database {self.name}: its encoding is {encoding}, expected UTF8; create "
                "another one with ENCODING 'UTF8' TEMPLATE template0"
            )

    @contextmanager
    def _explained(self, undone: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Say of a database that cannot be used which one it is, and why."""
        try:
            yield
        except (OSError, sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
            if isinstance(error, sa.exc.DBAPIError) and _is_full(error):
                raise self._full(error) from error
            if self._server is not None and isinstance(error, sa.exc.DBAPIError):
                raise self._server.explained(error, undone=undone()) from error
            # A file that is no database, or a damaged one, is a plain DatabaseError; its other
            # kinds are mistakes of ours.
            if isinstance(error, sa.exc.DBAPIError) and type(error) not in _UNUSABLE:
                raise
            reason = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
            raise LedgerUnavailable(
                f"state database {self.name}: {reason}; look at its place, its rights and the "
                "space left there"
            ) from error

    def _full(self, error: sa.exc.DBAPIError) -> Full:
        said = " ".join(str(error.orig).split())
        message = f"state database {self.name}: {said}; make space there"
        if not self._out_of_space:
            self._out_of_space = True
            log.error("%s", message)
        return Full(message, self._wait_for_space)


def _is_full(error: sa.exc.DBAPIError) -> bool:
    """Whether *error* is about space that is not left, here or on a server."""
    name = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
    return name in _FULL


class _Turn:
    """Whose turn it is to write, among the threads and processes that share one SQLite file.

    SQLite lets one write and has the others poll, with ever longer sleeps, so that a process in a
    tight loop starves them (seen: a plan of 10 s took 45 s). An advisory lock on a file beside the
    database gives each its turn within milliseconds instead, and the kernel lifts it when its
    holder is killed. It only orders; what keeps the data right is SQLite's own lock.
    """

    def __init__(self, url: sa.URL) -> None:
        self._threads = threading.Lock()
        self._file = None
        if url.database:
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


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """*values* by the 500: what one statement may name without its text growing too long."""
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]


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


def found_version(connection: sa.Connection) -> str | None:
    """The schema's version as Alembic has written it, None in an empty database."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.execute(
        sa.text("SELECT version_num FROM alembic_version")
    ).scalar_one_or_none()
    return version


def why_not(version: str) -> str:
    """Why a schema of this *version* cannot be used, and what to do."""
    if version.startswith(MOVED):
        return f"its contents {version}; write that URL (its password is not shown) under [state]"
    if version.startswith(INCOMING):
        return (
            "a move into it was not finished; repeat `bestbefore state move` with the "
            "configuration it began with"
        )
    return (
        f"its schema is {version}, which is newer than this process (expected {NEWEST}); "
        "upgrade bestbefore here"
    )


def _parsed(url: str) -> sa.URL:
    try:
        return sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        # Not shown, nor is the cause that repeats it: it may hold a password.
        raise LedgerError(
            "the URL of the state database cannot be read; write for example "
            "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE, with %40 for @ in the password"
        ) from None


def _named(url: sa.URL) -> str:
    """*url* for people: without its password, wherever it stands."""
    query = {name: "hidden" if "password" in name else text for name, text in url.query.items()}
    return str(url.set(query=query))


def _server(url: sa.URL, name: str) -> "Server":
    # Imported here: the driver is an extra.
    try:
        from bestbefore.adapters.state.postgresql import Server
    except ImportError as error:
        raise LedgerError(
            "a state database on PostgreSQL needs psycopg: "
            f'pip install "bestbefore[postgresql]" ({error})'
        ) from error
    return Server(url, name)


class _File:
    """The file of a SQLite database, which may be moved away or replaced while it is in use.

    Whoever has a file open goes on with it wherever it went, and whoever opens its old place begins
    an empty one there: of one process's connections some would then remember what others do not.
    And what is put in its place meets the write-ahead log of the one before, which SQLite would
    play back into it. So only the file that was opened first is used, while it is where it was.
    """

    def __init__(self, url: sa.URL, name: str) -> None:
        self._name = name
        self._path = Path(str(url.database)).absolute()
        self._opened: tuple[int, int] | None = None

    def connect(self) -> sqlite3.Connection:
        """Open it; make it, if there never was one. Raises LedgerUnavailable as `look` does."""
        if self._opened is None:
            self._refuse_to_begin_anew()
        else:
            self.look()
        connection = sqlite3.connect(
            # With slashes for no host, as a path may begin with two.
            f"file://{quote(str(self._path))}?mode={'rwc' if self._opened is None else 'rw'}",
            uri=True,
            timeout=_BUSY_TIMEOUT_SECONDS,
            check_same_thread=False,
        )
        if self._opened is None:
            self._opened = self._there()
        return connection

    def look(self) -> None:
        """Raise LedgerUnavailable unless it is where it was."""
        there = self._there()
        if there is None:
            raise LedgerUnavailable(f"state database {self._name}: its file is gone; put it back")
        if there != self._opened:
            raise LedgerUnavailable(
                f"state database {self._name}: another file was put in its place; put it back, or "
                "stop every process, remove the -wal and -shm files beside it, and start again"
            )

    def _refuse_to_begin_anew(self) -> None:
        log = Path(f"{self._path}-wal")
        if self._there() is None and log.is_file() and log.stat().st_size:
            raise LedgerUnavailable(
                f"state database {self._name}: its file is gone and {log.name} is there; put it "
                "back, or remove the -wal and -shm files to begin an empty one"
            )

    def _there(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


def _sqlite_engines(url: sa.URL, name: str) -> tuple[sa.Engine, sa.Engine]:
    """A writing and a reading engine."""
    file = _File(url, name)
    writer, reader = _sqlite_engine(url, file), _sqlite_engine(url, file)

    @sa.event.listens_for(writer, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return writer, reader


def _sqlite_engine(url: sa.URL, file: _File) -> sa.Engine:
    engine = sa.create_engine(url, creator=file.connect, poolclass=QueuePool)

    @sa.event.listens_for(engine, "checkout")
    def _look(_connection: Any, _record: Any, _proxy: Any) -> None:
        file.look()

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
