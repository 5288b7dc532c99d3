"""Which instants a cron expression names, also where clocks change."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestbefore.adapters.schedulers.cron import CronCalendar, schedule_problem, timezone_problem
from bestbefore.ports.calendar import Calendar

CALENDAR: Calendar = CronCalendar()
HOUR = timedelta(hours=1)


def at(text: str) -> datetime:
    """An instant, in UTC unless *text* has an offset."""
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=moment.tzinfo or UTC)


def upcoming(schedule: str, timezone: str, start: str, count: int) -> list[datetime]:
    """The next *count* slots after *start*."""
    slots = [at(start)]
    for _ in range(count):
        slots.append(CALENDAR.following(schedule, timezone, slots[-1]))
    return slots[1:]


def test_a_slot_that_equals_the_instant_is_the_latest() -> None:
    slot = at("2026-07-01T02:00")

    assert CALENDAR.latest("0 2 * * *", "UTC", slot) == slot
    assert CALENDAR.latest("0 2 * * *", "UTC", slot + timedelta(microseconds=1)) == slot
    assert CALENDAR.latest("0 2 * * *", "UTC", slot - timedelta(microseconds=1)) == at(
        "2026-06-30T02:00"
    )


def test_a_slot_that_equals_the_instant_does_not_follow_it() -> None:
    slot = at("2026-07-01T02:00")

    assert CALENDAR.following("0 2 * * *", "UTC", slot) == at("2026-07-02T02:00")
    assert CALENDAR.following("0 2 * * *", "UTC", slot - timedelta(microseconds=1)) == slot


def test_slots_are_given_in_utc_whatever_zone_the_instant_is_in() -> None:
    asked = at("2026-07-01T12:00+09:00")

    for slot in (
        CALENDAR.latest("0 2 * * *", "Europe/Berlin", asked),
        CALENDAR.following("0 2 * * *", "Europe/Berlin", asked),
    ):
        assert slot.tzinfo is UTC
    assert CALENDAR.latest("0 2 * * *", "Europe/Berlin", asked) == at("2026-07-01T00:00")


def test_day_of_month_and_day_of_week_fire_when_either_matches() -> None:
    """O-CRON-01"""
    assert upcoming("30 0 1 * 1", "UTC", "2026-06-01T00:31", 6) == [
        at(f"2026-{day}T00:30") for day in ("06-08", "06-15", "06-22", "06-29", "07-01", "07-06")
    ]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2016-02-29T09:00", "2020-02-29T09:00"),
        ("2026-07-01T00:00", "2028-02-29T09:00"),
        ("2096-02-29T09:00", "2104-02-29T09:00"),
    ],
)
def test_the_next_leap_day_is_found(start: str, expected: str) -> None:
    """O-CRON-02"""
    assert CALENDAR.following("0 9 29 2 *", "UTC", at(start)) == at(expected)


def test_the_previous_leap_day_is_found() -> None:
    """O-CRON-02"""
    found = CALENDAR.latest("15 22 29 2 *", "UTC", at("2024-02-29T00:00"))

    assert found == at("2020-02-29T22:15")


@pytest.mark.parametrize("schedule", ["0 0 30 2 *", "0 0 31 2 *", "0 0 31 4,6,9,11 *"])
def test_a_date_that_never_comes_is_refused_at_once(schedule: str) -> None:
    """O-CRON-03"""
    started = time.monotonic()
    problem = schedule_problem(schedule)

    assert problem is not None
    assert "never fires" in problem
    assert time.monotonic() - started < 20  # and not for ever


def test_a_date_that_comes_in_one_of_its_months_is_accepted() -> None:
    """O-CRON-03"""
    assert schedule_problem("0 0 31 4,5 *") is None
    assert CALENDAR.following("0 0 31 4,5 *", "UTC", at("2026-01-01T00:00")) == at(
        "2026-05-31T00:00"
    )


@pytest.mark.parametrize("schedule", ["*/30 * * * * *", "15 23 * * 1-5 *", "0 2 * *", "@daily"])
def test_five_fields_are_expected(schedule: str) -> None:
    """O-CRON-04"""
    problem = schedule_problem(schedule)

    assert problem is not None
    assert "five are expected: minute, hour, day, month, weekday" in problem


@pytest.mark.parametrize(
    "schedule",
    ["60 * * * *", "a b c d e", "*/0 * * * *", "0 0 * * 8", f"{'9' * 5000} * * * *", "5-1 * * * *"],
)
def test_what_is_no_cron_expression_is_refused(schedule: str) -> None:
    assert schedule_problem(schedule) is not None


def test_the_last_friday_of_the_month_is_only_that_one() -> None:
    """O-CRON-05"""
    assert upcoming("0 0 * * 5L", "UTC", "2024-07-11T00:00", 4) == [
        at(f"2024-{day}T00:00") for day in ("07-26", "08-30", "09-27", "10-25")
    ]


@pytest.mark.parametrize(
    ("schedule", "start", "expected"),
    [
        ("30 2 * * *", "2025-03-08T12:00", ["2025-03-09T07:00", "2025-03-10T06:30"]),
        ("30 1 * * *", "2025-11-01T12:00", ["2025-11-02T05:30", "2025-11-03T06:30"]),
        ("0 2 * * *", "2025-03-09T01:30-05:00", ["2025-03-09T07:00", "2025-03-10T06:00"]),
    ],
)
def test_a_skipped_or_doubled_hour_has_one_slot(
    schedule: str, start: str, expected: list[str]
) -> None:
    """O-DST-01: the first valid minute after a gap, the first of two passes."""
    assert upcoming(schedule, "America/New_York", start, 2) == list(map(at, expected))


@pytest.mark.parametrize(
    ("schedule", "first", "hours"),
    [("30 2 * * *", "2025-03-09T00:00", 30), ("30 1 * * *", "2025-11-02T00:00", 30)],
)
def test_the_latest_slot_is_right_at_every_minute_of_a_clock_change(
    schedule: str, first: str, hours: int
) -> None:
    """O-DST-01: seen backwards, minute by minute, there is one slot as well."""
    zone = "America/New_York"
    minutes = [at(first) + timedelta(minutes=m) for m in range(60 * hours)]

    steps = [
        (after, minute)
        for (before, after), minute in zip(
            pairwise(CALENDAR.latest(schedule, zone, m) for m in minutes), minutes[1:], strict=True
        )
        if before != after
    ]

    assert len(steps) == 1
    assert steps[0][0] == steps[0][1] == CALENDAR.following(schedule, zone, minutes[0])


def test_a_midnight_slot_after_the_change_is_not_an_hour_late() -> None:
    """O-DST-02"""
    found = CALENDAR.following("0 0 * * *", "Europe/Warsaw", at("2017-03-26T00:00+01:00"))

    assert found == at("2017-03-26T22:00")


@pytest.mark.parametrize("zone", ["America/New_York", "UTC", "Asia/Tokyo"])
def test_slots_do_not_depend_on_the_zone_of_the_process(zone: str) -> None:
    """O-DST-03"""
    code = (
        "from datetime import *\n"
        "from bestbefore.adapters.schedulers.cron import CronCalendar\n"
        "now = datetime(2026, 7, 1, tzinfo=UTC)\n"
        "print(CronCalendar().following('0 8 * * *', 'UTC', now).isoformat())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"TZ": zone},
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout.strip() == "2026-07-01T08:00:00+00:00"


@given(
    schedule=st.sampled_from(
        ["* * * * *", "*/30 * * * *", "45 */2 * * *", "30 2 * * *", "15,45 1-3 * * *", "0 0 * * 0"]
    ),
    zone=st.sampled_from(
        ["UTC", "America/New_York", "Europe/Berlin", "America/Sao_Paulo", "Antarctica/Casey"]
    ),
    hours=st.floats(0, 22 * 365 * 24),
)
def test_latest_and_following_agree(schedule: str, zone: str, hours: float) -> None:
    moment = at("2008-01-01T00:00") + timedelta(hours=hours)
    before = CALENDAR.latest(schedule, zone, moment)
    after = CALENDAR.following(schedule, zone, moment)

    assert before <= moment < after
    assert CALENDAR.following(schedule, zone, before) == after
    assert CALENDAR.latest(schedule, zone, after) == after


def test_a_dense_schedule_is_looked_up_quickly() -> None:
    started = time.monotonic()
    for hour in range(20):
        CALENDAR.latest("* * * * *", "Europe/Berlin", at("2026-07-01T00:00:30") + hour * HOUR)

    assert time.monotonic() - started < 20


def test_an_instant_before_any_slot_is_an_error_that_names_the_schedule() -> None:
    with pytest.raises(ValueError, match=r'"0 2 \* \* \*" has no slot in the fifty years after'):
        CALENDAR.following("0 2 * * *", "UTC", datetime.max.replace(tzinfo=UTC))


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Etc/GMT+5"])
def test_names_of_time_zones_are_accepted(zone: str) -> None:
    assert timezone_problem(zone) is None


@pytest.mark.parametrize(
    "zone",
    ["", "Berlin", "CEST", "+02:00", "../etc/passwd", "/etc/localtime", "localtime", "right/UTC"],
)
def test_what_depends_on_the_machine_or_names_no_zone_is_refused(zone: str) -> None:
    assert timezone_problem(zone) is not None


def test_a_misspelt_time_zone_comes_with_a_suggestion() -> None:
    assert 'did you mean "Europe/Berlin"' in str(timezone_problem("Europe/Berln"))


def test_the_slots_between_two_instants_are_those_after_the_first_up_to_the_second() -> None:
    found = CALENDAR.between("0 * * * *", "UTC", at("2026-07-01T01:00"), at("2026-07-01T04:00"))

    assert list(found) == [at(f"2026-07-01T0{hour}:00") for hour in (2, 3, 4)]


@pytest.mark.parametrize("start", ["2025-11-02T05:45", "2025-11-02T06:10", "2025-11-02T06:31"])
def test_slots_between_do_not_come_again_in_the_second_pass_of_a_doubled_hour(start: str) -> None:
    """O-DST-01"""
    found = CALENDAR.between("30 1 * * *", "America/New_York", at(start), at("2025-11-03T12:00"))

    assert list(found) == [at("2025-11-03T06:30")]


def test_a_local_time_that_is_skipped_or_doubled_is_foretold_with_its_one_instant() -> None:
    """O-DST-01"""
    found = CALENDAR.clock_changes(
        "30 2 * * *", "Europe/Berlin", at("2026-01-01T00:00"), at("2027-01-01T00:00")
    )

    assert [(c.local.isoformat(), c.slot, c.skipped) for c in found] == [
        ("2026-03-29T02:30:00", at("2026-03-29T01:00"), True),
        ("2026-10-25T02:30:00", at("2026-10-25T00:30"), False),
    ]
    for change in found:
        before = change.slot - HOUR
        assert CALENDAR.following("30 2 * * *", "Europe/Berlin", before) == change.slot


@pytest.mark.parametrize(
    ("schedule", "timezone"),
    [
        ("30 2 * * *", "UTC"),
        ("0 3 * * *", "Europe/Berlin"),
        ("0 2 * * 1", "Europe/Berlin"),
        ("30 * * * *", "Europe/Berlin"),
        ("*/5 2 * * *", "Europe/Berlin"),
    ],
)
def test_a_schedule_that_no_clock_change_touches_has_none(schedule: str, timezone: str) -> None:
    year = at("2026-01-01T00:00"), at("2027-01-01T00:00")

    assert list(CALENDAR.clock_changes(schedule, timezone, *year)) == []
