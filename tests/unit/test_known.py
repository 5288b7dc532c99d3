"""What a plan does with an operation it already knows: the design's table, row by row."""

from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.domain.known import SETTLING, Disposition, Known, disposition
from bestbefore.domain.outcome import CLOSED, REPLANNED, Outcome
from bestbefore.domain.states import State

ASKED = datetime(2026, 7, 1, 2, tzinfo=UTC)
LONG_AGO = ASKED - timedelta(days=3)
EFFECTS = sorted(set(Outcome) - CLOSED - REPLANNED)


def completed(outcome: Outcome, at: datetime) -> Known:
    return Known(State.COMPLETED, outcome, at, reappearances=0)


def test_an_unknown_operation_is_new() -> None:
    assert disposition(None, ASKED) is Disposition.NEW


@pytest.mark.parametrize("state", [State.WAITING, State.PENDING])
def test_what_is_on_its_way_is_already_pending(state: State) -> None:
    assert disposition(Known(state, None, None, 0), ASKED) is Disposition.ALREADY_PENDING


def test_a_dead_letter_is_left_to_a_person() -> None:
    """P10"""
    assert disposition(Known(State.DEAD, None, None, 0), ASKED) is Disposition.ALREADY_DEAD


@pytest.mark.parametrize("outcome", sorted(CLOSED))
@pytest.mark.parametrize("at", [LONG_AGO, ASKED, ASKED + timedelta(seconds=1)])
def test_what_a_person_closed_stays_closed(outcome: Outcome, at: datetime) -> None:
    assert disposition(completed(outcome, at), ASKED) is Disposition.ALREADY_DEAD


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - CLOSED - {Outcome.CANCELLED}))
@pytest.mark.parametrize(
    "at", [ASKED + timedelta(hours=1), ASKED, ASKED - timedelta(minutes=1), ASKED - SETTLING]
)
def test_what_ended_while_the_page_was_on_its_way_is_already_completed(
    outcome: Outcome, at: datetime
) -> None:
    """A listing may show for a while what is gone."""
    assert disposition(completed(outcome, at), ASKED) is Disposition.ALREADY_COMPLETED


@pytest.mark.parametrize("at", [LONG_AGO, ASKED - timedelta(seconds=1), ASKED])
def test_what_was_cancelled_a_moment_ago_is_planned_again(at: datetime) -> None:
    """P5: a newer slot cancels a parked run and plans its operations in the same breath."""
    assert disposition(completed(Outcome.CANCELLED, at), ASKED) is Disposition.AGAIN


@pytest.mark.parametrize("outcome", sorted(REPLANNED))
def test_what_ended_earlier_without_being_tried_is_planned_again(outcome: Outcome) -> None:
    assert disposition(completed(outcome, LONG_AGO), ASKED) is Disposition.AGAIN


@pytest.mark.parametrize("outcome", EFFECTS)
def test_what_ended_earlier_and_is_listed_as_it_was_has_reappeared(outcome: Outcome) -> None:
    just_too_early = ASKED - SETTLING - timedelta(microseconds=1)

    for at in (LONG_AGO, just_too_early):
        assert disposition(completed(outcome, at), ASKED) is Disposition.REAPPEARED


def test_every_outcome_has_its_row() -> None:
    assert {Outcome.DELETED, Outcome.ARCHIVED, Outcome.ABSENT, Outcome.CHANGED} <= set(EFFECTS)
    assert not CLOSED & REPLANNED
