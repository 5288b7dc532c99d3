"""EventBridge's expressions, read as its manual describes them, and nothing of ours with them."""

import calendar
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo


def fires(written: str, zone: str, first: datetime, last: datetime) -> Iterator[datetime]:
    """When the service fires between *first* and *last*, as its manual describes *written*: never
    at a local time that does not exist, and once at one that comes twice."""
    minutes, hours, day, month, weekday, year = written[len("cron(") : -1].split()
    assert year == "*"
    assert (day == "?") != (weekday == "?")
    there = ZoneInfo(zone)
    today = first.astimezone(there).date()
    while today <= last.astimezone(there).date():
        if today.month in _values(month, 1, 12) and _is_day(today, day, weekday):
            for hour in sorted(_values(hours, 0, 23)):
                for minute in sorted(_values(minutes, 0, 59)):
                    local = datetime(today.year, today.month, today.day, hour, minute)  # noqa: DTZ001
                    moment = local.replace(tzinfo=there).astimezone(UTC)
                    exists = moment.astimezone(there).replace(tzinfo=None) == local
                    if exists and first <= moment <= last:
                        yield moment
        today += timedelta(days=1)


def _is_day(today: date, day: str, weekday: str) -> bool:
    length = calendar.monthrange(today.year, today.month)[1]
    number = today.isoweekday() % 7 + 1
    if day == "L":
        return today.day == length
    if day != "?":
        return today.day in _values(day, 1, 31)
    if weekday.endswith("L"):
        return number == int(weekday[:-1]) and today.day + 7 > length
    if "#" in weekday:
        which, nth = map(int, weekday.split("#"))
        return number == which and (today.day + 6) // 7 == nth
    for n, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), start=1):
        weekday = weekday.replace(name, str(n))
    return number in _values(weekday, 1, 7)


def _values(field: str, least: int, most: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        if part == "*":
            found |= set(range(least, most + 1))
        elif "/" in part:
            start, step = map(int, part.split("/"))
            found |= set(range(start, most + 1, step))
        else:
            start, _, end = part.partition("-")
            found |= set(range(int(start), int(end or start) + 1))
    return found
