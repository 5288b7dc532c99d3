"""The transport between planning and working, in five verbs.

Waiting lives in the ledger, so a queue needs neither delays nor dead letters of its own.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from bestbefore.ports.ledger import Operation, Span


class Queue(Protocol):
    """At-least-once delivery of operations, each delivery fenced by its claim's token."""

    def publish(self, span: Span, now: datetime) -> int:
        """Make every waiting operation of *span* available, but for those that somebody else does
        this to at this moment. Returns how many.

        One that goes last (`Version.last_to_go`) is published held: it is due once nothing else of
        its key is waiting, pending or dead in its policy version.
        """
        ...

    def receive(
        self, policy: int, limit: int, now: datetime, lease: timedelta, *, suspects: bool = False
    ) -> Sequence[Operation]:
        """Claim up to *limit* due operations under one new token until *now* + *lease*.

        An operation whose last delivery ended without a result is a suspect: it may have killed
        its worker, and is only given out when asked for: alone, or with so many others that
        halving will find the one. Only what was alone is charged with another delivery.
        """
        ...

    def extend(self, operations: Sequence[Operation], until: datetime) -> Sequence[Operation]:
        """Keep claims alive until *until*. Returns those that were lost meanwhile."""
        ...

    def ack(self, operations: Sequence[Operation]) -> None:
        """Forget messages whose result is recorded. Nothing to do where recording acks."""
        ...

    def release(self, operations: Sequence[Operation], due_at: datetime) -> None:
        """Give claims back unused: due at *due_at*, no delivery charged. Lost ones are left."""
        ...
