"""What came of operations: the half of `contracts.ledger` that is about work."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from bestbefore.contracts.ledger_world import (
    DAY,
    LEASE,
    ME,
    OLD,
    POLICY,
    SLOT,
    Ledger,
    Sides,
    died,
    failure,
    item,
    retried,
)
from bestbefore.domain.failure import Attempts, Budget, FailureClass, TryAgain
from bestbefore.domain.failure import decide as decide_failure
from bestbefore.domain.identity import ObjectIds
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.states import RunState, State
from bestbefore.ports.ledger import (
    Completed,
    DeadFilter,
    LedgerError,
    Operation,
    Retried,
    Settlement,
)
from bestbefore.ports.objects import Copy
from bestbefore.ports.records import OperationFilter


class ResultsContract:
    """Results, crashes and dead letters, whatever stores them."""

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


def _identity(name: str) -> tuple[str, str, datetime]:
    listed = item(name)
    return listed.key, listed.etag, listed.last_modified
