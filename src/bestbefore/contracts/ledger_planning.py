"""What is to be done: the half of `contracts.ledger` that is about plans."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bestbefore.contracts.ledger_world import (
    DAY,
    LEASE,
    OLD,
    POLICY,
    SLOT,
    Ledger,
    Sides,
    capped,
    item,
)
from bestbefore.domain.known import MOST_REAPPEARANCES, SETTLING
from bestbefore.domain.outcome import Outcome, Spared
from bestbefore.domain.pointer import Pointer
from bestbefore.domain.policy import Reach
from bestbefore.domain.retention import Age
from bestbefore.domain.run import Trigger
from bestbefore.domain.selection import GENERATION, KEEP_LAST, Verdict
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import (
    Completed,
    DeadFilter,
    GenerationSeen,
    Kept,
    LedgerError,
    PlanTakenOver,
    PolicyEdited,
)
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.records import OperationFilter


class PlanningContract:
    """Planners, what they know already, parking, and policy versions, whatever stores them."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

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

    def test_a_first_run_over_its_limit_parks_whatever_started_it(self, ledger: Ledger) -> None:
        for trigger in Trigger:
            of = replace(POLICY, name=trigger, reach=Reach(first_run_limit=1))
            run = ledger.plan("a", "b", of=of, trigger=trigger)
            assert run.state is RunState.PARKED
            assert "first run of version v1" in (run.reason or "")
        assert ledger.publish() == 0

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
        answer = ledger.answer(approved=True)

        ledger.write(answer, ledger.page(POLICY, ["a"], SLOT, KeyRange("exports/a", None)), SLOT)

        assert len(ledger.end()) == 1
        assert ledger.again(answer.run).state is RunState.OPEN, "its scan has not ended"
        ledger.write(answer, ledger.page(POLICY, [], SLOT), SLOT)
        assert ledger.conclude(answer, POLICY, SLOT).state is RunState.DRAINED
