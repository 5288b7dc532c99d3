"""What SQS gave up on: a second queue, which the first one's redrive policy names."""

from collections.abc import Sequence
from datetime import timedelta

from bestbefore.adapters.queues.sqs.attributes import attributes
from bestbefore.adapters.queues.sqs.client import Connection
from bestbefore.adapters.queues.sqs.place import Place
from bestbefore.adapters.queues.sqs.queue import SqsQueue
from bestbefore.ports.transport import Delivery


class SqsDeadLetters:
    """`bestbefore.ports.transport.DeadLetterQueue`; found when it is first needed.

    ``given`` is the place that the settings name. Without it, and without a redrive policy, there
    is nothing to receive.
    """

    def __init__(self, connection: Connection, place: Place, given: Place | None) -> None:
        self._connection = connection
        self._source = place
        self.given = given
        self._queue = None if given is None else SqsQueue(connection, given)

    @property
    def name(self) -> str:
        """See the port."""
        return f"dead letters of {self._source.name}" if self._queue is None else self._queue.name

    def receive(self, limit: int, lease: timedelta, wait: timedelta) -> Sequence[Delivery]:
        """See the port. Asks for the redrive policy until there is one: it can come later."""
        queue = self._queue or self._find()
        return [] if queue is None else queue.receive(limit, lease, wait)

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """See the port."""
        if self._queue is not None:
            self._queue.ack(deliveries)

    def _find(self) -> SqsQueue | None:
        redrive = attributes(self._connection, self._source).redrive
        if redrive is not None:
            self._queue = SqsQueue(self._connection, self._source.beside(redrive.target))
        return self._queue
