"""The five verbs for any thread, over what happens in the loop."""

from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from bestbefore.adapters.queues.rabbitmq.consumer import Consumer
from bestbefore.adapters.queues.rabbitmq.errors import failing
from bestbefore.adapters.queues.rabbitmq.link import CONNECT_SECONDS, Link
from bestbefore.adapters.queues.rabbitmq.loop import Loop
from bestbefore.adapters.queues.rabbitmq.publisher import Publisher
from bestbefore.adapters.queues.rabbitmq.server import UNKNOWN
from bestbefore.adapters.queues.rabbitmq.topology import Topology
from bestbefore.domain.failure import Failure
from bestbefore.ports.transport import Capabilities, Delivery, Message, TransportFailed

T = TypeVar("T")
_CALL_SECONDS = 30.0
_OPENING_SECONDS = 6 * CONNECT_SECONDS
"""For a wait after a failed attempt, the connection, the queues and a channel."""


class Calls:
    """Does for one queue, in the loop, what other threads ask for."""

    def __init__(self, loop: Loop, name: str) -> None:
        self._loop = loop
        self.name = name

    def __call__(self, work: Callable[[], Coroutine[Any, Any, T]], within: float) -> T:
        """What *work* returns; TransportFailed where it fails or takes longer than *within*."""
        with failing(self.name):
            return self._loop.run(work, within)


class RabbitTransport:
    """One queue. See `bestbefore.ports.transport.Transport`."""

    def __init__(
        self, calls: Calls, link: Link, publisher: Publisher, consumer: Consumer, topology: Topology
    ) -> None:
        self._calls = calls
        self._link = link
        self._publisher = publisher
        self._consumer = consumer
        self._topology = topology

    @property
    def name(self) -> str:
        """The queue, the server and its virtual host."""
        return self._calls.name

    @property
    def capabilities(self) -> Capabilities:
        """By the version of the server; the least that any version promises while it is away."""
        if self._link.server is UNKNOWN:
            try:
                self._calls(self._link.ready, _OPENING_SECONDS)
            except TransportFailed:
                return UNKNOWN.capabilities(None)
        return self._link.server.capabilities(self._topology.retention)

    def publish(self, messages: Sequence[Message]) -> Sequence[Failure | None]:
        """See `Transport.publish`."""
        if not messages:
            return []
        seconds = _OPENING_SECONDS + _CALL_SECONDS * (2 + len(messages) // 100)
        return self._calls(lambda: self._publisher.publish(messages), seconds)

    def receive(
        self,
        limit: int,
        lease: timedelta,  # noqa: ARG002
        wait: timedelta,
    ) -> Sequence[Delivery]:
        """See `Transport.receive`. A delivery is kept until its channel is lost: *lease* ends
        nothing here."""
        return received(self._calls, self._consumer, limit, wait)

    def extend(
        self,
        deliveries: Sequence[Delivery],
        lease: timedelta,  # noqa: ARG002
    ) -> Sequence[Delivery]:
        """See `Transport.extend`: which of them went with their channel."""
        return self._consumer.lost(deliveries)

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """See `Transport.ack`."""
        if deliveries:
            self._calls(lambda: self._consumer.ack(deliveries), _CALL_SECONDS)

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """See `Transport.release`."""
        if deliveries:
            self._calls(lambda: self._consumer.release(deliveries), _CALL_SECONDS)


class RabbitDeadLetters:
    """The queue for dead letters. See `bestbefore.ports.transport.DeadLetterQueue`."""

    def __init__(self, calls: Calls, consumer: Consumer) -> None:
        self._calls = calls
        self._consumer = consumer

    @property
    def name(self) -> str:
        """The queue, the server and its virtual host."""
        return self._calls.name

    def receive(
        self,
        limit: int,
        lease: timedelta,  # noqa: ARG002
        wait: timedelta,
    ) -> Sequence[Delivery]:
        """See `Transport.receive`."""
        return received(self._calls, self._consumer, limit, wait)

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """See `Transport.ack`."""
        if deliveries:
            self._calls(lambda: self._consumer.ack(deliveries), _CALL_SECONDS)


def received(calls: Calls, consumer: Consumer, limit: int, wait: timedelta) -> Sequence[Delivery]:
    """What *consumer* takes while somebody waits for it."""
    seconds = wait.total_seconds()
    return calls(
        lambda: consumer.receive(limit, seconds), _OPENING_SECONDS + _CALL_SECONDS + seconds
    )
