"""One simulated world: what is in it, who lives there, and how it comes to rest."""

from collections.abc import Callable, Set
from datetime import UTC, datetime, timedelta
from hashlib import md5
from pathlib import Path
from random import Random
from typing import Any

from bestbefore.adapters.schedulers.cron import CronCalendar
from bestbefore.adapters.state.database import micros
from bestbefore.app.connecting import Tables
from bestbefore.app.settings import (
    DatabaseSettings,
    QueueSettings,
    Settings,
    StateSettings,
    StoreSettings,
)
from bestbefore.app.system import System, UnknownPolicy
from bestbefore.domain.policy import ObjectSource, Policy
from bestbefore.domain.run import Trigger
from bestbefore.domain.selection import Listed
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.objects import StoreError
from bestbefore.ports.stores import Store
from bestbefore.ports.transport import Broker
from bestbefore.stages.survey import PlanRefused
from bestbefore.stages.trigger import SlotRefused
from bestbefore.stages.work import Options, Worker
from simulation.broker import TransportOf
from simulation.kernel import Inline, Kernel, Process, ProcessClock
from simulation.ledger import made
from simulation.plants import Plant
from simulation.policies import AGES, KEYS, beside_the_youngest, newest, over_objects, over_rows
from simulation.promises import Promises, require
from simulation.sources import Bucket, Faults, StoreOf, Table, TableOf
from support.memory_transport import MemoryBroker

NOW = datetime(2026, 7, 1, 2, tzinfo=UTC)
LEASE = timedelta(seconds=60)

_CLOCKS_OFF = [timedelta(0)] * 3 + [timedelta(seconds=-20), timedelta(seconds=20)]

_HARMLESS = (LedgerError, StoreError, PlanRefused, SlotRefused, UnknownPolicy)
_CLOSED = """
    SELECT {} FROM operations o JOIN policies p ON p.id = o.policy_id {}
    WHERE p.current AND (state = 'dead' OR outcome IN ('discarded', 'corrected'))
"""
_GRACE = timedelta(minutes=15)
_POINTS = 10_000
_MOST_RESTS = 80
_MOST_ROUNDS = 3
_MOST_DRAINS = 6
_MOST_DEATHS = 100
_NEEDS_A_PLAN = {"unplanned", "not_in_this_file"}
_FOR_A_PERSON = {"dead", "parked", "held"} | _NEEDS_A_PLAN


