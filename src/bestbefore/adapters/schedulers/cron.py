"""Cron expressions by cronsim: which instants they name, and which of them make no sense."""

import zoneinfo
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches

from cronsim import CronSim, CronSimError

from bestbefore.ports.calendar import ClockChange

_REWIND = timedelta(hours=4)
"""More than any clock was ever set back at once since 1970 (Antarctica/Casey: three hours)."""

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MOST_CHARACTERS = 500


class CronCalendar:
    """`bestbefore.ports.calendar.Calendar`, with cronsim's semantics.

    Forward iteration says what a slot is; backward iteration only finds where to begin, as the
    two disagree where a clock is set back. Both methods raise ValueError where the schedule has
    no slot within fifty years of *at*.
    """

    def latest(self, schedule: str, timezone: str, at: datetime) -> datetime:
        """The newest slot not after *at*, in UTC."""
        zone = _zone(timezone)
        for start in _backward(schedule, zone, at):
            newest = None
            for slot in _forward(schedule, zone, start - _SECOND):
                if slot > at:
                    break
                newest = slot
            if newest is not None:
                return newest
        raise ValueError(f'"{schedule}" has no slot in the fifty years before {at:%Y-%m-%d}')

    def following(self, schedule: str, timezone: str, at: datetime) -> datetime:
        """The first slot after *at*, in UTC."""
        for slot in _forward(schedule, _zone(timezone), at):
            # In the second pass of a doubled hour cronsim looks at the wall clock and offers
            # the first pass again.
            if slot > at:
                return slot
        raise ValueError(f'"{schedule}" has no slot in the fifty years after {at:%Y-%m-%d}')

    def between(
        self, schedule: str, timezone: str, after: datetime, until: datetime
    ) -> Iterator[datetime]:
        """The slots after *after* and not after *until*, in UTC, oldest first."""
        last = after
        for slot in _forward(schedule, _zone(timezone), after):
            if slot > until:
                return
            if slot > last:
                yield slot
                last = slot

    def clock_changes(
        self, schedule: str, timezone: str, after: datetime, until: datetime
    ) -> Sequence[ClockChange]:
        """Where the schedule names a local time between the two that is skipped or doubled."""
        if any(field.startswith("*") for field in schedule.split()[:2]):
            return ()  # cronsim, as Debian's cron, only moves jobs of a fixed time
        zone = _zone(timezone)
        return [
            ClockChange(local, slot, skipped)
            for change in _changes(zone, after, until)
            for local, slot, skipped in _affected(schedule, zone, change)
        ]


def schedule_problem(schedule: str) -> str | None:
    """Why *schedule* is no cron expression that ever fires, or None. Takes milliseconds."""
    fields = len(schedule.split())
    if fields != 5:
        # cronsim reads a sixth field as seconds, which turns a daily job into a busy one.
        return f"has {fields} fields where five are expected: minute, hour, day, month, weekday"
    if len(schedule) > _MOST_CHARACTERS:
        return f"is longer than {_MOST_CHARACTERS} characters"
    try:
        next(CronSim(schedule, _EPOCH))
    except StopIteration:
        return "never fires"
    except (CronSimError, ValueError) as error:
        return _explained(schedule, str(error))
    return None


def timezone_problem(timezone: str) -> str | None:
    """Why *timezone* is not the name of a time zone, or None."""
    try:
        _zone(timezone)
    except ValueError as error:
        return str(error)
    return None


def _changes(zone: tzinfo, after: datetime, until: datetime) -> Iterator[datetime]:
    """The instants, to the second, at which the clocks of *zone* change."""
    early = after.replace(microsecond=0)
    while early < until:
        late = min(early + _DAY, until)
        if _offset(early, zone) != _offset(late, zone):
            low, high = early, late
            while high - low > _SECOND:
                middle = low + (high - low) // _SECOND // 2 * _SECOND
                if _offset(middle, zone) == _offset(early, zone):
                    low = middle
                else:
                    high = middle
            yield high
        early = late


def _affected(
    schedule: str, zone: tzinfo, change: datetime
) -> Iterator[tuple[datetime, datetime, bool]]:
    """Local times of *schedule* that do not exist, or come twice, because of *change*."""
    before = change.astimezone(UTC).replace(tzinfo=None) + _offset(change - _SECOND, zone)
    after = change.astimezone(UTC).replace(tzinfo=None) + _offset(change, zone)
    start, end = min(before, after), max(before, after)
    # As the hands of a clock that never changes would name them.
    for hands in _slots(CronSim(schedule, start.replace(tzinfo=UTC) - _SECOND)):
        local = hands.replace(tzinfo=None)
        if local >= end:
            return
        skipped = after > before
        instant = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
        yield local, change.astimezone(UTC) if skipped else instant, skipped


def _offset(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def _explained(schedule: str, reason: str) -> str:
    day, month = schedule.split()[2:4]
    if reason == "Bad day-of-month":
        try:
            CronSim(f"0 0 {day} * *", _EPOCH)
        except (CronSimError, ValueError):
            pass
        else:
            return f'never fires: no month of "{month}" has a day "{day}"'
    return f"is not a cron expression ({reason[:1].lower()}{reason[1:]})"


def _zone(timezone: str) -> tzinfo:
    if timezone == "UTC":
        return UTC  # needs no time zone database, and cronsim is quicker on it
    # "localtime" is whatever the machine says, and "right/…" counts leap seconds.
    if timezone.startswith(("posix/", "right/")) or timezone in ("localtime", "Factory"):
        raise ValueError("is not the name of a time zone")
    try:
        return zoneinfo.ZoneInfo(timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = zoneinfo.available_timezones()
        if not known:
            raise ValueError(
                "cannot be looked up: this machine has no time zone database (package tzdata)"
            ) from error
        if close := get_close_matches(timezone, known, n=1):
            raise ValueError(
                f'is not the name of a time zone (did you mean "{close[0]}"?)'
            ) from error
        raise ValueError("is not the name of a time zone") from error


def _forward(schedule: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    return _slots(CronSim(schedule, after.astimezone(zone)))


def _backward(schedule: str, zone: tzinfo, at: datetime) -> Iterator[datetime]:
    """Slots not after *at*, newest first; at most a few may be missing or misplaced."""
    # Beginning late, so that the first pass of a doubled hour is not passed over from inside
    # the second.
    late = (at + _REWIND).astimezone(zone)
    for slot in _slots(CronSim(schedule, late, reverse=True)):
        if slot <= at:
            yield slot


def _slots(simulation: CronSim) -> Iterator[datetime]:
    try:
        for slot in simulation:
            yield slot.astimezone(UTC)
    except OverflowError:
        return  # the end of the calendar
