"""Messages that execute nothing: unreadable ones, and those that no operation of the ledger is
behind. They are kept as dead letters of no run until a person has looked."""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple, Protocol

from bestbefore.domain.message import Unreadable, read
from bestbefore.ports.ledger import DeadFilter

KEPT_BYTES = 16 * 1024
"""How much of a stray's body is kept: twice what a message of ours may have."""

ANY = DeadFilter()


class Stray(NamedTuple):
    """One message that executes nothing, and why. Its id (32 bytes) is the SHA-256 of its bytes."""

    stray_id: bytes
    body: bytes
    error: str

    @classmethod
    def of(cls, body: bytes, error: str) -> "Stray":
        """The stray with this *body*."""
        return cls(sha256(body).digest(), body, error)

    @classmethod
    def unknown(cls, body: bytes, operation_id: bytes) -> "Stray":
        """A readable message that the ledger holds nothing of."""
        return cls.of(
            body,
            f"operation {operation_id.hex()}: the ledger holds none of that id, so there is "
            "nothing to execute",
        )


def operation_in(body: bytes) -> bytes | Stray:
    """The id of the operation that a message is about, or the stray that it is."""
    try:
        return bytes.fromhex(read(body).operation_id)
    except Unreadable as error:
        return Stray.of(body, str(error))


class StrayRecord(NamedTuple):
    """A stray as it is kept: ``body`` is the beginning of its ``size`` bytes, ``received`` is how
    often it was met, and ``error`` why it was no use the last time."""

    stray_id: bytes
    body: bytes
    size: int
    error: str
    received: int
    first_at: datetime
    last_at: datetime


class Strays(Protocol):
    """What is kept of them.

    Of a DeadFilter only those find any that could be about a message without policy, version and
    target: the class ``malformed``, and ids.
    """

    def absorb(self, strays: Sequence[Stray], now: datetime) -> None:
        """Keep *strays*. One that is there already was met once more."""
        ...

    def found(
        self, which: DeadFilter = ANY, limit: int | None = None, after: bytes | None = None
    ) -> Sequence[StrayRecord]:
        """The strays *which* selects, in the order they first came; with *after*, those that
        follow the one of that id. Raises NotInLedger where there is no such stray."""
        ...

    def count(self, which: DeadFilter = ANY) -> int:
        """How many strays *which* selects."""
        ...

    def discard(self, stray_ids: Sequence[bytes], reason: str, by: str, now: datetime) -> int:
        """Forget strays, each with an event that says what it was. Returns how many there were."""
        ...
