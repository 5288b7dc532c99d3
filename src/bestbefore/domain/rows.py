"""Rows of a SQL table: what a policy says about them, and the bounded batches they leave in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from bestbefore.domain.outcome import Outcome

COMPLETED_BATCHES = "bestbefore_completed_batches"
"""The table beside the data that says which batches are done."""

_DIGITS = 12


class TimestampKind(StrEnum):
    """How a column says when a row's time began."""

    AUTO = "auto"  # to be found out, and said
    TIMESTAMPTZ = "timestamptz"  # an instant
    NAIVE = "naive"  # a wall clock's date and time, in a zone that the policy names
    DATE = "date"  # a day, in a zone that the policy names (UTC without one)
    EPOCH_S = "epoch_s"  # seconds since 1970
    EPOCH_MS = "epoch_ms"  # milliseconds since 1970
    ISO_TEXT = "iso_text"  # ISO 8601 as text, each with an offset or without one (UTC then)


class Walk(StrEnum):
    """The order in which a table is gone through."""

    TIMESTAMP = "timestamp"  # along an index that begins with the timestamp, then by key
    KEY = "key"
    PARTITION = "partition"  # not gone through: each batch is a partition, old as a whole


class Partitions(StrEnum):
    """What becomes of range partitions that are old as a whole."""

    AUTO = "auto"  # `DROP` where rows are deleted, `ROWS` where they are archived or narrowed down
    DETACH = "detach"
    DROP = "drop"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class TableArchive:
    """Rows move to another table of the same database."""

    table: str


@dataclass(frozen=True, slots=True)
class FileArchive:
    """Rows are written to a file per batch, in a bucket of a store. *format* is ``parquet`` or
    ``jsonl``."""

    store: str
    bucket: str
    prefix: str
    format: str

    def key(self, operation_id: bytes, digest: bytes) -> str:
        """The key of a batch's file with *digest* over its rows.

        A repeat overwrites itself, and what has other rows overwrites nothing.
        """
        return f"{self.prefix}{operation_id.hex()}-{digest.hex()[:_DIGITS]}.{self.format}"


@dataclass(frozen=True, slots=True)
class Governed:
    """A table that has a policy of its own, without which none of its rows is removed.

    ``source`` and ``cutoff`` say which rows that policy would remove now. Both are None where it
    removes none: it archives them, is paused or on hold.
    """

    table: str
    source: "RowSource | None" = None
    cutoff: datetime | None = None


@dataclass(frozen=True, slots=True)
class RowSource:
    """The rows a policy is about.

    ``table`` and column names are as people write them: ``schema.table``, each part quoted
    (``"Order"``) or plain. ``key`` is empty for the primary key. ``where`` is SQL that narrows what
    is removed. ``timestamp_zone`` belongs to the kinds that need one. ``dependents`` are the tables
    whose rows may be removed or changed with the rows they refer to: empty for none, None ("auto")
    for all that refer to them. ``governed`` are tables that have a policy of their own.
    ``trusts_foreign_keys`` goes ahead although the catalog may hide foreign keys from this user,
    ``accepts_row_security`` although row security may hide rows of the table.
    ``ledger_only`` says that the target database gets no completion records (weaker).
    """

    database: str
    table: str
    timestamp: str
    key: tuple[str, ...] = ()
    timestamp_kind: TimestampKind = TimestampKind.AUTO
    timestamp_zone: str | None = None
    where: str | None = None
    batch_size: int = 100
    target_duration: timedelta | None = None
    synchronous_below: int = 1_000
    synchronous_within: timedelta = timedelta(seconds=10)
    dependents: tuple[str, ...] | None = ()
    governed: tuple[Governed, ...] = ()
    trusts_foreign_keys: bool = False
    accepts_row_security: bool = False
    partitions: Partitions = Partitions.AUTO
    ledger_only: bool = False
    allow_full_scan: bool = False
    archive: TableArchive | FileArchive | None = None


def label_of(first: str, last: str) -> str:
    """See `RowBatch.label`."""
    return f"{first}..{last}"


_GROWN = re.compile(r"planned [0-9,]+ rows, found (?P<found>[0-9,]+)(?:;|$)")


def grown(planned: int, found: int) -> str:
    """What an error says of a partition that has more rows than *planned*."""
    return f"planned {planned:,} rows, found {found:,}"


def found_in(error: str) -> int | None:
    """How many rows an *error* says were found, where it says so as `grown` does."""
    said = _GROWN.search(error)
    return None if said is None else int(said["found"].replace(",", ""))


class DependentRows(NamedTuple):
    """Rows of one table that would be removed, or changed, with the rows that they refer to.

    ``table`` is the full name as the database writes it. ``removed`` rows are deleted first;
    ``changed`` rows stay, and the database sets their reference to NULL or to its default.
    ``younger`` says how many of both are younger than the cutoff, None where that cannot be told.
    All are upper bounds: a row that is reached by two foreign keys counts twice.
    """

    table: str
    removed: int = 0
    changed: int = 0
    younger: int | None = None


MOST_DEPENDENTS = 10_000
"""Rows of other tables that one batch may remove or change. Only a single row may have more, and
then its run parks."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """A bounded piece of a table, as it was planned; never computed anew.

    ``first`` and ``last`` are its ends, both inside, in the order of ``walk``: JSON arrays of the
    texts that the database renders and casts back. ``rows`` is how many there were between them,
    and the most that may go; ``oldest`` is the time of the oldest of them. ``shape`` is the
    table's, see `ports.rows.TableFacts`. Of a partition both ends are its OID and its name.
    ``dependents`` are what was counted of other tables, at most one entry per table: the most that
    deleting the batch may remove or change there. An entry for the policy's own table counts rows
    that this plan selects in other batches, and that have to be removed together with these.
    """

    first: str
    last: str
    rows: int
    oldest: datetime
    walk: Walk
    shape: str
    dependents: tuple[DependentRows, ...] = ()

    @property
    def label(self) -> str:
        """Both ends for people, and for the ledger to tell batches apart."""
        return label_of(self.first, self.last)


@dataclass(frozen=True, slots=True)
class Effect:
    """What one batch changed, as its own transaction counted it.

    ``rows`` left the table; by table, ``dependents`` were removed with them, and ``changed`` rows
    lost their reference. ``archived`` of the rows are in the archive. ``blocked`` are still there
    although the statement meant them: a trigger or row security kept them. ``replayed`` says that
    an earlier delivery did it, and this one nothing. ``seconds`` is how long the transaction held
    its locks.
    """

    outcome: Outcome
    rows: int
    dependents: Mapping[str, int] = field(default_factory=dict)
    archived: int = 0
    blocked: int = 0
    replayed: bool = False
    seconds: float = 0.0
    changed: Mapping[str, int] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """What became of the rows themselves, by word, without what did not happen."""
        found = {
            Outcome.DELETED.value: self.rows - self.archived,
            Outcome.ARCHIVED.value: self.archived,
            "blocked": self.blocked,
        }
        return {word: n for word, n in found.items() if n}


@dataclass(frozen=True, slots=True)
class Divided:
    """A batch that has to go on as these smaller ones, and why."""

    parts: tuple[RowBatch, ...]
    why: str