class World:
    """Everything that processes share. *seed* decides what it looks like."""

    def __init__(self, seed: int, plant: Plant | None = None) -> None:
        draw = Random(f"world {seed}")
        self.plant = plant
        self.chance = Random(0)
        self.ledger = made()
        self.ledger.anew()
        self.kernel = Kernel(NOW, _HARMLESS, lambda process, of: self.promises.died(process, of))
        self.ledger.actor, self.ledger.step = lambda: self.kernel.actor, lambda: self.kernel.step
        self.ledger.doing = lambda: self.kernel.doing
        self.faults = Faults(self.chance)
        self.calendar = CronCalendar()
        self.about_rows = draw.random() < 0.4
        self.policies = {"exports": over_objects(draw)}
        if self.about_rows:
            self.policies["orders"] = over_rows(draw)
        self.bucket = Bucket(self.now, lambda there: newest(self._source, there))
        self.table = Table(self.now)
        self.bucket.unconditional = plant is Plant.NO_CONDITION
        self.table.unchecked = plant is Plant.NO_LEDGER_CHECK
        self.broker: MemoryBroker | None = None
        if draw.random() < 0.5:
            retention = draw.choice([None, timedelta(hours=4), timedelta(days=14)])
            self.broker = MemoryBroker(_Now(self.kernel), retention=retention)
            self.broker.shuffle = self.chance
        self.promises = Promises(self)
        self.sent: list[bytes] = []
        self.serial = 0
        self.ends_with_plans = draw.random() < 0.5
        for key in draw.sample(KEYS, draw.randint(2, 5)):
            self.put(key, draw.choice(AGES))
        for number in range(draw.randint(3, 8) if self.about_rows else 0):
            self.table.rows[number] = NOW - draw.choice(AGES)

    def close(self) -> None:
        self.kernel.close()

    @property
    def _source(self) -> ObjectSource:
        return self.policies["exports"].objects

    def now(self) -> datetime:
        return self.kernel.now

    # -- data --------------------------------------------------------------------------------

    def put(self, key: str, age: timedelta) -> Listed:
        """Create or overwrite."""
        self.serial += 1
        etag = md5(str(self.serial).encode(), usedforsecurity=False).hexdigest()
        item = Listed(key, 100, etag, (self.now() - age).replace(microsecond=0))
        self.bucket.put(item)
        return item

    def moments_of(self, key: str, etag: str, modified: int) -> bool:
        """Whether that object was not there at some moment since it was seen."""
        return any(
            one[:2] == (key, etag) and micros(one[2]) == modified for one in self.bucket.ended
        )

    # -- processes ---------------------------------------------------------------------------

    def start(self, kind: str, body: Callable[[System, Process], object]) -> Process:
        """A new process, with the file as it is now; it has not done anything yet."""

        def live(process: Process) -> None:
            body(self._system(process), process)

        return self.kernel.start(kind, live)

    def finish(self, kind: str, body: Callable[[System, Process], object]) -> Process:
        """A process from its beginning to its end, while others stand still."""
        process = self.start(kind, body)
        for _ in range(_MOST_RESTS):
            self.kernel.go_on(process, _POINTS)
            self.promises.check()
            if process.ended:
                return process
            self._let_sleep(process)
        require(False, "P4", f"{process.name} never ends")
        raise AssertionError

    def worker(self, system: System, process: Process) -> Worker:
        return system.working.worker(Options(LEASE, 2, drain=True), lambda: process.stopped)

    def was_meant(self, name: str, slot: int) -> bool:
        """Whether a run of *slot* is what somebody wanted."""
        of = self.policies[name]
        if of.schedule is None:
            return slot in self.promises.asked.get(name, ())
        return slot % (3_600 * 1_000_000) == 0  # it is hourly

    def slot(self, system: System, of: Policy, trigger: Trigger) -> datetime:
        meant = system.slot(of, None, trigger)
        self.promises.asked.setdefault(of.name, set()).add(micros(meant))
        return meant

    def _system(self, process: Process) -> System:
        ledger = self.ledger.database.of(process, lambda: self.faults.strike(self.faults.ledger))
        elsewhere = "state" if self.broker is None else "memory"
        settings = Settings(
            Path("bestbefore.toml"),
            StateSettings("sqlite://"),
            QueueSettings(elsewhere),
            {"s": StoreSettings("s", "s3")},
            {"d": DatabaseSettings("d", "sqlite://", 4)} if self.about_rows else {},
            dict(self.policies),
        )
        store = StoreOf(process, self.bucket, self.faults, self.promises.deleting)
        table: Any = TableOf(process, self.table, self.faults, self.promises.deleting_rows)
        system = System(
            settings,
            ProcessClock(process, self.chance.choice(_CLOCKS_OFF)),
            lambda *_: Store(store, store),  # type: ignore[arg-type]
            lambda _: Tables(table, table),
            broker=lambda _: self._broker(process),
            database=lambda _: ledger,
            threads=Inline,
        )
        system.spread = self.chance.random
        system.worker_name = system.person = process.name
        if self.plant is not None:
            system.traced = self.plant.into(system)
        return system

    def _broker(self, process: Process) -> Broker:
        assert self.broker is not None
        transport = TransportOf(process, self.broker, self.faults, self.promises.acking, self.sent)
        return Broker(transport, None, list, lambda: None)

    def _let_sleep(self, process: Process, at_least: timedelta = timedelta(0)) -> None:
        if process.wakes_at is not None:
            self.kernel.now = max(self.kernel.now + at_least, process.wakes_at)

    # -- the end -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Nothing fails any more and nobody interferes: in the end all that should go is gone. What
        ends workers still does, and whoever keeps them going starts them again."""
        for process in list(self.kernel.living):
            self.kernel.kill(process)
        self.promises.check()
        self._heal()
        self.kernel.now += LEASE + timedelta(minutes=20)
        if any(kind == "pause" for kind, _ in self.ledger.since):
            self.finish("resume", lambda system, _: _resume(system))
        if self.ends_with_plans:
            self._plan_until_nothing_is_overdue()
            self._check_runs()
        elif not self._drain() & _NEEDS_A_PLAN:
            self._check_runs()
        self.kernel.now += _GRACE + timedelta(minutes=1)
        self.finish("look", lambda system, _: system.schedule.look())
        self.promises.check_expected()

    def _plan_until_nothing_is_overdue(self) -> None:
        for _ in range(_MOST_ROUNDS):
            self._next_hour()
            for name in self.policies:
                self.finish("plan", lambda system, _, name=name: self._plan_last(system, name))
            left = self._drain() & _NEEDS_A_PLAN
            if not (overdue := self._overdue()) and not left:
                return
            # What an earlier plan relied on may be gone; then it stays, and the next plan takes it.
            # So it does with what an older version has begun to plan.
            self.kernel.now += timedelta(minutes=20)
        require(False, "overdue", f"still there, and nobody knows why: {overdue}, {left}")

    def _heal(self) -> None:
        self.faults.call = self.faults.answer = self.faults.ledger = 0.0
        self.faults.credentials = False
        self.bucket.sick.clear()
        self.table.sick.clear()
        if self.broker is not None:
            self.broker.duplicate, self.broker.lose = 0, lambda _: False

    def _plan_last(self, system: System, name: str) -> None:
        of = system.policy(name)
        slot = self.slot(system, of, Trigger.PLAN)
        system.planner(of).plan(of, slot, Trigger.PLAN, approved=True)

    def _next_hour(self) -> None:
        """A slot that nobody has answered yet."""
        hour = self.kernel.now.replace(minute=0, second=0, microsecond=0)
        self.kernel.now = hour + timedelta(hours=1, minutes=1)

    def _drain(self) -> Set[str]:
        """Work until a drain says that nothing is left but what waits for a person; returns why
        that is left."""
        drains = deaths = 0
        while drains < _MOST_DRAINS:
            left: dict[str, int] = {}

            def body(system: System, process: Process, left: dict[str, int] = left) -> None:
                left |= self.worker(system, process).run().left

            process = self.start("worker", body)
            stride = timedelta(seconds=15)
            for _ in range(_MOST_RESTS):
                self.kernel.go_on(process, _POINTS)
                self.promises.check()
                if process.ended:
                    break
                self._let_sleep(process, stride)
                stride = min(2 * stride, timedelta(minutes=20))
            require(process.ended, "P4", f"{process.name} never ends")
            if process.dead:
                deaths += 1
                require(deaths <= _MOST_DEATHS, "P9", "workers go on dying for ever")
                self.kernel.now += 2 * LEASE
                continue
            drains += 1
            require(process.error is None, "P4", f"{process.name} fails: {process.error}")
            if not left.keys() - _FOR_A_PERSON:
                return left.keys()
            self.kernel.now += timedelta(minutes=11)  # a breaker has to be probed
        require(False, "P9", f"it never drains: {left}")
        raise AssertionError

    def _check_runs(self) -> None:
        for run, state, waiting, pending, held in self.ledger.rows(
            "SELECT run_id, state, waiting, pending, held FROM runs"
        ):
            require(pending == held, "P4", f"run {run} ({state}): {pending} pending, {held} held")
            require(not waiting or state == "parked", "P4", f"run {run} ({state}): {waiting} wait")

    def _overdue(self) -> list[object]:
        """What is old, and still there without a reason."""
        holds = [name for kind, name in self.ledger.since if kind == "hold"]
        cutoff = self.kernel.now - timedelta(days=30, hours=1)
        there = self.bucket.objects
        protected = newest(self._source, there) | beside_the_youngest(self._source, there)
        found: list[object] = []
        if "=exports" not in holds:
            closed = {key for (key,) in self.ledger.rows(_CLOSED.format("key", ""))}
            found += [
                item
                for key, item in there.items()
                if item.last_modified < cutoff
                and key not in protected | closed
                and not any(key.startswith(name) for name in holds)
            ]
        if "=orders" not in holds:
            join = "JOIN row_batches b ON b.operation = o.id"
            ends = self.ledger.rows(_CLOSED.format("b.first, b.last", join))
            spans = [tuple(int(end[2:-2]) for end in span) for span in ends]
            found += [
                number
                for number, at in self.table.rows.items()
                if at < cutoff and not any(a <= number <= b for a, b in spans)
            ]
        return found


class _Now:
    """The broker's own clock."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def now(self) -> datetime:
        return self._kernel.now

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"a broker sleeps for {seconds} s")


def _resume(system: System) -> None:
    for name in (None, *system.settings.policies):
        system.schedule.resume(name, system.person)
