"""Remembers, minute by minute, how much was left to do: what the dashboard draws."""

from collections.abc import Callable

from bestbefore.ports.clock import Clock
from bestbefore.ports.dashboard import Backlogs

_EVERY_SECONDS = 60.0


def watch(backlogs: Backlogs, clock: Clock, wait: Callable[[float], bool]) -> None:
    """Until *wait*, which passes so many seconds, says that it is time to stop."""
    while True:
        now = clock.now()
        backlogs.note(now)
        if wait(_EVERY_SECONDS - now.timestamp() % _EVERY_SECONDS):
            return
