"""What a scrape reads of the ledger: stored numbers only, in a handful of queries."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from bestbefore.domain.counts import Count
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.trigger import Fate
from bestbefore.ports.records import Verification


class Counted(NamedTuple):
    """One count of a policy, all its versions together; ``amount`` is in bytes or microseconds."""

    policy: str
    kind: Count
    name: str
    n: int
    amount: int


class Standing(NamedTuple):
    """Where a policy stands right now, all its versions together; the numbers are operations.

    ``waiting`` is released and not published, ``parked`` is in runs that wait for a person,
    ``pending`` is without the ``held`` ones. ``overdue`` counts what is not done, dead ones
    included, of slots due before the moment asked about; ``oldest_overdue`` is the first such slot.
    ``drained_at`` is when one of its runs last drained. ``connection`` and ``about_rows`` are those
    of its current version.
    """

    policy: str
    connection: str
    about_rows: bool
    waiting: int
    parked: int
    pending: int
    held: int
    parked_runs: int
    overdue: int
    oldest_overdue: datetime | None
    drained_at: datetime | None


class DeadSince(NamedTuple):
    """The first failure among the dead letters of one policy and class."""

    policy: str
    failure_class: FailureClass
    oldest: datetime


class Measuring(Protocol):
    """The counting side of the ledger. The numbers are the same for whoever asks."""

    def counted(self) -> Sequence[Counted]:
        """Every count that is not zero."""
        ...

    def standings(self, overdue_before: datetime) -> Sequence[Standing]:
        """Every policy that was ever planned."""
        ...

    def dead_since(self) -> Sequence[DeadSince]:
        """The age of the dead letters."""
        ...

    def count_triggers(self, more: Mapping[Fate, int]) -> None:
        """Count triggers that came through a queue."""
        ...

    def triggers(self) -> Mapping[Fate, int]:
        """How many there were so far; only those with any."""
        ...

    def verifications(self) -> Mapping[str, Verification]:
        """The last verification of each policy that had one."""
        ...
