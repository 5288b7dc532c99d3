"""Row batches in the ledger, against anything Hypothesis can think of.

Over a table in memory and the real ledger: whatever slices, kills, failures, splits, redrives,
discards, cancellations, new versions and new runs come in whatever order, rows go once and only
while they are old, the ledger never claims what did not happen, its counts add up after every
step, and in the end what was old is gone.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bestbefore.adapters.state.database import Database
from bestbefore.contracts.row_ledger import ROWS
from bestbefore.domain.failure import Failure, FailureClass, GiveUp, decide
from bestbefore.domain.outcome import Outcome, Spared
from bestbefore.domain.policy import Policy, Reach
from bestbefore.domain.retention import Age
from bestbefore.domain.rows import Effect
from bestbefore.domain.run import Trigger
from bestbefore.domain.states import RunState, State
from bestbefore.ports.ledger import (
    Completed,
    DeadFilter,
    Died,
    Leftover,
    Operation,
    Parts,
    PolicyVersion,
    Retried,
    Settlement,
    Split,
)
from bestbefore.ports.records import OperationFilter
from bestbefore.stages.dispatch import dispatch
from bestbefore.stages.plan import Planner
from bestbefore.stages.row_attempt import Result, RowAttempts
from bestbefore.stages.row_scan import RowSurvey
from support.audit import Audit, PostgresAudit
from support.clock import NOW, ManualClock
from support.ledgers import all_sides, new_ledger
from support.machines import CANCELLABLE, After
from support.memory_rows import MemoryTable
from support.postgresql import Postgres

NUMBERS = st.integers(0, 14)
SICK = st.sampled_from([FailureClass.DEPENDENCY, FailureClass.TRANSIENT, FailureClass.PERMISSION])
LEASE = timedelta(seconds=60)
ME = "machine"
CLOSED = (Outcome.CANCELLED, Outcome.SUPERSEDED, Outcome.DISCARDED)


@dataclass
class Held:
    """One claim as its holder sees it."""

    of: Policy
    operation: Operation
    result: Result | None = None


class Rows(RuleBasedStateMachine):
    """A table, and everything that may happen to its cleanup."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="bestbefore-machine-"))
        self.clock = ManualClock()
        self.table = MemoryTable(self.clock.now, on_slice=self._a_second_passes)
        self.table.refuse = self._refuse
        self.sick: dict[int, Failure] = {}
        self.held: list[Held] = []
        self.version = 1

    @initialize(
        size=st.integers(1, 4),
        capped=st.booleans(),
        start=st.lists(NUMBERS, unique=True, min_size=4),
        sick=st.dictionaries(NUMBERS, SICK, min_size=1, max_size=3),
    )
    def begin(
        self, size: int, capped: bool, start: list[int], sick: dict[int, FailureClass]
    ) -> None:
        self.policy = replace(
            ROWS,
            older_than=Age(1, 0),
            source=replace(ROWS.rows, batch_size=size),
            reach=Reach(max_deletes=4 if capped else None),
        )
        url, self.audit = self._empty_ledger()
        self.database = Database(url)
        self.sides = all_sides(self.database)
        self.write(start, old=True)
        for number, of in sick.items():
            self.sicken(number, of)
        self.plan(0, None, approved=False)

    # -- the data lives its own life ---------------------------------------------------------

    @rule(
        numbers=st.lists(NUMBERS, unique=True, min_size=1, max_size=6),
        old=st.sampled_from([True, True, False]),
    )
    def write(self, numbers: list[int], old: bool) -> None:
        """Insert or touch."""
        for number in numbers:
            self.table.rows[number] = NOW + timedelta(days=-180 if old else 60)

    @precondition(lambda self: self.table.rows)
    @rule(data=st.data())
    def delete_behind_our_back(self, data: st.DataObject) -> None:
        del self.table.rows[data.draw(st.sampled_from(sorted(self.table.rows)))]

    @rule(number=NUMBERS, of=SICK)
    def sicken(self, number: int, of: FailureClass) -> None:
        self.sick[number] = Failure(of, "sick", too_big=of is FailureClass.TRANSIENT)

    @precondition(lambda self: self.sick)
    @rule()
    def heal(self) -> None:
        self.sick.clear()

    # -- planning ----------------------------------------------------------------------------

    @rule(
        hour=st.sampled_from([0, 23, 24, 47, 48, 49]),
        slices=st.sampled_from([None, None, 1, 2, 3]),
        approved=st.booleans(),
    )
    def plan(self, hour: int, slices: int | None, approved: bool) -> None:
        """Answer a slot; with *slices* the planner is killed after so many.

        A month before those a day apart was the same moment: the end of a shorter one.
        """
        slot = NOW.replace(day=29) + timedelta(hours=hour)
        self._plan(slot, slices, approved=approved)

    @rule(slices=st.sampled_from([None, 1]))
    def plan_on(self, slices: int | None) -> None:
        for run in self.sides.plans.unfinished(self.clock.now()):
            if run.policy_version == self.policy.version:
                self._planner(After(slices)).go_on(self.policy, run)

    @rule()
    def write_a_new_policy_version(self) -> None:
        self.version += 1
        self.policy = replace(self.policy, version=f"v{self.version}")

    @precondition(lambda self: self._runs(RunState.PARKED))
    @rule(data=st.data())
    def approve(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self._runs(RunState.PARKED)))
        self.sides.plans.approve(run, ME, self.clock.now())

    @precondition(lambda self: self._runs(*CANCELLABLE))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self._runs(*CANCELLABLE)))
        self.sides.plans.cancel(run, "not today", ME, self.clock.now())

    # -- dispatch and work, one instruction at a time ----------------------------------------

    @rule()
    def publish(self) -> None:
        versions = self.sides.work.versions()
        dispatch(self.sides.work, self.sides.queue, versions, {}, self.clock.now(), LEASE)

    @rule(limit=st.integers(1, 4))
    def work(self, limit: int) -> None:
        """A worker that nothing gets in the way of."""
        self.publish()
        taken = len(self.held)
        self.claim(limit, suspects=False)
        for held in self.held[taken:]:
            self._attempt(held)
            self._record(held)
        del self.held[taken:]

    @rule(limit=st.integers(1, 4), suspects=st.booleans())
    def claim(self, limit: int, suspects: bool) -> None:
        for version in self.sides.work.versions():
            if version.current and not version.means(self.policy):
                continue  # not in this process's file yet
            found = self.sides.queue.receive(
                version.row, limit, self.clock.now(), LEASE, suspects=suspects
            )
            self._take(version, found)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def attempt(self, data: st.DataObject) -> None:
        """The effect, without its record. A slow worker may get here after its lease."""
        self._attempt(data.draw(st.sampled_from(self.held)))

    @precondition(lambda self: any(held.result for held in self.held))
    @rule(data=st.data(), forget=st.booleans())
    def record(self, data: st.DataObject, forget: bool) -> None:
        """The record, in time or late; without *forget* it can come again."""
        held = data.draw(st.sampled_from([held for held in self.held if held.result]))
        self._record(held)
        if forget:
            self.held.remove(held)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), gives_back=st.booleans())
    def crash_or_give_back(self, data: st.DataObject, gives_back: bool) -> None:
        held = data.draw(st.sampled_from(self.held))
        self.held.remove(held)
        if gives_back:
            self.sides.queue.release([held.operation], self.clock.now())

    @rule()
    def bury_what_crashes_workers(self) -> None:
        rows = [version.row for version in self.sides.work.versions()]
        self.sides.work.bury_crashed(rows, 3, self.clock.now())

    @rule()
    def drain(self) -> None:
        """Plan on and work until nothing moves any more."""
        for _ in range(200):
            self.clock.step(timedelta(minutes=1))
            self.plan_on(None)
            self.publish()
            taken = len(self.held)
            for suspects in (False, True):
                self.claim(10, suspects)
            for held in self.held[taken:]:
                self._attempt(held)
                self._record(held)
            moved = len(self.held) > taken
            del self.held[taken:]
            if moved:
                continue
            left = [o for o in self.sides.work.leftovers(self.clock.now()) if self._mine(o)]
            if not any(o.waiting or o.due or o.leased or o.delayed for o in left):
                return
            self.clock.step(timedelta(minutes=15))
        raise AssertionError("it never ends")

    @precondition(lambda self: not self.held)
    @rule()
    def prune(self) -> None:
        """Upkeep that keeps hardly anything: what has ended goes, a whole after its parts."""
        ledger, now = self.sides.upkeep, self.clock.now()
        held = ledger.claim(now, timedelta(0), LEASE)
        assert held is not None
        ids = [one.operation_id for one, _ in ledger.old_operations(0, now, 99, now).operations]
        assert ledger.prune_operations(held, ids, now, now, LEASE) == len(ids)
        ledger.done(held, 0, finished=True, now=now)

    # -- people ------------------------------------------------------------------------------

    @precondition(lambda self: self.sides.dead_letters.dead(DeadFilter()))
    @rule(data=st.data(), close=st.booleans())
    def redrive_or_discard(self, data: st.DataObject, close: bool) -> None:
        letters, now = self.sides.dead_letters, self.clock.now()
        row = data.draw(st.sampled_from([letter.row for letter in letters.dead(DeadFilter())]))
        if close:
            assert letters.discard([row], "known", ME, now) == 1
        else:
            assert letters.redrive([row], [now], ME, now) == 1

    @rule(seconds=st.sampled_from([1, 61, 301, 3_700, 7_200]))
    def turn_the_clock(self, seconds: int) -> None:
        self.clock.step(timedelta(seconds=seconds))

    # -- what has to hold after every step ---------------------------------------------------

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "sides"):
            return
        assert self.audit.problems() == []
        taken = self.sides.plans.taken(self.policy)
        undone = 0
        for operation in self.sides.records.operations(OperationFilter()):
            done = self.table.completed.get(operation.operation_id)
            if operation.effect is not None:
                assert done is not None, f"{operation} claims what never happened"
                assert operation.effect.counts() == done.counts()
            elif operation.outcome is not None:
                assert operation.outcome in (*CLOSED, Outcome.SPLIT), operation
                assert operation.outcome is not Outcome.SPLIT or done is None, operation
            if (
                operation.state is not State.COMPLETED
                and operation.policy_version == self.policy.version
            ):
                undone += 1
        assert len(taken) == undone

    def teardown(self) -> None:
        try:
            if hasattr(self, "sides"):
                self._end_well()
        finally:
            if hasattr(self, "sides"):
                self.database.dispose()
            shutil.rmtree(self.folder)

    def _end_well(self) -> None:
        """Heal, redrive, run once more: what is old is gone."""
        self.sick.clear()
        self.held.clear()
        slot = NOW.replace(month=8) + timedelta(days=1)
        self.clock.set(max(self.clock.now(), slot))
        for _ in range(3):  # what is between the ends of a dead one goes in the run after it
            self._plan(self.clock.now(), None, approved=True)
            letters = self.sides.dead_letters.dead(DeadFilter())
            now = self.clock.now()
            self.sides.dead_letters.redrive([o.row for o in letters], [now] * len(letters), ME, now)
            self.drain()
            self.holds()
            self.clock.step(timedelta(hours=1))
        cutoff = NOW - timedelta(days=30)
        assert not [number for number, at in self.table.rows.items() if at < cutoff]
        for run in self.sides.records.runs():
            assert run.pending == 0, run
            assert run.waiting == 0 or run.state is RunState.PARKED, run

    # -- helpers -----------------------------------------------------------------------------

    def _empty_ledger(self) -> tuple[str, Audit]:
        file = self.folder / "state.db"
        return new_ledger(file), Audit(file)

    def _a_second_passes(self) -> None:
        """So that each slice is a page of its own."""
        self.clock.step(timedelta(seconds=1))

    def _refuse(self, numbers: Sequence[int]) -> Failure | None:
        return next((self.sick[number] for number in numbers if number in self.sick), None)

    def _planner(self, stopping: Callable[[], bool]) -> Planner:
        survey = RowSurvey(self.table)
        return Planner(self.sides.plans, survey, self.clock, lambda: 0.5, ME, stopping=stopping)

    def _plan(self, slot: datetime, slices: int | None, *, approved: bool) -> None:
        self._planner(After(slices)).plan(self.policy, slot, Trigger.PLAN, approved=approved)

    def _take(self, version: PolicyVersion, found: Sequence[Operation]) -> None:
        """As a worker does: what was cancelled or is superseded only gets closed."""
        for operation in found:
            if operation.cancelled:
                self._close(operation, Outcome.CANCELLED)
            elif not version.current:
                self._close(operation, Outcome.SUPERSEDED)
            else:
                self.held.append(Held(self.policy, operation))

    def _close(self, operation: Operation, outcome: Outcome) -> None:
        late = self.sides.work.record([Completed(operation, outcome)], ME, self.clock.now())
        assert late == []

    def _attempt(self, held: Held) -> None:
        attempts = RowAttempts(self.table, self.table, self.sides.work, self.clock, ME)
        before = dict(self.table.rows)
        (held.result,) = attempts.make(held.of, [held.operation])
        for number in before.keys() - self.table.rows.keys():
            assert before[number] < NOW - timedelta(days=30), "it was young"

    def _record(self, held: Held) -> None:
        now = self.clock.now()
        late = self.sides.work.record([self._settlement(held, now)], ME, now)
        assert late in ([], [held.operation])

    def _settlement(self, held: Held, now: datetime) -> Settlement:
        operation, result = held.operation, held.result
        if isinstance(result, Effect):
            return Completed(operation, result.outcome, effect=result)
        if isinstance(result, Parts):
            return Split(operation, result)
        assert result is not None
        assert not isinstance(result, Outcome | Spared)
        decision = decide(result, operation.budget, held.of.attempts, now, lambda: 0.5)
        if isinstance(decision, GiveUp):
            return Died(operation, decision)
        return Retried(operation, decision)

    def _mine(self, left: Leftover) -> bool:
        """Whether this process may do anything about it."""
        versions = {version.row: version for version in self.sides.work.versions()}
        version = versions.get(left.policy)
        return version is not None and (not version.current or version.means(self.policy))

    def _runs(self, *states: RunState) -> list[str]:
        return sorted(run.run_id for run in self.sides.records.runs() if run.state in states)


TestRows = Rows.TestCase
TestRows.settings = settings(
    max_examples=int(os.environ.get("BESTBEFORE_EXAMPLES", "20")),
    stateful_step_count=40,
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


class RowsOnPostgresql(Rows):
    """The same on PostgreSQL, in a ledger that the test below borrows."""

    server: Postgres
    schema: str

    def _empty_ledger(self) -> tuple[str, Audit]:
        self.server.clear(self.schema)
        url = self.server.url(self.schema)
        return url, PostgresAudit(url)


def test_rows_on_postgresql(postgres: Postgres) -> None:
    RowsOnPostgresql.server = postgres
    RowsOnPostgresql.schema = postgres.lend_ledger()
    try:
        run_state_machine_as_test(
            RowsOnPostgresql,
            settings=settings(
                TestRows.settings,
                max_examples=int(os.environ.get("BESTBEFORE_EXAMPLES", "20")) // 5,
                stateful_step_count=30,
            ),
        )
    finally:
        postgres.take_back(RowsOnPostgresql.schema)
