"""Cron, as far as naming slots goes."""

from datetime import datetime
from typing import Protocol


class Calendar(Protocol):
    """Slots of a cron expression in a time zone, with cronsim's semantics.

    A local time that a clock change skips runs once after the gap, one that it doubles runs once.
    """

    def latest(self, schedule: str, timezone: str, at: datetime) -> datetime:
        """The newest slot not after *at*, in UTC."""
        ...

    def following(self, schedule: str, timezone: str, at: datetime) -> datetime:
        """The first slot after *at*, in UTC."""
        ...
