"""What every ledger has to do for buckets that keep versions, run like `LedgerContract`."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from bestbefore.contracts.ledger_world import DAY, OLD, POLICY, SLOT, Ledger, Sides, died
from bestbefore.domain.failure import Attempts, Failure, FailureClass, TryAgain, decide
from bestbefore.domain.identity import ObjectIds
from bestbefore.domain.known import disposition
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Run
from bestbefore.domain.selection import Listed
from bestbefore.domain.states import RunState
from bestbefore.domain.versions import Version, Versions
from bestbefore.ports.ledger import Completed, DeadFilter, Entry, Operation, PlannedPage, Retried
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.records import OperationFilter

PURGE = replace(POLICY, source=replace(POLICY.objects, versions=Versions.PURGE))
SIZE = 100


def entry(key: str, number: int, others: int = -1) -> Listed:
    """An old entry of *key*; the newest one if it is over *others* (0 or more)."""
    at = OLD + timedelta(hours=number)
    since = at + timedelta(hours=1) if others < 0 else None
    version = Version(f"{key}-{number}", marker=False, since=since, others=max(0, others))
    return Listed(key, SIZE, f"etag-{number}", at, version=version)


def stack(key: str, n: int) -> list[Listed]:
    """*n* entries of *key* as a scan passes them on: the newest last."""
    return [*(entry(key, number) for number in range(n - 1)), entry(key, n - 1, n - 1)]


class StackContract:
    """Inherit, and give a ``sides`` fixture of type `Sides`."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    def test_what_was_planned_of_a_version_comes_back(self, ledger: Ledger) -> None:
        _plan(ledger, stack("a", 2))
        ledger.publish()
        (first,) = ledger.claim()
        assert (first.key, first.version, first.follows, first.held) == ("a", "a-0", False, False)
        ledger.record(Completed(first, Outcome.DELETED))
        (last,) = ledger.claim()
        assert (last.version, last.follows) == ("a-1", True)
        assert {record.version_id for record in ledger.records.operations(_EVERYTHING)} == {
            "a-0",
            "a-1",
        }

    def test_the_newest_is_due_only_once_the_last_other_is_completed(self, ledger: Ledger) -> None:
        run = _plan(ledger, [*stack("a", 3), *stack("b", 1), *stack("c", 2)])
        ledger.publish()
        claimed = ledger.claim()
        by_version = {o.version: o for o in claimed}
        assert by_version.keys() == {"a-0", "a-1", "b-0", "c-0"}
        assert ledger.records.run(run.run_id).held == 2
        ledger.record(*(Completed(o, Outcome.DELETED) for o in claimed if o.version != "a-1"))
        assert [o.version for o in ledger.claim()] == ["c-1"]
        ledger.record(Completed(by_version["a-1"], Outcome.DELETED))
        assert [o.version for o in ledger.claim()] == ["a-2"]
        assert ledger.again(run).held == 0

    def test_a_run_drains_past_what_is_held_and_opens_again_when_it_may_go(
        self, ledger: Ledger
    ) -> None:
        run = _plan(ledger, stack("a", 2))
        ledger.publish()
        (first,) = ledger.claim()
        ledger.record(died(first, FailureClass.MALFORMED))
        stored = ledger.again(run)
        assert (stored.state, stored.held, stored.dead) == (RunState.DRAINED, 1, 1)
        (left,) = ledger.work.leftovers(SLOT)
        assert (left.held, left.dead, left.delayed, left.due) == (1, 1, 0, 0)
        (letter,) = ledger.dead_letters.dead(DeadFilter())
        ledger.dead_letters.redrive([letter.row], [SLOT], "me", SLOT)
        (again,) = ledger.claim()
        ledger.record(Completed(again, Outcome.DELETED))
        stored = ledger.again(run)
        assert (stored.state, stored.held, stored.pending) == (RunState.OPEN, 0, 1)
        ledger.record(*(Completed(o, Outcome.DELETED) for o in ledger.claim()))
        assert ledger.again(run).state is RunState.DRAINED

    def test_a_discarded_one_lets_the_newest_be_looked_at(self, ledger: Ledger) -> None:
        run = _plan(ledger, stack("a", 2))
        ledger.publish()
        (first,) = ledger.claim()
        ledger.record(died(first, FailureClass.MALFORMED))
        (letter,) = ledger.dead_letters.dead(DeadFilter())
        ledger.dead_letters.discard([letter.row], "known", "me", SLOT)
        assert [o.version for o in ledger.claim()] == ["a-1"]
        assert ledger.again(run).state is RunState.OPEN

    def test_the_newest_waits_for_what_another_run_planned(self, ledger: Ledger) -> None:
        first = _plan(ledger, [entry("a", 0)])
        ledger.publish()
        (claimed,) = ledger.claim()
        later = SLOT + DAY
        second = _plan(ledger, stack("a", 2), now=later)
        assert second.already_pending == 1
        ledger.publish(later)
        assert ledger.claim(now=SLOT) == []
        assert ledger.records.run(second.run_id).held == 1
        ledger.record(Completed(claimed, Outcome.DELETED), now=SLOT)
        assert [o.version for o in ledger.claim(now=later)] == ["a-1"]
        assert ledger.again(first).state is RunState.DRAINED
        assert ledger.again(second).held == 0

    def test_one_that_is_not_the_newest_any_more_waits_for_nothing(self, ledger: Ledger) -> None:
        run = _plan(ledger, stack("a", 2))
        ledger.publish()
        (first,) = ledger.claim()
        ledger.record(died(first, FailureClass.MALFORMED))
        later = SLOT + DAY
        second = _plan(ledger, [entry("a", 0), entry("a", 1), entry("a", 2, 2)], now=later)
        assert (second.already_dead, second.already_pending) == (1, 1)
        ledger.publish(later)
        (overtaken,) = ledger.claim(now=later)
        assert (overtaken.version, overtaken.follows) == ("a-1", False)
        assert ledger.again(run).held == 0
        assert ledger.records.run(second.run_id).held == 1

    def test_two_workers_that_complete_the_last_others_at_once_leave_none_tied(
        self, ledger: Ledger
    ) -> None:
        keys = [f"k{number}" for number in range(12)]
        run = _plan(ledger, [item for key in keys for item in stack(key, 3)])
        ledger.publish()
        claimed = {o.version: o for o in ledger.claim()}
        with ThreadPoolExecutor(2) as threads:
            for key in keys:
                halves = [Completed(claimed[f"{key}-{n}"], Outcome.DELETED) for n in (0, 1)]
                assert list(threads.map(ledger.record, halves)) == [[], []]
        assert {o.version for o in ledger.claim()} == {f"{key}-2" for key in keys}
        assert ledger.again(run).held == 0

    def test_cancelling_a_run_ends_what_it_holds(self, ledger: Ledger) -> None:
        run = _plan(ledger, stack("a", 2))
        ledger.publish()
        ledger.plans.cancel(run.run_id, "no", "me", SLOT)
        stored = ledger.again(run)
        assert (stored.held, stored.pending, stored.completed) == (0, 0, 2)

    def test_a_lock_is_waited_for_until_its_date_and_charges_nothing(self, ledger: Ledger) -> None:
        run = _plan(ledger, stack("a", 1))
        ledger.publish()
        (claimed,) = ledger.claim()
        until = SLOT + 10 * DAY
        ledger.record(_held(claimed, until))
        stored = ledger.again(run)
        assert (stored.state, stored.held, stored.pending) == (RunState.DRAINED, 1, 1)
        assert ledger.claim(now=until - DAY) == []
        assert ledger.records.policies(SLOT + DAY)[0].held == 1
        assert ledger.records.policies(SLOT + DAY)[0].overdue == 0
        (again,) = ledger.claim(now=until)
        assert (again.held, again.budget.attempts, again.failed) == (True, 0, True)
        ledger.record(Completed(again, Outcome.DELETED), now=until)
        assert ledger.again(run).held == 0

    def test_a_hold_without_a_date_is_due_once_for_each_plan_that_lists_it(
        self, ledger: Ledger
    ) -> None:
        _plan(ledger, stack("a", 1))
        ledger.publish()
        (claimed,) = ledger.claim()
        ledger.record(_held(claimed, None))
        assert ledger.claim(now=SLOT + 300 * DAY) == []
        later = SLOT + DAY
        assert _plan(ledger, stack("a", 1), now=later).already_pending == 1
        (again,) = ledger.claim(now=later)
        ledger.record(_held(again, None), now=later)
        assert ledger.claim(now=later + 300 * DAY) == []

    def test_a_failure_of_another_class_ends_the_hold(self, ledger: Ledger) -> None:
        run = _plan(ledger, stack("a", 1))
        ledger.publish()
        (claimed,) = ledger.claim()
        ledger.record(_held(claimed, SLOT + DAY))
        (again,) = ledger.claim(now=SLOT + DAY)
        failure = Failure(FailureClass.TRANSIENT, "busy")
        due = SLOT + DAY + timedelta(minutes=1)
        ledger.record(Retried(again, TryAgain(failure, again.budget, due)), now=SLOT + DAY)
        stored = ledger.again(run)
        assert (stored.state, stored.held, stored.pending) == (RunState.OPEN, 0, 1)

    def test_a_new_policy_version_gets_what_the_old_one_holds_closed(self, ledger: Ledger) -> None:
        run = _plan(ledger, stack("a", 1))
        ledger.publish()
        (claimed,) = ledger.claim()
        ledger.record(_held(claimed, None))
        later = SLOT + DAY
        _plan(ledger, stack("a", 1), of=replace(PURGE, version="v2"), now=later)
        (old,) = ledger.claim(now=later)
        assert old.policy == claimed.policy
        ledger.record(Completed(old, Outcome.SUPERSEDED), now=later)
        assert ledger.again(run).held == 0

    def test_the_bytes_of_a_hidden_object_are_not_counted_as_freed(self, ledger: Ledger) -> None:
        hiding = replace(POLICY, source=replace(POLICY.objects, versions=Versions.MARKER))
        run = ledger.plan("a", "b", of=hiding)
        ledger.end()
        assert ledger.records.tallies(run, "outcome")["deleted"] == (2, 0)
        assert {record.freed for record in ledger.records.operations(_EVERYTHING)} == {0}

    def test_the_cursor_within_a_key_survives_its_planner(self, ledger: Ledger) -> None:
        answer = ledger.answer(PURGE)
        page = _page(ledger, PURGE, [entry("a", 0)], SLOT)
        cursor = page.cursors = [KeyRange("a", None, json.dumps(["a-0", None]))]
        ledger.write(answer, page, SLOT)
        assert answer.claim is not None
        ledger.plans.abandon(answer.claim, SLOT)
        resumed = ledger.plans.resume(answer.run.row, SLOT, timedelta(seconds=60))
        assert resumed is not None
        assert resumed.cursors == cursor


_EVERYTHING = OperationFilter()


def _page(ledger: Ledger, of: Policy, items: Sequence[Listed], now: datetime) -> PlannedPage:
    ids = ObjectIds(of.name, of.version, of.objects.bucket)
    seen = {ids.of(i.key, i.etag, i.last_modified, i.version_id): i for i in items}
    known = ledger.plans.known(list(seen))
    entries = [Entry(id_, i, disposition(known.get(id_), now), None) for id_, i in seen.items()]
    return PlannedPage(now, [], len(items), len(items), entries=entries)


def _plan(
    ledger: Ledger, items: Sequence[Listed], *, of: Policy = PURGE, now: datetime = SLOT
) -> Run:
    answer = ledger.answer(of, now)
    ledger.write(answer, _page(ledger, of, items, now), now)
    return ledger.conclude(answer, of, now)


def _held(operation: Operation, until: datetime | None, now: datetime = SLOT) -> Retried:
    failure = Failure(FailureClass.HELD, "locked", until=until)
    decision = decide(failure, operation.budget, Attempts(), now, lambda: 0.5)
    assert isinstance(decision, TryAgain)
    return Retried(operation, decision)
