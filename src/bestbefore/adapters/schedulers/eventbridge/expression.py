"""From our five cron fields to EventBridge's six, which are not the same language.

There the year is a field of its own, Sunday is 1, one of the two day fields has to be "?", and days
that match either field, as cron has it, cannot be said at all. Fields are read by cronsim, which
also says what a slot is, and are written out as the values that they stand for.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from cronsim import CronSim

from bestbefore.ports.scheduler import Inexpressible, Wanted

_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_LEAST_STEPS = 3


def expression(wanted: Wanted) -> str:
    """The ``cron(…)`` that fires at the slots of *wanted*; raises Inexpressible.

    Not where a clock change skips a local time: there the one fires not at all, the other after.
    """
    cron = CronSim(wanted.schedule, _ANY_TIME)
    day, weekday = _days(cron, wanted)
    fields = [
        _numbers(cron.minutes, range(60), steps=True),
        _numbers(cron.hours, range(24), steps=True),
        day,
        _numbers(cron.months, range(1, 13)),
        weekday,
        "*",
    ]
    return f"cron({' '.join(fields)})"


def _days(cron: CronSim, wanted: Wanted) -> tuple[str, str]:
    """Both day fields: one of them restricts, the other is "?"."""
    every_day = set(cron.days) >= set(range(1, 32))
    every_weekday = {day % 7 for day in cron.weekdays if isinstance(day, int)} == set(range(7))
    if (every_day and every_weekday) or (not cron.day_and and (every_day or every_weekday)):
        return "*", "?"
    if every_day:
        return "?", _weekday(cron, wanted)
    if every_weekday:
        return _day(cron, wanted), "?"
    remedy = (
        'write one of the two fields as "*"'
        if cron.day_and
        else 'make it two policies that write one of the two fields as "*" each'
    )
    raise _refused(wanted, "restricts both the day of the month and the weekday", remedy)


def _day(cron: CronSim, wanted: Wanted) -> str:
    special = [day for day in cron.days if day < 0]
    if not special:
        return _numbers(cron.days, range(1, 32))
    if special == [CronSim.LAST] and len(cron.days) == 1:
        return "L"
    raise _refused(
        wanted,
        "names the last weekday of the month, or the last day beside others",
        'write "L" alone, or "1" for the first day of the month',
    )


def _weekday(cron: CronSim, wanted: Wanted) -> str:
    days = sorted({day % 7 for day in cron.weekdays if isinstance(day, int)})
    special = [day for day in cron.weekdays if isinstance(day, tuple)]
    if not special:
        return ",".join(
            _WEEKDAYS[first] if first == last else f"{_WEEKDAYS[first]}-{_WEEKDAYS[last]}"
            for first, last in _stretches(days)
        )
    if days or len(special) > 1:
        raise _refused(
            wanted,
            "names several weekdays, one of them as the last or the nth of the month",
            "make it several policies with one of them each",
        )
    day, nth = special[0]
    return f"{day % 7 + 1}L" if nth == CronSim.LAST else f"{day % 7 + 1}#{nth}"


def _numbers(values: Collection[int], whole: range, *, steps: bool = False) -> str:
    """*values* as a field; with *steps* what repeats to the end is written as such."""
    found = sorted(values)
    if len(found) == len(whole):
        return "*"
    if steps and len(found) >= _LEAST_STEPS:
        (step, *others) = {later - earlier for earlier, later in pairwise(found)}
        if not others and step > 1 and found[-1] + step > whole[-1]:
            return f"{found[0]}/{step}"
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _stretches(found)
    )


def _stretches(values: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbours in *values*, taken together: first and last of each stretch."""
    found: list[tuple[int, int]] = []
    for value in values:
        if found and found[-1][1] == value - 1:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    return found


def _refused(wanted: Wanted, problem: str, remedy: str) -> Inexpressible:
    return Inexpressible(
        f'policies.{wanted.policy}: schedule "{wanted.schedule}" {problem}, which EventBridge has '
        f"no expression for; {remedy}"
    )
