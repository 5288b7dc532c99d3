"""From the ledger to the broker: mark, publish, write down what came of it."""

import logging
import secrets
import threading
from collections.abc import Sequence
from datetime import datetime

from bestbefore.domain.command import encoded
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import Span
from bestbefore.ports.outbox import Outbox, Outgoing, sent_again_at
from bestbefore.ports.transport import Message
from bestbefore.stages.carry.line import Line

log = logging.getLogger(__name__)

_SLICE = 1_000


class Sending:
    """What publishes, on *line*, what the *outbox* marks; in the name of *by*."""

    def __init__(self, outbox: Outbox, line: Line, clock: Clock, by: str) -> None:
        self._outbox = outbox
        self._line = line
        self._clock = clock
        self._by = by
        self._lock = threading.Lock()
        self._declared = False

    def publish(self, span: Span, now: datetime) -> int:
        """See `bestbefore.ports.queue.Queue.publish`. Stops where the broker is out of reach, with
        the rest still waiting."""
        self._declare(now)
        begun, at, published = self._clock.now(), now, 0
        while self._line.may_send:
            marked = self._outbox.mark(span, _SLICE, at, at + self._line.lease)
            published += marked.published
            if not self._send(marked.outgoing, at) or len(marked.outgoing) < _SLICE:
                break
            at = now + (self._clock.now() - begun)
        return published

    def resend(self, policies: Sequence[int], most: int, now: datetime) -> int:
        """Send what is due, again or after a wait, until *most* of these *policies* (rows) are
        out, a slice of each in turn. Returns how many were sent."""
        self._declare(now)
        # What is due again counts as gone: else a queue that lost all that may be out at a time
        # would never get any of it back.
        turns, room = list(policies), most - self._outbox.under_way(policies, now)
        begun, at, sent = self._clock.now(), now, 0
        while turns:
            for policy in list(turns):
                limit = min(_SLICE, room - sent)
                if limit <= 0 or not self._line.may_send:
                    return sent
                outgoing = self._outbox.mark_due(policy, limit, at, at + self._line.lease)
                if not self._send(outgoing, at) or len(outgoing) < limit:
                    turns.remove(policy)
                sent += len(outgoing)
                at = now + (self._clock.now() - begun)
        return sent

    def _declare(self, now: datetime) -> None:
        """Once, say in the ledger where operations are sent from now on."""
        with self._lock:
            if self._declared:
                return
            if self._outbox.use(self._line.name, now):
                log.warning("what went to another queue so far goes to %s now", self._line.name)
            self._declared = True

    def _send(self, outgoing: Sequence[Outgoing], marked_at: datetime) -> bool:
        """Returns False where nothing went through, so that it is no use to go on."""
        if not outgoing:
            return True
        refused: list[tuple[int, Failure]] = []
        messages, rows = [], []
        edition = secrets.token_hex(8)
        for row, operation_id, command in outgoing:
            message = command.message()
            if message["operation_id"] == operation_id.hex():
                messages.append(Message(operation_id.hex(), encoded(message), edition))
                rows.append(row)
            else:
                refused.append((row, _other_than(operation_id)))
        answers = self._line.publish(messages)
        if answers is None:
            self._outbox.fail(rows, marked_at, marked_at + self._line.wait)
        else:
            answered = list(zip(rows, answers, strict=True))
            refused += [(row, why) for row, why in answered if why is not None and _for_good(why)]
            self._confirm([row for row, why in answered if why is None], marked_at)
            if later := [row for row, why in answered if why is not None and not _for_good(why)]:
                self._outbox.fail(later, marked_at, marked_at + self._line.wait)
        if refused:
            self._outbox.refuse(refused, marked_at, self._by, marked_at)
            log.error(
                "%s: %d messages can never be sent and are dead letters: %s",
                self._line.name, len(refused), refused[0][1].error,
            )  # fmt: skip
        return answers is not None

    def _confirm(self, rows: Sequence[int], marked_at: datetime) -> None:
        if rows:
            until = sent_again_at(marked_at, self._line.retention, once=self._line.deduplicates)
            self._outbox.confirm(rows, marked_at, until)


def _for_good(failure: Failure) -> bool:
    return failure.failure_class is FailureClass.MALFORMED


def _other_than(operation_id: bytes) -> Failure:
    return Failure(
        FailureClass.MALFORMED,
        f"operation {operation_id.hex()}: what the ledger holds of it does not hash to this id",
    )
