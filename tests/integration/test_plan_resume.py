"""Plans that are interrupted are continued from where they stood, by whoever comes next."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.run import RunState
from bestbefore.ports.ledger import PlanTakenOver
from bestbefore.ports.objects import KeyRange, Page, StoreError
from support.worlds import World, policy


def after(pages: int) -> Callable[[], bool]:
    """Stop once so many pages were written."""
    asked: list[int] = []

    def stopping() -> bool:
        asked.append(1)
        return len(asked) >= pages

    return stopping


def watch_pages(world: World) -> Counter[str | None]:
    """Counts, from now on, from where pages are asked for."""
    asked: Counter[str | None] = Counter()
    page = world.store.page

    def watched(bucket: str, prefix: str, keys: KeyRange) -> Page:
        asked[keys.after] += 1
        return page(bucket, prefix, keys)

    world.store.page = watched  # type: ignore[method-assign]
    return asked


@pytest.mark.parametrize("cap", [None, 1_000])
def test_a_worker_plans_on_from_the_cursor_and_nothing_is_planned_twice(
    tmp_path: Path, cap: int | None
) -> None:
    """P4, whether the run was released page by page or not."""
    with World(tmp_path, policy(max_deletes=cap)) as world:
        world.store.page_size = 10
        keys = world.fill(95)
        part = world.plan(stopping=after(3))
        assert (part.complete, part.planned, part.scanned) == (False, 30, 30)
        asked = watch_pages(world)

        report = world.work()

        run = world.run(part)
        assert (run.complete, run.scanned, run.planned) == (True, 95, 95)
        assert run.state is RunState.DRAINED
        assert asked[keys[29]] == 1
        assert asked[None] == asked[keys[9]] == 0, "what is planned is not listed again"
        assert report.outcomes == {"deleted": 95}
        assert sorted(world.store.attempts) == keys
        world.assert_reconciled()


def test_a_killed_planner_is_followed_once_its_lease_has_run_out(tmp_path: Path) -> None:
    """P4: it leaves neither a word nor its claim."""
    with World(tmp_path, policy()) as world:
        world.store.page_size = 10
        world.fill(50)
        answer = world.system.plans.answer(
            policy(), world.clock.now(), "memory/bucket/exports/", "plan", approved=False,
            by="killed", now=world.clock.now(), lease=timedelta(seconds=60))  # fmt: skip
        assert answer.claim is not None
        begun = world.clock.now()

        report = world.work()

        assert world.clock.now() - begun >= timedelta(seconds=60), "a drain waits for others' plans"
        assert report.outcomes == {"deleted": 50}
        assert world.run(answer.run).state is RunState.DRAINED
        with pytest.raises(PlanTakenOver):
            world.system.plans.conclude(answer.claim, 0, lambda _: None, world.clock.now())
        world.assert_reconciled()


def test_the_same_slot_again_continues_the_plan(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.store.page_size = 10
        world.fill(50)
        part = world.plan(stopping=after(2))

        whole = world.answer(slot=part.slot)

        assert not whole.repeated
        assert (whole.run.run_id, whole.run.planned) == (part.run_id, 50)


def test_a_plan_stopped_after_its_last_page_is_only_concluded(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(5)
        part = world.plan(stopping=after(1))
        assert (part.complete, part.planned) == (False, 5)
        asked = watch_pages(world)

        world.work()

        assert asked == {}
        assert world.run(part).state is RunState.DRAINED


def test_a_store_that_fails_in_the_middle_leaves_a_plan_to_continue(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.store.page_size = 10
        keys = world.fill(50)
        page = world.store.page
        sick = [True]

        def failing(bucket: str, prefix: str, at: KeyRange) -> Page:
            if sick[0] and at.after == keys[29]:
                raise StoreError(Failure(FailureClass.PERMISSION, "AccessDenied"))
            return page(bucket, prefix, at)

        world.store.page = failing  # type: ignore[method-assign]
        with pytest.raises(StoreError, match="AccessDenied"):
            world.plan()
        (part,) = world.system.records.runs()
        assert part.planned <= 30

        report = world.work()
        assert report.left == {"unplanned": 1}, "a drain ends, and says so"
        sick[0] = False
        world.work()

        assert (world.run(part).planned, world.run(part).state) == (50, RunState.DRAINED)
        assert world.store.objects == {}
        world.assert_reconciled()


@pytest.mark.parametrize("cap", [None, 1_000])
def test_an_unfinished_plan_of_an_older_version_ends_with_it(
    tmp_path: Path, cap: int | None
) -> None:
    """Nobody will ever finish it, so it must neither stay open nor keep a drain waiting."""
    with World(tmp_path, policy(max_deletes=cap)) as world:
        world.store.page_size = 2
        world.fill(7)
        part = world.plan(stopping=after(2))
        world.restart(policy(version="v2"))
        world.clock.step(timedelta(hours=1))
        new = world.plan()

        report = world.work()

        ended = world.run(part)
        assert (ended.state, ended.reason) == (RunState.CANCELLED, f"taken over by {new.run_id}")
        assert world.outcomes(part) == {"cancelled": 4}
        assert (report.outcomes, report.left) == ({"deleted": 7}, {})
        world.assert_reconciled()


def test_a_plan_this_file_cannot_continue_does_not_keep_a_drain_for_ever(tmp_path: Path) -> None:
    with World(tmp_path, policy(max_deletes=1_000)) as world:
        world.store.page_size = 2
        world.fill(7)
        part = world.plan(stopping=after(2))
        world.restart(policy("others"))
        rounds: list[int] = []

        def stopping() -> bool:
            rounds.append(1)
            return len(rounds) > 500

        report = world.work(stopping=stopping)

        assert len(rounds) < 500
        assert report.left == {"unplanned": 1}
        assert world.run(part).state is RunState.PLANNING
        world.assert_reconciled()


def test_what_is_released_page_by_page_is_worked_on_before_the_scan_ends(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.store.page_size = 10
        world.fill(30)
        gone: list[int] = []

        def stopping() -> bool:
            """After each page, a worker takes what is there, and no more."""
            with world.another() as other:
                worker = other.system
                for version in worker.work.versions():
                    while span := worker.work.waiting(version.row, 100):
                        gone.append(worker.queue.publish(span, world.clock.now()))
            return False

        run = world.plan(stopping=stopping, approved=True)

        assert gone == [10, 10, 10]
        assert (run.state, run.planned, run.pending) == (RunState.OPEN, 30, 30)
        world.assert_reconciled()


def test_an_empty_bucket_makes_a_run_that_has_nothing_to_do(tmp_path: Path) -> None:
    """O-BULK-04"""
    with World(tmp_path, policy()) as world:
        run = world.plan()
        report = world.work()

        assert (run.state, run.planned, run.complete) == (RunState.DRAINED, 0, True)
        assert (report.received, report.left) == (0, {})
        assert world.store.attempts == []
