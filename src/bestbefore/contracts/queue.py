"""What every queue has to do, for outside adapters too.

Subclass `QueueContract` in a test module and give it a fixture called ``sides``, as with
`LedgerContract`: what is published comes from a ledger, so the suite needs both.
"""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from bestbefore.contracts.ledger import LEASE, POLICY, SLOT, Ledger, Sides, item, retried
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.run import Trigger
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import Completed, Operation

_ALMOST = timedelta(microseconds=1)


class QueueContract:
    """Publish, receive, extend, ack, release."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    def test_what_is_published_is_received_as_it_was_seen(self, ledger: Ledger) -> None:
        run = ledger.plan("a")
        ledger.publish()

        (got,) = ledger.claim()

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

        assert len(ledger.claim()) == 2
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
        ledger.claim()

        end = SLOT + LEASE
        assert ledger.claim(now=end - _ALMOST, suspects=True) == []
        (again,) = ledger.claim(now=end, suspects=True)
        assert again.deliveries == 2

    def test_suspects_come_only_when_asked_for(self, ledger: Ledger) -> None:
        ledger.plan("a", "b")
        ledger.publish()
        (lost,) = ledger.claim(limit=1)
        end = SLOT + LEASE

        (healthy,) = ledger.claim(now=end)
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
        claimed = ledger.claim()

        assert list(ledger.queue.extend(claimed, SLOT + 3 * LEASE)) == []

        assert ledger.claim(now=SLOT + 2 * LEASE, suspects=True) == []
        assert len(ledger.claim(now=SLOT + 3 * LEASE, suspects=True)) == 1

    def test_a_late_extend_revives_nothing(self, ledger: Ledger) -> None:
        ledger.plan("a", "b")
        ledger.publish()
        first = ledger.claim()
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
            (claimed,) = ledger.claim(now=due)
            assert claimed.deliveries == 1

            ledger.queue.release([claimed], due)

        rows = [version.row for version in ledger.work.versions()]
        assert ledger.claim(now=due - _ALMOST) == []
        assert not ledger.work.suspects(rows, due)

    def test_a_late_give_back_is_ignored(self, ledger: Ledger) -> None:
        ledger.plan("a")
        ledger.publish()
        late = ledger.claim()
        end = SLOT + LEASE
        (holder,) = ledger.claim(now=end, suspects=True)

        ledger.queue.release(late, end)

        assert ledger.claim(now=end) == ledger.claim(now=end, suspects=True) == []
        assert ledger.record(Completed(holder, Outcome.DELETED), now=end) == []

    def test_giving_back_twice_charges_nothing_twice(self, ledger: Ledger) -> None:
        ledger.plan("a")
        ledger.publish()
        claimed = ledger.claim()

        ledger.queue.release(claimed, SLOT)
        ledger.queue.release(claimed, SLOT)

        (again,) = ledger.claim()
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
        for wait, operation in enumerate(reversed(ledger.claim())):
            ledger.record(retried(operation, wait=timedelta(seconds=wait)))
        now = SLOT + LEASE

        order = [ledger.claim(limit=1, now=now)[0].key for _ in range(3)]

        assert order == [item(name).key for name in ("c", "b", "a")]
        assert ledger.claim(now=now) == []

    def test_a_policy_version_gives_out_only_its_own(self, ledger: Ledger) -> None:
        ledger.plan("a")
        ledger.plan("b", of=replace(POLICY, name="others"))
        ledger.publish()
        rows = {version.name: version.row for version in ledger.work.versions()}

        (got,) = ledger.queue.receive(rows["others"], 10, SLOT, LEASE)

        assert got.key == item("b").key
        assert got.policy == rows["others"]

    def test_claims_of_one_call_share_a_token_that_no_other_call_has(self, ledger: Ledger) -> None:
        ledger.plan("a", "b", "c")
        ledger.publish()

        first, second = ledger.claim(limit=2), ledger.claim(limit=2)

        assert len({operation.token for operation in first}) == 1
        assert first[0].token != second[0].token

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
                while claimed := ledger.claim(limit=7):
                    mine += claimed
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
