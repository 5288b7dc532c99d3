"""What every ledger has to do, for outside adapters too.

Subclass `LedgerContract` in a test module and give it a fixture called ``sides``::

    @pytest.fixture
    def sides(tmp_path):
        yield Sides(plans=..., work=..., queue=..., dead_letters=..., records=..., upkeep=...,
                    controls=...)

    class TestMyLedger(LedgerContract):
        pass
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.domain.failure import Attempts, Budget, Failure, FailureClass, GiveUp, TryAgain
from bestbefore.domain.failure import decide as decide_failure
from bestbefore.domain.identity import ObjectIds
from bestbefore.domain.known import MOST_REAPPEARANCES, SETTLING, disposition
from bestbefore.domain.outcome import Outcome, Spared
from bestbefore.domain.pointer import Pointer
from bestbefore.domain.policy import ObjectSource, Policy, Reach
from bestbefore.domain.retention import Age
from bestbefore.domain.run import Run, Trigger, park_reason, too_many_reappeared
from bestbefore.domain.selection import GENERATION, KEEP_LAST, Listed, Verdict
from bestbefore.domain.states import RunState, State
from bestbefore.ports.controls import Controls
from bestbefore.ports.ledger import (
    Answer,
    Completed,
    DeadFilter,
    DeadLetter,
    DeadLetters,
    Died,
    Entry,
    GenerationSeen,
    Kept,
    LedgerError,
    Operation,
    PlanLedger,
    PlannedPage,
    PlanTakenOver,
    PolicyEdited,
    Retried,
    Settlement,
    WorkLedger,
)
from bestbefore.ports.objects import Copy, KeyRange
from bestbefore.ports.queue import Queue
from bestbefore.ports.records import OperationFilter, OperationRecord, Records
from bestbefore.ports.upkeep import UpkeepLedger

SLOT = datetime(2026, 7, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
OLD = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=60)
ME = "tester"

POLICY = Policy(
    "exports", "v1", "growth-team", Age(0, 30 * 86_400), ObjectSource("s", "bucket", "exports/")
)


def capped(max_deletes: int, version: str = "v1") -> Policy:
    """`POLICY` with a cap."""
    return replace(POLICY, version=version, reach=Reach(max_deletes=max_deletes))


@dataclass(frozen=True)
class Sides:
    """Every side of one ledger. Empty at first."""

    plans: PlanLedger
    work: WorkLedger
    queue: Queue
    dead_letters: DeadLetters
    records: Records
    upkeep: UpkeepLedger
    controls: Controls


class Ledger:
    """Short words for what the suites do again and again; adds no behaviour of its own."""

    def __init__(self, sides: Sides) -> None:
        self.plans = sides.plans
        self.work = sides.work
        self.queue = sides.queue
        self.dead_letters = sides.dead_letters
        self.records = sides.records
        self.upkeep = sides.upkeep
        self.controls = sides.controls

    def answer(
        self,
        of: Policy = POLICY,
        slot: datetime = SLOT,
        trigger: Trigger = Trigger.PLAN,
        *,
        approved: bool = False,
        target: str = "memory/bucket/exports/",
        now: datetime | None = None,
    ) -> Answer:
        return self.plans.answer(
            of, slot, target, trigger, approved=approved, by=ME, now=now or slot, lease=LEASE
        )

    def page(
        self, of: Policy, names: Sequence[str], now: datetime, rest: KeyRange | None = None
    ) -> PlannedPage:
        """A page that lists the objects *names*, all of them old enough."""
        ids = ObjectIds(of.name, of.version, of.objects.bucket)
        items = {ids.of(i.key, i.etag, i.last_modified): i for i in map(item, names)}
        known = self.plans.known(list(items))
        entries = [
            Entry(operation_id, listed, disposition(known.get(operation_id), now), None)
            for operation_id, listed in items.items()
        ]
        return PlannedPage(
            now, [rest] if rest else [], len(items), len(items), entries=entries
        )  # fmt: skip

    def write(self, answer: Answer, page: PlannedPage, now: datetime, keep_last: int = 0) -> Run:
        assert answer.claim is not None, "this slot needs no planning, or another planner has it"
        return self.plans.write_page(answer.claim, page, keep_last, now, LEASE)

    def conclude(self, answer: Answer, of: Policy, now: datetime, keep_generations: int = 0) -> Run:
        assert answer.claim is not None, "this slot needs no planning, or another planner has it"

        def verdict(run: Run) -> str | None:
            eligible = run.planned + run.already_completed
            return too_many_reappeared(run.reappeared, eligible, answer.seen) or park_reason(
                run, of.reach, answer.seen
            )

        return self.plans.conclude(answer.claim, keep_generations, verdict, now)

    def plan(
        self,
        *names: str,
        of: Policy = POLICY,
        slot: datetime = SLOT,
        trigger: Trigger = Trigger.PLAN,
        approved: bool = False,
        now: datetime | None = None,
        target: str = "memory/bucket/exports/",
    ) -> Run:
        """Answer *slot* with a run over the objects *names*, from its start to its end."""
        now = now or slot
        answer = self.answer(of, slot, trigger, approved=approved, now=now, target=target)
        self.write(answer, self.page(of, names, now), now)
        return self.conclude(answer, of, now)

    def publish(self, now: datetime = SLOT) -> int:
        """Publish all that is released."""
        published = 0
        for version in self.work.versions():
            while (span := self.work.waiting(version.row, 1_000)) is not None:
                published += self.queue.publish(span, now)
        return published

    def claim(
        self, limit: int = 1_000, now: datetime = SLOT, *, suspects: bool = False
    ) -> list[Operation]:
        """Claim what is due of every policy version."""
        return [
            operation
            for version in self.work.versions()
            for operation in self.queue.receive(version.row, limit, now, LEASE, suspects=suspects)
        ]

    def record(self, *settlements: Settlement, now: datetime = SLOT) -> list[Operation]:
        return self.work.record(settlements, ME, now)

    def end(self, outcome: Outcome = Outcome.DELETED, now: datetime = SLOT) -> list[Operation]:
        """Publish, claim and complete everything; returns what that was."""
        self.publish(now)
        claimed = self.claim(now=now)
        assert not self.record(*(Completed(o, outcome) for o in claimed), now=now)
        return claimed

    def kill(self, failure_class: FailureClass = FailureClass.MALFORMED) -> list[DeadLetter]:
        """Publish, claim and bury everything; returns all dead letters."""
        self.publish()
        for operation in self.claim():
            assert not self.record(died(operation, failure_class))
        return list(self.dead_letters.dead(DeadFilter()))

    def operation(self, name: str) -> OperationRecord:
        (found,) = self.records.operations(OperationFilter(key=item(name).key))
        return found

    def states(self, run: Run) -> list[State]:
        """States of a run's operations, sorted."""
        found = self.records.operations(OperationFilter(run_id=run.run_id))
        return sorted(operation.state for operation in found)

    def again(self, run: Run) -> Run:
        """*run* as it is stored now, once its counts were compared with its operations (P11)."""
        stored = self.records.run(run.run_id)
        states = self.states(run)
        assert stored.waiting == states.count(State.WAITING)
        assert stored.pending == states.count(State.PENDING)
        assert stored.completed == states.count(State.COMPLETED) + stored.pruned
        assert stored.dead == states.count(State.DEAD)
        assert stored.planned == len(states) + stored.pruned
        dead = self.dead_letters.count(DeadFilter())
        assert dead == sum(one.n for one in self.records.incidents(None, None, 1_000))
        return stored

    def outcomes(self, run: Run) -> dict[str, int]:
        return {name: tally.n for name, tally in self.records.tallies(run, "outcome").items()}


