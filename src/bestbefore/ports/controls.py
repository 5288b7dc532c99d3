"""What keeps work from being done for now: a person's pause, or a breaker of our own."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol


class Breaker(NamedTuple):
    """A connection nobody uses until a probe succeeds."""

    connection: str
    reason: str
    opened_at: datetime
    next_probe_at: datetime


class Pause(NamedTuple):
    """A policy (every policy, if None) that nobody works on."""

    policy: str | None
    reason: str
    until: datetime | None
    by: str
    at: datetime


class Controls(Protocol):
    """The pauses and breakers of one ledger. Every method is one transaction."""

    def pauses(self, now: datetime) -> Sequence[Pause]:
        """Pauses in force."""
        ...

    def pause(
        self, policy: str | None, reason: str, until: datetime | None, by: str, now: datetime
    ) -> None:
        """Stop work on *policy* (on everything, if None). Repeating it replaces the reason."""
        ...

    def resume_work(self, policy: str | None, by: str, now: datetime) -> bool:
        """Lift a pause. Returns whether there was one."""
        ...

    def breakers(self) -> Sequence[Breaker]:
        """Open breakers."""
        ...

    def trip(self, connection: str, reason: str, now: datetime) -> None:
        """Open the breaker of *connection*; if it is open, note the newer reason."""
        ...

    def claim_probe(self, connection: str, now: datetime) -> bool:
        """Whether this caller may send the probe that is due now; the next is due later by twice
        the time, at most ten minutes."""
        ...

    def reset(self, connection: str) -> None:
        """Close the breaker of *connection*."""
        ...
