"""One process's way to the broker that everybody shares, which may fail."""

import sys
from collections.abc import Callable, Sequence
from datetime import timedelta

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.message import Unreadable, identified
from bestbefore.ports.transport import Delivery, Message, TransportFailed
from simulation.kernel import Process
from simulation.sources import Faults
from support.memory_transport import MemoryBroker, MemoryTransport

Acking = Callable[[Process, bytes, int, int], None]


class TransportOf(MemoryTransport):
    """`bestbefore.ports.transport.Transport`.

    *acking* hears of each message before it is acked: the operation's id, the step in which it was
    received, and how many others about that operation this process has. *sent* is every body that
    was published so far.
    """

    def __init__(
        self,
        process: Process,
        broker: MemoryBroker,
        faults: Faults,
        acking: Acking,
        sent: list[bytes],
    ) -> None:
        super().__init__(broker)
        self._process = process
        self._faults = faults
        self._acking = acking
        self._sent = sent
        self._in_hand: dict[int, tuple[bytes, int]] = {}

    def publish(self, messages: Sequence[Message]) -> Sequence[Failure | None]:
        self._begin("publish to the broker")
        self._sent += [message.body for message in messages]
        answers = super().publish(messages)
        self._end()
        return answers

    def receive(self, limit: int, lease: timedelta, wait: timedelta) -> Sequence[Delivery]:
        self._begin("receive from the broker")
        deliveries = super().receive(limit, lease, wait)
        for body, (_, receipt) in deliveries:
            self._in_hand[receipt] = _about(body), self._process.kernel.step
        return deliveries

    def extend(self, deliveries: Sequence[Delivery], lease: timedelta) -> Sequence[Delivery]:
        self._begin("extend at the broker")
        return super().extend(deliveries, lease)

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        # What is given back may be acked first: see `Carried.release`.
        gives_back = sys._getframe(3).f_code.co_name == "release"
        self._begin("ack at the broker")
        for delivery in deliveries:
            operation_id = _about(delivery.body)
            _, received = self._in_hand.pop(delivery.receipt[1], (operation_id, 0))
            others = sum(one == operation_id for one, _ in self._in_hand.values())
            if not gives_back:
                self._acking(self._process, operation_id, received, others)
        super().ack(deliveries)
        self._end()

    def release(self, deliveries: Sequence[Delivery]) -> None:
        self._begin("release at the broker")
        super().release(deliveries)

    def _begin(self, what: str) -> None:
        self._process.point(what)
        if self._faults.strike(self._faults.call / 2):
            raise TransportFailed(Failure(FailureClass.TRANSIENT, "made up to be down"))

    def _end(self) -> None:
        if self._faults.strike(self._faults.answer):
            raise TransportFailed(Failure(FailureClass.TRANSIENT, "the answer was lost"))


def _about(body: bytes) -> bytes:
    """The id of the operation that a message is about; of an unreadable one, itself."""
    try:
        return identified(body)[0]
    except Unreadable:
        return body
