"""What upkeep may take out of a ledger, for outside adapters too: see `contracts.ledger`.

class TestMyUpkeep(UpkeepContract):
    pass
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from unittest.mock import ANY

import pytest

from bestbefore.contracts.ledger_world import (
    DAY,
    LEASE,
    ME,
    POLICY,
    SLOT,
    Ledger,
    Sides,
    capped,
    item,
    retried,
)
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.identity import ObjectIds
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.states import RunState, State
from bestbefore.ports.ledger import Completed
from bestbefore.ports.records import OperationFilter
from bestbefore.ports.upkeep import Old, UpkeepTakenOver


def old(ledger: Ledger, before: datetime, now: datetime = SLOT) -> Old:
    """What completed before *before* and may be pruned."""
    return ledger.upkeep.old_operations(0, before, 1_000, now)


def prune(
    ledger: Ledger, before: datetime, ids: Sequence[bytes] | None = None, now: datetime = SLOT
) -> int:
    """Prune *ids* as far as they may go; everything that is old, without any."""
    held = ledger.upkeep.claim(now, timedelta(0), LEASE)
    assert held is not None, "somebody else holds the pass"
    if ids is None:
        ids = [operation.operation_id for operation, _ in old(ledger, before, now).operations]
    pruned = ledger.upkeep.prune_operations(held, ids, before, now, LEASE)
    ledger.upkeep.done(held, 0, finished=True, now=now)
    return pruned


class UpkeepContract:
    """Nothing but what has ended goes, and the counts stay."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    def test_what_completed_long_ago_is_pruned_and_the_counts_of_its_run_stay(
        self, ledger: Ledger
    ) -> None:
        run = ledger.plan("a", "b")
        ledger.publish()
        first, second = ledger.claim()
        ledger.record(retried(first))
        ledger.record(Completed(second, Outcome.DELETED))
        (late,) = ledger.claim(now=SLOT + LEASE)
        ledger.record(Completed(late, Outcome.ABSENT), now=SLOT + DAY)
        before = ledger.again(run)

        found = old(ledger, SLOT + DAY).operations

        assert [operation.key for operation, _ in found] == [second.key]
        assert prune(ledger, SLOT + DAY) == 1
        assert [o.key for o in ledger.records.operations(OperationFilter())] == [first.key]
        after = ledger.again(run)
        assert replace(after, pruned=0) == before
        assert after.pruned == 1
        assert ledger.outcomes(run) == {"deleted": 1, "absent": 1}

        ((_, attempts),) = old(ledger, SLOT + 2 * DAY).operations
        assert [attempt.failure_class for attempt in attempts] == [FailureClass.TRANSIENT]
        assert prune(ledger, SLOT + 2 * DAY) == 1
        assert list(ledger.records.operations(OperationFilter())) == []
        assert ledger.again(run).pruned == 2

    def test_what_waits_is_out_or_dead_is_never_pruned(self, ledger: Ledger) -> None:
        dead = ledger.plan("dead")
        (letter,) = ledger.kill()
        pending = ledger.plan("pending", slot=SLOT + timedelta(hours=1))
        ledger.publish()
        waiting = ledger.plan("waiting", slot=SLOT + timedelta(hours=2))
        parked = ledger.plan("p", "q", of=capped(1), slot=SLOT + timedelta(hours=3))
        assert parked.state is RunState.PARKED
        ids = [o.operation_id for o in ledger.records.operations(OperationFilter())]
        assert len(ids) == 5

        assert old(ledger, SLOT + 4_000 * DAY).operations == []
        assert prune(ledger, SLOT + 4_000 * DAY, ids) == 0

        for run, state in (
            (dead, State.DEAD),
            (pending, State.PENDING),
            (waiting, State.WAITING),
            (parked, State.WAITING),
        ):
            assert set(ledger.states(run)) == {state}
            assert ledger.again(run).pruned == 0
        assert ledger.dead_letters.discard([letter.row], "kept", ME, SLOT) == 1

    def test_what_was_replaced_stays_as_long_as_its_replacement(self, ledger: Ledger) -> None:
        ledger.plan("wrong")
        (letter,) = ledger.kill()
        corrected = ObjectIds(POLICY.name, POLICY.version, POLICY.objects.bucket)
        right = item("right")
        ledger.dead_letters.correct(
            letter.row, corrected.of(right.key, right.etag, right.last_modified), right, ME, SLOT
        )
        year = SLOT + 365 * DAY
        assert prune(ledger, year) == 0

        ledger.end(now=SLOT)
        assert ledger.operation("right").corrects == letter.operation_id
        assert prune(ledger, year) == 1, "the replacement goes first"
        assert prune(ledger, year) == 1
        assert list(ledger.records.operations(OperationFilter())) == []

    def test_what_a_planner_is_about_to_plan_again_is_not_pruned(self, ledger: Ledger) -> None:
        run = ledger.plan("a")
        ledger.end(Outcome.PROTECTED)
        later = SLOT + 365 * DAY
        answer = ledger.answer(slot=later)
        assert prune(ledger, later, now=later) == 0, "a planner is at work on this policy"
        ledger.write(answer, ledger.page(POLICY, ["a"], later), later)
        lapsed = later + 2 * LEASE
        assert prune(ledger, later, now=lapsed) == 0, "it is marked to be planned again"

        resumed = ledger.plans.resume(answer.run.row, lapsed, LEASE)
        assert resumed is not None
        concluded = ledger.conclude(resumed, POLICY, lapsed)

        assert (concluded.planned, concluded.waiting) == (1, 1)
        assert ledger.again(run).planned == 0

    def test_what_was_pruned_and_is_listed_again_is_new(self, ledger: Ledger) -> None:
        ledger.plan("a")
        ledger.end()
        later = SLOT + 365 * DAY
        assert prune(ledger, later) == 1

        again = ledger.plan("a", slot=later)

        assert (again.planned, again.waiting, again.reappeared) == (1, 1, 0)

    def test_one_pass_is_one_processs_until_its_lease_runs_out(self, ledger: Ledger) -> None:
        held = ledger.upkeep.claim(SLOT, DAY, LEASE)
        assert held is not None
        assert (held.looked_at, held.export) == (0, None)
        assert ledger.upkeep.claim(SLOT, DAY, LEASE) is None
        ledger.upkeep.expect(held, "a-file", SLOT, LEASE)

        taken = ledger.upkeep.claim(SLOT + LEASE, DAY, LEASE)

        assert taken is not None
        assert taken.export == "a-file"
        with pytest.raises(UpkeepTakenOver):
            ledger.upkeep.expect(held, "another", SLOT, LEASE)
        for prune_ in (ledger.upkeep.prune_operations, ledger.upkeep.prune_events):
            with pytest.raises(UpkeepTakenOver):
                prune_(held, [], SLOT, SLOT, LEASE)
        with pytest.raises(UpkeepTakenOver):
            ledger.upkeep.done(held, 9, finished=True, now=SLOT)
        ledger.upkeep.failed(held, "too late", SLOT)
        assert ledger.upkeep.describe(None, SLOT).error is None
        ledger.upkeep.done(taken, 7, finished=False, now=SLOT)
        assert ledger.upkeep.claim(SLOT, DAY, LEASE) == (ANY, SLOT, 7, None)

    def test_a_pass_that_ended_is_followed_by_the_next_one_in_time(self, ledger: Ledger) -> None:
        held = ledger.upkeep.claim(SLOT, DAY, LEASE)
        assert held is not None
        ledger.upkeep.failed(held, "no space left", SLOT)
        record = ledger.upkeep.describe(None, SLOT)
        assert (record.running, record.error, record.failed_at) == (True, "no space left", SLOT)
        held = ledger.upkeep.claim(SLOT, DAY, LEASE)
        assert held is not None
        ledger.upkeep.done(held, 9, finished=True, now=SLOT)

        assert ledger.upkeep.claim(SLOT + DAY - LEASE, DAY, LEASE) is None
        record = ledger.upkeep.describe(None, SLOT)
        assert (record.running, record.error, record.finished_at) == (False, None, SLOT)
        again = ledger.upkeep.claim(SLOT + DAY, DAY, LEASE)
        assert again is not None
        assert again.looked_at == 0

    def test_events_are_pruned_by_their_age(self, ledger: Ledger) -> None:
        for day in range(3):
            ledger.controls.pause(None, f"day {day}", None, ME, SLOT + day * DAY)
        found = ledger.upkeep.old_events(SLOT + 2 * DAY, 10)
        assert [(event.action, event.detail) for event in found] == [
            ("pause", "day 0"),
            ("pause", "day 1"),
        ]
        assert len(ledger.upkeep.old_events(SLOT + 2 * DAY, 1)) == 1
        held = ledger.upkeep.claim(SLOT, DAY, LEASE)
        assert held is not None

        rows = [event.row for event in ledger.upkeep.old_events(SLOT + 9 * DAY, 10)]

        assert ledger.upkeep.prune_events(held, rows, SLOT + 2 * DAY, SLOT, LEASE) == 2
        assert [event.detail for event in ledger.records.events(10)] == ["day 2"]

    def test_size_and_growth_come_from_the_counts_of_runs(self, ledger: Ledger) -> None:
        ledger.plan("a", "b")
        ledger.end()
        ledger.plan("c", slot=SLOT + DAY)

        record = ledger.upkeep.describe(SLOT + DAY, SLOT + DAY)
        assert (record.operations, record.added, record.prunable, record.pruned) == (3, 1, 2, 0)
        assert record.bytes > 0
        prune(ledger, SLOT + DAY)

        record = ledger.upkeep.describe(None, SLOT)
        assert (record.operations, record.added, record.prunable, record.pruned) == (1, 3, 0, 2)
