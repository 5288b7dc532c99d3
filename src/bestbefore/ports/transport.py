"""A queue of somebody else's, in five verbs: what an adapter to a broker implements.

It carries messages and knows nothing of what they mean. Waiting, retries, attempts and dead letters
live in the ledger, so a broker needs neither delays nor priorities, and its own dead letters are
only a safety net. Delivery is at least once, in any order: the ledger decides who works on what.

`bestbefore.contracts.transport` is the behaviour that every adapter has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding


class TransportFailed(Exception):
    """A whole call came to nothing. ``failure`` is why, and its text names the queue."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure


class Message(NamedTuple):
    """One command to publish. ``operation_id`` (64 hex digits) is the message's own id wherever a
    broker takes one; ``body`` is ASCII JSON of at most 8 KiB.

    ``edition`` (at most 32 letters and digits) tells apart the times that one operation is
    published, as after a retry or a redrive: another one each time, and the same however often
    that time is tried. For brokers that would swallow a message they have seen within a day.
    Without one, each time counts as another.
    """

    operation_id: str
    body: bytes
    edition: str = ""


class Delivery(NamedTuple):
    """One message in this process's hands. ``body`` is what arrived, readable or not; ``receipt``
    belongs to the adapter, and is good for this delivery only."""

    body: bytes
    receipt: Any


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a broker promises, so that suites, `check` and the docs need not know its name.

    ``max_body`` is in bytes. After ``retention`` a message is gone, taken or not; None where it
    stays. A delivery comes back by itself once its lease ends, at most ``longest_lease`` after it
    was received, if ``leases``; else when its consumer is gone. ``extends`` says that a lease can
    be prolonged, ``fences`` that whoever lost one cannot ack any more, ``deduplicates`` that an
    operation published again while it is there remains one message, and ``carries_any_bytes`` that
    somebody else can put any bytes into the queue.
    """

    max_body: int
    retention: timedelta | None
    leases: bool
    extends: bool
    fences: bool
    deduplicates: bool
    carries_any_bytes: bool
    longest_lease: timedelta | None = None


class Transport(Protocol):
    """One queue. Every method may be called from several threads at a time.

    Each makes one try within the client's timeouts, and raises TransportFailed where the call as a
    whole came to nothing; what was given to it is then as it was before, or is delivered again.
    """

    @property
    def name(self) -> str:
        """What people call this queue: its kind and its place, without any secret."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What this broker promises; may ask it, once."""
        ...

    def publish(self, messages: Sequence[Message]) -> Sequence[Failure | None]:
        """Have the broker store every message, durably; for each, in order, None or why not.

        A failure of class ``malformed`` is for good, as of a body that is too large: nothing would
        change it. Any other may be tried again. A message whose answer is unknown counts as failed,
        although it may be there.
        """
        ...

    def receive(self, limit: int, lease: timedelta, wait: timedelta) -> Sequence[Delivery]:
        """Take up to *limit* messages for *lease*, waiting at most *wait* for the first one.

        Returns as soon as there is something. With no *wait* it says what there is right now.
        """
        ...

    def extend(self, deliveries: Sequence[Delivery], lease: timedelta) -> Sequence[Delivery]:
        """Keep deliveries for *lease* from now on. Returns those that were lost meanwhile; nothing
        to do, and nothing lost, where a delivery has no lease."""
        ...

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Forget messages. One that was lost, or is gone already, is left as it is."""
        ...

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """Give messages back unused, for others to have at once. Lost ones are left."""
        ...


class DeadLetterQueue(Protocol):
    """What a broker itself gave up on: a second queue, to be emptied into the ledger."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    def receive(self, limit: int, lease: timedelta, wait: timedelta) -> Sequence[Delivery]:
        """See `Transport.receive`."""
        ...

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """See `Transport.ack`."""
        ...


@dataclass(frozen=True, slots=True)
class Broker:
    """Everything that an adapter offers for one configured queue.

    ``findings`` asks the broker, read only, what an operator should know: durability, retention,
    dead letters, rights. ``close`` gives back what this process holds and ends its connections.
    """

    transport: Transport
    dead_letters: DeadLetterQueue | None
    findings: Callable[[], Sequence[Finding]]
    close: Callable[[], None]
