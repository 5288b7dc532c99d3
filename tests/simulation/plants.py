"""Mistakes made on purpose, to see that the simulation finds them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from bestbefore.app.system import System
from bestbefore.domain.hold import Held
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import Policy, Reach
from bestbefore.domain.run import Run, Trigger
from bestbefore.gate.otherwise import Otherwise
from bestbefore.ports.controls import Controls, Pause
from bestbefore.ports.ledger import Completed, Operation, WorkLedger
from bestbefore.ports.queue import Queue
from bestbefore.ports.slots import Expected, Jump, Slots, Watched
from bestbefore.stages.plan import Planned, Planner
from bestbefore.stages.work import Attempting, Result


class Plant(Enum):
    """What is wrong."""

    RECORD_BEFORE_EFFECT = "a result is recorded before the effect"
    NO_CONDITION = "whatever is under a key is deleted"
    ACK_BEFORE_RECORD = "a message is acked before its result is recorded"
    NO_LEDGER_CHECK = "a row batch does not look at its completion record"
    SLOT_FROM_NOW = "a run answers the moment in which it is planned"
    NO_HOLDS = "holds are not looked at"
    NO_PAUSES = "pauses are not looked at"
    NO_CAPS = "a run's caps are not looked at"
    NO_BURIAL = "what ends workers is tried for ever"
    NO_MISSES = "nobody notes the slots that nobody answered"

    def into(self, system: System) -> Any:
        """Plant it in *system*; returns what stands around parts of that, where tracing would."""
        if self is Plant.NO_HOLDS:
            system.held = _without_holds(system.held)  # type: ignore[method-assign]
        elif self is Plant.NO_PAUSES:
            system.controls = _NeverPaused(system.controls)  # type: ignore[assignment]
        elif self is Plant.NO_MISSES:
            system.schedule.slots = _NeverLate(system.schedule.slots)  # type: ignore[assignment]
        return _Around(self, system)


class _Around:
    def __init__(self, plant: Plant, system: System) -> None:
        self._plant = plant
        self._system = system

    def planner(self, planner: Planner) -> Planner:
        wrong = {Plant.SLOT_FROM_NOW: _NowPlanner, Plant.NO_CAPS: _CaplessPlanner}.get(self._plant)
        if wrong is None:
            return planner
        return wrong(**{field.name: getattr(planner, field.name) for field in fields(planner)})

    def attempts(self, attempts: Attempting) -> Attempting:
        if self._plant is not Plant.RECORD_BEFORE_EFFECT:
            return attempts
        return _RecordsFirst(attempts, self._system)

    def ledger(self, ledger: WorkLedger) -> WorkLedger:
        return _NeverBuries(ledger) if self._plant is Plant.NO_BURIAL else ledger

    def queue(self, queue: Queue) -> Queue:
        return _AcksFirst(queue) if self._plant is Plant.ACK_BEFORE_RECORD else queue

    def close(self) -> None:
        """Nothing is kept."""


@dataclass(frozen=True, slots=True)
class _NowPlanner(Planner):
    def plan(
        self, policy: Policy, slot: datetime, trigger: Trigger, *, approved: bool = False
    ) -> Planned:
        now = self.clock.now().replace(microsecond=0)
        return Planner.plan(self, policy, now, trigger, approved=approved)


@dataclass(frozen=True, slots=True)
class _CaplessPlanner(Planner):
    def plan(
        self, policy: Policy, slot: datetime, trigger: Trigger, *, approved: bool = False
    ) -> Planned:
        return Planner.plan(self, _capless(policy), slot, trigger, approved=approved)

    def go_on(self, policy: Policy, run: Run) -> Run | None:
        return Planner.go_on(self, _capless(policy), run)


def _capless(policy: Policy) -> Policy:
    return replace(policy, reach=Reach())


class _RecordsFirst:
    def __init__(self, attempts: Attempting, system: System) -> None:
        self._attempts = attempts
        self._system = system

    def make(self, policy: Policy, operations: Sequence[Operation]) -> Iterable[Result]:
        if not policy.about_rows:
            done = [Completed(operation, Outcome.DELETED) for operation in operations]
            self._system.work.record(done, self._system.worker_name, self._system.clock.now())
        return self._attempts.make(policy, operations)


class _AcksFirst(Otherwise[Queue]):
    def receive(
        self, policy: int, limit: int, now: datetime, lease: timedelta, *, suspects: bool = False
    ) -> Sequence[Operation]:
        found = self._inner.receive(policy, limit, now, lease, suspects=suspects)
        self._inner.ack(found)
        return found


class _NeverBuries(Otherwise[WorkLedger]):
    def bury_crashed(self, *_: object) -> int:
        return 0


class _NeverLate(Otherwise[Slots]):
    def look(
        self, expected: Expected, grace: timedelta, now: datetime, jump: Jump | None = None
    ) -> Watched | None:
        return self._inner.look(expected, timedelta(days=3_650), now, jump)


def _without_holds(held: Callable[[Policy], Held]) -> Callable[[Policy], Held]:
    def asked_in_vain(policy: Policy) -> Held:
        held(policy)
        return Held()

    return asked_in_vain


class _NeverPaused(Otherwise[Controls]):
    def pauses(self, now: datetime) -> Sequence[Pause]:
        self._inner.pauses(now)
        return []
