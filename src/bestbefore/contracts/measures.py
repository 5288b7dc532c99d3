"""What is counted for good, for outside adapters too: see `contracts.ledger`.

class TestMyMeasures(MeasuresContract):
    @pytest.fixture
    def measuring(self) -> Measuring: ...     # of the same ledger as ``sides``
"""

from collections.abc import Mapping

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
    died,
    retried,
)
from bestbefore.domain.counts import Count
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.trigger import Fate
from bestbefore.ports.ledger import Completed
from bestbefore.ports.measures import DeadSince, Measuring, Standing
from bestbefore.ports.records import Verification


class MeasuresContract:
    """Numbers that fall only where something is really less."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    def test_what_happened_is_counted_in_its_own_transaction(
        self, ledger: Ledger, measuring: Measuring
    ) -> None:
        ledger.plan("a", "b", "c")
        ledger.publish()
        first, second, third = ledger.claim()
        ledger.record(Completed(first, Outcome.DELETED), retried(second), died(third))

        assert counted(measuring) == {
            (Count.SCANNED, "object"): 3,
            (Count.ELIGIBLE, "object"): 3,
            (Count.PLANNED, ""): 3,
            (Count.PUBLISHED, ""): 3,
            (Count.COMPLETED, "deleted"): 1,
            (Count.RETRIED, "transient"): 1,
            (Count.DIED, "malformed"): 1,
            (Count.DEAD, "malformed"): 1,
            (Count.FIRST_PAGE_SECONDS, "0.05"): 1,
            (Count.PLAN_SECONDS, "0.1"): 1,
        }
        (removed,) = [one for one in measuring.counted() if one.kind is Count.COMPLETED]
        assert removed.amount == 100

    def test_a_refused_result_counts_nothing(self, ledger: Ledger, measuring: Measuring) -> None:
        ledger.plan("a")
        ledger.publish()
        (claimed,) = ledger.claim()
        ledger.record(Completed(claimed, Outcome.DELETED))
        before = counted(measuring)

        assert ledger.record(Completed(claimed, Outcome.ABSENT)) == [claimed]
        assert counted(measuring) == before

    def test_redriven_ones_count_once_and_when_they_complete(
        self, ledger: Ledger, measuring: Measuring
    ) -> None:
        ledger.plan("a", "b")
        for letter in ledger.kill():
            for _ in range(2):
                ledger.dead_letters.redrive([letter.row], [SLOT], ME, SLOT)
        (a, b) = ledger.claim()
        ledger.record(Completed(a, Outcome.DELETED), died(b, FailureClass.PERMISSION))

        found = counted(measuring)
        assert found[Count.REDRIVEN, ""] == 2
        assert found[Count.REDRIVEN_COMPLETED, "deleted"] == 1
        assert (Count.DEAD, "malformed") not in found
        assert found[Count.DEAD, "permission"] == 1
        assert (found[Count.DIED, "malformed"], found[Count.DIED, "permission"]) == (2, 1)

    def test_what_is_planned_again_takes_nothing_back(
        self, ledger: Ledger, measuring: Measuring
    ) -> None:
        ledger.plan("a")
        ledger.end()
        before = counted(measuring)

        ledger.plan("a", slot=SLOT + DAY)  # it is listed again

        after = counted(measuring)
        assert all(after[what] >= n for what, n in before.items())
        assert after[Count.COMPLETED, "deleted"] == 1

    def test_a_policy_stands_where_its_runs_do(self, ledger: Ledger, measuring: Measuring) -> None:
        ledger.plan("a", "b", "c")
        ledger.publish()
        first, *_ = ledger.claim()
        ledger.record(died(first))
        ledger.plan("d", "e", of=capped(1), slot=SLOT + DAY, now=SLOT + DAY)

        (standing,) = measuring.standings(SLOT + DAY)

        assert standing == Standing(
            policy=POLICY.name,
            connection="s",
            about_rows=False,
            waiting=0,
            parked=2,
            pending=2,
            held=0,
            parked_runs=1,
            overdue=3,
            oldest_overdue=SLOT,
            drained_at=None,
        )

    def test_the_oldest_dead_letter_is_told_by_class(
        self, ledger: Ledger, measuring: Measuring
    ) -> None:
        ledger.plan("a", "b", "c")
        ledger.publish()
        first, second, third = ledger.claim()
        ledger.record(died(first), now=SLOT + LEASE / 4)
        ledger.record(died(second), now=SLOT + LEASE / 3)
        ledger.record(died(third, FailureClass.PERMISSION), now=SLOT + LEASE / 2)

        assert sorted(measuring.dead_since()) == [
            DeadSince("exports", FailureClass.MALFORMED, SLOT + LEASE / 4),
            DeadSince("exports", FailureClass.PERMISSION, SLOT + LEASE / 2),
        ]

    def test_triggers_add_up_by_what_became_of_them(self, measuring: Measuring) -> None:
        assert measuring.triggers() == {}

        measuring.count_triggers({Fate.BEGUN: 2, Fate.REFUSED: 1})
        measuring.count_triggers({Fate.BEGUN: 1})

        assert measuring.triggers() == {Fate.BEGUN: 3, Fate.REFUSED: 1}

    def test_verifications_are_told_by_policy(self, ledger: Ledger, measuring: Measuring) -> None:
        found = Verification(SLOT, 3, SLOT - DAY, 1)
        ledger.records.save_verification("exports", found)

        assert measuring.verifications() == {"exports": found}


def counted(measuring: Measuring) -> Mapping[tuple[Count, str], int]:
    """Every count of the only policy."""
    return {(one.kind, one.name): one.n for one in measuring.counted()}
