"""Durations and cutoffs: how old is old enough."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

ACCEPTED = '"36h", "30d", "8w", "6mo", "2y" (s, min, h, d, w, mo, y) or ISO 8601 such as "P30D"'

_UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_MONTHS = {"mo": 1, "y": 12}
_SIMPLE = re.compile(r"(\d{1,20}) ?([A-Za-z]+)", re.ASCII)
_ISO = re.compile(
    r"P(?:(?P<y>\d{1,20})Y)?(?:(?P<mo>\d{1,20})M)?(?:(?P<w>\d{1,20})W)?(?:(?P<d>\d{1,20})D)?"
    r"(?:T(?=\d)(?:(?P<h>\d{1,20})H)?(?:(?P<min>\d{1,20})M)?(?:(?P<s>\d{1,20})S)?)?",
    re.ASCII,
)
_LONGEST_YEARS = 200


@dataclass(frozen=True, slots=True)
class Age:
    """A length of time: whole calendar *months* plus *seconds*.

    A day is 86,400 seconds and a week seven of those, whatever a time zone does; months and
    years follow the calendar in UTC.
    """

    months: int
    seconds: int

    def before(self, moment: datetime) -> datetime:
        """The instant this long before *moment* (aware), in UTC.

        The day of a shorter month is clamped to its last one (31 March less one month is
        28 February), which keeps data a little longer, never shorter.
        """
        moment = moment.astimezone(UTC)
        if self.months:
            years, month0 = divmod(moment.year * 12 + moment.month - 1 - self.months, 12)
            moment = moment.replace(
                year=years, month=month0 + 1, day=min(moment.day, _days_in(years, month0 + 1))
            )
        return moment - timedelta(seconds=self.seconds)

    @property
    def under_a_day(self) -> bool:
        return not self.months and self.seconds < _UNITS["d"]

    def __str__(self) -> str:
        parts = []
        if self.months:
            parts.append(f"{self.months}mo")
        if self.seconds or not self.months:
            unit, size = next((u, n) for u, n in reversed(_UNITS.items()) if self.seconds % n == 0)
            parts.append(f"{self.seconds // size}{unit}")
        return " + ".join(parts)


def parse_age(value: str | float) -> Age:
    """Read a duration as people write it in a policy.

    Raises ValueError, saying what is accepted, for a bare number, an ambiguous unit ("m", "M"),
    zero, and anything longer than 200 years.
    """
    if not isinstance(value, str) or re.fullmatch(r"[\d.]+", value):
        raise ValueError(f'"{value}" has no unit; write one of {ACCEPTED}')
    months, seconds = _parts(value)
    if not months and not seconds:
        raise ValueError(
            f'"{value}" is zero, which would select everything; write one of {ACCEPTED}'
        )
    if months / 12 + seconds / (365.25 * _UNITS["d"]) > _LONGEST_YEARS:
        raise ValueError(f'"{value}" is longer than {_LONGEST_YEARS} years')
    return Age(months, seconds)


def _parts(value: str) -> tuple[int, int]:
    if simple := _SIMPLE.fullmatch(value):
        number, unit = int(simple[1]), simple[2]
        if unit in _UNITS:
            return 0, number * _UNITS[unit]
        if unit in _MONTHS:
            return number * _MONTHS[unit], 0
        if unit in ("m", "M"):
            raise ValueError(
                f'"{value}" could mean minutes or months; write "{number}min" or "{number}mo"'
            )
    elif len(value) > 1 and (iso := _ISO.fullmatch(value)) and any(iso.groups()):
        fields = {name: int(text) for name, text in iso.groupdict().items() if text}
        return (
            sum(fields.get(unit, 0) * size for unit, size in _MONTHS.items()),
            sum(fields.get(unit, 0) * size for unit, size in _UNITS.items()),
        )
    raise ValueError(f'"{value}" is not a duration; write one of {ACCEPTED}')


def _days_in(year: int, month: int) -> int:
    following = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return (following - timedelta(days=1)).day
