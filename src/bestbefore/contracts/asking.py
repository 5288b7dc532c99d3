"""What every ledger has to do for people who ask page by page, and for queues that push, run like
`LedgerContract`."""

from datetime import timedelta

import pytest

from bestbefore.contracts.ledger_world import DAY, LEASE, ME, SLOT, Ledger, Sides, item
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import Completed, DeadFilter, NotInLedger


class AskingContract:
    """Pages that lose and repeat nothing; one operation by its id."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    def test_runs_come_in_pages_that_lose_and_repeat_none(self, ledger: Ledger) -> None:
        planned = [ledger.plan(f"k{n}", slot=SLOT + n * DAY).run_id for n in range(5)]
        found: list[str] = []
        after = None
        while page := ledger.records.runs("exports", 2, after=after):
            found += [run.run_id for run in page]
            after = found[-1]
        assert found == planned[::-1]
        with pytest.raises(NotInLedger, match="no such run"):
            ledger.records.runs(after="0" * 12)

    def test_runs_are_found_by_their_state(self, ledger: Ledger) -> None:
        done = ledger.plan("a")
        ledger.publish()
        ledger.end()
        open_ = ledger.plan("b", slot=SLOT + DAY)

        def found(state: RunState) -> list[str]:
            return [run.run_id for run in ledger.records.runs(state=state)]

        assert found(RunState.DRAINED) == [done.run_id]
        assert found(RunState.OPEN) == [open_.run_id]
        assert found(RunState.PARKED) == []

    def test_dead_letters_come_in_pages_also_where_the_last_one_was_redriven_meanwhile(
        self, ledger: Ledger
    ) -> None:
        ledger.plan("a", "b", "c", "d", "e")
        ledger.kill()
        every = [letter.operation_id for letter in ledger.dead_letters.dead(DeadFilter())]
        assert len(every) == 5

        first = ledger.dead_letters.dead(DeadFilter(), 2)
        ledger.dead_letters.redrive([first[-1].row], [SLOT + DAY], ME, SLOT)
        rest = ledger.dead_letters.dead(DeadFilter(), 9, first[-1].operation_id)

        assert [letter.operation_id for letter in [*first, *rest]] == every
        with pytest.raises(NotInLedger, match="no dead letter"):
            ledger.dead_letters.dead(DeadFilter(), 2, b"\0" * 32)

    def test_some_dead_letters_are_meant_by_their_ids(self, ledger: Ledger) -> None:
        ledger.plan("a", "b", "c")
        every = [letter.operation_id for letter in ledger.kill()]

        def found(*ids: bytes) -> list[bytes]:
            which = DeadFilter(among=frozenset(ids))
            return [letter.operation_id for letter in ledger.dead_letters.dead(which)]

        assert sorted(found(every[0], every[2], b"\0" * 32)) == sorted([every[0], every[2]])
        assert found() == []

    def test_events_come_in_pages_newest_first(self, ledger: Ledger) -> None:
        for n in range(3):
            ledger.controls.pause("exports", f"reason {n}", None, ME, SLOT)
        newest, *_ = ledger.records.events(1)
        older = ledger.records.events(9, newest.row)
        assert [event.detail for event in (newest, *older)] == ["reason 2", "reason 1", "reason 0"]

    def test_a_due_operation_is_claimed_by_its_id_and_by_nobody_else_then(
        self, ledger: Ledger
    ) -> None:
        ledger.plan("a", "b")
        a = ledger.operation("a").operation_id
        policy = ledger.work.versions()[0].row
        assert ledger.work.claim(a, policy, SLOT, LEASE) is None, "it is not published"
        ledger.publish()

        assert ledger.work.claim(a, policy + 1, SLOT, LEASE) is None, "it is another policy's"
        claimed = ledger.work.claim(a, policy, SLOT, LEASE)
        assert claimed is not None
        assert (claimed.key, claimed.deliveries) == (item("a").key, 1)
        assert ledger.operation("a").claimed
        assert ledger.work.claim(a, policy, SLOT, LEASE) is None
        assert [operation.key for operation in ledger.claim()] == [item("b").key]
        assert ledger.record(Completed(claimed, Outcome.DELETED)) == []
        assert ledger.work.claim(a, policy, SLOT + DAY, LEASE) is None, "it is done"

    def test_a_claim_by_id_that_came_to_nothing_is_claimed_again_after_its_lease(
        self, ledger: Ledger
    ) -> None:
        ledger.plan("a")
        ledger.publish()
        a, policy = ledger.operation("a").operation_id, ledger.work.versions()[0].row
        ledger.work.claim(a, policy, SLOT, LEASE)
        later = SLOT + LEASE + timedelta(seconds=1)
        again = ledger.work.claim(a, policy, later, LEASE)
        assert again is not None
        assert again.deliveries == 2
