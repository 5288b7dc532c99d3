"""What the ledger makes of messages that turn up elsewhere, for outside adapters too: see
`contracts.ledger`.

class TestMyRerouting(ReroutingContract):
    @pytest.fixture
    def outbox(self) -> Outbox: ...         # both of the same ledger as ``sides``
    @pytest.fixture
    def rerouting(self) -> Rerouting: ...
"""

from datetime import timedelta

import pytest

from bestbefore.contracts.ledger_world import LEASE, SLOT, Ledger, Sides, died, retried
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.states import State
from bestbefore.ports.ledger import Completed
from bestbefore.ports.outbox import Outbox, Standing
from bestbefore.ports.rerouting import Rerouting

SECOND = timedelta(seconds=1)
WEEK = timedelta(days=7)
UNKNOWN = b"?" * 32


def send(ledger: Ledger, outbox: Outbox) -> dict[str, bytes]:
    """Have a broker take everything that waits; returns ids by the last part of a key."""
    (version,) = ledger.work.versions()
    span = ledger.work.waiting(version.row, 1_000)
    assert span is not None
    outgoing = outbox.mark(span, 1_000, SLOT, SLOT + LEASE).outgoing
    outbox.confirm([one.row for one in outgoing], SLOT, SLOT + WEEK)
    return {
        one.command.message()["key"].split("/")[-1][0]: one.operation_id  # type: ignore[attr-defined]
        for one in outgoing
    }


class ReroutingContract:
    """Only what is at a broker and in nobody's hands is changed; nothing is spent."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    def test_what_is_sent_is_taken_back_and_due_at_once(
        self, ledger: Ledger, outbox: Outbox, rerouting: Rerouting
    ) -> None:
        ledger.plan("a", "b", "c")
        ids = send(ledger, outbox)

        back = rerouting.take_back([ids["a"], ids["b"], UNKNOWN], SLOT + SECOND)

        assert back.rows.keys() == {ids["a"], ids["b"]}
        assert back.rest == {UNKNOWN: Standing.UNKNOWN}
        assert rerouting.outstanding(SLOT + SECOND) == 1
        claimed = ledger.claim(now=SLOT + SECOND)
        assert {operation.operation_id for operation in claimed} == {ids["a"], ids["b"]}
        assert all(operation.deliveries == 1 for operation in claimed)
        assert all(operation.budget.attempts == 0 for operation in claimed)

    def test_taken_back_twice_is_taken_back_once(
        self, ledger: Ledger, outbox: Outbox, rerouting: Rerouting
    ) -> None:
        ledger.plan("a")
        ids = send(ledger, outbox)
        rerouting.take_back([ids["a"]], SLOT)

        again = rerouting.take_back([ids["a"]], SLOT)

        assert again.rows == {}
        assert again.rest.keys() == {ids["a"]}
        assert len(ledger.claim()) == 1

    def test_what_is_over_delayed_or_in_hand_stays_as_it_is(
        self, ledger: Ledger, outbox: Outbox, rerouting: Rerouting
    ) -> None:
        ledger.plan("a", "b", "c", "d")
        ids = send(ledger, outbox)
        claims = outbox.claim(list(ids.values()), SLOT, LEASE)
        a, b, c, _ = sorted(claims.operations, key=lambda operation: operation.key)
        ledger.record(Completed(a, Outcome.DELETED), died(b), retried(c, wait=WEEK))
        expected = {
            ids["a"]: Standing.ENDED,
            ids["b"]: Standing.DEAD,
            ids["c"]: Standing.DELAYED,
            ids["d"]: Standing.IN_HAND,
        }

        assert rerouting.take_back(list(ids.values()), SLOT) == ({}, expected)
        assert rerouting.redirect(list(ids.values()), SLOT, SLOT + LEASE) == ({}, expected)
        assert outbox.sent([a.policy]) == 0

    def test_what_lost_its_worker_is_given_out_by_the_ledger_alone(
        self, ledger: Ledger, outbox: Outbox, rerouting: Rerouting
    ) -> None:
        """O-POISON-01: its deliveries go on counting."""
        ledger.plan("a")
        ids = send(ledger, outbox)
        outbox.claim([ids["a"]], SLOT, LEASE)
        late = SLOT + 2 * LEASE

        assert rerouting.take_back([ids["a"]], late).rest == {ids["a"]: Standing.IN_HAND}
        assert rerouting.redirect([ids["a"]], late, late + LEASE).rows == {}

    def test_what_is_redirected_is_sent_anew(
        self, ledger: Ledger, outbox: Outbox, rerouting: Rerouting
    ) -> None:
        ledger.plan("a", "b")
        ids = send(ledger, outbox)
        rerouting.take_back([ids["b"]], SLOT)
        later = SLOT + SECOND

        there = rerouting.redirect(list(ids.values()), later, later + LEASE)

        assert there.rows.keys() == set(ids.values())
        assert rerouting.outstanding(later) == 0
        assert rerouting.outstanding(later + SECOND) == 2
        assert ledger.claim(now=later) == []  # a broker has them
        outbox.confirm(list(there.rows.values()), later, later + WEEK)
        (version,) = ledger.work.versions()
        assert outbox.mark_due(version.row, 10, later + 2 * LEASE, later + WEEK) == []
        assert len(outbox.claim(list(ids.values()), later, LEASE).operations) == 2

    def test_unconfirmed_it_is_due_again_soon(
        self, ledger: Ledger, outbox: Outbox, rerouting: Rerouting
    ) -> None:
        """P4: whoever was about to publish it was killed."""
        ledger.plan("a")
        ids = send(ledger, outbox)

        rerouting.redirect([ids["a"]], SLOT, SLOT + LEASE)

        (version,) = ledger.work.versions()
        (again,) = outbox.mark_due(version.row, 10, SLOT + 2 * LEASE, SLOT + WEEK)
        assert again.operation_id == ids["a"]

    def test_after_a_switch_nobody_sends_what_is_out_once_more(
        self, ledger: Ledger, outbox: Outbox, rerouting: Rerouting
    ) -> None:
        ledger.plan("a")
        outbox.use("old", SLOT)
        ids = send(ledger, outbox)

        assert rerouting.switch("new", SLOT + SECOND) == SLOT + SECOND

        assert not outbox.use("new", SLOT + LEASE)
        assert rerouting.switch("new", SLOT + LEASE) == SLOT + SECOND
        assert rerouting.outstanding(SLOT + SECOND) == 1
        assert outbox.use("old", SLOT + LEASE)  # without one it is all due
        assert rerouting.outstanding(SLOT + SECOND) == 0
        assert len(outbox.claim(list(ids.values()), SLOT + LEASE, LEASE).operations) == 1

    def test_nothing_changes_in_the_counts_of_a_run(
        self, ledger: Ledger, outbox: Outbox, rerouting: Rerouting
    ) -> None:
        """P11"""
        run = ledger.plan("a", "b")
        ids = send(ledger, outbox)
        before = ledger.again(run)

        rerouting.redirect([ids["a"]], SLOT, SLOT + LEASE)
        rerouting.take_back([ids["b"]], SLOT)
        rerouting.take_back([], SLOT)

        assert ledger.again(run) == before
        assert ledger.states(run) == [State.PENDING, State.PENDING]
