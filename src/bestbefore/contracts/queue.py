"""What every queue has to do, for outside adapters too.

Subclass `QueueContract` in a test module and give it a fixture called ``sides``, as with
`LedgerContract`: what is published comes from a ledger, so the suite needs both. Where a broker
carries what is published, ``sides`` has its ``resend``; what it needs a moment for is waited for.
"""

import threading
import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import ClassVar

import pytest

from bestbefore.contracts.ledger_world import LEASE, POLICY, SLOT, Ledger, Sides, item, retried
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.run import Trigger
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import Completed, Operation

_ALMOST = timedelta(microseconds=1)
_PATIENCE = 30.0
"""Seconds until something that has to arrive counts as lost."""


def claim(
    ledger: Ledger,
    number: int,
    limit: int | None = None,
    now: datetime = SLOT,
    *,
    suspects: bool = False,
) -> list[Operation]:
    """*number* claims, or as many as come while one is patient, at most *limit* at a time."""
    found: list[Operation] = []
    deadline = time.monotonic() + _PATIENCE
    while len(found) < number and time.monotonic() < deadline:
        found += ledger.claim(limit or number - len(found), now, suspects=suspects)
    return found


class QueueContract:
    """Publish, receive, extend, ack, release."""

    ordered: ClassVar[bool] = True
    """Whether what was due first comes first."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    def test_what_is_published_is_received_as_it_was_seen(self, ledger: Ledger) -> None:
        run = ledger.plan("a")
        ledger.publish()

        (got,) = claim(ledger, 1)

        seen = item("a")
        assert (got.key, got.etag, got.last_modified, got.size) == (
            seen.key, seen.etag, seen.last_modified, seen.size)  # fmt: skip
        assert got.operation_id == ledger.operation("a").operation_id
        assert (got.run, got.seen_at, got.deliveries, got.failed) == (run.row, SLOT, 1, False)

    def test_what_is_not_published_is_not_received(self, ledger: Ledger) -> None:
        run = ledger.plan("a", "b")
        assert ledger.claim() == []

        assert ledger.publish() == 2
        assert ledger.publish() == 0

        assert len(claim(ledger, 2)) == 2
        assert ledger.again(run).pending == 2

    def test_a_span_of_a_run_that_was_parked_meanwhile_is_not_published(
        self, ledger: Ledger
    ) -> None:
        """Too many reappeared between reading what waits and publishing it."""
        ledger.plan("first")
        answer = ledger.answer(slot=SLOT + LEASE, trigger=Trigger.RUN)
        ledger.write(answer, ledger.page(POLICY, ["a", "b"], SLOT), SLOT)
        version = ledger.work.versions()[0].row
        ledger.end()
        ledger.write(answer, ledger.page(POLICY, ["c"], SLOT), SLOT)
        span = ledger.work.waiting(version, 10)
        assert span is not None
        assert answer.claim is not None
        parked = ledger.plans.conclude(answer.claim, 0, lambda _: "a person shall look", SLOT)
        assert parked.state is RunState.PARKED

        assert ledger.queue.publish(span, SLOT) == 0

        assert ledger.again(parked).waiting == 1
        assert ledger.claim() == []

    def test_a_claimed_one_is_nobody_elses_until_its_lease_ends(self, ledger: Ledger) -> None:
        ledger.plan("a")
        ledger.publish()
        claim(ledger, 1)

        end = SLOT + LEASE
        assert ledger.claim(now=end - _ALMOST, suspects=True) == []
        (again,) = claim(ledger, 1, now=end, suspects=True)
        assert again.deliveries == 2

    def test_suspects_come_only_when_asked_for(self, ledger: Ledger) -> None:
        ledger.plan("a", "b")
        ledger.publish()
        (lost,) = claim(ledger, 1)
        end = SLOT + LEASE

        (healthy,) = claim(ledger, 1, now=end)
        (suspect,) = ledger.claim(now=end, suspects=True)

        assert healthy.row != lost.row
        assert suspect.row == lost.row
        rows = [version.row for version in ledger.work.versions()]
        assert not ledger.work.suspects(rows, end)
        assert ledger.work.suspects(rows, end + LEASE)

    def test_an_extended_claim_lasts_longer(self, ledger: Ledger) -> None:
        """O-LEASE-01"""
        ledger.plan("a")
        ledger.publish()
        claimed = claim(ledger, 1)

        assert list(ledger.queue.extend(claimed, SLOT + 3 * LEASE)) == []

        assert ledger.claim(now=SLOT + 2 * LEASE, suspects=True) == []
        assert len(ledger.claim(now=SLOT + 3 * LEASE, suspects=True)) == 1

    def test_a_late_extend_revives_nothing(self, ledger: Ledger) -> None:
        ledger.plan("a", "b")
        ledger.publish()
        first = claim(ledger, 2)
        end = SLOT + LEASE
        (other,) = ledger.claim(limit=1, now=end, suspects=True)

        lost = ledger.queue.extend(first, end + 9 * LEASE)

        assert [operation.row for operation in lost] == [other.row]
        assert ledger.claim(now=end + LEASE - _ALMOST, suspects=True) == []
        (again,) = ledger.claim(now=end + LEASE, suspects=True)
        assert again.row == other.row, "it ran out as its own holder left it"

    def test_extending_what_has_ended_changes_nothing(self, ledger: Ledger) -> None:
        run = ledger.plan("a")
        claimed = ledger.end()

        assert list(ledger.queue.extend(claimed, SLOT + LEASE)) == claimed

        assert ledger.again(run).state is RunState.DRAINED
        assert ledger.claim(now=SLOT + 9 * LEASE, suspects=True) == []

    def test_what_is_given_back_is_due_again_and_charged_no_delivery(self, ledger: Ledger) -> None:
        """O-LEASE-04"""
        ledger.plan("a")
        ledger.publish()
        due = SLOT + timedelta(seconds=5)
        for _ in range(5):
            (claimed,) = claim(ledger, 1, now=due)
            assert claimed.deliveries == 1

            ledger.queue.release([claimed], due)

        rows = [version.row for version in ledger.work.versions()]
        assert ledger.claim(now=due - _ALMOST) == []
        assert not ledger.work.suspects(rows, due)

    def test_a_late_give_back_is_ignored(self, ledger: Ledger) -> None:
        ledger.plan("a")
        ledger.publish()
        late = claim(ledger, 1)
        end = SLOT + LEASE
        (holder,) = ledger.claim(now=end, suspects=True)

        ledger.queue.release(late, end)

        assert ledger.claim(now=end) == ledger.claim(now=end, suspects=True) == []
        assert ledger.record(Completed(holder, Outcome.DELETED), now=end) == []

    def test_giving_back_twice_charges_nothing_twice(self, ledger: Ledger) -> None:
        ledger.plan("a")
        ledger.publish()
        claimed = claim(ledger, 1)

        ledger.queue.release(claimed, SLOT)
        ledger.queue.release(claimed, SLOT)

        (again,) = claim(ledger, 1)
        assert again.deliveries == 1

    def test_acked_ones_do_not_come_back(self, ledger: Ledger) -> None:
        ledger.plan("a")
        claimed = ledger.end()

        ledger.queue.ack(claimed)
        ledger.queue.ack(claimed)

        later = SLOT + 99 * LEASE
        assert ledger.claim(now=later) == ledger.claim(now=later, suspects=True) == []

    def test_the_earliest_due_comes_first_and_no_more_than_asked_for(self, ledger: Ledger) -> None:
        ledger.plan("a", "b", "c")
        ledger.publish()
        for wait, operation in enumerate(reversed(claim(ledger, 3))):
            ledger.record(retried(operation, wait=timedelta(seconds=wait)))
        now = SLOT + LEASE

        order = [claim(ledger, 1, limit=1, now=now)[0].key for _ in range(3)]

        if not self.ordered:
            order.sort(reverse=True)
        assert order == [item(name).key for name in ("c", "b", "a")]
        assert ledger.claim(now=now) == []

    def test_a_policy_version_gives_out_only_its_own(self, ledger: Ledger) -> None:
        ledger.plan("a")
        ledger.plan("b", of=replace(POLICY, name="others"))
        ledger.publish()
        rows = {version.name: version.row for version in ledger.work.versions()}

        found: list[Operation] = []
        deadline = time.monotonic() + _PATIENCE
        while not found and time.monotonic() < deadline:
            found += ledger.queue.receive(rows["others"], 10, SLOT, LEASE)

        (got,) = found

        assert got.key == item("b").key
        assert got.policy == rows["others"]

    def test_claims_of_one_call_share_a_token_that_no_other_call_has(self, ledger: Ledger) -> None:
        ledger.plan("a", "b", "c")
        ledger.publish()

        calls: list[set[int]] = []
        claimed = 0
        deadline = time.monotonic() + _PATIENCE
        while claimed < 3 and time.monotonic() < deadline:
            found = ledger.claim(limit=2)
            assert len(found) <= 2
            claimed += len(found)
            calls += [{operation.token for operation in found}] if found else []

        assert claimed == 3
        assert all(len(tokens) == 1 for tokens in calls)
        assert len(set.union(*calls)) == len(calls)

    def test_two_consumers_never_share_a_claim(self, ledger: Ledger) -> None:
        """P3"""
        ledger.plan(*(f"{n:03}" for n in range(200)))
        ledger.publish()
        barrier = threading.Barrier(4)
        got: list[list[Operation]] = [[] for _ in range(4)]
        errors: list[BaseException] = []

        def consume(mine: list[Operation]) -> None:
            try:
                barrier.wait(10)
                deadline = time.monotonic() + _PATIENCE
                while sum(map(len, got)) < 200 and time.monotonic() < deadline:
                    mine += ledger.claim(limit=7)
            except BaseException as error:  # noqa: BLE001 - the test reports it
                errors.append(error)

        threads = [threading.Thread(target=consume, args=(mine,)) for mine in got]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert errors == []
        rows = [operation.row for mine in got for operation in mine]
        assert len(rows) == len(set(rows)) == 200
