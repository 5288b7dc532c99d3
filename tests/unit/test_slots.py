"""What is known of a slot decides its state: every case, with its reason."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.domain.slots import (
    Circumstances,
    Slot,
    SlotRun,
    SlotState,
    Verdict,
    collapsed,
    judge,
    lasting,
    may_fire,
    state_of,
)
from bestbefore.domain.states import RunState

AT = datetime(2026, 7, 1, 2, tzinfo=UTC)
GRACE = timedelta(minutes=15)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
LATER = AT + HOUR

OPEN = Slot("exports", AT)
MISSED = Verdict(SlotState.MISSED, "nobody answered within 15 min", AT + GRACE)
SKIPPED = Verdict(SlotState.SKIPPED, "overlap: run a", AT + GRACE)


def run(
    state: RunState = RunState.OPEN,
    *,
    complete: bool = True,
    began: timedelta = timedelta(0),
    until: timedelta | None = None,
) -> SlotRun:
    return SlotRun("r", state, complete, AT + began, None if until is None else AT + until)


UNDER_WAY = run(RunState.PLANNING, complete=False, until=MINUTE)
LEFT = run(RunState.PLANNING, complete=False, until=2 * MINUTE)


@pytest.mark.parametrize(
    ("slot", "now", "state", "reason"),
    [
        (OPEN, AT, "due", "its time has come"),
        (replace(OPEN, trouble="no route"), AT + MINUTE, "due", "no route"),
        (OPEN, AT + GRACE, "due", "its time has come"),
        (OPEN, AT + GRACE + MINUTE, "missed", "nobody answered within 15 min"),
        (replace(OPEN, verdict=MISSED), LATER, "missed", MISSED.reason),
        (replace(OPEN, verdict=SKIPPED), LATER, "skipped", SKIPPED.reason),
        (replace(OPEN, run=UNDER_WAY), AT, "planned", "run r is being planned"),
        (replace(OPEN, run=run()), AT, "planned", "run r is open"),
        (replace(OPEN, run=run(began=-MINUTE)), AT, "planned", "run r is open"),
        (replace(OPEN, run=run(RunState.PARKED)), AT, "planned", "run r is parked"),
        (
            replace(OPEN, run=run(RunState.CANCELLED, complete=False)),
            AT,
            "planned",
            "run r is cancelled",
        ),
        (replace(OPEN, run=run(began=GRACE)), LATER, "planned", "run r is open"),
        (replace(OPEN, run=run(began=HOUR)), LATER, "late", "run r is open, 1 h after its time"),
        (
            replace(OPEN, run=run(began=HOUR), verdict=MISSED),
            LATER,
            "late",
            "run r is open, 1 h after its time (nobody answered within 15 min)",
        ),
        (replace(OPEN, run=run(RunState.DRAINED)), LATER, "drained", "run r is drained"),
        (
            replace(OPEN, run=run(RunState.DRAINED, began=HOUR)),
            LATER,
            "drained",
            "run r is drained, 1 h after its time",
        ),
        # Begun in time and left: only a verdict makes it missed, only its end makes it late.
        (replace(OPEN, run=LEFT, verdict=MISSED), LATER, "missed", MISSED.reason),
        (
            replace(OPEN, run=run(), verdict=replace(MISSED, at=LATER)),
            LATER,
            "late",
            "run r is open, 1 h after its time (nobody answered within 15 min)",
        ),
        # A pause was noticed at once, and somebody planned it by hand in time.
        (
            replace(OPEN, run=run(), verdict=replace(MISSED, at=AT)),
            LATER,
            "planned",
            "run r is open",
        ),
    ],
)
def test_the_state_of_a_slot_and_its_reason(
    slot: Slot, now: datetime, state: str, reason: str
) -> None:
    assert state_of(slot, GRACE, now) == (state, reason)


@pytest.mark.parametrize(
    ("slot", "seen", "now", "state", "reason"),
    [
        (OPEN, Circumstances(), LATER, "missed", "nobody answered within 15 min"),
        (OPEN, Circumstances(unseen="nobody looked"), LATER, "missed", "nobody looked"),
        (OPEN, Circumstances("audit"), AT, "missed", "paused: audit"),
        (OPEN, Circumstances("audit", "a", "nobody looked"), LATER, "missed", "paused: audit"),
        (OPEN, Circumstances(ahead="a"), LATER, "skipped",
         "overlap: run a of an earlier slot was still being planned"),
        (replace(OPEN, trouble="no route"), Circumstances(), LATER, "missed",
         "planning failed: no route"),
        (replace(OPEN, run=LEFT), Circumstances(), LATER, "missed",
         "run r was begun and not planned to its end: its planner is gone"),
        (replace(OPEN, run=LEFT, trouble="no route"), Circumstances(), LATER, "missed",
         "run r was begun and not planned to its end: no route"),
    ],
)  # fmt: skip
def test_a_slot_that_nobody_answers_gets_a_verdict(
    slot: Slot, seen: Circumstances, now: datetime, state: str, reason: str
) -> None:
    assert judge(slot, seen, GRACE, now) == Verdict(SlotState(state), reason, now)


@pytest.mark.parametrize(
    ("slot", "seen", "now"),
    [
        (OPEN, Circumstances(), AT + GRACE),
        (OPEN, Circumstances(ahead="a", unseen="nobody looked"), AT),
        (replace(OPEN, trouble="no route"), Circumstances(), AT + MINUTE),
        (replace(OPEN, run=run()), Circumstances("audit"), LATER),
        (replace(OPEN, run=run(RunState.PARKED)), Circumstances("audit"), LATER),
        (replace(OPEN, run=UNDER_WAY), Circumstances("audit"), AT),
        # Somebody is at it, however late; or was a moment ago, and another one may go on.
        (replace(OPEN, run=run(RunState.OPEN, complete=False, until=2 * HOUR)), Circumstances(),
         LATER),
        (replace(OPEN, run=run(RunState.OPEN, complete=False, until=HOUR)), Circumstances(),
         LATER + timedelta(seconds=59)),
    ],
)  # fmt: skip
def test_a_slot_that_somebody_answers_or_still_may_gets_none(
    slot: Slot, seen: Circumstances, now: datetime
) -> None:
    assert judge(slot, seen, GRACE, now) is None


@pytest.mark.parametrize(
    ("slot", "seen", "catch_up", "now", "fires"),
    [
        (OPEN, Circumstances(), False, AT, True),
        (OPEN, Circumstances(), False, AT + GRACE, True),
        (OPEN, Circumstances(), True, AT + GRACE + MINUTE, False),  # not judged so far
        (OPEN, Circumstances("audit"), True, AT, False),
        (OPEN, Circumstances(ahead="a"), True, AT, False),
        (replace(OPEN, run=run()), Circumstances(), True, AT, False),
        (replace(OPEN, run=run(RunState.PARKED)), Circumstances(), True, LATER, False),
        (replace(OPEN, run=UNDER_WAY), Circumstances(), True, AT, False),
        (replace(OPEN, run=UNDER_WAY), Circumstances(), False, AT + MINUTE, True),
        (replace(OPEN, verdict=MISSED), Circumstances(), False, LATER, False),
        (replace(OPEN, verdict=MISSED), Circumstances(), True, LATER, True),
        (replace(OPEN, verdict=MISSED), Circumstances("audit"), True, LATER, False),
        (replace(OPEN, verdict=MISSED, run=LEFT), Circumstances(), True, LATER, True),
        (replace(OPEN, verdict=MISSED, run=run()), Circumstances(), True, LATER, False),
        (replace(OPEN, verdict=SKIPPED), Circumstances(), True, LATER, False),
    ],
)
def test_what_a_ticker_fires(
    slot: Slot, seen: Circumstances, catch_up: bool, now: datetime, fires: bool
) -> None:
    assert may_fire(slot, seen, catch_up=catch_up, grace=GRACE, now=now) is fires


def test_a_collapsed_slot_says_into_what_and_what_it_was_before() -> None:
    plain = collapsed(LATER, None, LATER)
    assert plain.state is SlotState.SKIPPED
    assert plain.reason == "collapsed: the run of 2026-07-01T03:00:00Z takes its work"
    missed = replace(MISSED, reason="paused: audit")
    assert collapsed(LATER, missed, LATER).reason == f"{plain.reason} (missed, paused: audit)"


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=45), "45 s"),
        (GRACE, "15 min"),
        (timedelta(minutes=1, seconds=5), "1 min 5 s"),
        (timedelta(hours=2, minutes=5, seconds=7), "2 h 5 min"),
        (timedelta(days=3, minutes=4), "3 d"),
    ],
)
def test_how_long_something_lasts_is_said_in_two_units(span: timedelta, text: str) -> None:
    assert lasting(span) == text
