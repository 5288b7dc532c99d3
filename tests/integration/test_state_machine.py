"""Ledger, dispatch, queue and worker against a model, in any order Hypothesis can think of.

The model is plain Python: what was eligible when it was planned, who holds which claim until
when, which dead letters a person touched. The product is the real one on real SQLite and
PostgreSQL. A failure prints the steps that led to it, as a program.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
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

from bestbefore.adapters.state.database import moment
from bestbefore.adapters.state.schema import operations, policies, runs
from bestbefore.domain.failure import Failure, FailureClass, GiveUp, decide
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.selection import Listed
from bestbefore.domain.states import NEXT, RunState, State, may, run_may
from bestbefore.ports.ledger import Completed, Died, Operation, Retried, Settlement
from bestbefore.ports.objects import Target
from bestbefore.stages.attempt import TRUSTED_FOR, Attempts
from bestbefore.stages.dispatch import dispatch
from bestbefore.stages.outlook import look_around
from bestbefore.stages.plan import Planned
from support.clock import NOW
from support.ledgers import new_ledger
from support.machines import CANCELLABLE, After
from support.memory import MemoryStore
from support.postgresql import Postgres
from support.worlds import OLD, YOUNG, World, assert_reconciled, listed, policy

KEYS = [f"exports/{name}.json" for name in "abcde"]
LEASE = timedelta(seconds=60)
ME = "machine"

Identity = tuple[str, str, datetime]
Result = Outcome | Failure


@dataclass
class Effect:
    """One object that really went."""

    found: Listed
    target: Target
    at: datetime


class WatchedStore(MemoryStore):
    """A store in memory that notes what exactly it deleted."""

    def __init__(self) -> None:
        super().__init__(page_size=2)
        self.effects: list[Effect] = []
        self.clock = lambda: NOW

    def _delete(self, target: Target) -> Outcome | Failure:
        found = self.objects.get(target.key)
        result = super()._delete(target)
        if result is Outcome.DELETED:
            assert found is not None
            self._order = None
            self.effects.append(Effect(found, target, self.clock()))
        return result


@dataclass
class Held:
    """One claim as its holder sees it. ``results`` are there once the attempt was made."""

    of: Policy
    operations: Sequence[Operation]
    results: list[Result] | None = None
    recorded: list[Settlement] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """What the ledger holds of one operation, as far as the model cares."""

    state: State
    run: int
    outcome: str | None
    redriven: int
    reappearances: int
    deliveries: int
    token: int | None
    version: str
    identity: Identity
    seen_at: datetime


class Life(RuleBasedStateMachine):
    """Everything that may happen to a cleanup between two calm days."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="bestbefore-machine-"))
        self.state_url = self._empty_ledger()
        self.version = 1
        self.current = ""
        self.serial = 0
        self.sick: dict[str, FailureClass] = {}
        self.held: list[Held] = []
        self.holder: dict[int, int] = {}
        self.eligible: set[tuple[str, Identity]] = set()
        self.touched: set[int] = set()
        self.completions: set[tuple[int, int, int]] = set()
        self.paused = False
        self.several_steps = False
        self.may_vanish = False
        self.latest = NOW
        self.gone: list[Listed] = []
        self.checked_effects = 0

    @initialize(
        capped=st.booleans(),
        keep_last=st.sampled_from([0, 0, 1]),
        start=st.lists(st.sampled_from(KEYS), unique=True),
    )
    def begin(self, capped: bool, keep_last: int, start: list[str]) -> None:
        self.capped, self.keep_last = capped, keep_last
        self.store = WatchedStore()
        self.store.refuse = lambda key: (
            Failure(self.sick[key], "sick") if key in self.sick else None
        )
        self.world = self._world()
        self.store.clock = self.world.clock.now
        self.engine = sa.create_engine(self.world.state_url, poolclass=sa.NullPool)
        self.before: dict[int, Row] = {}
        self.runs_before: dict[int, RunState] = {}
        for key in start:
            self._put(key, old=True)

    # -- the data lives its own life ---------------------------------------------------------

    @rule(key=st.sampled_from(KEYS), old=st.booleans())
    def write(self, key: str, old: bool) -> None:
        """Create or overwrite."""
        self._put(key, old=old)

    @precondition(lambda self: self.store.objects)
    @rule(data=st.data())
    def upload_the_same_again(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.store.objects)))
        same = self.store.objects[key]
        self.store.put(same._replace(last_modified=self.world.clock.now()))

    @precondition(lambda self: self.store.objects)
    @rule(data=st.data())
    def delete_behind_our_back(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.store.objects)))
        self.gone.append(self.store.objects.pop(key))
        self.store._order = None

    @precondition(lambda self: self.gone or self.store.effects)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        """An object comes back exactly as it was."""
        item = data.draw(st.sampled_from([*self.gone, *(e.found for e in self.store.effects)]))
        self.store.put(item)

    # -- planning ----------------------------------------------------------------------------

    @rule(
        hour=st.integers(0, 6),
        pages=st.sampled_from([None, None, 1, 2]),
        trigger=st.sampled_from([Trigger.PLAN, Trigger.RUN]),
        approved=st.booleans(),
    )
    def plan(self, hour: int, pages: int | None, trigger: Trigger, approved: bool) -> None:
        """Answer a slot; with *pages* the planner is killed after so many."""
        slot = NOW + timedelta(hours=hour)
        known = {run.run_id for run in self.world.system.records.runs()}
        planned = self._plan(slot, pages, trigger, approved=approved)
        assert planned.run.run_id not in known or planned.repeated or not planned.run.complete or (
            planned.run.state is not RunState.PLANNING
        )  # fmt: skip

    @rule(pages=st.sampled_from([None, 1]))
    def plan_on(self, pages: int | None) -> None:
        for run in self.world.system.plans.unfinished(self.world.clock.now()):
            of = self.world.system.policy(run.policy)
            if run.policy_version == of.version:
                self._note_eligible(of, run.slot, whole=False)
                planner = self.world.system.planner(of, stopping=After(pages))
                planner.go_on(of, run)
        self._long(may_vanish=True)

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
        system = self.world.system
        now = self.world.clock.now()
        outlook = look_around(system.work, system.controls, system.settings.policies, now)
        versions = outlook.workable + outlook.superseded
        # Of versions that are current here, and of superseded ones, which then only get closed.
        waiting = sum(
            run.waiting
            for run in system.records.runs()
            if run.state is RunState.OPEN
            and (run.policy_version != self.current or self.current == self._policy().version)
        )
        published = dispatch(system.work, system.queue, versions, {}, now, LEASE)
        self._check_published(published, 0 if self.paused else waiting)

    @rule(limit=st.integers(1, 3), suspects=st.booleans())
    def claim(self, limit: int, suspects: bool) -> None:
        system = self.world.system
        now = self.world.clock.now()
        outlook = look_around(system.work, system.controls, system.settings.policies, now)
        assert not (self.paused and (outlook.workable or outlook.superseded))
        for version in outlook.workable:
            assert version.version == self._policy().version
            self._receive(version.row, limit, suspects=suspects)

    @rule()
    def drop_what_is_superseded(self) -> None:
        system = self.world.system
        now = self.world.clock.now()
        outlook = look_around(system.work, system.controls, system.settings.policies, now)
        for version in outlook.superseded:
            for operation in system.queue.receive(version.row, 10, now, LEASE):
                self.holder[operation.row] = operation.token
                self._record([Completed(operation, Outcome.SUPERSEDED)])
        self._long()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def attempt(self, data: st.DataObject) -> None:
        """The effect, without its record. A slow worker may get here after its lease."""
        held = data.draw(st.sampled_from(self.held), label="claim")
        attempts = Attempts(self.store, self.store, self.world.system.work, self.world.clock)
        held.results = attempts.make(held.of, held.operations)

    @precondition(lambda self: any(held.results for held in self.held))
    @rule(data=st.data(), forget=st.booleans())
    def record(self, data: st.DataObject, forget: bool) -> None:
        """The record, in time or late; without *forget* it can come again."""
        ready = [held for held in self.held if held.results]
        held = data.draw(st.sampled_from(ready), label="claim")
        self._record(held.recorded or self._settlements(held))
        if forget:
            self.held.remove(held)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """A worker dies, before the effect or between the effect and its record."""
        self.held.remove(data.draw(st.sampled_from(self.held), label="claim"))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.held), label="claim")
        now = self.world.clock.now()
        deliveries = {o.row: self.before[o.row].deliveries for o in held.operations
                      if o.row in self.before}  # fmt: skip
        mine = [o.row for o in held.operations if self.holder.get(o.row) == o.token]
        self.world.system.queue.release(held.operations, now)
        for row in mine:
            del self.holder[row]
        after = self._rows()
        for row in deliveries:
            charged = after[row].deliveries - deliveries[row]
            assert charged == (-1 if row in mine else 0), "a give-back charges no delivery"

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.held), label="claim")
        until = self.world.clock.now() + LEASE
        lost = self.world.system.queue.extend(held.operations, until)
        expected = [o for o in held.operations if self.holder.get(o.row) != o.token]
        assert sorted(o.row for o in lost) == sorted(o.row for o in expected)

    @rule()
    def bury_what_crashes_workers(self) -> None:
        rows = [version.row for version in self.world.system.work.versions()]
        now = self.world.clock.now()
        dead_before = sum(row.state is State.DEAD for row in self.before.values())
        buried = self.world.system.work.bury_crashed(rows, 3, now)
        dead = {row for row, seen in self._rows().items() if seen.state is State.DEAD}
        assert len(dead) - dead_before == buried
        for row in dead:
            self.holder.pop(row, None)

    @rule()
    def drain(self) -> None:
        """A real worker, threads and all, until nothing can be done."""
        self._drain()

    @precondition(lambda self: not self.held)
    @rule()
    def prune(self) -> None:
        """Upkeep that keeps hardly anything: what has ended goes, and nothing else.

        Not while a worker holds anything: it lets go of it days before upkeep gets there.
        """
        ledger, now = self.world.system.upkeep_ledger, self.world.clock.now()
        held = ledger.claim(now, timedelta(0), LEASE)
        if held is None:
            return  # the clock was turned back
        ids = [one.operation_id for one, _ in ledger.old_operations(0, now, 99, now).operations]
        pruned = ledger.prune_operations(held, ids, now, now, LEASE)
        ledger.done(held, 0, finished=True, now=now)
        gone = self.before.keys() - self._rows().keys()
        assert len(gone) == pruned
        for row in gone:
            assert self.before.pop(row).state is State.COMPLETED
        # The rows may be used again.
        self.completions = {one for one in self.completions if one[0] not in gone}

    # -- people ------------------------------------------------------------------------------

    @rule(key=st.sampled_from(KEYS), of=st.sampled_from(
        [FailureClass.PERMISSION, FailureClass.TRANSIENT, FailureClass.UNKNOWN,
         FailureClass.MALFORMED, FailureClass.THROTTLED]))  # fmt: skip
    def sicken(self, key: str, of: FailureClass) -> None:
        self.sick[key] = of

    @rule(key=st.sampled_from(KEYS))
    def heal(self, key: str) -> None:
        self.sick.pop(key, None)

    @precondition(lambda self: self._dead())
    @rule(data=st.data())
    def redrive(self, data: st.DataObject) -> None:
        row = data.draw(st.sampled_from(self._dead()))
        now = self.world.clock.now()
        self.touched.add(row)
        assert self.world.system.dead_letters.redrive([row], [now], ME, now) == 1
        assert self.world.system.dead_letters.redrive([row], [now], ME, now) == 0

    @precondition(lambda self: self._dead())
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        row = data.draw(st.sampled_from(self._dead()))
        now = self.world.clock.now()
        self.touched.add(row)
        assert self.world.system.dead_letters.discard([row], "known", ME, now) == 1

    @rule()
    def pause(self) -> None:
        self.world.system.controls.pause("exports", "audit", None, ME, self.world.clock.now())
        self.paused = True

    @rule()
    def resume(self) -> None:
        lifted = self.world.system.controls.resume_work("exports", ME, self.world.clock.now())
        assert lifted == self.paused
        self.paused = False

    @rule(seconds=st.sampled_from([1, 30, 61, 301, 1_000, 7_200, -1, -45, -600, -4_000]))
    def turn_the_clock(self, seconds: int) -> None:
        self.world.clock.step(timedelta(seconds=seconds))
        self.latest = max(self.latest, self.world.clock.now())

    # -- what has to hold after every step ---------------------------------------------------

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "world"):
            return
        self._check()

    def _check(self) -> None:
        with self.engine.connect() as connection:
            assert_reconciled(connection)
        after = self._rows()
        for row, seen in self.before.items():
            if row not in after:
                assert self.may_vanish, f"operation {row} is lost"
                assert seen.state is State.WAITING, f"operation {row} is lost: {seen}"
                continue
            self._check_step(row, seen, after[row])
        for row, seen in after.items():
            assert (seen.version, seen.identity) in self.eligible, f"{seen} was not eligible"
            if row not in self.before and seen.state is State.COMPLETED:
                self._note_completion(row, seen)
        for run, state in self._run_states().items():
            old = self.runs_before.get(run, state)
            if not self.several_steps:
                assert old == state or run_may(old, state), f"run {run}: {old} became {state}"
            assert old is not RunState.CANCELLED or state is RunState.CANCELLED
        self._check_effects(after)
        self.before, self.runs_before = after, self._run_states()
        self.several_steps = self.may_vanish = False
        self.touched.clear()

    def _check_step(self, row: int, old: Row, new: Row) -> None:
        if old == new:
            return
        steps = _reachable(old.state) if self.several_steps else {old.state}
        if not self.several_steps:
            steps |= {state for state in State if may(old.state, state)}
        assert new.state in steps, f"operation {row}: {old.state} became {new.state}"
        if old.state is State.DEAD and new.state is not State.DEAD:
            assert row in self.touched, f"dead letter {row} came back by itself"
        if new.state is State.COMPLETED and (
            old.state is not State.COMPLETED or old.run != new.run
        ):
            self._note_completion(row, new)

    def _note_completion(self, row: int, seen: Row) -> None:
        completion = (row, seen.run, seen.redriven)
        assert completion not in self.completions, f"operation {row} completed twice in a run"
        self.completions.add(completion)

    def _check_effects(self, after: dict[int, Row]) -> None:
        """Only what was eligible when planned, as it was seen, ever went."""
        for effect in self.store.effects[self.checked_effects :]:
            wanted = (effect.target.key, effect.target.etag, effect.target.last_modified)
            planned = [row for row in after.values() if row.identity == wanted]
            assert planned, f"{effect} has no operation"
            assert any((row.version, wanted) in self.eligible for row in planned)
            if effect.found.last_modified != effect.target.last_modified:
                # An identical re-upload within the documented window.
                assert effect.found.etag == effect.target.etag
                assert any(effect.at - row.seen_at <= TRUSTED_FOR for row in planned)
        self.checked_effects = len(self.store.effects)

    # -- the end -----------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self._end_well()
        finally:
            if hasattr(self, "world"):
                self.world.system.close()
            shutil.rmtree(self.folder)

    def _end_well(self) -> None:
        """Lift pauses, close faults, drain: what the newest policy selects is gone, or dead."""
        self._check()
        self.sick.clear()
        self.held.clear()
        if self.paused:
            self.resume()
        # What an earlier plan kept may go with this one, which protects the rest of what that plan
        # selected, if the worker gets to it later; then the next plan takes it.
        if left := self._left_after_a_plan():
            rows = self.before.values()
            protected = {row.identity for row in rows if row.outcome == Outcome.PROTECTED}
            assert left <= protected, f"still there: {left}"
            left = self._left_after_a_plan()
            assert not left, f"still there again: {left}"
        for run in self.world.system.records.runs():
            assert run.pending == 0, run
            assert run.waiting == 0 or run.state is RunState.PARKED, run

    def _left_after_a_plan(self) -> set[Identity]:
        """Plan and drain; returns what the policy selects and nobody has closed by then."""
        self.world.clock.set(max(self.latest, NOW + timedelta(hours=7)) + timedelta(minutes=20))
        slot = self.world.clock.now()
        self._plan(slot, None, Trigger.PLAN, approved=True)
        self._check()
        self._drain()
        self._check()
        closed = {
            row.identity
            for row in self.before.values()
            if row.version == self._policy().version
            and (row.state is State.DEAD or row.outcome in ("discarded", "corrected"))
        }
        return self._selected(self._policy(), slot, whole=True) - closed

    # -- helpers -----------------------------------------------------------------------------

    def _world(self) -> World:
        return World(
            self.folder, self._policy(), stores={"s": self.store}, state_url=self.state_url
        )

    def _check_published(self, published: int, waiting: int) -> None:
        assert published == waiting

    def _empty_ledger(self) -> str | None:
        """Where it is, if not in the folder."""
        new_ledger(self.folder / "state.db")
        return None

    def _policy(self) -> Policy:
        return policy(
            version=f"v{self.version}",
            max_deletes=2 if self.capped else None,
            first_run_limit=2,
            keep_last=self.keep_last,
        )

    def _put(self, key: str, *, old: bool) -> None:
        self.serial += 1
        age = (OLD if old else YOUNG) + timedelta(seconds=self.serial)
        self.store.put(listed(key, age=age, content=f"content {self.serial}"))

    def _selected(self, of: Policy, slot: datetime, *, whole: bool) -> set[Identity]:
        """What *of* selects, by the model's own arithmetic."""
        there = sorted(self.store.objects.values(), key=lambda o: (o.last_modified, o.key))
        kept = there[-self.keep_last :] if self.keep_last and whole else []
        return {
            (item.key, item.etag, item.last_modified)
            for item in there
            if item not in kept and slot - item.last_modified > timedelta(days=30)
        }

    def _note_eligible(self, of: Policy, slot: datetime, *, whole: bool) -> None:
        self.eligible |= {(of.version, i) for i in self._selected(of, slot, whole=whole)}

    def _plan(
        self, slot: datetime, pages: int | None, trigger: Trigger, *, approved: bool
    ) -> Planned:
        of = self._policy()
        fresh = not any(
            run.slot == slot and run.policy_version == of.version
            for run in self.world.system.records.runs()
        )
        self._note_eligible(of, slot, whole=fresh and pages is None)
        self._long(may_vanish=True)
        self.current = of.version
        return self.world.answer("exports", slot, trigger, approved=approved, stopping=After(pages))

    def _receive(self, version: int, limit: int, *, suspects: bool) -> None:
        found = self.world.system.queue.receive(
            version, limit, self.world.clock.now(), LEASE, suspects=suspects
        )
        for operation in found:
            assert (operation.deliveries > 1) == suspects
            self.holder[operation.row] = operation.token
            ended = self.runs_before[operation.run] is RunState.CANCELLED
            assert ended or not operation.cancelled
            assert operation.cancelled or not ended or self.before[operation.row].redriven
        # As the worker does: what came back of a cancelled run ends, and a batch is of one run.
        if over := [operation for operation in found if operation.cancelled]:
            self._record([Completed(operation, Outcome.CANCELLED) for operation in over])
        found = [operation for operation in found if not operation.cancelled]
        for run in {operation.run for operation in found}:
            self.held.append(Held(self._policy(), [o for o in found if o.run == run]))

    def _settlements(self, held: Held) -> list[Settlement]:
        assert held.results is not None
        now = self.world.clock.now()
        held.recorded = []
        for operation, result in zip(held.operations, held.results, strict=True):
            if isinstance(result, Outcome):
                held.recorded.append(Completed(operation, result))
                continue
            decision = decide(result, operation.budget, held.of.attempts, now, lambda: 0.5)
            held.recorded.append(
                Died(operation, decision)
                if isinstance(decision, GiveUp)
                else Retried(operation, decision)
            )
        return held.recorded

    def _record(self, settlements: Sequence[Settlement]) -> None:
        """Record, and compare what was accepted with who holds what."""
        before = self._rows()
        late = self.world.system.work.record(settlements, ME, self.world.clock.now())
        refused = {operation.row for operation in late}
        after = self._rows()
        for settlement in settlements:
            operation = settlement.operation
            mine = self.holder.get(operation.row) == operation.token
            assert (operation.row in refused) == (not mine), f"{operation} by {self.holder}"
            if not mine:
                assert after.get(operation.row) == before.get(operation.row), "late, yet it counts"
                continue
            del self.holder[operation.row]
            expected = {Completed: State.COMPLETED, Died: State.DEAD, Retried: State.PENDING}
            assert after[operation.row].state is expected[type(settlement)]

    def _drain(self) -> None:
        self._long(may_vanish=True)
        version = self._policy().version
        before = self._rows()
        for run in self.world.system.plans.unfinished(datetime.max.replace(tzinfo=NOW.tzinfo)):
            if run.policy_version == version:
                self._note_eligible(self._policy(), run.slot, whole=False)
        self.world.clock.stride = timedelta(seconds=30)
        self.world.work()
        self.world.clock.stride = timedelta(0)
        self.latest = max(self.latest, self.world.clock.now())
        for row, seen in self._rows().items():
            if seen.outcome == "deleted" and before.get(row) != seen:
                assert seen.version == version, f"{seen} is superseded, and was deleted"

    def _long(self, *, may_vanish: bool = False) -> None:
        self.several_steps = True
        self.may_vanish |= may_vanish

    def _rows(self) -> dict[int, Row]:
        with self.engine.connect() as connection:
            found = {
                row.id: Row(
                    State(row.state),
                    row.run_id,
                    row.outcome,
                    row.redriven,
                    row.reappearances,
                    row.deliveries,
                    row.token,
                    row.version,
                    (row.key, row.etag, moment(row.last_modified)),
                    moment(row.seen_at),
                )
                for row in connection.execute(
                    sa.select(operations, policies.c.version).join(
                        policies, operations.c.policy_id == policies.c.id
                    )
                )
            }
        # Whoever ended or took an operation ended every claim on it.
        for row, seen in found.items():
            if self.holder.get(row) is not None and seen.token is None:
                assert seen.state is not State.PENDING or row in self.touched, seen
                del self.holder[row]
            elif row in self.holder and seen.token != self.holder[row]:
                assert self.several_steps, f"somebody else claimed {row}"
                del self.holder[row]
        return found

    def _dead(self) -> list[int]:
        return sorted(row for row, seen in self.before.items() if seen.state is State.DEAD)

    def _runs(self, *states: RunState) -> list[str]:
        return sorted(run.run_id for run in self._all_runs() if run.state in states)

    def _all_runs(self) -> Sequence[Run]:
        return self.world.system.records.runs()

    def _run_states(self) -> dict[int, RunState]:
        with self.engine.connect() as connection:
            return {row.id: RunState(row.state) for row in connection.execute(sa.select(runs))}


def _reachable(state: State) -> set[State]:
    """States that several steps can lead to; what a person does to a dead letter is one."""
    found = {state}
    while more := {n for s in found for n in NEXT[s]} - found:
        found |= more
    return found


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=int(os.environ.get("BESTBEFORE_EXAMPLES", "40")),
    stateful_step_count=40,
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


class LifeOnPostgresql(Life):
    """The same on PostgreSQL, in a ledger that the test below borrows."""

    server: Postgres
    schema: str

    def _empty_ledger(self) -> str:
        self.server.clear(self.schema)
        return self.server.url(self.schema)


def test_life_on_postgresql(postgres: Postgres) -> None:
    LifeOnPostgresql.server = postgres
    LifeOnPostgresql.schema = postgres.lend_ledger()
    try:
        run_state_machine_as_test(
            LifeOnPostgresql,
            settings=settings(
                TestLife.settings,
                max_examples=int(os.environ.get("BESTBEFORE_EXAMPLES", "40")) // 5,
                stateful_step_count=30,
            ),
        )
    finally:
        postgres.take_back(LifeOnPostgresql.schema)
