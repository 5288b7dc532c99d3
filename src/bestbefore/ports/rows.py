"""Tables of a SQL database: one side that looks, one that deletes.

They are ports of their own so that a planner, and with it every dry run, holds nothing that could
write or delete. Ends of batches and ranges are JSON arrays of texts that the database renders and
casts back: nothing outside an adapter orders or compares them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, Protocol

from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding
from bestbefore.domain.row_file import RowFile
from bestbefore.domain.rows import (
    DependentRows,
    Divided,
    Effect,
    RowBatch,
    RowSource,
    TimestampKind,
    Walk,
)
from bestbefore.domain.throttle import Limits, Strain
from bestbefore.ports.objects import KeyRange

ACCEPTED = frozenset({"foreign-keys-trusted", "row-security-accepted"})
"""Codes of `TableFacts.notes` that say what a policy accepts without proof. Each run says them."""


class TableRefused(Exception):
    """No policy may touch this table as it is. The message says what was found and the remedy."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a plan has to know before it trusts a table.

    ``place`` names server, database and table without any secret, so that another one under the
    same name is noticed. ``now`` is the database's own clock. ``kind`` is what the timestamp column
    is, never `TimestampKind.AUTO`. ``shape`` is a fingerprint (16 hex digits) of columns, types,
    key and walk: a batch planned under another one is not touched. ``table`` is the full name of
    the table as the database writes it, such as ``shop.orders``. ``notes`` tell a person what was
    found out.
    """

    place: str
    now: datetime
    walk: Walk
    kind: TimestampKind
    shape: str
    table: str
    notes: Sequence[Finding] = ()


class Slice(NamedTuple):
    """Some batches of a range, in walk order, and what is left of it: None at its end.

    ``scanned`` is how many rows were looked at, eligible or not. ``referenced`` counts those that
    would be removed if no row of another table, or a younger one of their own, referred to them:
    by the table of that row, the first that was found. Batches come with their dependents counted,
    and cut so that each has at most `MOST_DEPENDENTS`, or just one row.
    """

    batches: Sequence[RowBatch]
    rest: KeyRange | None
    scanned: int
    referenced: Mapping[str, int] = MappingProxyType({})


class Whole(NamedTuple):
    """Partitions that are removed as a whole, a batch each (`Walk.PARTITION`). ``apart`` are the
    ranges of time that are left to them, as the database renders both ends; each begins with the
    first and ends before the second. Rows of other partitions are removed in batches.
    """

    batches: Sequence[RowBatch]
    apart: Sequence[tuple[str, str]] = ()


class RowsShown(NamedTuple):
    """What deleting one batch does, for a person who decides about it.

    ``statement`` is the SQL that is executed, with the batch's bounds in it as literals.
    ``triggers`` names what the database runs by itself, one entry per trigger or rule, each as
    ``table: name``; their effects cannot be counted.
    """

    statement: str
    triggers: Sequence[str]


class RowSeen(NamedTuple):
    """One row, for a person who asks about it. ``timestamp`` is the text of its column.

    ``old`` says that its time is before the cutoff, ``wanted`` that the policy's ``where`` holds
    for it, ``referenced`` the table of a row that keeps it. ``undated`` and ``future`` are the
    reasons to keep a row whatever the cutoff. ``dependents`` are removed or changed with it.
    ``partition`` is the ``first`` of the batch of its partition, where that is removed as a whole.
    """

    timestamp: str | None
    old: bool
    wanted: bool
    undated: bool
    future: bool
    referenced: str | None
    dependents: Sequence[DependentRows] = ()
    partition: str | None = None


class RowReader(Protocol):
    """The looking side.

    Methods raise StoreError where the database cannot answer, and TableRefused where it answers
    that the policy does not go with the table; nothing else.
    """

    def describe(self, source: RowSource, walk: Walk | None = None) -> TableFacts:
        """Facts about the table of *source*, for a *walk* that is given where it goes on with
        batches that are still there.

        Refuses what is no base table, a table without a usable key, timestamps that cannot be
        compared safely, columns that do not exist, and a walk that would read the whole table
        unless that is allowed. A missing table raises StoreError (malformed, ``whole_source``).
        """
        ...

    def gaps(
        self, source: RowSource, facts: TableFacts, taken: Sequence[tuple[str, str]]
    ) -> Sequence[KeyRange]:
        """What lies between *taken* (first and last of each batch), in walk order.

        Both ends of a gap are outside it; None is open.
        """
        ...

    def partitions(
        self, source: RowSource, facts: TableFacts, cutoff: datetime, taken: Collection[str]
    ) -> Whole:
        """Range partitions that are removed as a whole; those whose ``first`` is in *taken* have no
        batch, and count for ``apart`` all the same. Nothing where rows are removed in batches.

        Raises TableRefused where the policy wants that and it has another effect, or is not
        possible.
        """
        ...

    def marked(self, source: RowSource, facts: TableFacts, cutoff: datetime) -> Sequence[RowBatch]:
        """Partitions that a worker took out of the table to remove them, and that still exist: a
        batch each, with the rows that are in it now. They have operations already."""
        ...

    def slice(
        self, source: RowSource, facts: TableFacts, cutoff: datetime, gap: KeyRange, size: int,
        most: int, apart: Sequence[tuple[str, str]] = (),
    ) -> Slice:  # fmt: skip
        """The next batches of *gap*: of *size* eligible rows each (the last one may hold fewer),
        from at most *most* rows looked at. No batch and a rest means that nothing was eligible so
        far. *apart* are left out, see `Whole`."""
        ...

    def show(
        self, source: RowSource, facts: TableFacts, cutoff: datetime, batch: RowBatch
    ) -> RowsShown:
        """What deleting *batch* does. Executes nothing."""
        ...

    def kept(self, source: RowSource, facts: TableFacts) -> Mapping[str, int]:
        """Rows that stay whatever the cutoff, by reason: ``undated``, ``future``. Those that
        ``where`` leaves out are not counted."""
        ...

    def lacking(self, source: RowSource, ended: Sequence[bytes]) -> Collection[bytes]:
        """Those of *ended*, operations that had an effect, of which the database has no completion
        record: it was restored from an older copy. None where it is to have no records."""
        ...

    def count(self, source: RowSource) -> int:
        """All rows of the table, whatever their age."""
        ...

    def find(self, source: RowSource, facts: TableFacts, cutoff: datetime, key: str) -> (
        RowSeen | None
    ):  # fmt: skip
        """The row with *key*: a JSON array of texts, or for one column just its text."""
        ...

    def batch_of(
        self, source: RowSource, facts: TableFacts, key: str, ends: Sequence[tuple[str, str]]
    ) -> int | None:
        """Which of *ends*, the first and last of batches in the order of *facts*, the row with
        *key* lies between; None for none of them, and where there is no such row."""
        ...

    def check(self, source: RowSource, cutoff: datetime) -> Sequence[Finding]:
        """What cleaning up this table may rely on, what would make it slow, and which tables keep
        how many of its rows that are before *cutoff*. Writes nothing."""
        ...


class RowPressure(Protocol):
    """What a database says about how it is."""

    def strain(self, limits: Limits) -> Strain | None:
        """The first of *limits* that is overstepped, asked now; None where none is.

        What cannot be asked is overstepped, as nobody can tell that it is safe. Takes a few seconds
        at most. Never raises, and changes nothing.
        """
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


class RowTask(NamedTuple):
    """One batch to work on."""

    operation_id: bytes
    policy: str
    policy_version: str
    batch: RowBatch
    cutoff: datetime


class RowDeleter(Protocol):
    """The deleting side. One batch is one transaction, and so is its completion record."""

    def delete(self, source: RowSource, task: RowTask, by: str) -> Effect | Divided | Failure:
        """Delete what *task* selects: between its ends, and only while the whole predicate holds.

        Where the source has a `TableArchive` the rows are put there in the same transaction, all
        of them or none. One with a `FileArchive` is the business of `RowFiler`.

        The completion record is inserted first; where it is there already nothing changes and its
        counts come back as a replayed `Effect`. A lost reply to COMMIT is settled by reading the
        record. `Divided` where more rows than planned are between the ends. Rows that were touched
        or removed meanwhile are left out and are no failure. Never raises.

        A table of another ``shape`` than the batch's is not touched: `Effect` (protected, 0 rows).
        """
        ...

    def divide(self, source: RowSource, task: RowTask) -> Divided | Failure:
        """The batch of *task* in two halves, of what is between its ends now. One part, or none,
        where there is no more than one row left. Changes nothing."""
        ...

    def forget(self, source: RowSource, operations: Sequence[bytes]) -> Failure | None:
        """Remove the completion records of *operations*, a few hundred at most: batches that no
        ledger knows any more, so that nobody can deliver them again. Never raises."""
        ...

    def check(self, source: RowSource) -> Sequence[Finding]:
        """What deleting may rely on: rights, and the completion table.

        Deletes and writes nothing.
        """
        ...


class RowFiler(Protocol):
    """The deleting side for rows that go into files first."""

    def read(self, source: RowSource, task: RowTask) -> RowFile | Effect | Divided | Failure:
        """The rows that *task* selects, in walk order, with all their values.

        What `RowDeleter.delete` would answer for other reasons than its rows comes back instead: a
        replayed `Effect`, a table of another shape, more rows than planned. Changes nothing. Never
        raises.
        """
        ...

    def delete_filed(
        self, source: RowSource, task: RowTask, by: str, digest: bytes
    ) -> Effect | Divided | Failure:
        """`RowDeleter.delete`, only while the rows still have the *digest* of their file; a Failure
        (transient) where they have not."""
        ...


class Returned(NamedTuple):
    """What came of bringing the rows of one batch back.

    ``restored`` are back now (would be, in a dry run). ``there`` were back already, with the same
    values. ``left`` stay in the archive, as something else is in their place; ``why`` says what of
    one of them. ``missing`` are not in the archive.
    """

    restored: int
    there: int = 0
    left: int = 0
    missing: int = 0
    why: str | None = None


class RowRestorer(Protocol):
    """The side that brings archived rows back. One batch is one transaction. Never raises.

    Nothing that is in the table is overwritten. Safe to repeat.
    """

    def from_table(
        self,
        source: RowSource,
        operation_id: bytes,
        batch: RowBatch,
        archived: int,
        *,
        dry_run: bool,
    ) -> Returned | Failure:
        """Move the rows of *batch* out of the `TableArchive` of *source*.

        They are told by their operation, where the archive has a column for it, else by the ends of
        the batch; a Failure (malformed) where there are not as many as were *archived* then.
        """
        ...

    def from_file(self, source: RowSource, file: RowFile, *, dry_run: bool) -> Returned | Failure:
        """Insert the rows of *file*, which stays."""
        ...
