"""Places of our own beside a user's: made, used and removed by `bestbefore gate`.

Each knows whether something of its name is there already, so that what is somebody else's is never
taken for scratch. Methods raise the errors of the ports they stand beside: LedgerError,
StoreError, TransportFailed.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import NamedTuple, Protocol

from bestbefore.domain.rows import RowSource
from bestbefore.ports.transport import Broker

BESIDE = "-bestbefore-gate"
"""What the name of a scratch queue has behind that of the configured one."""


class ScratchState(Protocol):
    """An empty state database beside the configured one, of the same kind and at the same place."""

    @property
    def name(self) -> str:
        """What people call it: a file, or a schema, without any secret."""
        ...

    @property
    def url(self) -> str:
        """Where a ledger can be; may hold a password."""
        ...

    def exists(self) -> bool:
        """Whether anything of that name is there."""
        ...

    def create(self) -> None:
        """Make it, empty, and see that who connects to ``url`` is in it and nowhere else. Raises
        LedgerError where it is there already: of two who try, one makes it."""
        ...

    def prove(self) -> None:
        """Raise LedgerError unless who connects to ``url`` is in it."""
        ...

    def renew(self) -> None:
        """Empty it; it is there all the time, so that nobody else makes one meanwhile."""
        ...

    def remove(self) -> None:
        """Remove it with all that is in it. One that is not there is no error."""
        ...

    def server(self) -> str:
        """What answers there, with its version."""
        ...


class ScratchQueue(Protocol):
    """A queue beside the configured one: the same broker and rights, a name of its own."""

    @property
    def name(self) -> str:
        """What people call it, without any secret."""
        ...

    def exists(self) -> bool:
        """Whether it, or its dead letters' queue, is there."""
        ...

    def create(self) -> None:
        """Make it and its dead letters' queue, with what the configured ones are made with."""
        ...

    def connect(self) -> Broker:
        """A new connection to it."""
        ...

    def remove(self) -> None:
        """Remove both with all that is in them. What is not there is no error."""
        ...


class ScratchRow(NamedTuple):
    """One row of a scratch table."""

    id: int
    written_at: datetime
    note: str


class ScratchReference(NamedTuple):
    """One row that refers to the row ``refers_to`` of a scratch table, or to none any more."""

    id: int
    refers_to: int | None


class ReferringTable(Protocol):
    """A small table whose rows refer to those of a scratch table by an indexed foreign key."""

    @property
    def name(self) -> str:
        """Its name, as it is written in a policy."""
        ...

    def exists(self) -> bool:
        """Whether a table, or anything else, has that name."""
        ...

    def create(self) -> None:
        """Make it, empty. The scratch table has to be there."""
        ...

    def insert(self, rows: Sequence[ScratchReference], written_at: datetime) -> None:
        """Add *rows* in one transaction, all of them with that time."""
        ...

    def rows(self) -> Sequence[ScratchReference]:
        """All there are, by number."""
        ...

    def remove(self) -> None:
        """Drop it. One that is not there is no error."""
        ...


class ScratchTable(Protocol):
    """A small table of rows with a number, a time and a note, in a user's database."""

    @property
    def name(self) -> str:
        """Its name, as it is written in a policy."""
        ...

    @property
    def cascade(self) -> ReferringTable:
        """A table whose rows the database removes with the rows they refer to."""
        ...

    @property
    def set_null(self) -> ReferringTable:
        """A table whose rows stay, and lose their reference, when the row they refer to is
        removed."""
        ...

    def source(self) -> RowSource:
        """The policy's source that is about it."""
        ...

    def exists(self) -> bool:
        """Whether a table, or anything else, has that name."""
        ...

    def create(self) -> None:
        """Make it, empty."""
        ...

    @property
    def has_partitions(self) -> bool:
        """Whether `partition` can be used."""
        ...

    def partition(self, ends: Sequence[datetime]) -> None:
        """Make it again, empty, with a partition between each two of *ends*, three at most, and a
        view of the first one."""
        ...

    def partitions(self) -> Sequence[str]:
        """The names of its partitions that are there, as parts of it or as tables of their own."""
        ...

    def insert(self, rows: Sequence[ScratchRow]) -> None:
        """Add *rows* in one transaction."""
        ...

    def update(self, row: ScratchRow) -> None:
        """Give the row of that number another time and note."""
        ...

    def rows(self) -> Sequence[ScratchRow]:
        """All there are, by number."""
        ...

    def row(self, number: int) -> ScratchRow | None:
        """One of them."""
        ...

    def delete(self, numbers: Sequence[int]) -> None:
        """Take the rows of these numbers out, as an application would."""
        ...

    @property
    def locks_rows(self) -> bool:
        """Whether who has a row locked leaves the other rows to everybody else."""
        ...

    def locked(self, number: int) -> AbstractContextManager[None]:
        """A transaction that keeps the row of that number locked, and changes nothing."""
        ...

    def remove(self) -> None:
        """Drop it, and the tables that refer to it before. One that is not there is no error."""
        ...

    def close(self) -> None:
        """Close every connection."""
        ...

    def server(self) -> str:
        """What answers there, with its version."""
        ...
