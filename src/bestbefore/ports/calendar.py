"""Cron, as far as naming slots goes."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol


class ClockChange(NamedTuple):
    """A change of the local clock that a slot falls into.

    ``local`` is the local time that the schedule names, ``slot`` the one instant it runs at;
    ``skipped`` says that there is no such time that day, else it comes twice.
    """

    local: datetime
    slot: datetime
    skipped: bool


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

    def between(
        self, schedule: str, timezone: str, after: datetime, until: datetime
    ) -> Iterator[datetime]:
        """The slots after *after* and not after *until*, in UTC, oldest first."""
        ...

    def clock_changes(
        self, schedule: str, timezone: str, after: datetime, until: datetime
    ) -> Sequence[ClockChange]:
        """Where the schedule names a local time between the two that is skipped or doubled.

        None of a schedule by the minute or the hour, which counts hours that pass.
        """
        ...
