"""The queue itself: what is sent, what is received, and the messages of what is in hand."""

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import Operation, Span
from bestbefore.ports.outbox import Outbox
from bestbefore.ports.queue import Queue
from bestbefore.ports.transport import Delivery, Transport
from bestbefore.stages.carry.inbox import Absorbing, Inbox
from bestbefore.stages.carry.line import Line
from bestbefore.stages.carry.sending import Sending

log = logging.getLogger(__name__)

LONGEST_REST = 2.0
"""Seconds: what others plan, or what is due, in the meantime waits that long to be sent."""

_AT_ONCE = 1_000
_LOOK_FOR_LOST_EVERY = timedelta(minutes=1)
_LOST_BEFORE = timedelta(hours=1)
_EMPTY_FOR = timedelta(minutes=20)


class _Held(NamedTuple):
    """The message of a claimed operation; ``at`` is when its lease was last seen to."""

    delivery: Delivery
    at: datetime


class Carried:
    """`bestbefore.ports.queue.Queue` over a broker's *transport* and the ledger's *outbox*.

    *embedded* is the ledger's own queue, which keeps claims and gives out suspects. Messages are
    received, and marked as sent, for *lease*. What happens here happens in the name of *by*.
    """

    def __init__(
        self,
        outbox: Outbox,
        embedded: Queue,
        transport: Transport,
        strays: Absorbing,
        clock: Clock,
        spread: Callable[[], float],
        by: str,
        lease: timedelta,
    ) -> None:
        self._outbox = outbox
        self._embedded = embedded
        self._clock = clock
        self._line = Line(transport, clock, spread, lease)
        self._sending = Sending(outbox, self._line, clock, by)
        self._inbox = Inbox(outbox, self._line, strays, clock)
        self._lock = threading.Lock()
        self._held: dict[tuple[int, int], _Held] = {}  # by operation and claim
        self._swept_at = self._lost_at = clock.now()

    @property
    def name(self) -> str:
        """What people call the broker's queue."""
        return self._line.name

    @property
    def given_up(self) -> bool:
        """Whether the broker is out of reach for longer than anybody waits who wants to end."""
        return self._line.given_up

    def publish(self, span: Span, now: datetime) -> int:
        """See the port."""
        self._inbox.look_again()
        return self._sending.publish(span, now)

    def resend(self, policies: Sequence[int], most: int, now: datetime) -> int:
        """Send what is due, again or after a wait, until *most* of these *policies* (rows) are
        out. Returns how many were sent."""
        self._look_for_lost()
        sent = self._sending.resend(policies, most, now)
        if sent:
            self._inbox.look_again()
        return sent

    def doubt(self, policies: Sequence[int], most: int, now: datetime) -> None:
        """Have up to *most* of what was sent for *policies* long ago be due again.

        Behind a breaker nobody may live long enough to see that the queue has lost them, and only a
        message that comes would ever close it. Where they are there all the same, a few come twice.
        """
        self._outbox.lost(now - self._long, now, policies, most)

    def receive(
        self, policy: int, limit: int, now: datetime, lease: timedelta, *, suspects: bool = False
    ) -> Sequence[Operation]:
        """See the port. Suspects come from the ledger: nobody sends them."""
        self._tidy()
        if suspects:
            return self._embedded.receive(policy, limit, now, lease, suspects=True)
        operations, deliveries = self._inbox.take(policy, limit, now, lease)
        at = self._clock.now()
        with self._lock:
            for operation, delivery in zip(operations, deliveries, strict=True):
                self._held[operation.row, operation.token] = _Held(delivery, at)
        return operations

    def extend(self, operations: Sequence[Operation], until: datetime) -> Sequence[Operation]:
        """See the port."""
        self._tidy()
        lost = self._embedded.extend(operations, until)
        gone = {(operation.row, operation.token) for operation in lost}
        keys = {(operation.row, operation.token) for operation in operations} - gone
        now = self._clock.now()
        with self._lock:
            held = {key: _Held(self._held[key].delivery, now) for key in keys & self._held.keys()}
            self._held |= held
        self._line.extend([one.delivery for one in held.values()])
        return lost

    def ack(self, operations: Sequence[Operation]) -> None:
        """See the port."""
        with self._lock:
            keys = [(operation.row, operation.token) for operation in operations]
            held = [self._held.pop(key) for key in keys if key in self._held]
        self._line.ack([one.delivery for one in held])

    def release(self, operations: Sequence[Operation], due_at: datetime) -> None:
        """See the port. They are the ledger's: sent again once they may be worked on."""
        if self._line.deduplicates:
            # First, as it would take along what is published meanwhile. Who dies in between leaves
            # claims whose leases end.
            self.ack(operations)
            self._embedded.release(operations, due_at)
        else:
            self._embedded.release(operations, due_at)
            self.ack(operations)

    def rest(self, seconds: float) -> None:
        """Wait for a message, at most so long."""
        self._tidy()
        begun, wait = self._clock.now(), timedelta(seconds=min(seconds, LONGEST_REST))
        room = min(self._inbox.room, _AT_ONCE)
        if room > 0 and self._inbox.fetch(room, wait):
            return
        left = wait - (self._clock.now() - begun)
        if left > wait / 2:  # nobody waited: the broker is down, or nothing fits in here
            self._clock.sleep(left.total_seconds())

    def give_back(self) -> None:
        """Let others have at once what was received and not claimed: nobody will ask for it."""
        self._inbox.give_back()

    @property
    def _long(self) -> timedelta:
        return max(_EMPTY_FOR, 2 * self._line.lease)

    def _tidy(self) -> None:
        """See to messages that nobody asks for, or comes back for, any more."""
        self._inbox.hand_back()
        now = self._clock.now()
        if now - self._swept_at < self._line.lease:
            return
        self._swept_at = now
        with self._lock:
            # Whoever had them hangs. The ledger gives them out again, so their messages may go.
            keys = [key for key, one in self._held.items() if now - one.at > 2 * self._line.lease]
            left = [self._held.pop(key).delivery for key in keys]
        self._line.ack(left)

    def _look_for_lost(self) -> None:
        """Have those be due whose message will not come any more: later ones came, or the queue
        was empty for long."""
        now = self._clock.now()
        if now - self._lost_at < _LOOK_FOR_LOST_EVERY:
            return
        self._lost_at = now
        before = []
        if (newest := self._inbox.newest) is not None:
            before.append(newest - _LOST_BEFORE)
        empty_since = self._inbox.empty_since
        if empty_since is not None and now - empty_since >= self._long:
            before.append(empty_since)
            self._inbox.empty_since = now
        if before and (n := self._outbox.lost(max(before), now)):
            log.warning("%s: %d messages were lost, and are sent again", self.name, n)
