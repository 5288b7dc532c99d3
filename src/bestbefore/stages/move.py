"""Drain one queue into another, while workers run on either.

The ledger says who may work on an operation, so that a message in both queues, or in the wrong one,
does no harm. Every message is taken from the old queue, given to the new one, and only then
forgotten in the old.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.clock import Clock
from bestbefore.ports.outbox import Outbox, sent_again_at
from bestbefore.ports.rerouting import Rerouting
from bestbefore.ports.strays import Strays
from bestbefore.ports.transport import DeadLetterQueue, Message, Transport, TransportFailed
from bestbefore.stages.met import fates, told_apart

_AT_ONCE = 100
_AT_HAND = timedelta(0)
_LOOKS = 3
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Movement:
    """What came of the messages in the old queue.

    ``moved`` operations are in the new one. ``already_ended`` messages are about what is completed
    or dead, ``in_ledger`` ones about what waits there anyway: due, delayed, not released, or in a
    worker's hands. ``absorbed`` messages execute
    nothing and wait for a person, ``refused`` ones the new queue can never carry, so that their
    operations are dead. ``left`` operations were not met in the old queue; at a ``complete`` end
    they are due again, and sent by whoever works with the new one.
    """

    moved: int = 0
    absorbed: int = 0
    already_ended: int = 0
    in_ledger: int = 0
    refused: int = 0
    left: int = 0
    complete: bool = False


class Mover:
    """Drains *sources*, a queue and maybe its dead letters, into *target*; without a target into
    the ledger itself. *lease* is that of the old queue."""

    def __init__(
        self,
        sources: Sequence[DeadLetterQueue],
        target: Transport | None,
        outbox: Outbox,
        rerouting: Rerouting,
        strays: Strays,
        clock: Clock,
        by: str,
        lease: timedelta,
    ) -> None:
        self._sources = sources
        self._target = target
        self._outbox = outbox
        self._rerouting = rerouting
        self._strays = strays
        self._clock = clock
        self._by = by
        self._lease = lease
        self._done = Movement()

    def move(
        self,
        stopping: Callable[[], bool],
        on_progress: Callable[[Movement], None] = lambda _: None,
    ) -> Movement:
        """Drain until nothing came for a few looks and nothing that was sent before is missing, or
        else until whatever somebody else had in hand has come back.

        Raises TransportFailed and LedgerError; what was not moved then is in the old queue, and a
        repeat goes on with it.
        """
        self._done = Movement()
        begun = self._clock.now()
        if self._target is not None:
            # What a try that was interrupted has moved is where it should be.
            begun = self._rerouting.switch(self._target.name, begun)
        looks, empty_since = 0, self._clock.now()
        while not stopping():
            if self._round():
                looks, empty_since = 0, self._clock.now()
            else:
                looks += 1
            missing = self._rerouting.outstanding(begun)
            self._done = replace(self._done, left=missing)
            on_progress(self._done)
            # What a consumer had received when it was killed is there again once its lease ends.
            over = not missing or self._clock.now() - empty_since > 2 * self._lease
            if looks >= _LOOKS and over:
                return replace(self._done, left=self._settle(begun), complete=True)
            if looks:
                self._clock.sleep(_PAUSE_SECONDS)
        return self._done

    def _round(self) -> bool:
        """Look once into every source. Returns whether there was anything."""
        met = [self._some(source) for source in self._sources]
        return any(met)

    def _some(self, source: DeadLetterQueue) -> bool:
        deliveries = source.receive(_AT_ONCE, self._lease, _AT_HAND)
        if not deliveries:
            return False
        now, met, done = self._clock.now(), told_apart(deliveries), self._done
        bodies = met.bodies
        if self._target is None:
            became, refused = fates(met, self._rerouting.take_back(list(bodies), now)), 0
        else:
            there = self._rerouting.redirect(list(bodies), now, now + self._lease)
            became, refused = (
                fates(met, there),
                self._publish(self._target, bodies, there.rows, now),
            )
        self._strays.absorb(became.strays, now)
        source.ack(deliveries)
        self._done = replace(
            done,
            moved=done.moved + became.changed - refused,
            absorbed=done.absorbed + len(became.strays),
            already_ended=done.already_ended + became.ended,
            in_ledger=done.in_ledger + became.in_ledger,
            refused=done.refused + refused,
        )
        return True

    def _publish(
        self,
        target: Transport,
        bodies: Mapping[bytes, bytes],
        rows: Mapping[bytes, int],
        marked_at: datetime,
    ) -> int:
        """Give the new queue what is marked as sent; returns how many it can never carry.

        What it does not take for now is due again, and sent by whoever works with it.
        """
        if not rows:
            return 0
        order = list(rows.values())
        messages = [Message(id_.hex(), bodies[id_]) for id_ in rows]
        try:
            answers = target.publish(messages)
        except TransportFailed:
            # It stays in the old queue, too: nobody acks it.
            self._outbox.fail(order, marked_at, marked_at)
            raise
        answered = list(zip(order, answers, strict=True))
        sent = [row for row, why in answered if why is None]
        never = [(row, why) for row, why in answered if why is not None and _for_good(why)]
        later = [row for row, why in answered if why is not None and not _for_good(why)]
        if sent:
            there = target.capabilities
            again_at = sent_again_at(marked_at, there.retention, once=there.deduplicates)
            self._outbox.confirm(sent, marked_at, again_at)
        if never:
            self._outbox.refuse(never, marked_at, self._by, marked_at)
        if later:
            self._outbox.fail(later, marked_at, marked_at)
        return len(never)

    def _settle(self, begun: datetime) -> int:
        """What was not met is due: it is lost, or in a queue that nobody empties any more."""
        now = self._clock.now()
        return self._outbox.recall(now) if self._target is None else self._outbox.lost(begun, now)


def _for_good(failure: Failure) -> bool:
    return failure.failure_class is FailureClass.MALFORMED
