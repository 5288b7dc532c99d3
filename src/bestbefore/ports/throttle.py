"""What all processes that share one state database may do to each database together, kept there."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from bestbefore.domain.throttle import Tempo


class Turns(NamedTuple):
    """How many batches may begin now, and when to ask for the next ones."""

    batches: int
    again_at: datetime


class Wait(NamedTuple):
    """What all work on ``connection`` waits for; ``until`` where that is known."""

    connection: str
    reason: str
    until: datetime | None


class Throttles(Protocol):
    """Every method is one transaction: whoever asks at the same time is answered one after the
    other. Raise LedgerError."""

    def hold(
        self,
        connection: str,
        holder: str,
        *,
        wanted: int,
        out: int,
        done: int,
        most: int,
        now: datetime,
        lease: timedelta,
    ) -> int:
        """How many batches of *connection* may be in *holder*'s hands until *now* + *lease*.

        It could use *wanted*, has *out* in hand, and *done* came back well since it last said so.
        All living holders together have at most *most*, fairly shared; fewer after a time in which
        nobody had any, until enough came back. Never fewer than *out*. Who wants none and has none
        stands in line no more; who does not come back in time has none.
        """
        ...

    def turn(self, connection: str, wanted: int, rows: int, tempo: Tempo, now: datetime) -> Turns:
        """How many of *wanted* batches, of about *rows* each, may begin now under *tempo*. They
        count as begun."""
        ...

    def add(self, connection: str, rows: int, tempo: Tempo, now: datetime) -> None:
        """A batch ended, or *rows* more went (fewer, below zero) than a turn was given for."""
        ...

    def say(
        self, connection: str, reason: str | None, until: datetime | None, now: datetime
    ) -> None:
        """Work on *connection* waits for *reason*; for nothing any more, where that is None. Has to
        be repeated, as who said so may be gone."""
        ...

    def waits(self, now: datetime) -> Sequence[Wait]:
        """What was said in the last half minute, or about a time that is not over; by
        connection."""
        ...
