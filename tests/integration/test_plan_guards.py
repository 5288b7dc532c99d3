"""What keeps a plan from reaching too far: caps, first runs, kept copies, restored stores."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bestbefore.app.questions import verification
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.run import RunState, Trigger
from bestbefore.domain.states import State
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.objects import BucketFacts
from support.clock import NOW
from support.worlds import YOUNG, World, failing, policy

DAY = timedelta(days=1)


@pytest.mark.parametrize("trigger", list(Trigger))
def test_a_plan_over_half_of_all_parks_with_nothing_queued(
    tmp_path: Path, trigger: Trigger
) -> None:
    """O-GUARD-02, P8"""
    with World(tmp_path, policy(max_fraction=0.5)) as world:
        world.fill(96)
        world.put(*(f"exports/young-{n}.json" for n in range(4)), age=YOUNG)

        run = world.plan(trigger=trigger)
        report = world.work()

        assert run.state is RunState.PARKED
        assert run.reason == "96 of 100 objects in scope selected (96.0%), max_fraction is 0.5"
        assert report.left == {"parked": 96}
        assert report.received == 0
        assert world.store.attempts == []
        assert {o.state for o in world.operations()} == {State.WAITING}


def test_exactly_at_the_cap_is_not_over_it(tmp_path: Path) -> None:
    with World(tmp_path, policy(max_fraction=0.5, max_deletes=10)) as world:
        world.fill(10)
        world.put(*(f"exports/young-{n}.json" for n in range(10)), age=YOUNG)

        assert world.plan().state is RunState.OPEN


def test_an_approval_is_bound_to_the_plan_it_was_given_for(tmp_path: Path) -> None:
    """O-GUARD-02: approve, add one object, run: blocked again."""
    with World(tmp_path, policy(max_deletes=3)) as world:
        world.fill(5)
        run = world.plan()
        world.system.plans.approve(run.run_id, "boss", world.clock.now())
        assert world.work().outcomes == {"deleted": 5}
        world.fill(6, prefix="exports/more-")
        world.clock.step(DAY)

        again = world.plan()

        assert again.state is RunState.PARKED
        assert world.work().outcomes == {}
        assert len(world.store.objects) == 6


def test_an_approved_run_deletes_only_what_was_shown(tmp_path: Path) -> None:
    with World(tmp_path, policy(max_deletes=3)) as world:
        shown = world.fill(5)
        run = world.plan()
        world.put("exports/late.json")

        assert world.answer(slot=run.slot, approved=True).approved
        world.work()

        assert sorted(world.store.deleted) == shown
        assert set(world.store.objects) == {"exports/late.json"}


def test_a_newer_slot_takes_a_parked_run_over_with_its_reason(tmp_path: Path) -> None:
    """P5: at once, not only once the settling time of five minutes is over."""
    with World(tmp_path, policy(max_deletes=3)) as world:
        world.fill(5)
        old = world.plan()
        world.clock.step(timedelta(seconds=30))
        world.put("exports/more.json")

        new = world.plan()

        assert (new.state, new.planned, new.already_completed) == (RunState.PARKED, 6, 0)
        assert new.reason == "6 objects selected, max_deletes is 3"
        stored = world.run(old)
        assert (stored.state, stored.planned) == (RunState.CANCELLED, 0)
        with pytest.raises(LedgerError):
            world.system.plans.approve(old.run_id, "boss", world.clock.now())
        world.assert_reconciled()
        world.system.plans.approve(new.run_id, "boss", world.clock.now())
        assert world.work().outcomes == {"deleted": 6}
        world.assert_reconciled()


@pytest.mark.parametrize("trigger", list(Trigger))
def test_the_first_run_of_a_version_parks_whatever_started_it(
    tmp_path: Path, trigger: Trigger
) -> None:
    """S-REACH-10."""
    with World(tmp_path, policy(first_run_limit=3)) as world:
        world.fill(5)
        first = world.plan(trigger=trigger)
        assert (first.state, first.early) == (RunState.PARKED, False)
        assert first.reason == ("first run of version v1: 5 objects selected, first_run_limit is 3")
        assert world.work().received == 0
        world.clock.step(DAY)
        again = world.plan(trigger=trigger)
        assert again.state is RunState.PARKED, "what it took over waited for a decision"
        world.system.plans.approve(again.run_id, "boss", world.clock.now())
        world.work()

        world.clock.step(DAY)
        world.fill(5, prefix="exports/more-")
        assert world.plan(trigger=Trigger.RUN).state is RunState.OPEN

        world.work()
        world.restart(policy(version="v2", first_run_limit=3))
        world.clock.step(DAY)
        world.fill(5, prefix="exports/again-")
        assert world.plan(trigger=Trigger.RUN).state is RunState.PARKED


@pytest.mark.parametrize("trigger", list(Trigger))
def test_another_bucket_than_last_time_parks(tmp_path: Path, trigger: Trigger) -> None:
    """S-REACH-10."""
    with World(tmp_path, policy()) as world:
        world.fill(2)
        world.plan(trigger=Trigger.RUN)
        world.work()
        world.store.endpoint = "elsewhere"
        world.fill(2, prefix="exports/there-")
        world.clock.step(DAY)

        run = world.plan(trigger=trigger)

        assert run.state is RunState.PARKED
        assert "elsewhere" in (run.reason or "")


@pytest.mark.parametrize("order", [1, -1])
def test_the_only_good_copy_stays_whatever_its_age(tmp_path: Path, order: int) -> None:
    """O-GUARD-01: also where the order of names differs from that of ages."""
    with World(tmp_path, policy(keep_last=1)) as world:
        world.store.page_size = 1
        names = ["a", "b", "c"][::order]
        for months, name in zip((4, 3, 2), names, strict=True):
            world.put(f"exports/{name}", age=NOW - timedelta(days=31 * months))

        run = world.plan()
        world.work()

        assert set(world.store.objects) == {f"exports/{names[-1]}"}
        assert (run.planned, run.protected) == (2, {"keep_last": 1})
        world.assert_reconciled()


def test_a_single_old_copy_is_never_a_candidate(tmp_path: Path) -> None:
    """O-GUARD-01, the variant"""
    with World(tmp_path, policy(keep_last=1)) as world:
        world.put("exports/2026-03-01.dump")

        run = world.plan()

        assert (run.planned, run.protected) == (0, {"keep_last": 1})
        assert world.work().received == 0
        assert len(world.store.objects) == 1


def test_a_broken_newest_copy_does_not_count_as_the_kept_one(tmp_path: Path) -> None:
    """O-GUARD-04"""
    megabyte = 1_000_000
    with World(tmp_path, policy(keep_last=1, min_size=megabyte)) as world:
        world.put("exports/2026-05-01.dump", age=NOW - timedelta(days=61), size=10 * megabyte)
        world.put("exports/2026-05-15.dump", age=NOW - timedelta(days=47), size=10 * megabyte)
        world.put("exports/2026-06-29.dump", age=NOW - timedelta(days=2), size=0)

        world.plan()
        world.work()

        assert set(world.store.objects) == {"exports/2026-05-15.dump", "exports/2026-06-29.dump"}


def test_each_group_keeps_its_own_newest(tmp_path: Path) -> None:
    of = policy(keep_last=2, keep_last_group=r"exports/([^/]+)/")
    with World(tmp_path, of) as world:
        world.store.page_size = 2
        for group in ("orders", "users"):
            for days in (40, 50, 60, 70):
                world.put(f"exports/{group}/{days}.dump", age=NOW - timedelta(days=days))
        world.put("exports/no-group.dump")

        run = world.plan()
        world.work()

        assert set(world.store.objects) == {
            f"exports/{group}/{days}.dump" for group in ("orders", "users") for days in (40, 50)
        }
        assert run.protected == {"keep_last": 4}
        world.assert_reconciled()


def restored(folder: Path, n: int, extra: int = 0) -> World:
    """A world whose store was put back as it was, after *n* objects were deleted."""
    world = World(folder, policy())
    world.fill(n)
    before = dict(world.store.objects)
    world.plan(trigger=Trigger.RUN)
    world.work()
    assert world.store.objects == {}
    for item in before.values():
        world.store.put(item)
    world.fill(extra, prefix="exports/new-")
    world.clock.step(DAY)
    return world


@pytest.mark.parametrize("trigger", list(Trigger))
def test_a_restored_store_parks_a_run_but_not_what_is_new_in_it(
    tmp_path: Path, trigger: Trigger
) -> None:
    """S-REACH-10. More than max(100, 1 %) reappeared: they stay back, what is out goes on."""
    with restored(tmp_path, 101, extra=10) as world:
        run = world.plan(trigger=trigger)

        assert run.state is RunState.PARKED
        assert run.reason == (
            "101 objects that were deleted are listed again (limit 100): was the store restored?"
        )
        assert (run.reappeared, run.planned) == (101, 111)
        assert world.work().received == 0
        world.system.plans.approve(run.run_id, "boss", world.clock.now())
        assert world.work().outcomes == {"deleted": 111}
        world.assert_reconciled()


def test_a_few_that_reappear_are_simply_deleted_again(tmp_path: Path) -> None:
    with restored(tmp_path, 100) as world:
        run = world.plan(trigger=Trigger.RUN)

        assert (run.state, run.reappeared) == (RunState.OPEN, 100)
        assert world.work().outcomes == {"deleted": 100}
        world.assert_reconciled()


def test_what_reappears_for_the_fourth_time_is_a_dead_letter(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        (key,) = world.fill(1)
        item = world.store.objects[key]
        for _ in range(4):
            world.plan()
            assert world.work().outcomes == {"deleted": 1}
            world.store.put(item)
            world.clock.step(DAY)

        run = world.plan()

        assert (run.dead, run.waiting) == (1, 0)
        assert world.work().outcomes == {}
        assert len(world.store.objects) == 1
        (letter,) = world.dead()
        assert "the store keeps listing it" in letter.error
        world.assert_reconciled()


def test_a_dead_letter_is_not_planned_again(tmp_path: Path) -> None:
    """P10"""
    with World(tmp_path, policy()) as world:
        world.fill(1)
        world.store.refuse = failing(FailureClass.MALFORMED)
        world.plan()
        world.work()
        world.store.refuse = lambda key: None
        for _ in range(3):
            world.clock.step(DAY)
            run = world.plan()
            assert (run.already_dead, run.planned) == (1, 0)
            world.work()

        assert len(world.dead()) == 1
        world.restart(policy(version="v2"))
        world.clock.step(DAY)
        assert world.plan().planned == 1, "a new version is a new decision"
        assert world.work().outcomes == {"deleted": 1}


def test_the_same_slot_twice_is_one_run_with_one_plan(tmp_path: Path) -> None:
    """P5"""
    with World(tmp_path, policy()) as world, world.another() as other:
        world.fill(5)
        first = world.answer(slot=NOW)
        world.put("exports/late.json")

        again = other.answer(slot=NOW)

        assert (first.repeated, again.repeated) == (False, True)
        assert again.run == world.run(first.run)
        assert world.run(first.run).planned == 5


def test_every_eligible_object_is_accounted_for(tmp_path: Path) -> None:
    """P11: eligible is the sum of everything a plan can say about it."""
    with World(tmp_path, policy(match="*.json")) as world:
        world.fill(10)
        world.put("exports/x.csv", "other/x.json")
        world.put("exports/young.json", age=YOUNG)
        world.put(f"exports/{'x' * 1_100}.json")
        world.store.refuse = failing(FailureClass.MALFORMED, "exports/000001.json")
        world.plan()
        world.work()
        world.fill(10)
        world.fill(3, prefix="exports/z-")
        world.clock.step(timedelta(minutes=10))

        run = world.plan()

        assert run.refused == 1
        assert (run.planned, run.reappeared, run.already_dead) == (12, 9, 1)
        assert run.in_scope == 15
        eligible = run.planned + run.already_pending + run.already_completed + run.already_dead
        assert eligible + run.refused == 14


@pytest.mark.parametrize("minutes", [-6, 6, 60 * 24 * 365])
def test_a_worker_whose_clock_is_off_deletes_nothing_and_spends_nothing(
    tmp_path: Path, minutes: int
) -> None:
    """By its clock a hold might be over, or a listing fresh. The breaker tells whoever looks."""
    with World(tmp_path, policy()) as world:
        world.fill(10)
        world.plan()
        there = timedelta(minutes=minutes)
        ticking = world.store.describe

        def describe(bucket: str) -> BucketFacts:
            return replace(ticking(bucket), server_time=world.clock.now() + there)

        world.store.describe = describe  # type: ignore[method-assign]

        report = world.work()

        assert world.store.attempts == []
        assert (report.left, report.dead) == ({"breaker": 10}, 0)
        (breaker,) = world.system.controls.breakers()
        assert "set the clock right" in breaker.reason
        there = timedelta(minutes=4)
        world.clock.step(timedelta(minutes=20))
        assert world.work().outcomes == {"deleted": 10}
        world.assert_reconciled()


def test_a_verification_of_another_place_proves_nothing_and_is_refused(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(2)
        world.plan()
        world.store.endpoint = "elsewhere"
        of = world.system.policy("exports")

        with pytest.raises(LedgerError, match="this configuration looks at elsewhere"):
            verification(world.system, of, lambda _: None, lambda: False)
