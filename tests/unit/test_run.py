"""When a run waits for a person."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bestbefore.domain.policy import Reach
from bestbefore.domain.run import (
    Circumstances,
    Run,
    Trigger,
    park_reason,
    run_id,
    too_many_reappeared,
)
from bestbefore.domain.states import RunState

SLOT = datetime(2026, 7, 1, 2, tzinfo=UTC)
CALM = Circumstances(approved=False, first=False, moved_from=None, inherited=None)
NO_CAPS = Reach()


def run(planned: int, in_scope: int | None = None) -> Run:
    return Run(
        1, "0123456789ab", "exports", "v1", SLOT, SLOT, SLOT, RunState.PLANNING, Trigger.RUN,
        early=False, complete=True, target="here", reason=None, created_at=SLOT,
        scanned=planned, in_scope=planned if in_scope is None else in_scope, protected={},
        already_pending=0, already_completed=0, already_dead=0, reappeared=0, refused=0,
        planned=planned, waiting=planned, pending=0, completed=0, dead=0,
    )  # fmt: skip


def test_a_slot_has_the_same_name_in_every_process_and_time_zone() -> None:
    assert run_id("exports", "v1", SLOT) == run_id("exports", "v1", SLOT.replace(microsecond=9))
    others = {("exports", "v2"), ("export", "sv1"), ("exports", "v")}
    assert run_id("exports", "v1", SLOT) not in {run_id(*other, SLOT) for other in others}
    assert len(run_id("exports", "v1", SLOT)) == 12


def test_a_calm_run_goes_ahead() -> None:
    assert park_reason(run(10**6), NO_CAPS, CALM) is None


@pytest.mark.parametrize(("planned", "parks"), [(10, False), (11, True)])
def test_more_than_max_deletes_parks(planned: int, parks: bool) -> None:
    reason = park_reason(run(planned), Reach(max_deletes=10), CALM)
    assert (reason is not None) == parks
    assert reason in (None, "11 objects selected, max_deletes is 10")


@pytest.mark.parametrize(("planned", "parks"), [(50, False), (51, True)])
def test_more_than_max_fraction_of_what_is_in_scope_parks(planned: int, parks: bool) -> None:
    reason = park_reason(run(planned, in_scope=100), Reach(max_fraction=0.5), CALM)
    assert (reason is not None) == parks


@pytest.mark.parametrize("reach", [Reach(max_deletes=0), Reach(max_fraction=0.0)])
def test_what_selects_nothing_never_parks(reach: Reach) -> None:
    seen = replace(CALM, first=True, moved_from="there", inherited="because")
    assert park_reason(run(0), reach, seen) is None


def test_a_first_run_parks_above_its_limit() -> None:
    seen = replace(CALM, first=True)
    assert park_reason(run(10_000), NO_CAPS, seen) is None
    assert "first run of version v1" in (park_reason(run(10_001), NO_CAPS, seen) or "")


def test_another_target_parks_however_little_is_selected() -> None:
    reason = park_reason(run(1), NO_CAPS, replace(CALM, moved_from="there"))
    assert reason == "this run looks at here, the last released one at there"


def test_yes_is_an_answer_to_every_reason() -> None:
    seen = Circumstances(approved=True, first=True, moved_from="there", inherited="because")
    assert park_reason(run(10**6), Reach(max_deletes=1, max_fraction=0.0), seen) is None
    assert too_many_reappeared(10**6, 10**6, seen) is None
    assert not seen.may_park(Reach(max_deletes=1))


@pytest.mark.parametrize(
    ("reappeared", "eligible", "parks"),
    [(100, 100, False), (101, 101, True), (101, 10_100, False), (102, 10_199, True),
     (101, 10_099, True)],
)  # fmt: skip
def test_a_hundred_or_one_percent_may_reappear(reappeared: int, eligible: int, parks: bool) -> None:
    assert (too_many_reappeared(reappeared, eligible, CALM) is not None) == parks


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("moved", [None, "there"])
@pytest.mark.parametrize("inherited", [None, "because"])
@pytest.mark.parametrize("reach", [NO_CAPS, Reach(max_deletes=1), Reach(max_fraction=0.1)])
def test_whatever_parks_at_the_end_was_not_released_page_by_page(
    first: bool, moved: str | None, inherited: str | None, reach: Reach
) -> None:
    seen = Circumstances(False, first, moved, inherited)
    if park_reason(run(10**6), reach, seen) is not None:
        assert seen.may_park(reach)
