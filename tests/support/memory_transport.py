"""A broker in memory, as unreliable as brokers are: `bestbefore.ports.transport.Transport`.

broker = MemoryBroker(clock)
one, other = broker.transport(), broker.transport()   # two consumers
broker.duplicate = 1; broker.lose = lambda message: True; broker.down = True
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bestbefore.app.clock import SystemClock
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.clock import Clock
from bestbefore.ports.transport import (
    Broker,
    Capabilities,
    Delivery,
    Message,
    TransportFailed,
)

_POLL_SECONDS = 0.005


@dataclass(eq=False)
class _Stored:
    operation_id: str
    body: bytes
    visible_at: datetime
    receipt: int = 0  # of its newest delivery


class MemoryBroker:
    """One queue. What is wrong with it can be switched on and off at any moment.

    ``duplicate`` is how many more of each message there are, ``shuffle`` has them come in any
    order, and ``lose`` says of which no more is heard. ``refuse`` says what becomes of a message
    instead of being stored. ``deduplicates`` takes an operation once, as long as it is there;
    ``acking`` is called before messages are removed. ``down`` fails every call, ``deaf`` only
    publishing. ``confirming`` False stores messages and fails all the same.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        retention: timedelta | None = timedelta(days=14),
        max_body: int = 262_144,
    ) -> None:
        self.clock = clock or SystemClock()
        self.retention = retention
        self.max_body = max_body
        self.duplicate = 0
        self.shuffle: random.Random | None = None
        self.lose: Callable[[Message], bool] = lambda _: False
        self.refuse: Callable[[Message], Failure | None] = lambda _: None
        self.deduplicates = False
        self.acking: Callable[[], None] = lambda: None
        self.down = False
        self.deaf = False
        self.confirming = True
        self.published: list[str] = []
        self.calls = 0
        self._lock = threading.Lock()
        self._stored: deque[_Stored] = deque()
        self._receipts = 0

    def transport(self) -> "MemoryTransport":
        """Another consumer and publisher."""
        return MemoryTransport(self)

    def broker(self) -> Broker:
        """What an adapter's ``connect`` returns."""
        return Broker(self.transport(), None, list, lambda: None)

    def put(self, body: bytes) -> None:
        """Somebody else publishes *body*."""
        with self._lock:
            self._stored.append(_Stored("", body, self.clock.now()))

    @property
    def depth(self) -> int:
        """Messages that are neither acked nor lost, in somebody's hands or not."""
        with self._lock:
            return len(self._stored)

    def purge(self) -> None:
        """Lose everything."""
        with self._lock:
            self._stored.clear()

    # What a transport calls.

    def store(self, message: Message) -> None:
        with self._lock:
            self.published.append(message.operation_id)
            there = (one.operation_id for one in self._stored)
            if self.lose(message) or (self.deduplicates and message.operation_id in there):
                return
            now = self.clock.now()
            for _ in range(1 + self.duplicate):
                self._stored.append(_Stored(message.operation_id, message.body, now))

    def take(self, limit: int, lease: timedelta) -> list[Delivery]:
        now = self.clock.now()
        with self._lock:
            there = [one for one in self._stored if one.visible_at <= now]
            if self.shuffle is not None:
                self.shuffle.shuffle(there)
            taken = []
            for one in there[:limit]:
                self._receipts += 1
                one.receipt, one.visible_at = self._receipts, now + lease
                taken.append(Delivery(one.body, (one, one.receipt)))
        return taken

    def change(self, deliveries: Sequence[Delivery], lease: timedelta | None) -> list[Delivery]:
        """Let them be hidden for *lease* from now on, or remove them; returns lost ones."""
        now, lost = self.clock.now(), []
        with self._lock:
            gone = set()
            for delivery in deliveries:
                one, receipt = delivery.receipt
                if one.receipt != receipt or one.visible_at <= now:
                    lost.append(delivery)
                elif lease is None:
                    one.receipt = 0
                    gone.add(id(one))
                else:
                    one.visible_at = now + lease
                    if not lease:
                        one.receipt = 0
            if gone:
                self._stored = deque(one for one in self._stored if id(one) not in gone)
        return lost


class MemoryTransport:
    """One process's side of a `MemoryBroker`."""

    def __init__(self, broker: MemoryBroker, name: str = "memory queue") -> None:
        self._broker = broker
        self.name = name

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            max_body=self._broker.max_body,
            retention=self._broker.retention,
            leases=True,
            extends=True,
            fences=True,
            deduplicates=self._broker.deduplicates,
            carries_any_bytes=True,
        )

    def publish(self, messages: Sequence[Message]) -> Sequence[Failure | None]:
        self._call(failing=self._broker.deaf)
        answers = [self._store(message) for message in messages]
        self._call(failing=not self._broker.confirming)
        return answers

    def receive(self, limit: int, lease: timedelta, wait: timedelta) -> Sequence[Delivery]:
        self._call()
        until = time.monotonic() + wait.total_seconds()
        while True:
            taken = self._broker.take(limit, lease)
            # Whoever turns the clock does so while nobody waits.
            hurried = not isinstance(self._broker.clock, SystemClock)
            if taken or hurried or time.monotonic() >= until:
                return taken
            time.sleep(_POLL_SECONDS)

    def extend(self, deliveries: Sequence[Delivery], lease: timedelta) -> Sequence[Delivery]:
        self._call()
        return self._broker.change(deliveries, lease)

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        self._call()
        self._broker.acking()
        self._broker.change(deliveries, None)

    def release(self, deliveries: Sequence[Delivery]) -> None:
        self._call()
        self._broker.change(deliveries, timedelta(0))

    def _store(self, message: Message) -> Failure | None:
        if len(message.body) > self._broker.max_body:
            said = f"{self.name}: a message has at most {self._broker.max_body:,} bytes"
            return Failure(FailureClass.MALFORMED, said)
        if (refused := self._broker.refuse(message)) is not None:
            return refused
        self._broker.store(message)
        return None

    def _call(self, *, failing: bool = False) -> None:
        self._broker.calls += 1
        if self._broker.down or failing:
            said = f"{self.name}: nobody answers; look whether it runs"
            raise TransportFailed(Failure(FailureClass.TRANSIENT, said))
