"""What people may read of the ledger. Nothing here changes anything but `save_verification`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from bestbefore.domain.failure import FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Effect, RowBatch, RowSource
from bestbefore.domain.run import Run
from bestbefore.domain.states import RunState, State


class Tally(NamedTuple):
    """A number of operations, and the bytes they took out of their bucket; or a number of rows."""

    n: int
    bytes: int


class Attempt(NamedTuple):
    """One failed attempt."""

    at: datetime
    failure_class: FailureClass
    error: str
    by: str


class ArchiveRecord(NamedTuple):
    """The copy of an object, or of a batch of rows, in an archive, made at ``copied_at``.

    ``home`` is the store, or the database, that the original was in. A copy that was brought back
    has the date of the last time, and the ETag that the object got there.
    """

    home: str
    store: str
    bucket: str
    key: str
    etag: str
    copied_at: datetime
    restored_at: datetime | None
    restored_etag: str | None


class OperationRecord(NamedTuple):
    """An operation with everything the ledger knows: what, why, when, who, and how it ended.

    ``reason`` is what kept one that ended as protected. ``held`` says that it waits for a lock, or
    for what lies under it; ``hides`` that its effect is a delete marker, which frees nothing.
    With a ``batch`` it is about rows, and ``bucket`` is their table: ``effect`` is what it changed,
    once that is known, ``parent`` the id of the operation that was split into this one and others,
    and ``reason`` of that one why. ``source`` is what the policy said then, and ``restored_at``
    when something of it was brought back for the last time. ``claimed`` says that it is in a
    worker's hands until ``due_at``, ``sent_at`` that a broker has it since then,
    so that it has no date.
    """

    row: int
    operation_id: bytes
    policy: str
    policy_version: str
    owner: str
    run_id: str
    slot: datetime
    cutoff: datetime
    action: str
    bucket: str
    key: str
    etag: str
    last_modified: datetime
    size: int
    seen_at: datetime
    state: State
    outcome: Outcome | None
    completed_at: datetime | None
    completed_by: str | None
    due_at: datetime | None
    failure_class: FailureClass | None
    error: str | None
    redriven: int
    reappearances: int
    corrects: bytes | None
    archive: ArchiveRecord | None
    upload_id: str | None
    reason: str | None = None
    version_id: str | None = None
    held: bool = False
    hides: bool = False
    batch: RowBatch | None = None
    effect: Effect | None = None
    parent: bytes | None = None
    source: RowSource | None = None
    restored_at: datetime | None = None
    claimed: bool = False
    sent_at: datetime | None = None

    @property
    def freed(self) -> int:
        """The bytes that its end freed; what was archived only moved, and rows have no size."""
        freed = self.outcome is Outcome.DELETED and not self.hides and self.batch is None
        return self.size if freed else 0


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """Which operations are meant; every condition given has to hold.

    ``ids`` are the first and the last operation id; ``copied`` leaves those of which an archive
    has a copy, or the rows.
    """

    policy: str | None = None
    run_id: str | None = None
    key: str | None = None
    operation_id: bytes | None = None
    ids: tuple[bytes, bytes] | None = None
    copied: bool = False


class PolicyRecord(NamedTuple):
    """One policy as the ledger has it, by its current version.

    ``backlog`` counts what waits or is pending and is not ``held``, ``overdue`` what of it, and of
    the dead letters, belongs to a slot that was due before the moment asked about;
    ``oldest_overdue`` is the first such slot.
    """

    name: str
    version: str
    owner: str
    last_slot: datetime | None
    last_state: str | None
    backlog: int
    dead: int
    overdue: int
    oldest_overdue: datetime | None
    held: int = 0


class Throttled(NamedTuple):
    """Operations of one connection that wait because their store asked to slow down."""

    connection: str
    n: int
    next_due: datetime


class Verification(NamedTuple):
    """The last verification of a policy."""

    at: datetime
    overdue: int
    oldest_overdue: datetime | None
    held: int


class Event(NamedTuple):
    """Something a person decided, or a newer run in their place. ``row`` is the ledger's key."""

    row: int
    at: datetime
    by: str
    action: str
    policy: str | None
    run_id: str | None
    operation_id: bytes | None
    detail: str


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are meant; every condition given has to hold."""

    action: str | None = None
    by: str | None = None
    policy: str | None = None


EVERY_EVENT = EventFilter()


class Incident(NamedTuple):
    """How many dead letters of one policy version have one cause, as far as their class and their
    error, without what is only about one target, can tell. The same ``incident`` (16 bytes) is
    the same cause, whatever the policy."""

    incident: bytes
    policy: str
    policy_version: str
    owner: str
    superseded: bool
    failure_class: FailureClass
    error: str
    n: int
    first_at: datetime
    last_at: datetime


class Records(Protocol):
    """The reading side of the ledger."""

    def runs(
        self,
        policy: str | None = None,
        limit: int | None = None,
        *,
        state: RunState | None = None,
        after: str | None = None,
    ) -> Sequence[Run]:
        """Runs, newest slot first; with *after*, those that follow the run of that name.

        Raises NotInLedger where there is no such run.
        """
        ...

    def run(self, run_id: str) -> Run:
        """One run. Raises NotInLedger if there is none of that name."""
        ...

    def name_of(self, run: int) -> str:
        """What people call the run with the ledger's key *run*."""
        ...

    def newest_released(self, policy: str) -> Run | None:
        """The policy's run with the newest slot among those that were ever released."""
        ...

    def tallies(self, run: Run, kind: str) -> Mapping[str, Tally]:
        """A run's counts by name; *kind* is ``outcome``, ``protected`` or ``retried``.

        What became of a table is in ``rows``: those ``deleted``, those ``archived`` instead, and
        those that were meant and are still there (``blocked``). By table, ``dependents`` are rows
        that were deleted with them, and ``changed`` rows that lost their reference to one of them.
        """
        ...

    def policies(self, overdue_before: datetime) -> Sequence[PolicyRecord]:
        """Every policy the ledger knows."""
        ...

    def throttled(self, now: datetime) -> Sequence[Throttled]:
        """What waits for a store that asked to slow down."""
        ...

    def operations(
        self, which: OperationFilter, limit: int | None = None
    ) -> Iterator[OperationRecord]:
        """Operations in the order they were planned, read in bounded memory."""
        ...

    def attempts(self, operation: int) -> Sequence[Attempt]:
        """Failed attempts on an operation, oldest first."""
        ...

    def events(
        self, limit: int, before: int | None = None, which: EventFilter = EVERY_EVENT
    ) -> Sequence[Event]:
        """What people decided, newest first; with *before*, what came before that row."""
        ...

    def incidents(
        self, policy: str | None, failure_class: FailureClass | None, limit: int
    ) -> Sequence[Incident]:
        """The causes of most dead letters, from stored counts."""
        ...

    def decisions(self, policy: str | None = None, run_id: str | None = None) -> Iterator[Event]:
        """The same, oldest first and all of them, read in bounded memory."""
        ...

    def rule(self, run: Run) -> Mapping[str, object]:
        """What decided what *run* selects: what its policy version said then, by key."""
        ...

    def place(self, run: Run) -> tuple[str, str]:
        """The owner of *run*'s policy version, and its bucket or table."""
        ...

    def verification(self, policy: str) -> Verification | None:
        """The last verification of a policy."""
        ...

    def save_verification(self, policy: str, found: Verification) -> None:
        """Remember the last verification of a policy."""
        ...

    def oldest(self, run: Run) -> datetime | None:
        """The earliest ``last_modified`` among the operations of a run."""
        ...

    def durations(self, policy: str, limit: int) -> Sequence[tuple[int, float]]:
        """How many rows left with each of the last batches of *policy* that were planned and did
        something, and for how many seconds it held its locks. The newest version's come first, and
        of one version the newest; at most *limit*. Partitions that went as a whole are no batches
        in this sense."""
        ...

    def completed_batches(self, policy: str, limit: int) -> Sequence[bytes]:
        """The ids of the last batches of *policy* whose effect is recorded, of one run and in the
        same order: what the completion table of its database has to know as well.

        Those of older runs do not count: a person has released a run since."""
        ...
