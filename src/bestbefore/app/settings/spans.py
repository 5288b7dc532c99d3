"""How spans of time are written where months make no sense: waits, leases, times of day."""

import re
from datetime import time, timedelta

from bestbefore.app.settings.problems import Unfit, shown
from bestbefore.domain.retention import parse_age

SHORTEST_LEASE = timedelta(seconds=60)

_MILLISECONDS = re.compile(r"(\d{1,9}) ?ms", re.ASCII)
_TIME = r"((?:[01]\d|2[0-3]):[0-5]\d)"
_WINDOW = re.compile(f"{_TIME} ?- ?{_TIME}", re.ASCII)


def lease(value: object) -> timedelta:
    """``[queue] lease``"""
    return _span(value, "60s", "12h", '"60s" or "5min"')


def grace(value: object) -> timedelta:
    """``[schedule] grace``: how late an answer may be."""
    return _span(value, "1min", "1d", '"15min"')


def early_tolerance(value: object) -> timedelta:
    """``[schedule] early_tolerance``: how early a trigger may be."""
    return _span(value, "1s", "5min", '"60s"')


def wait(value: object) -> timedelta:
    """A pause, or what a throttle puts up with."""
    return _span(value, "1ms", "1h", '"20ms" or "10s"', milliseconds=True)


def target_duration(value: object) -> timedelta:
    """``[policies.NAME.rows] target_duration``: as long as this, a batch may hold its locks."""
    return _span(value, "1ms", "60s", '"200ms"', milliseconds=True)


def synchronous_within(value: object) -> timedelta:
    """``[policies.NAME.rows] synchronous_within``: less than a trigger may take."""
    return _span(value, "1s", "10min", '"10s"')


def hmac_tolerance(value: object) -> timedelta:
    """``[serve] hmac_tolerance``: how far a signature's time may be from ours, either way."""
    return _span(value, "1s", "1h", '"5min"')


def window(value: object) -> tuple[time, time]:
    """Two times of day, from the first until the second, maybe over midnight."""
    found = _WINDOW.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise Unfit(
            f"expected two times of day, found {shown(value)}", 'write for example "01:00-05:00"'
        )
    first, second = map(time.fromisoformat, found.groups())
    if first == second:
        raise Unfit(
            f"{shown(value)} begins when it ends, which could mean never or always",
            "write two times, or remove the key for always",
        )
    return first, second


def _span(
    value: object, shortest: str, longest: str, example: str, *, milliseconds: bool = False
) -> timedelta:
    """A time from *shortest* to *longest*."""
    remedy = f'write a duration from "{shortest}" to "{longest}", such as {example}'
    length = _parsed(value, milliseconds=milliseconds) if isinstance(value, str) else None
    if length is None:
        raise Unfit(f"expected a duration, found {shown(value)}", remedy)
    least, most = (_parsed(bound, milliseconds=True) for bound in (shortest, longest))
    if least is None or most is None or not least <= length <= most:
        raise Unfit(f"expected {shortest} to {longest}, found {shown(value)}", remedy)
    return length


def _parsed(value: str, *, milliseconds: bool) -> timedelta | None:
    """The time that *value* says; None where it says none that has the same length always."""
    if milliseconds and (found := _MILLISECONDS.fullmatch(value)):
        return timedelta(milliseconds=int(found[1]))
    try:
        length = parse_age(value)
    except ValueError:
        return None
    return None if length.months else timedelta(seconds=length.seconds)
