"""What a drain leaves, and when it may end."""

from collections.abc import Collection
from datetime import UTC, datetime

import pytest

from bestbefore.ports.ledger import Leftover, PolicyVersion
from bestbefore.stages.outlook import Outlook, left_over
from support.worlds import policy

NOW = datetime(2026, 7, 1, 2, tzinfo=UTC)
POLICIES = {"exports": policy()}


def rest(**more: object) -> Leftover:
    """Nothing left of version v1 of `exports`, but for *more*."""
    nothing = Leftover(
        policy=1, name="exports", version="v1", parked=0, waiting=0, due=0, leased=0, delayed=0,
        dead=0, next_due=None, planning=False, abandoned=False,
    )  # fmt: skip
    return nothing._replace(**more)


def outlook(blocked: dict[int, str] | None = None) -> Outlook:
    nothing: list[PolicyVersion] = []
    return Outlook(nothing, nothing, nothing, blocked or {})


def left(
    *rests: Leftover, blocked: dict[int, str] | None = None, failed: bool = False
) -> Collection[object] | None:
    return left_over(rests, outlook(blocked), POLICIES, planning_failed=failed)


def test_nothing_left_ends_a_drain() -> None:
    assert left() == {}
    assert left(rest()) == {}


@pytest.mark.parametrize("what", ["waiting", "due", "leased", "delayed"])
def test_whatever_can_still_be_done_is_awaited(what: str) -> None:
    """Delayed retries and others' leases too."""
    assert left(rest(**{what: 1})) is None
    assert left(rest(dead=1), rest(policy=2, **{what: 1})) is None


def test_dead_and_parked_ones_end_a_drain_and_are_named() -> None:
    assert left(rest(dead=2, parked=3), rest(policy=2, dead=1)) == {"dead": 3, "parked": 3}


@pytest.mark.parametrize("why", ["paused", "breaker", "not_in_this_file"])
def test_what_is_blocked_is_named_and_not_awaited(why: str) -> None:
    found = rest(waiting=1, due=2, leased=3, delayed=4, dead=5)
    assert left(found, blocked={1: why}) == {why: 10, "dead": 5}
    assert left(found, rest(policy=2, due=1), blocked={1: why}) is None


def test_somebody_elses_plan_is_awaited() -> None:
    assert left(rest(planning=True)) is None
    assert left(rest(planning=True), failed=True) is None


def test_a_plan_that_nobody_works_on_is_continued_here() -> None:
    assert left(rest(planning=True, abandoned=True)) is None


def test_a_plan_that_cannot_be_continued_here_is_named() -> None:
    abandoned = rest(planning=True, abandoned=True)
    assert left(abandoned, failed=True) == {"unplanned": 1}
    assert left(abandoned._replace(version="v0")) == {"unplanned": 1}
    assert left(abandoned._replace(name="removed")) == {"unplanned": 1}
