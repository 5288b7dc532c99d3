"""Keeping the ledger small: what is old enough is exported, and only then pruned.

A pass goes through the whole ledger in pieces, by whichever process has nothing else to do. The
order is what keeps evidence: the name of the export stands in the ledger (`expect`) before the
file does; the file is complete and on disk before the first row goes; rows go only if the file
lists them and they are still as old as they have to be. Completion records of row batches go from
their database after that, never before: a batch that only the ledger knows looks like one whose
database was restored. Whoever takes over a pass does the rest of both for what such a file lists
before it exports anything else, so that a crash exports nothing twice and leaves no record behind.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from bestbefore.ports.records import Attempt, Event, OperationRecord


class UpkeepTakenOver(Exception):
    """Another process goes on with this pass; nothing was pruned."""


class Pass(NamedTuple):
    """The right to do a piece of upkeep, fenced by a token, until its lease runs out.

    It was ``began`` by whoever had it first. Operations up to the row ``looked_at`` were looked at;
    ``export`` is the file that was expected and whose rows may not all be pruned.
    """

    token: int
    began: datetime
    looked_at: int
    export: str | None


class Old(NamedTuple):
    """Operations to export, each with its failed attempts; all older ones up to the row
    ``upto`` are among them. ``upto`` is None at the end of the ledger."""

    operations: Sequence[tuple[OperationRecord, Sequence[Attempt]]]
    upto: int | None


@dataclass(frozen=True, slots=True)
class UpkeepRecord:
    """How large the ledger is, and what upkeep did.

    ``bytes`` is what it takes on disk, ``used`` what of that holds something, ``free`` what is
    empty and filled first.
    ``operations`` is how many it holds, ``added`` how many were planned since the moment asked
    about, ``prunable`` about how many completed ones are old enough to go, all from the counts of
    runs. ``pruned`` counts those that are gone. The rest is about the pass that is under way, or
    else the last one; ``finished_at`` is that of the last finished one.
    """

    bytes: int
    used: int
    free: int
    operations: int
    added: int
    prunable: int
    pruned: int
    running: bool
    finished_at: datetime | None
    pass_operations: int
    pass_events: int
    error: str | None
    failed_at: datetime | None


class UpkeepLedger(Protocol):
    """The ledger's side of upkeep. Every method is one transaction."""

    def claim(self, now: datetime, every: timedelta, lease: timedelta) -> Pass | None:
        """Begin the pass that is due *every* so often, or go on with one that nobody holds."""
        ...

    def old_operations(self, after: int, before: datetime, limit: int, now: datetime) -> Old:
        """The next operations behind the row *after* that completed before *before*, at most
        *limit*; what something that stays still needs is not among them.

        Looks at a bounded number of rows, so that it may find none and not be at the end.
        """
        ...

    def old_events(self, before: datetime, limit: int) -> Sequence[Event]:
        """The oldest events from before *before*, at most *limit*."""
        ...

    def expect(self, held: Pass, export: str, now: datetime, lease: timedelta) -> None:
        """Note that a file *export* is about to be written. Raises UpkeepTakenOver."""
        ...

    def prune_operations(
        self, held: Pass, ids: Sequence[bytes], before: datetime, now: datetime, lease: timedelta
    ) -> int:
        """Remove those of *ids*, a few hundred at most, that may still go, with their failures;
        returns how many. The counts of their runs stay. Raises UpkeepTakenOver."""
        ...

    def prune_events(
        self, held: Pass, rows: Sequence[int], before: datetime, now: datetime, lease: timedelta
    ) -> int:
        """The same for events."""
        ...

    def done(self, held: Pass, looked_at: int, *, finished: bool, now: datetime) -> None:
        """Give the pass back: everything up to *looked_at* is dealt with, and no file is open.

        ``finished`` ends it. Raises UpkeepTakenOver.
        """
        ...

    def failed(self, held: Pass, error: str, now: datetime) -> None:
        """Give the pass back as it is, if it is still held; *error* says what stopped it."""
        ...

    def describe(self, before: datetime | None, since: datetime) -> UpkeepRecord:
        """See `UpkeepRecord`; *before* is what would be pruned today, if anything is."""
        ...
