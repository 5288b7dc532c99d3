"""Time that passes when a test says so."""

import threading
from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 7, 1, 2, tzinfo=UTC)


class ManualClock:
    """`bestbefore.ports.clock.Clock`: sleeping is what makes it advance.

    ``stride`` is how far the shortest sleep goes, so that a worker idles through two hours in a
    few hundred rounds; leave it at zero where the moment of something matters. ``slept`` holds
    what was asked for.
    """

    def __init__(self, now: datetime = NOW) -> None:
        self._now = now
        self._lock = threading.Lock()
        self.stride = timedelta(0)
        self.slept: list[float] = []

    def now(self) -> datetime:
        with self._lock:
            return self._now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.slept.append(seconds)
            self._now += max(timedelta(seconds=seconds), self.stride)

    def step(self, by: timedelta) -> None:
        """Jump, forward or back."""
        with self._lock:
            self._now += by

    def set(self, to: datetime) -> None:
        """Jump to *to*."""
        with self._lock:
            self._now = to
