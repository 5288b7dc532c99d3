"""One operation that another queue has pushed, as a queue of its own: a worker that has it works
on just that, under the same checks as on any other."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import Operation, Span, WorkLedger
from bestbefore.ports.queue import Queue

_PATIENCE = timedelta(seconds=1)
"""How long a worker may find that it must not begin, before the operation is left to others."""


class Delivery:
    """`bestbefore.ports.queue.Queue` with one operation in it, once.

    ``over`` says that a worker is done with it: settled, given back, or never begun.
    """

    def __init__(self, ledger: WorkLedger, queue: Queue, operation_id: bytes, clock: Clock) -> None:
        self.over = False
        self._ledger = ledger
        self._queue = queue
        self._operation_id = operation_id
        self._clock = clock
        self._until = clock.now() + _PATIENCE
        self._claimed = False

    def publish(self, span: Span, now: datetime) -> int:  # noqa: ARG002  (the port's signature)
        """Nothing: what waits is not this queue's."""
        return 0

    def receive(
        self,
        policy: int,
        limit: int,
        now: datetime,
        lease: timedelta,
        *,
        suspects: bool = False,  # noqa: ARG002  (it is alone in any case)
    ) -> Sequence[Operation]:
        """The operation, if it is of *policy* and due."""
        if self._claimed or limit < 1:
            return []
        found = self._ledger.claim(self._operation_id, policy, now, lease)
        self._claimed = found is not None
        return [] if found is None else [found]

    def extend(self, operations: Sequence[Operation], until: datetime) -> Sequence[Operation]:
        """See the port."""
        return self._queue.extend(operations, until)

    def ack(self, operations: Sequence[Operation]) -> None:
        """See the port; whatever was recorded, there is nothing more to do."""
        self._queue.ack(operations)
        self.over = True

    def release(self, operations: Sequence[Operation], due_at: datetime) -> None:
        """See the port."""
        self._queue.release(operations, due_at)
        self.over |= bool(operations)

    def rest(self, seconds: float) -> None:
        """Wait a moment, or end where the worker may not begin: paused, a breaker, a full house."""
        if self._clock.now() >= self._until:
            self.over = True
        else:
            self._clock.sleep(min(seconds, 0.05))
