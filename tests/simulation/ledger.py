"""The real ledger on SQLite in memory, which every process of a simulation shares.

It is made once: a new one is a copy of its bytes. What SQLAlchemy has compiled stays, which is
where nearly all the time would go.
"""

import copy
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from typing import Any, Self

import sqlalchemy as sa

from bestbefore.adapters.state.database import Database
from bestbefore.ports.ledger import LedgerUnavailable
from simulation.kernel import Process
from support.ledgers import empty_ledger

_WATCH = """
    CREATE TABLE seen_steps (
        operation INTEGER, before TEXT, after TEXT, outcome TEXT, run INTEGER, redriven INTEGER,
        by TEXT);
    CREATE TABLE seen_claims (
        operation_id BLOB PRIMARY KEY, by TEXT, step INTEGER, how TEXT);
    CREATE TRIGGER see_new AFTER INSERT ON operations BEGIN
        INSERT INTO seen_steps
        VALUES (NEW.id, NULL, NEW.state, NEW.outcome, NEW.run_id, NEW.redriven, actor());
    END;
    CREATE TRIGGER see_step AFTER UPDATE OF state ON operations
    WHEN OLD.state <> NEW.state OR NEW.state = 'completed' BEGIN
        INSERT INTO seen_steps
        VALUES (NEW.id, OLD.state, NEW.state, NEW.outcome, NEW.run_id, NEW.redriven, actor());
    END;
    CREATE TRIGGER see_end AFTER DELETE ON operations BEGIN
        INSERT INTO seen_steps
        VALUES (OLD.id, OLD.state, NULL, OLD.outcome, OLD.run_id, OLD.redriven, actor());
    END;
    CREATE TRIGGER see_claim AFTER UPDATE OF token ON operations WHEN NEW.token IS NOT NULL BEGIN
        INSERT OR REPLACE INTO seen_claims VALUES (NEW.operation_id, actor(), step(), doing());
    END;
    CREATE TRIGGER see_cancel AFTER UPDATE OF cancelled ON operations
    WHEN NEW.cancelled AND NOT OLD.cancelled BEGIN SELECT since('cancelled', NEW.id); END;
    CREATE TRIGGER see_again AFTER UPDATE OF cancelled ON operations
    WHEN OLD.cancelled AND NOT NEW.cancelled BEGIN SELECT over('cancelled', NEW.id); END;
    CREATE TRIGGER see_pause AFTER INSERT ON pauses BEGIN
        SELECT since('pause', NEW.policy); END;
    CREATE TRIGGER see_resume AFTER DELETE ON pauses BEGIN
        SELECT over('pause', OLD.policy); END;
    CREATE TRIGGER see_hold AFTER INSERT ON holds BEGIN
        SELECT since('hold', coalesce('=' || NEW.policy, NEW.prefix)); END;
    CREATE TRIGGER see_release AFTER DELETE ON holds BEGIN
        SELECT over('hold', coalesce('=' || OLD.policy, OLD.prefix)); END;
    CREATE TRIGGER see_superseded AFTER UPDATE OF current ON policies
    WHEN OLD.current AND NOT NEW.current BEGIN SELECT since('superseded', NEW.id); END;
    CREATE TRIGGER see_current AFTER UPDATE OF current ON policies
    WHEN NEW.current AND NOT OLD.current BEGIN SELECT over('superseded', NEW.id); END;
"""


class SharedLedger(Database):
    """`Database` of one process: it gives way before each transaction, and may find it gone."""

    process: Process
    down: Callable[[], bool]

    def of(self, process: Process, down: Callable[[], bool]) -> Self:
        one = copy.copy(self)
        one.process, one.down = process, down
        return one

    @contextmanager
    def write(self, *, shared: bool = False) -> Iterator[sa.Connection]:
        self._begin(sys._getframe(2).f_code.co_name)
        with super().write(shared=shared) as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        self._begin(sys._getframe(2).f_code.co_name)
        with super().read() as connection:
            yield connection

    def prepare(self) -> None:
        """It is as it has to be."""

    def dispose(self) -> None:
        """Others use it."""

    def _begin(self, what: str) -> None:
        self.process.point(what)
        if self.down():
            raise LedgerUnavailable("state database: made up to be out of reach")


class Made:
    """One ledger for all simulations of a Python process, one after the other.

    ``actor`` names whose turn it is, ``doing`` what it does, and ``step`` counts turns; ``since``
    holds, by kind and name, in which step a pause, a hold, a cancellation or the end of a policy
    version was written.
    """

    def __init__(self) -> None:
        with closing(sqlite3.connect(empty_ledger())) as template:
            template.execute("PRAGMA journal_mode = DELETE")
            self._empty = template.serialize()
        self.raw = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self.actor: Callable[[], str] = lambda: "nobody"
        self.step: Callable[[], int] = lambda: 0
        self.doing: Callable[[], str] = lambda: ""
        self.since: dict[tuple[str, str], int] = {}
        self.raw.create_function("actor", 0, lambda: self.actor())
        self.raw.create_function("step", 0, lambda: self.step())
        self.raw.create_function("doing", 0, lambda: self.doing())
        self.raw.create_function("since", 2, self._begins)
        self.raw.create_function("over", 2, self._ends)
        self.raw.deserialize(self._empty)
        self.raw.executescript(_WATCH)
        self._empty = self.raw.serialize()
        self.database = SharedLedger("sqlite://")
        self.database._writer, self.database._reader = self._engine(), self._engine()
        sa.event.listen(
            self.database._writer, "begin", lambda one: one.exec_driver_sql("BEGIN IMMEDIATE")
        )

    def anew(self) -> None:
        """Empty it."""
        self.raw.deserialize(self._empty)
        self.raw.execute("PRAGMA foreign_keys = ON")
        self.since.clear()

    def rows(self, statement: str, *values: object) -> list[Any]:
        return self.raw.execute(statement, values).fetchall()

    def steps(self) -> list[Any]:
        """What became of operations since this was last asked."""
        found = self.rows("SELECT * FROM seen_steps ORDER BY rowid")
        if found:
            self.raw.execute("DELETE FROM seen_steps")
        return found

    def _engine(self) -> sa.Engine:
        return sa.create_engine("sqlite://", creator=lambda: self.raw, poolclass=sa.StaticPool)

    def _begins(self, kind: str, name: object) -> None:
        self.since.setdefault((kind, str(name)), self.step())

    def _ends(self, kind: str, name: object) -> None:
        self.since.pop((kind, str(name)), None)


@cache
def made() -> Made:
    """The ledger of this Python process."""
    return Made()
