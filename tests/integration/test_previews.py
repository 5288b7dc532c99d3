"""What a person is shown of a run before anything is published (S-REACH-09)."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bestbefore.app.previewing import gather, preview_of
from bestbefore.domain.preview import Preview
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.states import RunState
from support.clock import NOW
from support.worlds import OLD, YOUNG, World, policy

DAY = timedelta(days=1)


def stored(world: World, run: Run) -> Preview:
    found = world.system.previews.find(run)
    assert found is not None
    return found


def drawn(world: World, **more: Any) -> tuple[Run, Preview]:
    """A dry run."""
    of = world.system.policy("exports")
    with world.system.scratch() as scratch:
        planner = world.system.planner(of)
        run = planner.preview(of, world.clock.now(), scratch.plans, Trigger.PLAN, **more)
        return run, gather(world.system, of, run, scratch.previews)


def reasons(preview: Preview) -> dict[str, int]:
    return {stay.reason: stay.n for stay in preview.stays}


@pytest.mark.parametrize("trigger", list(Trigger))
def test_a_run_that_parks_keeps_what_it_would_remove_whatever_started_it(
    tmp_path: Path, trigger: Trigger
) -> None:
    """S-REACH-09, S-REACH-10: from the command line, HTTP and the embedded schedule."""
    with World(tmp_path, policy(max_deletes=3, match="*.json")) as world:
        world.put("exports/2026-01/a.json", size=70, age=OLD)
        world.put("exports/2026-02/b.json", "exports/2026-02/c.json", age=OLD + DAY, size=20)
        world.put("exports/2026-02/d.json", age=OLD + 2 * DAY, size=30)
        world.put("exports/2026-03/young.json", age=YOUNG)
        world.put("exports/2026-02/kept.csv", age=OLD)

        run = world.plan(trigger=trigger)
        shown = stored(world, run)

        assert run.state is RunState.PARKED
        assert (shown.n, shown.size) == (4, 140)
        assert (shown.oldest, shown.newest) == (OLD, OLD + 2 * DAY)
        assert [tuple(under) for under in shown.prefixes] == [
            ("exports/2026-02/", 3, 70),
            ("exports/2026-01/", 1, 70),
        ]
        assert reasons(shown) == {"young": 1, "outside": 1}
        assert len(shown.sample) == 4


def test_a_dry_run_shows_what_the_run_then_parks_with(tmp_path: Path) -> None:
    """S-REACH-09."""
    with World(tmp_path, policy(max_deletes=3)) as world:
        world.fill(5)
        would, shown = drawn(world)
        assert world.system.records.runs() == []

        run = world.plan()

        assert (would.state, would.reason) == (run.state, run.reason)
        assert stored(world, run) == shown


def test_a_dry_run_after_a_parked_run_names_the_keys_that_it_would_take_over(
    tmp_path: Path,
) -> None:
    """S-REACH-09: they are known to the ledger, which a dry run only reads."""
    with World(tmp_path, policy(max_deletes=3)) as world:
        keys = world.fill(5)
        world.plan()
        world.clock.step(DAY)

        run, shown = drawn(world)

        assert (run.state, shown.n, shown.size) == (RunState.PARKED, 5, 500)
        assert sorted(example.target.key for example in shown.sample) == keys


def test_what_only_the_whole_listing_keeps_is_said_with_its_prefixes(tmp_path: Path) -> None:
    """S-REACH-09: generations and the last N are taken out of the plan at its end."""
    of = policy(max_deletes=1, keep_last=2, keep_last_group="exports/([^/]+)/")
    with World(tmp_path, of) as world:
        for month in ("2026-01", "2026-02"):
            for n in range(4):
                world.put(f"exports/{month}/{n}", age=OLD + n * DAY)

        run = world.plan()

        shown = stored(world, run)
        assert (shown.n, reasons(shown)) == (4, {"keep_last": 4})
        assert [tuple(u) for u in shown.stays[0].prefixes] == [
            ("exports/2026-01/", 2, 200),
            ("exports/2026-02/", 2, 200),
        ]
        assert {example.target.key[-1] for example in shown.sample} == {"0", "1"}


def test_a_hold_is_a_reason_to_stay(tmp_path: Path) -> None:
    with World(tmp_path, policy(max_deletes=1)) as world:
        from bestbefore.app.holding import hold, scope_of

        world.fill(3, prefix="exports/acme/")
        world.fill(3, prefix="exports/other/")
        scope = scope_of(world.system, None, "s", "bucket", "exports/acme/")
        hold(world.system, scope, "court case 7", None, "tester")

        shown = stored(world, world.plan())

        assert (shown.n, reasons(shown)) == (3, {"hold": 3})
        assert shown.stays[0].prefixes[0][:2] == ("exports/acme/", 3)


def test_a_plan_that_another_planner_finishes_shows_all_of_it(tmp_path: Path) -> None:
    """S-REACH-09: what stays is stored with each page."""
    with World(tmp_path, policy(max_deletes=1)) as world:
        world.store.page_size = 4
        world.fill(10)
        world.put(*(f"exports/young/{n}" for n in range(10)), age=YOUNG)
        part = world.plan(stopping=lambda: True)
        assert not part.complete

        world.restart()
        world.system.plan_on(lambda: False)

        shown = stored(world, part)
        assert (world.run(part).state, shown.n) == (RunState.PARKED, 10)
        assert reasons(shown) == {"young": 10}


def test_a_run_that_goes_ahead_gathers_nothing(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(3)

        run = world.plan()

        assert run.state is RunState.OPEN
        assert world.system.previews.find(run) is None


def test_an_approved_run_still_says_what_was_approved(tmp_path: Path) -> None:
    with World(tmp_path, policy(max_deletes=1)) as world:
        world.fill(3)
        run = world.plan()
        before = stored(world, run)
        world.system.plans.approve(run.run_id, "boss", NOW, "checked with billing")

        assert stored(world, run) == before
        (event,) = world.system.records.decisions(run_id=run.run_id)
        assert event.detail == (
            "3 planned; parked because 3 objects selected, max_deletes is 1; "
            "approved because checked with billing"
        )


def test_a_preview_that_comes_after_the_approval_is_not_kept(tmp_path: Path) -> None:
    """It would show what is left to release by then, not what was approved."""
    with World(tmp_path, policy(max_deletes=1)) as world:
        world.fill(3)
        run = world.plan()
        before = stored(world, run)
        world.system.plans.approve(run.run_id, "boss", NOW)

        assert not world.system.previews.keep(run, before)


def test_a_parked_run_without_a_preview_gets_one_when_someone_looks(tmp_path: Path) -> None:
    """An older version planned it, or its planner was killed."""
    with World(tmp_path, policy(max_deletes=1)) as world:
        world.fill(3)
        run = world.plan()
        before = stored(world, run)
        with world.system.database.write() as connection:
            connection.exec_driver_sql("DELETE FROM run_previews")

        assert preview_of(world.system, world.run(run)) == before
        assert stored(world, run) == before
