"""The line to a broker. That it is down is no error of any operation: it is said once, left alone
for a while, and tried again."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outage import Outage
from bestbefore.ports.clock import Clock
from bestbefore.ports.transport import Capabilities, Delivery, Message, Transport, TransportFailed

log = logging.getLogger(__name__)


class Line:
    """*transport*, whose failures are noted instead of raised. Receives for *lease* each time."""

    def __init__(
        self, transport: Transport, clock: Clock, spread: Callable[[], float], lease: timedelta
    ) -> None:
        self.lease = lease
        self._transport = transport
        self._clock = clock
        self._capabilities: Capabilities | None = None
        self._lock = threading.Lock()
        self._sending, self._receiving = Outage(spread), Outage(spread)

    @property
    def name(self) -> str:
        """What people call the queue."""
        return self._transport.name

    @property
    def given_up(self) -> bool:
        """Whether it is down for longer than anybody waits who wants to end."""
        now = self._clock.now()
        with self._lock:
            return (
                self._sending.tried_enough()
                or self._sending.is_long(now)
                or self._receiving.is_long(now)
            )

    @property
    def may_send(self) -> bool:
        """Whether publishing is worth a try."""
        with self._lock:
            return self._sending.may_try(self._clock.now())

    @property
    def may_receive(self) -> bool:
        """Whether receiving is worth a try."""
        with self._lock:
            return self._receiving.may_try(self._clock.now())

    @property
    def wait(self) -> timedelta:
        """How long to leave alone what could not be published."""
        with self._lock:
            return self._sending.wait

    def publish(self, messages: Sequence[Message]) -> Sequence[Failure | None] | None:
        """See the port; None where the call came to nothing, or every one of them was refused for
        now."""
        if not messages:
            return []
        try:
            self._capabilities = self._capabilities or self._transport.capabilities
            answers = self._transport.publish(messages)
        except TransportFailed as error:
            self._note(self._sending, error.failure)
            return None
        refused = [a for a in answers if a and a.failure_class is not FailureClass.MALFORMED]
        if len(refused) == len(messages):
            self._note(self._sending, refused[0])
            return None
        self._note(self._sending, None)
        return answers

    @property
    def retention(self) -> timedelta | None:
        """After what time a message is gone, once one was published."""
        return None if self._capabilities is None else self._capabilities.retention

    @property
    def deduplicates(self) -> bool:
        """Whether an operation that is published before its last message is acked is no new
        message: it is gone with that ack. It may, where nobody knows yet."""
        return self._capabilities is None or self._capabilities.deduplicates

    def receive(self, limit: int, wait: timedelta) -> Sequence[Delivery] | None:
        """See the port; None where the call came to nothing."""
        try:
            deliveries = self._transport.receive(limit, self.lease, wait)
        except TransportFailed as error:
            self._note(self._receiving, error.failure)
            return None
        self._note(self._receiving, None)
        return deliveries

    def extend(self, deliveries: Sequence[Delivery]) -> None:
        """See the port. Who is given now what was lost finds it claimed."""
        if deliveries:
            with self._noted():
                self._transport.extend(deliveries, self.lease)

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """See the port. What is not acked comes back, and is acked then."""
        if deliveries:
            with self._noted():
                self._transport.ack(deliveries)

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """See the port. What is not released comes back by itself."""
        if deliveries:
            with self._noted():
                self._transport.release(deliveries)

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except TransportFailed as error:
            self._note(self._receiving, error.failure)

    def _note(self, outage: Outage, failure: Failure | None) -> None:
        """Say once that the broker is out of reach, and once that it is back."""
        with self._lock:
            changed = outage.worked() if failure is None else outage.failed(self._clock.now())
        if changed and failure is None:
            log.info("%s: it answers again", self.name)
        elif changed and failure is not None:
            log.error("%s; work in hand goes on, and it is tried again", failure.error)
