"""Whole systems that plan and work on a world of `support.row_worlds`, and how their workers die.

child = forks.start("support.row_lives:work", [life.pack(crash)], cwd=folder)
"""

import os
import pickle
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.deleting import SqlRowDeleter
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.reading import SqlRowReader
from bestbefore.adapters.state.schema import metadata
from bestbefore.adapters.state.work import SqlWorkLedger
from bestbefore.app.connecting import Tables
from bestbefore.app.settings import DatabaseSettings, QueueSettings, Settings, StateSettings
from bestbefore.app.system import System
from bestbefore.domain.failure import Failure
from bestbefore.domain.policy import Policy
from bestbefore.domain.report import Report
from bestbefore.domain.rows import Divided, Effect, Walk
from bestbefore.domain.run import Run, Trigger
from bestbefore.ports.clock import Clock
from bestbefore.ports.rows import RowReader, RowTask, TableFacts
from bestbefore.stages.work import Options
from support.audit import Audit
from support.clock import ManualClock
from support.ledgers import new_ledger
from support.row_worlds import Crash

LAPSED = timedelta(seconds=61)
"""After which nobody holds what a dead worker held."""


class Life:
    """A system that cleans up one world after the other, each with an empty ledger.

    It is one system, as most of the time goes into putting statements together for the first time.
    """

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state.db"
        self.audit = Audit(self.state)
        self.clock = ManualClock()
        empty = StateSettings(new_ledger(self.state))
        settings = Settings(folder / "bestbefore.toml", empty, QueueSettings(), {}, {}, {})
        self._databases: dict[str, Database] = {}
        self.system = _system(settings, self.clock, self._databases)

    def begin(self, url: str, policy: Policy, now: datetime) -> None:
        """From *now* on, clean up at *url* by *policy*."""
        with closing(sqlite3.connect(self.state)) as ledger, ledger:
            for table in reversed(metadata.sorted_tables):
                ledger.execute(f"DELETE FROM {table.name}")  # noqa: S608
        self.url, self.policy = url, policy
        settings = _settings(self.state, url, policy)
        self.system.settings = settings
        self.system._tables.clear()
        self.clock.set(now)

    def close(self) -> None:
        self.system.close()
        for database in self._databases.values():
            database.dispose()

    def pack(self, crash: Crash) -> str:
        """Write down what `work` reads; returns the file's name."""
        file = self.state.with_suffix(".pickle")
        given = (_settings(self.state, self.url, self.policy), self.clock.now(), crash)
        file.write_bytes(pickle.dumps(given))
        return file.name

    def plan(self) -> Run:
        """Plan the slot that is now."""
        planner = self.system.planner(self.policy)
        return planner.plan(self.policy, self.clock.now(), Trigger.PLAN).run

    def drain(self, threads: int) -> Report:
        """Work until nothing is left to do."""
        options = Options(concurrency=threads, drain=True)
        return self.system.working.worker(options, lambda: False).run()

    def deliver(self, row: int, id_: bytes) -> Effect | Divided | Failure:
        """Deliver an operation once more."""
        batch, cutoff, _ = self.system.work.batches([row])[row]
        task = RowTask(id_, self.policy.name, self.policy.version, batch, cutoff)
        return self.system.tables("shop").deleter.delete(self.policy.rows, task, "again")


def _settings(state: Path, url: str, policy: Policy) -> Settings:
    return Settings(
        state.with_name("bestbefore.toml"),
        StateSettings(f"sqlite:///{state}"),
        QueueSettings(),
        {},
        {"shop": DatabaseSettings("shop", url, max_concurrency=4)},
        {policy.name: policy},
    )


def _system(settings: Settings, clock: Clock, databases: dict[str, Database]) -> System:
    """One whose connections to the data are kept among *databases*, by URL."""

    def connected(of: DatabaseSettings) -> Tables:
        if of.url not in databases:
            databases[of.url] = Database(of.url)
        database = databases[of.url]
        return Tables(_OnClock(SqlRowReader(database), clock), SqlRowDeleter(database))

    return System(settings, clock, None, connected)  # type: ignore[arg-type]


class _OnClock:
    """A reader whose database has the clock that the test turns."""

    def __init__(self, reader: RowReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock

    def describe(self, source: Any, walk: Walk | None = None) -> TableFacts:
        return replace(self._reader.describe(source, walk), now=self._clock.now())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


# -- in a process of its own ---------------------------------------------------------------------


def work(arguments: list[str]) -> None:
    """Drain with one thread, and crash as it was packed."""
    settings, now, crash = pickle.loads(Path(arguments[0]).read_bytes())  # noqa: S301  (we wrote it)
    (url,) = (database.url for database in settings.databases.values())
    database = Database(url)
    _come(crash, database, _die if crash.killed else _ended_by_the_server(database))
    system = _system(settings, ManualClock(now), {url: database})
    system.working.worker(Options(concurrency=1, drain=True), lambda: False).run()
    database.dispose()
    system.close()


def _come(crash: Crash, database: Database, end: Callable[[Any], None]) -> None:
    """Have *end* called where, and as often as, *crash* says."""
    left, deletes = crash.number, False

    def reached(connection: Any = None) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            end(connection)

    if crash.where == "told":
        record = SqlWorkLedger.record

        def told(*given: Any) -> Any:
            late = record(*given)
            reached()
            return late

        SqlWorkLedger.record = told  # type: ignore[method-assign, assignment]
        return

    writer = database._writer
    commit = writer.dialect.do_commit

    def counted(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal deletes
        deletes |= statement.startswith("DELETE")

    def deadly(connection: Any) -> None:
        nonlocal deletes
        meant, deletes = deletes, False
        if meant and crash.where == "commit":
            reached(connection)
        commit(connection)
        if meant and crash.where == "committed":
            reached(connection)

    sa.event.listen(writer, "before_cursor_execute", counted)
    writer.dialect.do_commit = deadly  # type: ignore[method-assign]


def _die(_connection: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _ended_by_the_server(database: Database) -> Callable[[Any], None]:
    """What has the server close a connection, and then asks it something in vain."""
    mysql = database.url.get_backend_name() == "mysql"
    own, other = (
        ("SELECT connection_id()", "KILL {}")
        if mysql
        else ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})")
    )

    def end(connection: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(own)
        ((id_,),) = cursor.fetchall()
        with database.alone() as another:
            another.exec_driver_sql(other.format(id_))
        cursor.execute("SELECT 1")

    return end
