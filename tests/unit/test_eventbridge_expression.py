"""Expressions for EventBridge name the slots that cronsim names, by a reader of their own."""

from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.adapters.schedulers.cron import CronCalendar
from bestbefore.adapters.schedulers.eventbridge.expression import expression
from bestbefore.ports.scheduler import Inexpressible, Wanted
from support.aws_cron import fires

CASES = [
    ("0 2 * * *", "cron(0 2 * * ? *)"),
    ("* * * * *", "cron(* * * * ? *)"),
    ("*/15 * * * *", "cron(0/15 * * * ? *)"),
    ("5-59/20 */6 * * *", "cron(5/20 0/6 * * ? *)"),
    ("0,30 8-17 * * *", "cron(0,30 8-17 * * ? *)"),
    ("7 3,4,5,23 * * *", "cron(7 3-5,23 * * ? *)"),
    ("*/7 1 * * *", "cron(0/7 1 * * ? *)"),
    ("0 0 1 * *", "cron(0 0 1 * ? *)"),
    ("0 0 */10 * *", "cron(0 0 1,11,21,31 * ? *)"),
    ("30 4 1,15-17 */3 *", "cron(30 4 1,15-17 1,4,7,10 ? *)"),
    ("0 0 29 2 *", "cron(0 0 29 2 ? *)"),
    ("0 0 L * *", "cron(0 0 L * ? *)"),
    ("0 0 1 jan-mar *", "cron(0 0 1 1-3 ? *)"),
    ("30 9 * * 1-5", "cron(30 9 ? * MON-FRI *)"),
    ("30 9 * * 0", "cron(30 9 ? * SUN *)"),
    ("30 9 * * 7", "cron(30 9 ? * SUN *)"),
    ("30 9 * * 6-7", "cron(30 9 ? * SUN,SAT *)"),
    ("30 9 * * sun,wed,thu", "cron(30 9 ? * SUN,WED-THU *)"),
    ("30 9 * * */2", "cron(30 9 ? * SUN,TUE,THU,SAT *)"),
    ("0 0 * * 5L", "cron(0 0 ? * 6L *)"),
    ("0 0 * * 7L", "cron(0 0 ? * 1L *)"),
    ("0 0 * * 2#2", "cron(0 0 ? * 3#2 *)"),
    ("0 0 1-31 * 1", "cron(0 0 * * ? *)"),  # either day field may match, and one always does
    ("0 0 * * 0-7", "cron(0 0 * * ? *)"),
    ("0 0 13 * */1", "cron(0 0 13 * ? *)"),
]
"""Ours, and what the same is over there, by hand."""

REFUSED = [
    ("30 0 1 * 1", "two policies"),
    ("0 0 */2 * 1", 'one of the two fields as "*"'),
    ("0 0 LW * *", '"L" alone'),
    ("0 0 15,L * *", '"L" alone'),
    ("0 0 * * 5L,1", "several policies"),
    ("0 0 * * 1#1,1#3", "several policies"),
]

YEAR = (datetime(2027, 6, 1, tzinfo=UTC), datetime(2028, 6, 1, tzinfo=UTC))  # with 29 February


def wanted(schedule: str, timezone: str = "UTC") -> Wanted:
    return Wanted("exports", schedule, timezone)


@pytest.mark.parametrize(("ours", "theirs"), CASES)
def test_a_schedule_is_written_in_their_language(ours: str, theirs: str) -> None:
    """O-CRON-02, O-CRON-05"""
    assert expression(wanted(ours)) == theirs


@pytest.mark.parametrize("ours", [ours for ours, _ in CASES if ours != "* * * * *"])
def test_both_languages_name_the_same_slots_of_a_year(ours: str) -> None:
    first, last = YEAR

    expected = list(CronCalendar().between(ours, "UTC", first - timedelta(seconds=1), last))

    assert list(fires(expression(wanted(ours)), "UTC", first, last)) == expected


@pytest.mark.parametrize(("ours", "remedy"), REFUSED)
def test_what_they_have_no_words_for_is_refused_by_name_with_what_to_write(
    ours: str, remedy: str
) -> None:
    """O-CRON-01"""
    with pytest.raises(Inexpressible) as caught:
        expression(wanted(ours))

    assert str(caught.value).startswith(f'policies.exports: schedule "{ours}" ')
    assert remedy in str(caught.value)


def test_the_longest_expression_fits() -> None:
    """What does not come in stretches of three or more takes the most room."""

    def pairs(least: int, most: int) -> str:
        return ",".join(str(n) for n in range(least, most + 1) if (n - least) % 3 != 2)

    ours = f"{pairs(0, 59)} {pairs(0, 23)} {pairs(1, 31)} {pairs(1, 12)} *"

    assert len(expression(wanted(ours))) <= 256


@pytest.mark.parametrize(
    ("zone", "schedule"),
    [
        ("America/New_York", "30 2 * * *"),
        ("America/New_York", "30 1 * * *"),
        ("Europe/Berlin", "0 2 * * *"),
        ("Australia/Lord_Howe", "15 2 * * *"),
        ("Asia/Kolkata", "30 2 * * *"),
    ],
)
def test_they_differ_from_us_exactly_where_a_clock_change_skips_a_local_time(
    zone: str, schedule: str
) -> None:
    """O-DST-01: which `check` says beforehand, and the ledger as a missed slot afterwards."""
    first, last = YEAR
    calendar_ = CronCalendar()
    ours = set(calendar_.between(schedule, zone, first - timedelta(seconds=1), last))
    theirs = set(fires(expression(wanted(schedule, zone)), zone, first, last))
    skipped = {
        change.slot
        for change in calendar_.clock_changes(schedule, zone, first, last)
        if change.skipped
    }

    assert ours - theirs == skipped
    assert theirs <= ours
