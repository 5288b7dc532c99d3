"""Time, as an argument."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The only source of the current time for everything inside."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after *seconds*; may return early, never much later."""
        ...
