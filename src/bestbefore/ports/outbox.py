"""What the ledger knows of operations that somebody else's queue carries.

An operation is *sent* from the moment it is marked, before its message leaves, until somebody
claims it. Of a sent one ``due_at`` says when it is sent again should nothing be heard of it: soon,
as long as nobody confirmed that the broker has it; then near the end of the broker's retention.
So a crash at any instruction, or a message that vanishes, only delays.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol

from bestbefore.domain.failure import NEVER, Failure
from bestbefore.domain.message import Command
from bestbefore.ports.ledger import Operation, Span

_OF_RETENTION = 0.8
_ONCE_MORE = timedelta(minutes=15)
"""After what time to publish again where that is no second message: the first may have gone with
an ack that was on its way."""
# Not quite that, which is the date of what waits for an event.
_AS_GOOD_AS_NEVER = NEVER - timedelta(days=1)


def sent_again_at(sent_at: datetime, retention: timedelta | None, *, once: bool) -> datetime:
    """When what was sent at *sent_at*, to a broker with this *retention*, is sent again should
    nothing be heard of it. *once* says that an operation is one message there however often it
    is published."""
    until = _AS_GOOD_AS_NEVER
    if retention is not None:
        until = min(until, sent_at + retention * _OF_RETENTION)
    return min(until, sent_at + _ONCE_MORE) if once else until


class Outgoing(NamedTuple):
    """An operation that is marked as sent, and its message. ``operation_id`` is the ledger's."""

    row: int
    operation_id: bytes
    command: Command


class Marked(NamedTuple):
    """How many operations are published, and the messages of those that are sent at once."""

    published: int
    outgoing: Sequence[Outgoing]


class Standing(StrEnum):
    """Why a received operation cannot be claimed."""

    UNKNOWN = "unknown"  # the ledger has none of that id
    WAITING = "waiting"  # planned again, and not released
    DELAYED = "delayed"  # due later, and then sent again
    IN_HAND = "in hand"  # somebody works on it, or did, and the ledger gives it out itself
    ENDED = "ended"
    DEAD = "dead"


class Claims(NamedTuple):
    """What came of received ids. ``sent_at`` is when the newest of them had been sent, if known."""

    operations: Sequence[Operation]
    rest: Mapping[bytes, Standing]
    sent_at: datetime | None


class Outbox(Protocol):
    """The ledger's side of a queue that is elsewhere. Each method is one transaction."""

    def use(self, queue: str, now: datetime) -> bool:
        """From now on operations are sent to *queue*. Where that was another one so far, whatever
        was sent there is due at once; returns whether it was."""
        ...

    def mark(self, span: Span, limit: int, now: datetime, until: datetime) -> Marked:
        """Mark up to *limit* waiting operations of *span* as sent, unconfirmed *until* then.

        What somebody else marks at this moment is left to them, and what goes last under its key
        (`Version.last_to_go`) is published held, or due, and not sent yet.
        """
        ...

    def mark_due(
        self, policy: int, limit: int, now: datetime, until: datetime
    ) -> Sequence[Outgoing]:
        """The same for what is due (again) of a policy version, oldest first. What was sent before
        counts as republished. Suspects stay: the ledger gives those out itself."""
        ...

    def sent(self, policies: Collection[int] | None = None) -> int:
        """How many operations, or those of *policies*, are sent and not claimed."""
        ...

    def under_way(self, policies: Collection[int], now: datetime) -> int:
        """How many of *policies* a broker still has, for all that is known: those that are sent and
        due as well are given up, and do not count."""
        ...

    def confirm(self, rows: Sequence[int], marked_at: datetime, due_at: datetime) -> None:
        """The broker has those that were marked at *marked_at*: send them again at *due_at*, and
        not before. Those claimed meanwhile are left."""
        ...

    def fail(self, rows: Sequence[int], marked_at: datetime, due_at: datetime) -> None:
        """The broker has not taken those: they are not sent, and due at *due_at*. No attempt of
        theirs is spent."""
        ...

    def refuse(
        self, refused: Sequence[tuple[int, Failure]], marked_at: datetime, by: str, now: datetime
    ) -> int:
        """The broker can never take those: they are dead. Returns how many."""
        ...

    def policies(self, named: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        """The policy versions (rows) of *named* ones, (name, version), without unknown ones."""
        ...

    def claim(self, ids: Sequence[bytes], now: datetime, lease: timedelta) -> Claims:
        """Claim received operations under one new token until *now* + *lease*: those that are sent,
        confirmed or not, or due, and were not delivered without a result before."""
        ...

    def hand_back(self, ids: Sequence[bytes], due_at: datetime) -> None:
        """What was received and may not be worked on here is not sent any more, and due then."""
        ...

    def lost(
        self,
        before: datetime,
        now: datetime,
        policies: Collection[int] | None = None,
        most: int | None = None,
    ) -> int:
        """Have what was sent *before* then, and not claimed since, be due: all of it, or only of
        *policies*, and at most so many. Returns how many."""
        ...

    def recall(self, now: datetime) -> int:
        """Whatever is sent is not, and due: there is no such queue any more. Returns how many."""
        ...