def item(name: str) -> Listed:
    """The object *name*, as it is always listed here."""
    return Listed(f"exports/{name}.json", 100, "9dd4e461268c8034f5c8564e155c67a6", OLD)


def failure(failure_class: FailureClass) -> Failure:
    return Failure(failure_class, "made up")


def died(operation: Operation, failure_class: FailureClass = FailureClass.MALFORMED) -> Died:
    return Died(operation, GiveUp(failure(failure_class), operation.budget))


def retried(operation: Operation, now: datetime = SLOT, wait: timedelta = LEASE) -> Retried:
    """A transient failure of *operation*, charged, due again after *wait*."""
    charged = operation.budget.charge(FailureClass.TRANSIENT, now)
    return Retried(operation, TryAgain(failure(FailureClass.TRANSIENT), charged, now + wait))


class LedgerContract:
    """Planning, working and dead letters, whatever stores them."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    # -- results -----------------------------------------------------------------------------

    def test_a_recorded_result_ends_its_operation_with_who_when_and_why(
        self, ledger: Ledger
    ) -> None:
        run = ledger.plan("a")
        now = SLOT + timedelta(seconds=5)

        ledger.end(Outcome.DELETED, now)

        ended = ledger.operation("a")
        assert (ended.state, ended.outcome) == (State.COMPLETED, Outcome.DELETED)
        assert (ended.completed_at, ended.completed_by) == (now, ME)
        assert (ended.policy, ended.policy_version, ended.owner) == ("exports", "v1", "growth-team")
        assert (ended.run_id, ended.slot, ended.cutoff) == (run.run_id, SLOT, SLOT - 30 * DAY)
        assert ledger.again(run).state is RunState.DRAINED

    def test_freed_bytes_are_counted_for_what_was_deleted_only(self, ledger: Ledger) -> None:
        run = ledger.plan("a", "b")
        ledger.publish()
        first, second = ledger.claim()

        ledger.record(Completed(first, Outcome.DELETED), Completed(second, Outcome.ABSENT))

        tallies = ledger.records.tallies(run, "outcome")
        assert tallies == {"deleted": (1, 100), "absent": (1, 0)}

    def test_a_copy_is_on_record_before_any_result(self, ledger: Ledger) -> None:
        ledger.plan("a", "b")
        ledger.publish()
        first, second = ledger.claim()
        now = SLOT + timedelta(seconds=5)

        assert ledger.work.record_copies([(first, Copy("copy/a", "e1"))], now) == []

        found = ledger.work.copies([first.row, second.row])
        assert found == {first.row: Copy("copy/a", "e1")}
        assert ledger.operation("a").state is State.PENDING
        ledger.record(Completed(first, Outcome.ARCHIVED))
        assert ledger.work.copies([first.row]) == {first.row: Copy("copy/a", "e1")}

    def test_a_copy_after_a_lost_lease_is_refused(self, ledger: Ledger) -> None:
        ledger.plan("a", "b")
        ledger.publish()
        lost, _ = ledger.claim()
        ledger.claim(now=SLOT + LEASE, suspects=True)
        (kept,) = [
            o for o in ledger.claim(now=SLOT + 3 * LEASE, suspects=True) if o.row != lost.row
        ]

        copies = [(lost, Copy("copy/a", "late")), (kept, Copy("copy/b", "e2"))]
        assert ledger.work.record_copies(copies, SLOT + 3 * LEASE) == [lost]

        found = ledger.work.copies([lost.row, kept.row])
        assert found == {kept.row: Copy("copy/b", "e2")}

    def test_archived_bytes_are_tallied_and_a_copy_that_stays_is_an_event(
        self, ledger: Ledger
    ) -> None:
        run = ledger.plan("a", "b", "c")
        ledger.publish()
        a, b, c = ledger.claim()
        ledger.work.record_copies([(a, Copy("copy/a", "e")), (b, Copy("copy/b", "e"))], SLOT)

        ledger.record(
            Completed(a, Outcome.ARCHIVED),
            Completed(b, Outcome.CHANGED),
            Completed(c, Outcome.CHANGED),
        )

        assert ledger.records.tallies(run, "outcome") == {"archived": (1, 100), "changed": (2, 0)}
        (event,) = ledger.records.events(10)
        assert (event.action, event.run_id) == ("copy left", run.run_id)
        assert event.detail.endswith("copy/b")

    def test_the_same_result_twice_counts_once(self, ledger: Ledger) -> None:
        """P3"""
        run = ledger.plan("a")
        ledger.publish()
        (claimed,) = ledger.claim()
        result = Completed(claimed, Outcome.DELETED)

        assert ledger.record(result) == []
        assert ledger.record(result) == [claimed]

        assert ledger.again(run).completed == 1
        assert ledger.outcomes(run) == {"deleted": 1}

    @pytest.mark.parametrize("settle", [retried, died, lambda o: Completed(o, Outcome.ABSENT)])
    def test_a_result_after_a_lost_lease_changes_nothing(
        self, ledger: Ledger, settle: Callable[[Operation], Settlement]
    ) -> None:
        """O-LEASE-02: what B wrote stays, whatever A reports afterwards."""
        run = ledger.plan("a")
        ledger.publish()
        (a,) = ledger.claim()
        (b,) = ledger.claim(now=SLOT + LEASE, suspects=True)
        ledger.record(Completed(b, Outcome.DELETED), now=SLOT + LEASE)
        before = ledger.operation("a")

        assert ledger.record(settle(a), now=SLOT + 2 * LEASE) == [a]

        assert ledger.operation("a") == before
        assert ledger.records.attempts(before.row) == []
        assert ledger.outcomes(ledger.again(run)) == {"deleted": 1}

    def test_one_late_result_does_not_take_its_neighbours_with_it(self, ledger: Ledger) -> None:
        """P1"""
        run = ledger.plan("a", "b", "c")
        ledger.publish()
        claimed = ledger.claim()
        ledger.record(Completed(claimed[1], Outcome.DELETED))

        late = ledger.record(*(Completed(o, Outcome.DELETED) for o in claimed))

        assert late == [claimed[1]]
        assert ledger.again(run).completed == 3

    def test_a_retry_is_due_at_its_moment_and_keeps_its_budget(self, ledger: Ledger) -> None:
        run = ledger.plan("a")
        ledger.publish()
        (claimed,) = ledger.claim()
        due = SLOT + timedelta(seconds=7)

        ledger.record(retried(claimed, wait=timedelta(seconds=7)))

        assert ledger.claim(now=due - timedelta(microseconds=1)) == []
        (again,) = ledger.claim(now=due)
        assert again.budget == Budget({FailureClass.TRANSIENT: 1}, {})
        assert (again.failed, again.deliveries) == (True, 1)
        assert ledger.again(run).pending == 1
        assert ledger.records.tallies(run, "retried") == {"transient": (1, 0)}

    def test_a_throttled_one_remembers_since_when_it_waits(self, ledger: Ledger) -> None:
        ledger.plan("a")
        ledger.publish()
        (claimed,) = ledger.claim()
        throttled = failure(FailureClass.THROTTLED)
        decision = decide_failure(throttled, claimed.budget, Attempts(), SLOT, lambda: 0.0)
        assert isinstance(decision, TryAgain)

        ledger.record(Retried(claimed, decision))

        (again,) = ledger.claim(now=SLOT + DAY)
        assert again.budget.waiting_since == {FailureClass.THROTTLED: SLOT}
        assert again.budget.attempts == 0

    def test_every_failed_attempt_is_kept_with_its_reason(self, ledger: Ledger) -> None:
        ledger.plan("a")
        ledger.publish()
        (first,) = ledger.claim()
        ledger.record(retried(first, wait=timedelta(0)))
        (second,) = ledger.claim()
        ledger.record(died(second))

        kept = ledger.records.attempts(first.row)

        assert [a.failure_class for a in kept] == [FailureClass.TRANSIENT, FailureClass.MALFORMED]
        assert {(a.error, a.by, a.at) for a in kept} == {("made up", ME, SLOT)}

    # -- crashes -----------------------------------------------------------------------------

    def test_what_crashed_workers_too_often_is_dead(self, ledger: Ledger) -> None:
        run = ledger.plan("a", "b")
        ledger.publish()
        rows = [version.row for version in ledger.work.versions()]
        now = SLOT
        claimed = ledger.claim()
        ledger.record(Completed(claimed[1], Outcome.DELETED))
        for delivery in (2, 3):
            now += LEASE
            assert ledger.work.suspects(rows, now)
            assert ledger.work.bury_crashed(rows, 3, now) == 0
            (suspect,) = ledger.claim(now=now, suspects=True)
            assert suspect.deliveries == delivery

        assert ledger.work.bury_crashed(rows, 3, now) == 0, "the third one may still succeed"
        assert ledger.work.bury_crashed(rows, 3, now + LEASE) == 1

        (letter,) = ledger.dead_letters.dead(DeadFilter())
        assert (letter.row, letter.failure_class) == (claimed[0].row, FailureClass.CRASHED)
        assert "crashes workers" in letter.error
        stored = ledger.again(run)
        assert (stored.completed, stored.dead, stored.state) == (1, 1, RunState.DRAINED)

    def test_a_failure_is_a_result_so_it_makes_no_suspect(self, ledger: Ledger) -> None:
        ledger.plan("a")
        ledger.publish()
        for _ in range(5):
            (claimed,) = ledger.claim()
            assert claimed.deliveries == 1
            ledger.record(retried(claimed, wait=timedelta(0)))

        rows = [version.row for version in ledger.work.versions()]
        assert not ledger.work.suspects(rows, SLOT)
        assert ledger.work.bury_crashed(rows, 3, SLOT + DAY) == 0

    # -- dead letters ------------------------------------------------------------------------

    def test_a_dead_letter_says_everything_needed_to_diagnose_it(self, ledger: Ledger) -> None:
        run = ledger.plan("a")

        (letter,) = ledger.kill(FailureClass.PERMISSION)

        assert letter.operation_id == ledger.operation("a").operation_id
        assert (letter.policy, letter.policy_version, letter.owner) == (
            "exports", "v1", "growth-team")  # fmt: skip
        assert (letter.run_id, letter.slot, letter.bucket) == (run.run_id, SLOT, "bucket")
        assert (letter.key, letter.size, letter.last_modified) == (item("a").key, 100, OLD)
        assert (letter.failure_class, letter.error) == (FailureClass.PERMISSION, "made up")
        assert letter.first_failed_at == letter.last_failed_at == SLOT
        assert not letter.superseded

    def test_a_dead_letter_is_never_given_out(self, ledger: Ledger) -> None:
        """P10"""
        ledger.plan("a")
        ledger.kill()

        later = SLOT + 400 * DAY
        rows = [version.row for version in ledger.work.versions()]
        assert ledger.claim(now=later) == ledger.claim(now=later, suspects=True) == []
        assert not ledger.work.suspects(rows, later)
        assert ledger.plan("a", slot=SLOT + DAY).already_dead == 1
        assert ledger.operation("a").state is State.DEAD

    def test_a_redrive_keeps_the_id_and_refreshes_the_budget(self, ledger: Ledger) -> None:
        run = ledger.plan("a")
        ledger.publish()
        (claimed,) = ledger.claim()
        ledger.record(retried(claimed, wait=timedelta(0)))
        (letter,) = ledger.kill()
        due = SLOT + timedelta(minutes=1)

        assert ledger.dead_letters.redrive([letter.row], [due], ME, SLOT) == 1

        assert ledger.again(run).state is RunState.OPEN
        assert ledger.claim(now=SLOT) == []
        (again,) = ledger.claim(now=due)
        assert (again.operation_id, again.budget) == (letter.operation_id, Budget.fresh())
        assert again.failed, "so that it is looked at before it is deleted"
        assert ledger.operation("a").redriven == 1
        ledger.record(Completed(again, Outcome.DELETED), now=due)
        assert ledger.again(run).state is RunState.DRAINED

    def test_only_what_is_dead_is_redriven_or_discarded(self, ledger: Ledger) -> None:
        run = ledger.plan("a", "b")
        ledger.publish()
        (claimed,) = ledger.claim(limit=1)
        rows = [operation.row for operation in ledger.records.operations(OperationFilter())]

        assert ledger.dead_letters.redrive(rows, [SLOT, SLOT], ME, SLOT) == 0
        assert ledger.dead_letters.discard(rows, "no", ME, SLOT) == 0

        assert ledger.record(Completed(claimed, Outcome.DELETED)) == []
        assert ledger.again(run).pending == 1

    def test_a_discarded_one_is_closed_for_every_later_plan(self, ledger: Ledger) -> None:
        run = ledger.plan("a")
        (letter,) = ledger.kill()

        assert ledger.dead_letters.discard([letter.row], "it is needed", "boss", SLOT) == 1

        closed = ledger.operation("a")
        assert (closed.outcome, closed.completed_by) == (Outcome.DISCARDED, "boss")
        assert ledger.outcomes(ledger.again(run)) == {"discarded": 1}
        later = ledger.plan("a", slot=SLOT + 400 * DAY)
        assert (later.already_dead, later.planned) == (1, 0)

    def test_a_corrected_one_is_closed_and_linked_to_what_takes_its_place(
        self, ledger: Ledger
    ) -> None:
        run = ledger.plan("a")
        (letter,) = ledger.kill()
        new = ObjectIds("exports", "v1", "bucket").of(*_identity("b"))

        ledger.dead_letters.correct(letter.row, new, item("b"), ME, SLOT)

        assert ledger.operation("a").outcome is Outcome.CORRECTED
        assert ledger.operation("b").corrects == letter.operation_id
        stored = ledger.again(run)
        assert (stored.planned, stored.state) == (2, RunState.OPEN)
        (claimed,) = ledger.claim()
        assert claimed.operation_id == new

    def test_a_correction_to_a_known_target_is_refused_and_changes_nothing(
        self, ledger: Ledger
    ) -> None:
        run = ledger.plan("a", "b")
        letter, other = ledger.kill()

        with pytest.raises(LedgerError, match="already"):
            ledger.dead_letters.correct(letter.row, other.operation_id, item("b"), ME, SLOT)

        assert ledger.states(ledger.again(run)) == [State.DEAD, State.DEAD]

    def test_only_a_dead_letter_can_be_corrected(self, ledger: Ledger) -> None:
        run = ledger.plan("a")
        new = ObjectIds("exports", "v1", "bucket").of(*_identity("b"))

        with pytest.raises(LedgerError, match="not dead"):
            ledger.dead_letters.correct(ledger.operation("a").row, new, item("b"), ME, SLOT)

        assert ledger.again(run).planned == 1

    def test_dead_letters_are_found_by_what_is_known_of_them(self, ledger: Ledger) -> None:
        ledger.plan("a")
        (a,) = ledger.kill(FailureClass.PERMISSION)
        ledger.plan("b", of=replace(POLICY, name="others"))
        ledger.kill(FailureClass.UNKNOWN)
        b = ledger.operation("b")

        def rows(**which: object) -> list[int]:
            found = ledger.dead_letters.dead(DeadFilter(**which))  # type: ignore[arg-type]
            return [letter.row for letter in found]

        assert rows() == [a.row, b.row]
        assert rows(policy="exports") == [a.row]
        assert rows(failure_class=FailureClass.UNKNOWN) == [b.row]
        assert rows(ids=(a.operation_id, a.operation_id)) == [a.row]
        assert rows(superseded=True) == []
        ledger.plan(of=replace(POLICY, version="v2"), slot=SLOT + DAY)
        assert rows(superseded=True) == [a.row]
        assert rows(policy="others", failure_class=FailureClass.PERMISSION) == []
        assert rows(superseded=False) == [b.row]
        assert rows(contains="xports/a.j") == [a.row]
        assert rows(contains="%") == []
        assert rows(contains="xports/A.j") == []
        assert len(ledger.dead_letters.dead(DeadFilter(), limit=1)) == 1
        assert ledger.dead_letters.count(DeadFilter()) == 2
        assert ledger.dead_letters.count(DeadFilter(contains="/b.")) == 1

    def test_a_search_looks_at_no_more_dead_letters_than_asked(self, ledger: Ledger) -> None:
        ledger.plan("a", "b", "c")
        ledger.kill()

        assert len(ledger.dead_letters.dead(DeadFilter(contains="exports/"), looking_at=2)) == 2

    def test_dead_letters_of_one_cause_are_one_incident(self, ledger: Ledger) -> None:
        ledger.plan("a", "b")
        letters = ledger.kill(FailureClass.PERMISSION)
        ledger.plan("c", of=replace(POLICY, name="others"))
        ledger.kill(FailureClass.PERMISSION)

        first, second = ledger.records.incidents(None, None, 10)
        assert (first.policy, first.n) == ("exports", 2)
        assert (second.policy, second.n) == ("others", 1)
        assert first.incident == second.incident
        assert ledger.records.incidents("others", None, 10) == [second]
        assert ledger.records.incidents(None, FailureClass.UNKNOWN, 10) == []
        assert ledger.dead_letters.count(DeadFilter(incident=first.incident)) == 3

        ledger.dead_letters.redrive([letters[0].row], [SLOT], ME, SLOT)
        ledger.dead_letters.discard([letters[1].row], "kept", ME, SLOT)

        assert ledger.records.incidents(None, None, 10) == [second]
        assert ledger.dead_letters.count(DeadFilter(incident=first.incident)) == 1

    # -- planners ----------------------------------------------------------------------------

    def test_a_slot_has_one_run_however_often_it_is_triggered(self, ledger: Ledger) -> None:
        """P5"""
        run = ledger.plan("a")

        again = ledger.answer(now=SLOT + DAY)

        assert (again.run.run_id, again.claim) == (run.run_id, None)
        assert len(ledger.records.runs()) == 1

    def test_two_planners_never_hold_one_run(self, ledger: Ledger) -> None:
        first = ledger.answer()

        assert first.claim is not None
        assert ledger.answer().claim is None
        assert ledger.plans.resume(first.run.row, SLOT, LEASE) is None
        assert ledger.plans.unfinished(SLOT) == []

    def test_a_stalled_planner_that_wakes_up_writes_nothing(self, ledger: Ledger) -> None:
        stalled = ledger.answer()
        rest = KeyRange("exports/a.json", None)
        ledger.write(stalled, ledger.page(POLICY, ["a"], SLOT, rest), SLOT)
        later = SLOT + LEASE
        assert [run.run_id for run in ledger.plans.unfinished(later)] == [stalled.run.run_id]

        taken = ledger.plans.resume(stalled.run.row, later, LEASE)

        assert taken is not None
        assert taken.cursors == [rest]
        with pytest.raises(PlanTakenOver):
            ledger.write(stalled, ledger.page(POLICY, ["b"], later), later)
        with pytest.raises(PlanTakenOver):
            ledger.conclude(stalled, POLICY, later)
        assert ledger.again(stalled.run).planned == 1
        ledger.write(taken, ledger.page(POLICY, ["b"], later), later)
        assert ledger.conclude(taken, POLICY, later).planned == 2

    def test_a_planner_that_says_it_lives_is_not_taken_over(self, ledger: Ledger) -> None:
        slow = ledger.answer()
        assert slow.claim is not None
        late = SLOT + LEASE / 2

        ledger.plans.renew(slow.claim, late, LEASE)

        assert ledger.plans.unfinished(SLOT + LEASE) == []
        assert ledger.plans.resume(slow.run.row, SLOT + LEASE, LEASE) is None
        taken = ledger.plans.resume(slow.run.row, late + LEASE, LEASE)
        assert taken is not None
        assert taken.cursors is None, "nothing was written yet"
        with pytest.raises(PlanTakenOver):
            ledger.plans.renew(slow.claim, late + LEASE, LEASE)

    def test_a_planner_that_gives_up_is_followed_at_once(self, ledger: Ledger) -> None:
        first = ledger.answer()
        assert first.claim is not None

        ledger.plans.abandon(first.claim, SLOT)

        second = ledger.plans.resume(first.run.row, SLOT, LEASE)
        assert second is not None
        assert second.cursors is None, "nothing was listed yet"
        ledger.plans.abandon(first.claim, SLOT)
        assert ledger.plans.resume(first.run.row, SLOT, LEASE) is None, "the second one has it"

    def test_a_page_is_written_whole_or_not_at_all(self, ledger: Ledger) -> None:
        answer = ledger.answer()
        page = ledger.page(POLICY, ["a", "b"], SLOT)
        broken = page.entries[1]._replace(item=page.entries[1].item._replace(etag=None))  # type: ignore[arg-type]
        page.entries[1] = broken

        with pytest.raises(Exception, match=r"(?i)null|none|etag"):
            ledger.write(answer, page, SLOT)

        stored = ledger.again(answer.run)
        assert (stored.planned, stored.scanned, stored.in_scope) == (0, 0, 0)
        resumed = ledger.plans.resume(stored.row, SLOT + LEASE, LEASE)
        assert resumed is not None
        assert resumed.cursors is None

    def test_the_same_objects_on_two_pages_are_planned_once(self, ledger: Ledger) -> None:
        answer = ledger.answer()
        page = ledger.page(POLICY, ["a", "b"], SLOT)

        ledger.write(answer, page, SLOT)
        run = ledger.write(answer, page, SLOT)

        assert (run.planned, run.already_pending) == (2, 2)
        assert ledger.again(run).waiting == 2

    def test_what_only_the_end_knows_is_decided_at_the_end(self, ledger: Ledger) -> None:
        """Kept generations: planned on the way, taken out again, counted as protected."""
        of = replace(POLICY, source=replace(POLICY.objects, generation="x", keep_generations=1))
        answer = ledger.answer(of)
        page = ledger.page(of, ["old", "new"], SLOT)
        page.entries = [
            entry._replace(generation=name)
            for entry, name in zip(page.entries, ("1", "2"), strict=True)
        ]
        page.generations = {"1": GenerationSeen(OLD, "exports/1"), "2": GenerationSeen(OLD, "x/2")}
        assert ledger.write(answer, page, SLOT).state is RunState.PLANNING

        run = ledger.conclude(answer, of, SLOT, keep_generations=1)

        assert run.protected == {GENERATION: 1}
        assert ledger.again(run).planned == 1
        assert ledger.work.kept_generations(run.row) == {"2": "x/2"}

    @pytest.mark.parametrize(
        ("said", "kept"), [(b"1", {"1"}), (b"1 or 2", {"1", "2"}), (b"3", set()), (None, set())]
    )
    def test_what_the_pointer_names_is_kept_and_all_where_it_names_nothing(
        self, ledger: Ledger, said: bytes | None, kept: set[str]
    ) -> None:
        """What this scan writes and what it would plan again alike."""
        of = replace(POLICY, source=replace(POLICY.objects, generation="x", current_pointer="p"))
        ledger.plan("old", of=of)
        ledger.end(Outcome.PROTECTED)
        later = SLOT + 2 * SETTLING
        answer = ledger.answer(of, later)
        page = ledger.page(of, ["old", "new"], later)
        page.entries = [
            entry._replace(generation=name)
            for entry, name in zip(page.entries, ("1", "2"), strict=True)
        ]
        page.generations = {"1": GenerationSeen(OLD, "exports/1"), "2": GenerationSeen(OLD, "x/2")}
        ledger.write(answer, page, later)

        assert answer.claim is not None
        run = ledger.plans.conclude(answer.claim, 0, lambda _: None, later, Pointer.of("p", said))

        spared = len(kept) or 2
        assert run.protected == {Verdict.POINTER: spared}
        assert ledger.again(run).planned == 2 - spared
        assert ledger.work.kept_generations(run.row).keys() == kept
        assert ledger.work.generations(run.row) == {"1", "2"}

    def test_what_kept_an_operation_is_written_down_until_it_is_planned_again(
        self, ledger: Ledger
    ) -> None:
        ledger.plan("a")
        ledger.publish()
        (claimed,) = ledger.claim()
        ledger.record(Completed(claimed, Outcome.PROTECTED, Spared("hold", "court case 7")))

        (ended,) = ledger.records.operations(OperationFilter())
        assert (ended.outcome, ended.reason) == (Outcome.PROTECTED, "hold: court case 7")
        ledger.plan("a", slot=SLOT + 2 * SETTLING)
        (again,) = ledger.records.operations(OperationFilter())
        assert (again.outcome, again.reason) == (None, None)

    def test_the_last_n_are_kept_over_all_pages(self, ledger: Ledger) -> None:
        of = replace(POLICY, source=replace(POLICY.objects, keep_last=1))
        answer = ledger.answer(of)
        for number, name in enumerate(("a", "c", "b")):
            page = ledger.page(of, [name], SLOT)
            when = OLD + timedelta(days=(5, 7, 6)[number])
            page.newest = {"": [Kept(when, name, page.entries[0].operation_id)]}
            ledger.write(answer, page, SLOT, keep_last=1)

        run = ledger.conclude(answer, of, SLOT)

        assert run.protected == {KEEP_LAST: 1}
        left = ledger.records.operations(OperationFilter(run_id=run.run_id))
        assert {operation.key for operation in left} == {item("a").key, item("b").key}
        assert ledger.again(run).planned == 2

    # -- operations the ledger knows ---------------------------------------------------------

    def test_what_is_waiting_or_pending_is_already_pending(self, ledger: Ledger) -> None:
        first = ledger.plan("a", "b")
        ledger.publish()
        ledger.plan("c", slot=SLOT + timedelta(hours=1))

        second = ledger.plan("a", "b", "c", slot=SLOT + timedelta(hours=2))

        assert (second.planned, second.already_pending) == (0, 3)
        assert ledger.again(first).planned == 2

    def test_what_just_ended_is_already_completed(self, ledger: Ledger) -> None:
        ledger.plan("a")
        ledger.end(now=SLOT)

        run = ledger.plan("a", slot=SLOT + SETTLING)

        assert (run.planned, run.already_completed) == (0, 1)
        assert run.state is RunState.DRAINED

    @pytest.mark.parametrize("outcome", [Outcome.PROTECTED, Outcome.SUPERSEDED, Outcome.CANCELLED])
    def test_what_was_never_tried_is_planned_again_and_leaves_its_old_run(
        self, ledger: Ledger, outcome: Outcome
    ) -> None:
        first = ledger.plan("a", "b")
        ledger.end(outcome)

        second = ledger.plan("a", slot=SLOT + DAY)

        assert (second.planned, second.waiting, second.reappeared) == (1, 1, 0)
        assert ledger.again(first).planned == 1
        assert ledger.records.tallies(first, "outcome") == {outcome: (1, 0)}
        assert ledger.again(second).run_id == ledger.operation("a").run_id

    def test_what_reappears_is_planned_three_times_and_then_dead(self, ledger: Ledger) -> None:
        first = ledger.plan("a")
        ledger.end()
        before = first
        for n in range(1, MOST_REAPPEARANCES + 1):
            slot = SLOT + n * DAY
            run = ledger.plan("a", slot=slot)
            assert (run.reappeared, run.planned, run.dead) == (1, 1, 0)
            assert ledger.again(before).planned == 0, "it counts where it was planned last"
            assert ledger.records.tallies(before, "outcome") == {}
            (claimed,) = ledger.end(now=slot)
            assert claimed.failed, "so that it is looked at before it is deleted"
            before = run

        last = ledger.plan("a", slot=SLOT + 9 * DAY)

        assert (last.reappeared, last.planned, last.dead) == (1, 1, 1)
        (letter,) = ledger.dead_letters.dead(DeadFilter())
        assert "keeps listing it" in letter.error
        assert ledger.again(last).state is RunState.DRAINED

    # -- parking and people ------------------------------------------------------------------

    def test_a_cap_parks_the_run_with_nothing_published(self, ledger: Ledger) -> None:
        """P8"""
        for trigger in (Trigger.PLAN, Trigger.RUN):
            of = replace(capped(1), name=trigger)
            run = ledger.plan("a", "b", of=of, trigger=trigger)
            assert run.state is RunState.PARKED
            assert "max_deletes is 1" in (run.reason or "")
        assert ledger.publish() == 0
        assert ledger.claim() == []

    def test_yes_releases_this_one_run_despite_its_cap(self, ledger: Ledger) -> None:
        run = ledger.plan("a", "b", of=capped(1), approved=True)
        assert run.state is RunState.OPEN
        ledger.end()
        later = ledger.plan("c", "d", of=capped(1), slot=SLOT + DAY)

        assert later.state is RunState.PARKED

    def test_a_first_run_parks_unless_a_person_typed_it(self, ledger: Ledger) -> None:
        reach = Reach(first_run_limit=1)
        typed = replace(POLICY, name="typed", reach=reach)
        scheduled = replace(POLICY, name="scheduled", reach=reach)

        by_hand = ledger.plan("a", "b", of=typed, trigger=Trigger.PLAN)
        by_itself = ledger.plan("a", "b", of=scheduled, trigger=Trigger.RUN)

        assert by_hand.state is RunState.OPEN
        assert by_itself.state is RunState.PARKED
        assert "first run of version v1" in (by_itself.reason or "")

    def test_after_a_released_run_a_version_is_no_longer_new(self, ledger: Ledger) -> None:
        of = replace(POLICY, reach=Reach(first_run_limit=1))
        ledger.plan("a", of=of, trigger=Trigger.RUN)

        assert ledger.plan("b", "c", of=of, slot=SLOT + DAY, trigger=Trigger.RUN).state is (
            RunState.OPEN
        )
        v2 = replace(of, version="v2")
        assert ledger.plan("b", "c", of=v2, slot=SLOT + 2 * DAY, trigger=Trigger.RUN).state is (
            RunState.PARKED
        )

    def test_another_target_than_last_time_parks(self, ledger: Ledger) -> None:
        ledger.plan("a", target="here")

        run = ledger.plan("b", slot=SLOT + DAY, trigger=Trigger.RUN, target="there")

        assert run.state is RunState.PARKED
        assert run.reason == "this run looks at there, the last released one at here"

    def test_an_approval_releases_exactly_the_run_it_was_given_for(self, ledger: Ledger) -> None:
        """P5, O-GUARD-02: a changed plan needs another one."""
        run = ledger.plan("a", "b", of=capped(1))

        assert ledger.plans.approve(run.run_id, "boss", SLOT).state is RunState.OPEN

        assert len(ledger.end()) == 2
        changed = ledger.plan("c", "d", of=capped(1), slot=SLOT + DAY)
        assert changed.state is RunState.PARKED
        with pytest.raises(LedgerError, match="only a parked run"):
            ledger.plans.approve(run.run_id, "boss", SLOT)
        assert ledger.again(changed).state is RunState.PARKED
        assert [(e.by, e.action) for e in ledger.records.events(1)] == [("boss", "approve")]

    def test_yes_on_a_parked_slot_approves_it_as_it_was_shown(self, ledger: Ledger) -> None:
        run = ledger.plan("a", "b", of=capped(1))

        again = ledger.answer(capped(1), approved=True, now=SLOT + timedelta(minutes=1))

        assert again.approved_now
        assert again.claim is None, "it is not scanned again"
        assert (again.run.run_id, again.run.state) == (run.run_id, RunState.OPEN)

    def test_a_newer_slot_takes_over_what_a_parked_run_holds(self, ledger: Ledger) -> None:
        """P5: operations and reason move; the old run is cancelled and cannot be approved."""
        old = ledger.plan("a", "b", of=capped(1))

        new = ledger.plan("a", "b", of=capped(1), slot=SLOT + timedelta(minutes=1))

        assert new.state is RunState.PARKED
        assert (new.planned, new.waiting, new.already_completed) == (2, 2, 0)
        gone = ledger.again(old)
        assert (gone.state, gone.planned) == (RunState.CANCELLED, 0)
        assert gone.reason == f"taken over by {new.run_id}"
        with pytest.raises(LedgerError):
            ledger.plans.approve(old.run_id, "boss", SLOT)
        ledger.plans.approve(new.run_id, "boss", SLOT)
        assert len(ledger.end(now=SLOT + timedelta(minutes=2))) == 2
        assert ledger.again(new).state is RunState.DRAINED

    def test_what_takes_over_parks_for_the_same_reason(self, ledger: Ledger) -> None:
        """Even where its own numbers would not park it."""
        of = replace(POLICY, reach=Reach(first_run_limit=1))
        old = ledger.plan("a", "b", of=of, trigger=Trigger.RUN)

        new = ledger.plan("a", of=of, slot=SLOT + DAY, trigger=Trigger.RUN)

        assert (new.state, new.reason) == (RunState.PARKED, old.reason)
        assert ledger.outcomes(ledger.again(old)) == {"cancelled": 1}, "b is not listed any more"

    def test_an_older_slot_takes_nothing_over(self, ledger: Ledger) -> None:
        new = ledger.plan("a", "b", of=capped(1), slot=SLOT + DAY)

        ledger.plan("a", "b", of=capped(1), slot=SLOT, now=SLOT + DAY)

        assert ledger.again(new).state is RunState.PARKED

    def test_a_cancelled_run_leaves_only_what_somebody_has_in_hand(self, ledger: Ledger) -> None:
        run = ledger.plan("a", "b", "c")
        ledger.publish()
        (held,) = ledger.claim(limit=1)

        cancelled = ledger.plans.cancel(run.run_id, "stop", "boss", SLOT)

        assert (cancelled.state, cancelled.completed, cancelled.pending) == (
            RunState.CANCELLED, 2, 1)  # fmt: skip
        assert ledger.claim() == []
        assert ledger.record(Completed(held, Outcome.DELETED)) == []
        assert ledger.outcomes(ledger.again(run)) == {"cancelled": 2, "deleted": 1}

    def test_a_cancelled_plan_ends_its_planner(self, ledger: Ledger) -> None:
        answer = ledger.answer()
        ledger.plans.cancel(answer.run.run_id, "stop", "boss", SLOT)

        with pytest.raises(PlanTakenOver):
            ledger.write(answer, ledger.page(POLICY, ["a"], SLOT), SLOT)

        assert ledger.again(answer.run).planned == 0

    def test_a_drained_run_cannot_be_cancelled(self, ledger: Ledger) -> None:
        run = ledger.plan("a")
        ledger.end()

        with pytest.raises(LedgerError, match="drained"):
            ledger.plans.cancel(run.run_id, "stop", "boss", SLOT)

        assert ledger.operation("a").outcome is Outcome.DELETED

    # -- policy versions ---------------------------------------------------------------------

    def test_a_policy_edited_under_the_same_version_is_refused(self, ledger: Ledger) -> None:
        ledger.plan("a")
        edited = replace(POLICY, older_than=Age(0, 86_400))

        with pytest.raises(PolicyEdited, match=r'older_than: "30d" became "1d"'):
            ledger.plans.check_policies([edited])
        with pytest.raises(PolicyEdited, match="give it a new version"):
            ledger.answer(edited, SLOT + DAY)

        assert len(ledger.records.runs()) == 1
        ledger.plans.check_policies([replace(POLICY, owner="another team", priority=9)])

    def test_the_newest_plan_makes_its_version_the_current_one(self, ledger: Ledger) -> None:
        """P7"""
        v2 = replace(POLICY, version="v2")
        ledger.plan("a")
        ledger.plan("a", of=v2, slot=SLOT + DAY)

        current = {version.version: version.current for version in ledger.work.versions()}

        assert current == {"v1": False, "v2": True}

    def test_pages_of_a_run_that_cannot_park_are_released_as_they_come(
        self, ledger: Ledger
    ) -> None:
        answer = ledger.answer()

        ledger.write(answer, ledger.page(POLICY, ["a"], SLOT, KeyRange("exports/a", None)), SLOT)

        assert len(ledger.end()) == 1
        assert ledger.again(answer.run).state is RunState.OPEN, "its scan has not ended"
        ledger.write(answer, ledger.page(POLICY, [], SLOT), SLOT)
        assert ledger.conclude(answer, POLICY, SLOT).state is RunState.DRAINED


def _identity(name: str) -> tuple[str, str, datetime]:
    listed = item(name)
    return listed.key, listed.etag, listed.last_modified
