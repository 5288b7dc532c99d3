"""Which drained runs somebody has to verify, once for all processes."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Protocol

from bestbefore.domain.run import Run


class Proofs(Protocol):
    """A run that drained wants one fresh look at its source, by whoever claims it first."""

    def claim(self, policies: Mapping[str, str], now: datetime, lease: timedelta) -> Run | None:
        """Claim a drained run that nobody has verified, until *lease* from now.

        Only the newest released run of each of *policies* (versions by name) counts, as the next
        one's look takes in what an older one left.
        """
        ...

    def close(self, run: Run) -> None:
        """Never offer *run* again, whatever came of it."""
        ...
