"""What a ledger does for a queue that is elsewhere, for outside ledgers too.

Subclass `OutboxContract` and give it fixtures ``sides``, as with `LedgerContract`, whose queue is
the ledger's own, and ``outbox``.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from bestbefore.contracts.ledger_world import (
    LEASE,
    POLICY,
    SLOT,
    Ledger,
    Sides,
    died,
    item,
    retried,
)
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.message import read
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.states import RunState, State
from bestbefore.ports.ledger import Completed, DeadFilter
from bestbefore.ports.outbox import Outbox, Outgoing, Standing

UNTIL = SLOT + LEASE
LATER = SLOT + timedelta(days=3)
_MOMENT = timedelta(microseconds=1)


class OutboxContract:
    """Mark, confirm, fail, refuse, claim, hand back, and what was lost."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    # -- marking -----------------------------------------------------------------------------

    def test_what_is_marked_is_what_was_planned_in_its_order(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        run = ledger.plan("a", "b", "c")

        outgoing = _mark(ledger, outbox)

        assert [one.command.key for one in outgoing] == [item(n).key for n in "abc"]  # type: ignore[union-attr]
        for one in outgoing:
            assert bytes.fromhex(one.command.operation_id) == one.operation_id
            assert read(one.command.encode()) == one.command
            assert (one.command.slot, one.command.action) == (SLOT, "delete")
        assert ledger.again(run).pending == 3
        assert ledger.operation("a").sent_at == SLOT

    def test_no_more_is_marked_than_was_asked_for_and_nothing_twice(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        run = ledger.plan("a", "b", "c")
        version = ledger.work.versions()[0].row
        span = ledger.work.waiting(version, 10)
        assert span is not None

        first = outbox.mark(span, 2, SLOT, UNTIL)
        second = outbox.mark(span, 2, SLOT, UNTIL)
        third = outbox.mark(span, 2, SLOT, UNTIL)

        assert [m.published for m in (first, second, third)] == [2, 1, 0]
        rows = [one.row for m in (first, second, third) for one in m.outgoing]
        assert len(set(rows)) == 3
        assert ledger.again(run).waiting == 0

    def test_nothing_of_a_parked_run_is_marked(self, ledger: Ledger, outbox: Outbox) -> None:
        ledger.plan("first")
        answer = ledger.answer(slot=SLOT + LEASE, trigger=Trigger.RUN)
        ledger.write(answer, ledger.page(POLICY, ["a", "b"], SLOT), SLOT)
        version = ledger.work.versions()[0].row
        ledger.end()
        ledger.write(answer, ledger.page(POLICY, ["c"], SLOT), SLOT)
        span = ledger.work.waiting(version, 10)
        assert span is not None
        assert answer.claim is not None
        ledger.plans.conclude(answer.claim, 0, lambda _: "a person shall look", SLOT)

        assert outbox.mark(span, 10, SLOT, UNTIL) == (0, [])

    def test_a_sent_one_counts_as_out_and_as_due(self, ledger: Ledger, outbox: Outbox) -> None:
        """A drain waits for it, and it takes its place among those a connection may have out."""
        ledger.plan("a", "b")
        _confirm(outbox, _mark(ledger, outbox))
        version = ledger.work.versions()[0].row

        (left,) = ledger.work.leftovers(SLOT)

        assert (left.waiting, left.due, left.leased, left.delayed) == (0, 2, 0, 0)
        assert ledger.work.out([version], SLOT, LEASE) == outbox.sent([version]) == 2
        assert not ledger.work.suspects([version], LATER)

    def test_the_ledgers_own_queue_leaves_sent_ones_alone(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        ledger.plan("a")
        _mark(ledger, outbox)

        assert ledger.claim(now=UNTIL) == ledger.claim(now=UNTIL, suspects=True) == []

    # -- what came of it ---------------------------------------------------------------------

    def test_an_unconfirmed_one_is_sent_again_after_a_lease(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        """P4: killed between mark and publish, or between publish and confirm."""
        run = ledger.plan("a")
        (first,) = _mark(ledger, outbox)
        version = ledger.work.versions()[0].row
        assert outbox.mark_due(version, 10, UNTIL - _MOMENT, LATER) == []

        assert outbox.mark_due(version, 10, UNTIL, LATER) == [first]

        assert ledger.records.tallies(run, "republished")[""].n == 1
        assert outbox.mark_due(version, 10, UNTIL, LATER) == []

    def test_a_confirmed_one_is_sent_again_at_its_date_and_not_before(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        ledger.plan("a")
        _confirm(outbox, _mark(ledger, outbox))
        version = ledger.work.versions()[0].row

        assert outbox.mark_due(version, 10, LATER - _MOMENT, LATER + LEASE) == []
        assert len(outbox.mark_due(version, 10, LATER, LATER + LEASE)) == 1

    def test_what_the_broker_has_not_taken_waits_and_has_spent_nothing(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        run = ledger.plan("a")
        (one,) = _mark(ledger, outbox)

        outbox.fail([one.row], SLOT, SLOT + LEASE)

        version = ledger.work.versions()[0].row
        assert outbox.sent([version]) == 0
        (left,) = ledger.work.leftovers(SLOT)
        assert (left.due, left.delayed) == (0, 1)
        assert outbox.claim([one.operation_id], SLOT, LEASE).rest == {
            one.operation_id: Standing.DELAYED
        }
        assert len(outbox.mark_due(version, 10, SLOT + LEASE, LATER)) == 1
        assert ledger.records.tallies(run, "republished") == {}, "it was not there"
        (claimed,) = outbox.claim([one.operation_id], SLOT + LEASE, LEASE).operations
        assert (claimed.budget.attempts, claimed.failed, claimed.deliveries) == (0, False, 1)

    def test_what_no_broker_can_take_is_dead(self, ledger: Ledger, outbox: Outbox) -> None:
        run = ledger.plan("a", "b")
        large, good = _mark(ledger, outbox)
        why = Failure(FailureClass.MALFORMED, "too large")

        assert outbox.refuse([(large.row, why)], SLOT, "sender", SLOT) == 1

        (letter,) = ledger.dead_letters.dead(DeadFilter())
        assert (letter.operation_id, letter.error, letter.attempts) == (
            large.operation_id, "too large", 1)  # fmt: skip
        assert ledger.again(run).dead == 1
        assert outbox.claim([large.operation_id, good.operation_id], SLOT, LEASE).rest == {
            large.operation_id: Standing.DEAD
        }

    def test_whoever_claimed_it_meanwhile_keeps_it(self, ledger: Ledger, outbox: Outbox) -> None:
        """A message can arrive before its sender hears that it was sent."""
        ledger.plan("a")
        (one,) = _mark(ledger, outbox)
        (claimed,) = outbox.claim([one.operation_id], SLOT, LEASE).operations

        outbox.confirm([one.row], SLOT, LATER)
        outbox.fail([one.row], SLOT, SLOT)
        why = Failure(FailureClass.MALFORMED, "too large")
        assert outbox.refuse([(one.row, why)], SLOT, "sender", SLOT) == 0
        outbox.hand_back([one.operation_id], SLOT)

        assert outbox.claim([one.operation_id], SLOT, LEASE).operations == []
        assert ledger.record(Completed(claimed, Outcome.DELETED)) == []

    # -- claiming ----------------------------------------------------------------------------

    def test_a_claim_is_like_one_of_the_ledgers_own_queue(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        run = ledger.plan("a", "b")
        ids = [one.operation_id for one in _mark(ledger, outbox)]

        claims = outbox.claim(ids[::-1], SLOT, LEASE)

        assert [o.key for o in claims.operations] == [item("a").key, item("b").key]
        assert len({o.token for o in claims.operations}) == 1
        assert {(o.deliveries, o.run, o.seen_at) for o in claims.operations} == {(1, run.row, SLOT)}
        assert (claims.rest, claims.sent_at) == ({}, SLOT)
        assert ledger.record(*(Completed(o, Outcome.DELETED) for o in claims.operations)) == []
        assert ledger.again(run).state is RunState.DRAINED

    def test_what_cannot_be_claimed_says_why(self, ledger: Ledger, outbox: Outbox) -> None:
        ledger.plan("dead", "delayed", "ended", "in hand")
        ids = {}
        for one in _mark(ledger, outbox):
            (operation,) = outbox.claim([one.operation_id], SLOT, LEASE).operations
            name = operation.key.removeprefix("exports/").removesuffix(".json")
            ids[name] = one.operation_id
            match name:
                case "dead":
                    ledger.record(died(operation))
                case "delayed":
                    ledger.record(retried(operation))
                case "ended":
                    ledger.record(Completed(operation, Outcome.DELETED))
        ledger.plan("waiting", slot=SLOT + LEASE)
        ids["waiting"] = ledger.operation("waiting").operation_id
        ids["unknown"] = bytes(32)

        claims = outbox.claim(list(ids.values()), SLOT, LEASE)

        assert claims.operations == []
        assert claims.sent_at is None
        assert {name: claims.rest[id_].value for name, id_ in ids.items()} == {
            name: name for name in ids
        }

    def test_an_operation_that_is_delivered_twice_is_claimed_once(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        """P3"""
        ledger.plan(*(f"{n:03}" for n in range(100)))
        ids = [one.operation_id for one in _mark(ledger, outbox)]
        barrier = threading.Barrier(4)
        got: list[bytes] = []

        def consume() -> None:
            barrier.wait(10)
            for start in range(0, 100, 7):
                found = outbox.claim(ids[start : start + 7], SLOT, LEASE).operations
                got.extend(operation.operation_id for operation in found)

        threads = [threading.Thread(target=consume) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(got) == sorted(ids)

    def test_a_claim_whose_lease_ended_is_the_ledgers_to_give_out(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        """A suspect is never sent: it may kill whoever gets it, alone or with its neighbours."""
        ledger.plan("a")
        (one,) = _mark(ledger, outbox)
        outbox.claim([one.operation_id], SLOT, LEASE)

        assert outbox.claim([one.operation_id], UNTIL, LEASE).rest == {
            one.operation_id: Standing.IN_HAND
        }
        version = ledger.work.versions()[0].row
        assert outbox.mark_due(version, 10, UNTIL, LATER) == []
        assert ledger.work.suspects([version], UNTIL)
        (suspect,) = ledger.claim(now=UNTIL, suspects=True)
        assert suspect.deliveries == 2

    def test_a_retry_is_sent_again_when_it_is_due_the_oldest_first(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        ledger.plan("a", "b", "c")
        ids = [one.operation_id for one in _mark(ledger, outbox)]
        for wait, operation in enumerate(reversed(outbox.claim(ids, SLOT, LEASE).operations)):
            ledger.record(retried(operation, wait=timedelta(seconds=wait)))
        version = ledger.work.versions()[0].row

        first = outbox.mark_due(version, 2, UNTIL, LATER)
        second = outbox.mark_due(version, 2, UNTIL, LATER)

        keys = [one.command.key for one in [*first, *second]]  # type: ignore[union-attr]
        assert keys == [item(name).key for name in "cba"]

    def test_only_what_is_of_the_policy_version_is_marked(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        others = replace(POLICY, name="others")
        ledger.plan("a")
        ledger.plan("b", of=others)
        rows = {version.name: version.row for version in ledger.work.versions()}
        ledger.publish()

        (one,) = outbox.mark_due(rows["others"], 10, UNTIL, LATER)

        assert (one.command.policy, one.command.policy_version) == ("others", "v1")
        found = outbox.policies([("others", "v1"), ("exports", "v1"), ("others", "v2")])
        assert found == {("others", "v1"): rows["others"], ("exports", "v1"): rows["exports"]}

    def test_what_was_pushed_can_be_claimed_although_a_broker_has_it(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        ledger.plan("a")
        (one,) = _mark(ledger, outbox)
        _confirm(outbox, [one])
        version = ledger.work.versions()[0].row

        claimed = ledger.work.claim(one.operation_id, version, SLOT, LEASE)

        assert claimed is not None
        assert ledger.work.claim(one.operation_id, version, SLOT, LEASE) is None
        assert outbox.sent([version]) == 0
        assert ledger.record(Completed(claimed, Outcome.DELETED)) == []

    # -- back, and lost ----------------------------------------------------------------------

    def test_what_is_handed_back_is_due_and_not_sent(self, ledger: Ledger, outbox: Outbox) -> None:
        run = ledger.plan("a")
        (one,) = _mark(ledger, outbox)
        _confirm(outbox, [one])

        outbox.hand_back([one.operation_id, bytes(32)], SLOT)

        version = ledger.work.versions()[0].row
        assert outbox.sent([version]) == 0
        assert outbox.mark_due(version, 10, SLOT, UNTIL) == [one]
        assert ledger.records.tallies(run, "republished") == {}

    def test_what_was_lost_is_due_at_once(self, ledger: Ledger, outbox: Outbox) -> None:
        ledger.plan("a", "b")
        gone, taken = _mark(ledger, outbox)
        _confirm(outbox, [gone, taken])
        outbox.claim([taken.operation_id], SLOT, LEASE)
        now = SLOT + timedelta(hours=1)

        assert outbox.lost(SLOT, now) == 0, "it was not sent before that"
        assert outbox.lost(SLOT + _MOMENT, now) == 1
        assert outbox.lost(SLOT + _MOMENT, now) == 0

        version = ledger.work.versions()[0].row
        assert outbox.mark_due(version, 10, now, LATER) == [gone]

    def test_a_few_of_one_policy_are_doubted(self, ledger: Ledger, outbox: Outbox) -> None:
        ledger.plan("a", "b")
        _confirm(outbox, _mark(ledger, outbox))
        version, now = ledger.work.versions()[0].row, SLOT + timedelta(hours=1)

        assert outbox.lost(now, now, [version + 1], 1) == 0
        assert outbox.lost(now, now, [version], 1) == 1

        assert len(outbox.mark_due(version, 10, now, LATER)) == 1

    def test_what_is_due_again_is_not_under_way(self, ledger: Ledger, outbox: Outbox) -> None:
        """Else what a full queue has lost would keep its own place for ever."""
        ledger.plan("a", "b")
        _confirm(outbox, _mark(ledger, outbox))
        version, now = ledger.work.versions()[0].row, SLOT + timedelta(hours=1)
        assert outbox.under_way([version], now) == 2
        assert outbox.under_way([version + 1], now) == 0

        outbox.lost(now, now)

        assert outbox.under_way([version], now) == 0
        assert outbox.sent([version]) == 2

    def test_everything_goes_on_in_another_queue(self, ledger: Ledger, outbox: Outbox) -> None:
        ledger.plan("a", "b")
        assert not outbox.use("one queue", SLOT)
        first, second = _mark(ledger, outbox)
        _confirm(outbox, [first, second])
        outbox.claim([first.operation_id], SLOT, LEASE)
        version = ledger.work.versions()[0].row

        assert not outbox.use("one queue", SLOT)
        assert outbox.sent([version]) == 1
        assert outbox.use("another queue", SLOT)

        assert outbox.sent([version]) == 0
        assert outbox.mark_due(version, 10, SLOT, UNTIL) == [second]

    def test_everything_goes_on_in_the_ledgers_own_queue(
        self, ledger: Ledger, outbox: Outbox
    ) -> None:
        ledger.plan("a", "b")
        first, second = _mark(ledger, outbox)
        _confirm(outbox, [first, second])
        outbox.claim([first.operation_id], SLOT, LEASE)

        assert outbox.recall(SLOT) == 1
        assert outbox.recall(SLOT) == 0

        (claimed,) = ledger.claim()
        assert claimed.operation_id == second.operation_id

    # -- decisions ---------------------------------------------------------------------------

    def test_a_cancelled_run_ends_what_is_sent(self, ledger: Ledger, outbox: Outbox) -> None:
        run = ledger.plan("a")
        (one,) = _mark(ledger, outbox)

        ledger.plans.cancel(run.run_id, "no more", "a person", SLOT)

        assert ledger.states(run) == [State.COMPLETED]
        assert ledger.operation("a").sent_at is None
        assert ledger.again(run).pending == 0
        assert outbox.claim([one.operation_id], SLOT, LEASE).rest == {
            one.operation_id: Standing.ENDED
        }

    def test_a_redriven_one_is_sent_alone(self, ledger: Ledger, outbox: Outbox) -> None:
        run = ledger.plan("a", "b")
        ids = [one.operation_id for one in _mark(ledger, outbox)]
        for operation in outbox.claim(ids, SLOT, LEASE).operations:
            ledger.record(died(operation))
        (letter, _) = ledger.dead_letters.dead(DeadFilter())

        ledger.dead_letters.redrive([letter.row], [SLOT], "a person", SLOT)

        version = ledger.work.versions()[0].row
        (sent,) = outbox.mark_due(version, 10, SLOT, UNTIL)
        assert sent.operation_id == letter.operation_id
        assert _counts(ledger, run) == (0, 1, 0, 1)


def _counts(ledger: Ledger, run: Run) -> tuple[int, int, int, int]:
    found = ledger.again(run)
    return found.waiting, found.pending, found.completed, found.dead


def _mark(ledger: Ledger, outbox: Outbox) -> list[Outgoing]:
    """Mark the first span of what is released of the first policy version."""
    span = ledger.work.waiting(ledger.work.versions()[0].row, 1_000)
    assert span is not None
    return list(outbox.mark(span, 1_000, SLOT, UNTIL).outgoing)


def _confirm(outbox: Outbox, sent: Sequence[Outgoing]) -> None:
    outbox.confirm([one.row for one in sent], SLOT, LATER)
