"""Something that does not answer: since when, and when to try it again."""

from collections.abc import Callable
from datetime import datetime, timedelta

from bestbefore.domain.failure import backoff

PATIENCE = timedelta(minutes=10)
TRIES = 5
_LONGEST_WAIT_SECONDS = 30.0


class Outage:
    """One kind of call to one place. Not for several threads at a time."""

    def __init__(self, spread: Callable[[], float]) -> None:
        self._spread = spread
        self._since: datetime | None = None
        self._tries = 0
        self._again_at: datetime | None = None

    def may_try(self, now: datetime) -> bool:
        """Whether it is worth a call."""
        return self._again_at is None or now >= self._again_at

    def failed(self, now: datetime) -> bool:
        """Note a call that came to nothing; returns whether that begins an outage."""
        first = self._since is None
        self._since = self._since or now
        self._tries += 1
        self._again_at = now + self.wait
        return first

    def worked(self) -> bool:
        """Note a call that came to something; returns whether that ends an outage."""
        ended = self._since is not None
        self._since, self._tries, self._again_at = None, 0, None
        return ended

    @property
    def wait(self) -> timedelta:
        """How long to leave it alone now, once more with a spread of its own."""
        seconds = backoff(max(1, self._tries), spread=self._spread, cap=_LONGEST_WAIT_SECONDS)
        return timedelta(seconds=seconds)

    def tried_enough(self) -> bool:
        """Whether so many calls in a row came to nothing that a few more will, too."""
        return self._tries >= TRIES

    def is_long(self, now: datetime) -> bool:
        """Whether it lasts longer than anybody waits who wants to end."""
        return self._since is not None and now - self._since >= PATIENCE
