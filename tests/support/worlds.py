"""A whole system in one process: real SQLite, stores in memory, a clock that tests turn.

    with World(tmp_path, policy()) as world:
        world.put("exports/a.json")
        run = world.plan()
        report = world.work()
        world.assert_reconciled()

`ManualClock.stride` makes a worker idle through hours in a few hundred rounds.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from hashlib import md5
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

from bestbefore.adapters.state.schema import (
    incidents,
    operations,
    policies,
    policy_counts,
    runs,
    tallies,
)
from bestbefore.app.connecting import connect_tables
from bestbefore.app.settings import (
    QueueSettings,
    ScheduleSettings,
    Settings,
    StateSettings,
    StoreSettings,
)
from bestbefore.app.system import System
from bestbefore.domain.counts import Count
from bestbefore.domain.failure import Attempts, Failure, FailureClass
from bestbefore.domain.outcome import REMOVED
from bestbefore.domain.policy import ObjectSource, Policy, Reach
from bestbefore.domain.report import Report
from bestbefore.domain.retention import Age
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.selection import Listed
from bestbefore.domain.states import State
from bestbefore.ports.ledger import DeadFilter, DeadLetter
from bestbefore.ports.records import OperationFilter, OperationRecord
from bestbefore.ports.stores import Store
from bestbefore.ports.transport import Broker
from bestbefore.stages.plan import Planned
from bestbefore.stages.redrive import Redriven, redrive
from bestbefore.stages.work import Options, Worker
from support.clock import NOW, ManualClock
from support.ledgers import new_ledger
from support.memory import MemoryStore
from support.memory_transport import MemoryBroker
from support.row_audit import row_problems

OLD = NOW - timedelta(days=180)
YOUNG = NOW - timedelta(days=1)
SIZE = 100


def policy(
    name: str = "exports",
    version: str = "v1",
    *,
    days: int = 30,
    store: str = "s",
    prefix: str = "exports/",
    attempts: Attempts | None = None,
    priority: int = 0,
    max_deletes: int | None = None,
    max_fraction: float | None = None,
    first_run_limit: int = 10_000,
    schedule: str | None = None,
    timezone: str = "UTC",
    catch_up: bool = False,
    **source: Any,
) -> Policy:
    """A policy over `exports/` of one bucket; further keywords are those of `ObjectSource`."""
    return Policy(
        name,
        version,
        "growth-team",
        Age(0, days * 86_400),
        ObjectSource(store, source.pop("bucket", "bucket"), prefix, **source),
        schedule=schedule,
        timezone=timezone,
        catch_up=catch_up,
        priority=priority,
        reach=Reach(max_deletes, max_fraction, first_run_limit),
        attempts=attempts or Attempts(),
    )


def listed(key: str, *, age: datetime = OLD, size: int = SIZE, content: str = "") -> Listed:
    """An object; its ETag follows from *content* (the key's own, if not given)."""
    etag = md5((content or key).encode(), usedforsecurity=False).hexdigest()
    return Listed(key, size, etag, age)


class World:
    """One process's system over stores in memory. ``store`` is the one called ``s``."""

    def __init__(
        self,
        folder: Path,
        *policies: Policy,
        clock: ManualClock | None = None,
        stores: Mapping[str, MemoryStore] | None = None,
        state_url: str | None = None,
        keep: Age | None = None,
        schedule: ScheduleSettings | None = None,
        broker: MemoryBroker | None = None,
    ) -> None:
        self.broker = broker
        self.schedule = schedule or ScheduleSettings()
        self.folder = folder
        file = folder / "state.db"
        there = f"sqlite:///{file}" if file.exists() else None
        self.state_url = state_url or there or new_ledger(file)
        self.keep = keep
        self.clock = clock or ManualClock()
        self.stores = dict(stores or {})
        for of in policies:
            self.stores.setdefault(of.connection, MemoryStore())
        self.spread: Callable[[], float] = lambda: 0.5
        self.system = self._open(policies)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.system.close()

    @property
    def store(self) -> MemoryStore:
        return self.stores["s"]

    def restart(self, *policies: Policy) -> None:
        """End this process and start another over the same state, with another file if given."""
        self.system.close()
        self.system = self._open(policies or tuple(self.system.settings.policies.values()))

    def another(self, *policies: Policy) -> "World":
        """A second process over the same state, stores and clock."""
        return World(
            self.folder,
            *(policies or tuple(self.system.settings.policies.values())),
            clock=self.clock,
            stores=self.stores,
            state_url=self.state_url,
            keep=self.keep,
            schedule=self.schedule,
            broker=self.broker,
        )

    def put(self, *keys: str, age: datetime = OLD, size: int = SIZE, content: str = "") -> None:
        """Store objects in the store called ``s``."""
        for key in keys:
            self.store.put(listed(key, age=age, size=size, content=content))

    def fill(self, n: int, store: str = "s", prefix: str = "exports/") -> list[str]:
        """*n* old objects; returns their keys."""
        keys = [f"{prefix}{number:06}.json" for number in range(n)]
        for key in keys:
            self.stores[store].put(listed(key))
        return keys

    def answer(
        self,
        name: str = "exports",
        slot: datetime | None = None,
        trigger: Trigger = Trigger.PLAN,
        *,
        approved: bool = False,
        stopping: Callable[[], bool] = lambda: False,
    ) -> Planned:
        """Plan *slot* (now, if not given), with everything that is known about it."""
        of = self.system.policy(name)
        return self.system.planner(of, stopping=stopping).plan(
            of, slot or self.clock.now(), trigger, approved=approved
        )

    def plan(self, name: str = "exports", slot: datetime | None = None, **more: Any) -> Run:
        """Plan *slot* (now, if not given)."""
        return self.answer(name, slot, **more).run

    def worker(
        self,
        *,
        drain: bool = True,
        stopping: Callable[[], bool] = lambda: False,
        on_progress: Callable[[Report], None] = lambda _: None,
        **options: Any,
    ) -> Worker:
        return self.system.working.worker(Options(drain=drain, **options), stopping, on_progress)

    def work(self, **options: Any) -> Report:
        """Drain; see `worker` for what *options* there are."""
        return self.worker(**options).run()

    def redrive(self, **which: Any) -> Redriven:
        """Send the dead letters that match again."""
        system = self.system
        return redrive(
            system.dead_letters, system.strays, DeadFilter(**which), self.clock, "tester"
        )

    def dead(self) -> list[DeadLetter]:
        return list(self.system.dead_letters.dead(DeadFilter()))

    def run(self, run: Run) -> Run:
        """*run* as it is stored now."""
        return self.system.records.run(run.run_id)

    def operations(self, key: str | None = None) -> list[OperationRecord]:
        return list(self.system.records.operations(OperationFilter(key=key)))

    def operation(self, key: str) -> OperationRecord:
        """The only operation there is for *key*."""
        (found,) = self.operations(key)
        return found

    def outcomes(self, run: Run) -> dict[str, int]:
        """A run's outcomes and how many operations ended with each."""
        return {name: t.n for name, t in self.system.records.tallies(run, "outcome").items()}

    def assert_reconciled(self) -> None:
        """P11: every stored count is what counting the operations gives, and sums add up."""
        engine = sa.create_engine(self.state_url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            assert_reconciled(connection)

    def _open(self, policies: tuple[Policy, ...]) -> System:
        settings = Settings(
            self.folder / "bestbefore.toml",
            StateSettings(self.state_url, self.keep),
            self._queue(),
            {name: StoreSettings(name, "s3") for name in self.stores},
            {},
            {of.name: of for of in policies},
            schedule=self.schedule,
        )
        system = System(settings, self.clock, self._store, connect_tables, broker=self.connect)
        system.spread = lambda: self.spread()
        return system

    def connect(self, settings: Settings) -> Broker:
        """The broker that *settings* name."""
        assert self.broker is not None, "this world's queue is its ledger"
        return self.broker.broker()

    def _queue(self) -> QueueSettings:
        return QueueSettings() if self.broker is None else QueueSettings("memory")

    def _store(self, settings: StoreSettings, _clock: object, _memory: object) -> Store:
        store = self.stores[settings.name]
        return Store(store, store)


def assert_reconciled(connection: sa.Connection) -> None:
    """See `World.assert_reconciled`."""
    counted: dict[int, dict[str, int]] = {}
    for run, state, n in connection.execute(
        sa.select(operations.c.run_id, operations.c.state, sa.func.count()).group_by(
            operations.c.run_id, operations.c.state
        )
    ):
        counted.setdefault(run, {})[state] = n
    over_tables = set(
        connection.scalars(sa.select(runs.c.id).join(policies).where(policies.c.about_rows))
    )
    outcomes: dict[int, dict[str, tuple[int, int]]] = {}
    for run, outcome, n, size in connection.execute(
        sa.select(
            operations.c.run_id,
            operations.c.outcome,
            sa.func.count(),
            sa.func.sum(operations.c.size),
        )
        .where(operations.c.state == State.COMPLETED)
        .group_by(operations.c.run_id, operations.c.outcome)
    ):
        freed = size if outcome in REMOVED and run not in over_tables else 0
        outcomes.setdefault(run, {})[outcome] = (n, freed)
    stored_outcomes: dict[int, dict[str, tuple[int, int]]] = {}
    for run, name, n, size in connection.execute(
        sa.select(tallies.c.run_id, tallies.c.name, tallies.c.n, tallies.c.bytes).where(
            tallies.c.kind == "outcome", sa.or_(tallies.c.n != 0, tallies.c.bytes != 0)
        )
    ):
        stored_outcomes.setdefault(run, {})[name] = (n, size)
    held = dict(
        connection.execute(
            sa.select(operations.c.run_id, sa.func.count())
            .where(operations.c.held.is_(True))
            .group_by(operations.c.run_id)
        ).fetchall()
    )
    dead = connection.execute(
        sa.select(operations.c.policy_id, operations.c.failure_class, sa.func.count())
        .where(operations.c.state == State.DEAD)
        .group_by(operations.c.policy_id, operations.c.failure_class)
    ).fetchall()
    counted_dead = connection.execute(
        sa.select(policy_counts.c.policy_id, policy_counts.c.name, policy_counts.c.n).where(
            policy_counts.c.kind == Count.DEAD, policy_counts.c.n != 0
        )
    ).fetchall()
    assert set(map(tuple, dead)) == set(map(tuple, counted_dead))
    for run in connection.execute(sa.select(runs)):
        assert run.held == held.get(run.id, 0), f"run {run.run_id}: held {run.held}"
        states = {state.value: counted.get(run.id, {}).get(state, 0) for state in State}
        states["completed"] += run.pruned
        stored = {state.value: getattr(run, state.value) for state in State}
        assert stored == states, f"run {run.run_id} counts {stored}, its operations are {states}"
        assert run.planned == sum(states.values()), f"run {run.run_id}: planned {run.planned}"
        if not run.pruned:
            assert stored_outcomes.get(run.id, {}) == outcomes.get(run.id, {}), run.run_id
    assert _counted(connection, operations.c.state == State.DEAD) == {
        (bytes(row.incident), row.policy_id): row.n
        for row in connection.execute(sa.select(incidents))
    }
    assert _counted(connection, operations.c.state != State.DEAD) == {}
    assert not counted.keys() - set(connection.scalars(sa.select(runs.c.id)))
    assert row_problems(connection.exec_driver_sql) == []


def _counted(
    connection: sa.Connection, which: sa.ColumnElement[bool]
) -> dict[tuple[bytes, int], int]:
    """How many operations are in each incident, by its name and the policy version's row."""
    found = connection.execute(
        sa.select(operations.c.incident, operations.c.policy_id, sa.func.count())
        .where(which, operations.c.incident.is_not(None))
        .group_by(operations.c.incident, operations.c.policy_id)
    )
    return {(bytes(name), policy): n for name, policy, n in found}


def failing(
    failure_class: FailureClass, *keys: str, error: str = "made up", **more: Any
) -> Callable[[str], Failure | None]:
    """For `MemoryStore.refuse`: fail *keys* (every key, if none is named)."""
    failure = Failure(failure_class, error, **more)
    return lambda key: failure if not keys or key in keys else None
