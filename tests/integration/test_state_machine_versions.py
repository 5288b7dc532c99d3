"""The order of a purge, against anything Hypothesis can think of.

Over a store in memory and the real ledger: whatever pages, kills, failures, locks, redrives,
discards, cancellations, new versions and new runs come in whatever order, nothing older than what
readers see comes back, nothing that waits for another waits for ever, and in the end it is gone.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bestbefore.domain.failure import Failure, FailureClass, GiveUp, decide
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Trigger
from bestbefore.domain.states import RunState
from bestbefore.domain.versions import Versions
from bestbefore.ports.ledger import Completed, Died, Operation, Retried, Settlement
from bestbefore.stages.attempt import Attempts
from bestbefore.stages.dispatch import dispatch
from bestbefore.stages.outlook import look_around
from support.clock import NOW
from support.ledgers import new_ledger
from support.machines import CANCELLABLE, After
from support.memory_versions import LEGAL, MemoryVersions
from support.worlds import OLD, YOUNG, World, assert_reconciled, policy

KEYS = [f"exports/{name}.json" for name in "abc"]
LEASE = timedelta(seconds=60)
ME = "machine"


@dataclass
class Held:
    """One claim as its holder sees it."""

    of: Policy
    operations: Sequence[Operation]
    results: list[Outcome | Failure] | None = None


class Stacks(RuleBasedStateMachine):
    """A bucket that keeps versions, and everything that may happen to its cleanup."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="bestbefore-machine-"))
        new_ledger(self.folder / "state.db")
        self.serial = 0
        self.version = 1
        self.sick: dict[str, FailureClass] = {}
        self.held: list[Held] = []
        self.latest = NOW

    @initialize(
        mode=st.sampled_from([Versions.PURGE, Versions.PURGE, Versions.NONCURRENT]),
        page_size=st.sampled_from([1, 2, 3]),
        capped=st.booleans(),
    )
    def begin(self, mode: Versions, page_size: int, capped: bool) -> None:
        self.mode, self.capped = mode, capped
        self.store = MemoryVersions(page_size)
        self.store.refuse = lambda key, id_: (
            Failure(self.sick[key], "sick") if key in self.sick else None
        )
        self.world = World(self.folder, self._policy(), stores={"s": self.store})  # type: ignore[dict-item]
        self.store.now = self.world.clock.now
        self.engine = sa.create_engine(self.world.state_url, poolclass=sa.NullPool)

    # -- the data lives its own life ---------------------------------------------------------

    @rule(key=st.sampled_from(KEYS), old=st.sampled_from([True, True, False]), n=st.integers(1, 3))
    def write(self, key: str, old: bool, n: int) -> None:
        for _ in range(n):
            self.store.put(key, self._moment(old))

    @rule(key=st.sampled_from(KEYS), old=st.sampled_from([True, True, False]))
    def hide(self, key: str, old: bool) -> None:
        self.store.put(key, self._moment(old), marker=True)

    @rule()
    def suspend_or_enable(self) -> None:
        other = {"Enabled": "Suspended", "Suspended": "Enabled"}
        self.store.versioning = other[self.store.versioning]

    @precondition(lambda self: self.store.stacks)
    @rule(data=st.data(), minutes=st.sampled_from([5, 60, None]))
    def lock(self, data: st.DataObject, minutes: int | None) -> None:
        key = data.draw(st.sampled_from(sorted(self.store.stacks)))
        entry = data.draw(st.sampled_from(self.store.stacks[key]))
        end = LEGAL if minutes is None else self.world.clock.now() + timedelta(minutes=minutes)
        if not entry.marker:
            self.store.locks[key, entry.id] = end

    @precondition(lambda self: self.store.locks)
    @rule(data=st.data())
    def unlock(self, data: st.DataObject) -> None:
        del self.store.locks[data.draw(st.sampled_from(sorted(self.store.locks)))]

    # -- planning ----------------------------------------------------------------------------

    @rule(hour=st.integers(0, 6), pages=st.sampled_from([None, None, 1, 2, 3]))
    def plan(self, hour: int, pages: int | None) -> None:
        """Answer a slot; with *pages* the planner is killed after so many."""
        self._plan(NOW + timedelta(hours=hour), pages)

    @rule(pages=st.sampled_from([None, 1]))
    def plan_on(self, pages: int | None) -> None:
        for run in self.world.system.plans.unfinished(self.world.clock.now()):
            of = self.world.system.policy(run.policy)
            if run.policy_version == of.version:
                self.world.system.planner(of, stopping=After(pages)).go_on(of, run)

    @rule()
    def write_a_new_policy_version(self) -> None:
        self.version += 1
        self.world.restart(self._policy())

    @precondition(lambda self: self._runs(RunState.PARKED))
    @rule(data=st.data())
    def approve(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self._runs(RunState.PARKED)))
        self.world.system.plans.approve(run, ME, self.world.clock.now())

    @precondition(lambda self: self._runs(*CANCELLABLE))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self._runs(*CANCELLABLE)))
        self.world.system.plans.cancel(run, "not today", ME, self.world.clock.now())

    # -- dispatch and work, one instruction at a time ----------------------------------------

    @rule()
    def publish(self) -> None:
        system, now = self.world.system, self.world.clock.now()
        outlook = look_around(system.work, system.controls, system.settings.policies, now)
        versions = outlook.workable + outlook.superseded
        dispatch(system.work, system.queue, versions, {}, now, LEASE)

    @rule(limit=st.integers(1, 4), suspects=st.booleans())
    def claim(self, limit: int, suspects: bool) -> None:
        system, now = self.world.system, self.world.clock.now()
        outlook = look_around(system.work, system.controls, system.settings.policies, now)
        for version in outlook.workable:
            found = system.queue.receive(version.row, limit, now, LEASE, suspects=suspects)
            over = [Completed(o, Outcome.CANCELLED) for o in found if o.cancelled]
            system.work.record(over, ME, now)
            mine = [o for o in found if not o.cancelled]
            for run in {o.run for o in mine}:
                self.held.append(Held(self._policy(), [o for o in mine if o.run == run]))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def attempt(self, data: st.DataObject) -> None:
        """The effect, without its record."""
        held = data.draw(st.sampled_from(self.held))
        attempts = Attempts(self.store, self.store, self.world.system.work, self.world.clock)  # type: ignore[arg-type]
        held.results = attempts.make(held.of, held.operations)

    @precondition(lambda self: any(held.results for held in self.held))
    @rule(data=st.data())
    def record(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from([held for held in self.held if held.results]))
        self.held.remove(held)
        now = self.world.clock.now()
        settlements: list[Settlement] = []
        for operation, result in zip(held.operations, held.results or (), strict=True):
            if isinstance(result, Outcome):
                settlements.append(Completed(operation, result))
                continue
            decision = decide(result, operation.budget, held.of.attempts, now, lambda: 0.5)
            settlements.append(
                Died(operation, decision)
                if isinstance(decision, GiveUp)
                else Retried(operation, decision)
            )
        self.world.system.work.record(settlements, ME, now)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), gives_back=st.booleans())
    def crash_or_give_back(self, data: st.DataObject, gives_back: bool) -> None:
        held = data.draw(st.sampled_from(self.held))
        self.held.remove(held)
        if gives_back:
            self.world.system.queue.release(held.operations, self.world.clock.now())

    @rule()
    def bury_what_crashes_workers(self) -> None:
        rows = [version.row for version in self.world.system.work.versions()]
        self.world.system.work.bury_crashed(rows, 3, self.world.clock.now())

    @rule()
    def drain(self) -> None:
        """A real worker, threads and all, until nothing can be done."""
        self.world.clock.stride = timedelta(seconds=30)
        self.world.work()
        self.world.clock.stride = timedelta(0)

    # -- people ------------------------------------------------------------------------------

    @rule(key=st.sampled_from(KEYS), of=st.sampled_from(
        [FailureClass.PERMISSION, FailureClass.TRANSIENT, FailureClass.MALFORMED]))  # fmt: skip
    def sicken(self, key: str, of: FailureClass) -> None:
        self.sick[key] = of

    @rule(key=st.sampled_from(KEYS))
    def heal(self, key: str) -> None:
        self.sick.pop(key, None)

    @precondition(lambda self: self.world.dead())
    @rule(data=st.data(), close=st.booleans())
    def redrive_or_discard(self, data: st.DataObject, close: bool) -> None:
        row = data.draw(st.sampled_from([letter.row for letter in self.world.dead()]))
        letters, now = self.world.system.dead_letters, self.world.clock.now()
        if close:
            letters.discard([row], "known", ME, now)
        else:
            letters.redrive([row], [now], ME, now)

    @rule(seconds=st.sampled_from([1, 61, 301, 3_700, 7_200]))
    def turn_the_clock(self, seconds: int) -> None:
        self.world.clock.step(timedelta(seconds=seconds))

    # -- what has to hold after every step ---------------------------------------------------

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "world"):
            return
        assert self.store.resurrected == []
        with self.engine.connect() as connection:
            assert_reconciled(connection)
            stuck = connection.exec_driver_sql(_WAITS_FOR_NOBODY).fetchall()
        assert not stuck, f"waits for nothing that is left: {stuck}"

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self._end_well()
        finally:
            if hasattr(self, "world"):
                self.world.system.close()
            shutil.rmtree(self.folder)

    def _end_well(self) -> None:
        """Heal, unlock, redrive, run once more: what is old is gone unless a person closed it."""
        self.sick.clear()
        self.held.clear()
        self.store.locks.clear()
        now = max(self.world.clock.now(), NOW + timedelta(hours=7)) + timedelta(hours=2)
        self.world.clock.set(now)
        closed = {
            operation.key
            for operation in self.world.operations()
            if operation.policy_version == self._policy().version
            and operation.outcome is Outcome.DISCARDED
        }
        for _ in range(3):  # what covers something goes in the run after it, if that was closed
            self._plan(self.world.clock.now(), None)
            self.world.redrive()
            self.drain()
            self.holds()
            self.world.clock.step(timedelta(hours=1))
        left = {
            (key, entry.id)
            for key, stack in self.store.stacks.items()
            for place, entry in enumerate(stack)
            if key not in closed and self._goes(stack, place)
        }
        assert not left, f"still there: {left}"
        for run in self.world.system.records.runs():
            assert run.pending == run.held or run.state is RunState.CANCELLED, run

    def _goes(self, stack: list, place: int) -> bool:  # type: ignore[type-arg]
        """Whether the entry at *place* is to go, by the model's own arithmetic."""
        old = NOW - timedelta(days=30)
        entry = stack[place]
        if self.mode is Versions.NONCURRENT:
            if place == 0:
                return len(stack) == 1 and entry.marker and entry.modified < old
            # Where the store's order and that of the times differ, the later time may count.
            later = (other for other in stack if other.modified > entry.modified)
            newer = [other.modified for other in (entry, *stack[:place], *later)]
            return max(newer) < old
        if place == 0:
            return all(other.modified < old for other in stack)
        return entry.modified < old

    # -- helpers -----------------------------------------------------------------------------

    def _policy(self) -> Policy:
        return policy(
            version=f"v{self.version}",
            max_deletes=2 if self.capped else None,
            versions=self.mode,
        )

    def _moment(self, old: bool):  # type: ignore[no-untyped-def]
        self.serial += 1
        return (OLD if old else YOUNG) + timedelta(seconds=self.serial)

    def _plan(self, slot, pages: int | None) -> None:  # type: ignore[no-untyped-def]
        approved = pages is None
        self.world.answer("exports", slot, Trigger.PLAN, approved=approved, stopping=After(pages))

    def _runs(self, *states: RunState) -> list[str]:
        return sorted(run.run_id for run in self.world.system.records.runs() if run.state in states)


_WAITS_FOR_NOBODY = """
    SELECT o.key, o.version_id FROM operations o
    WHERE o.follows AND o.held AND o.token IS NULL AND o.due_at > 200000000000000000
      AND coalesce(o.failure_class, '') <> 'held'
      AND NOT EXISTS (SELECT 1 FROM operations s WHERE s.policy_id = o.policy_id
        AND s.key = o.key AND s.id <> o.id
        AND (s.state <> 'completed' OR s.candidate_of IS NOT NULL))
"""


TestStacks = Stacks.TestCase
TestStacks.settings = settings(
    max_examples=int(os.environ.get("BESTBEFORE_EXAMPLES", "30")),
    stateful_step_count=40,
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
