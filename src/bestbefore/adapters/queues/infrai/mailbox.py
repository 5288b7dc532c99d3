"""Taking messages out of one queue: the work queue, or that of the dead letters."""

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from bestbefore.adapters.infrai import InfraiClient, InfraiError
from bestbefore.adapters.infrai.envelope import first, items, text
from bestbefore.adapters.queues.infrai.payloads import body_of
from bestbefore.adapters.queues.infrai.uses import ACK, CONSUME
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.transport import Delivery, TransportFailed

log = logging.getLogger(__name__)

AT_A_TIME = 8
"""Calls under way: every message is a call of its own, but for receiving."""

_MOST_PER_CALL = 10
"""Messages to ask for where the schema names no maximum: what every client of theirs asks for."""

_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.1, 1.0
"""Between two looks at an empty queue: there is no way to have them wait for us."""

_MOST_FAILURES = 8
"""In a row, after which the rest of a round is not tried."""

_GONE = (404, 410)
"""Of a message: acked already, or given to somebody else."""

A = TypeVar("A")


@dataclass(slots=True, eq=False)
class Receipt:
    """What a message is known by. ``nonce`` is this delivery's own; once it was acked or given
    back, it is ``settled``, and no longer ours."""

    message_id: str | None
    handle: str | None
    nonce: str
    payload: Any
    settled: bool = False


class Round:
    """Calls for many things at a time, which end early once going on is pointless."""

    def __init__(self, crew: ThreadPoolExecutor) -> None:
        self._crew = crew
        self._failures = 0
        self._lock = threading.Lock()
        self._given_up: InfraiError | None = None

    def all(self, do: Callable[[A], Failure | None], things: Iterable[A]) -> list[Failure | None]:
        """What *do* answers for each of *things*, in order, or why it came to nothing."""
        return list(self._crew.map(lambda thing: self._one(do, thing), things))

    def _one(self, do: Callable[[A], Failure | None], thing: A) -> Failure | None:
        if (known := self._given_up) is not None:
            return known.failure
        try:
            answer = do(thing)
        except InfraiError as error:
            with self._lock:
                self._failures += 1
                if error.decisive or self._failures >= _MOST_FAILURES:
                    self._given_up = error
            return error.failure
        with self._lock:
            self._failures = 0
        return answer


class Mailbox:
    """`bestbefore.ports.transport.DeadLetterQueue`, and half of a Transport."""

    def __init__(
        self,
        client: InfraiClient,
        queue: str,
        closing: threading.Event,
        ensure: Callable[[], None] = lambda: None,
    ) -> None:
        self.client = client
        self.queue = queue
        self._closing = closing
        self._ensure = ensure
        self._crew = ThreadPoolExecutor(AT_A_TIME, "infrai")

    @property
    def name(self) -> str:
        """What people call it."""
        return f"infrai queue {self.queue!r} at {self.client.place}"

    def receive(self, limit: int, lease: timedelta, wait: timedelta) -> Sequence[Delivery]:
        """See `bestbefore.ports.transport.Transport.receive`."""
        if limit < 1:
            return []
        until = time.monotonic() + wait.total_seconds()
        pause = _FIRST_PAUSE_SECONDS
        while True:
            found = self._taken(limit, lease)
            left = until - time.monotonic()
            if found or left <= 0 or self._closing.is_set():
                return found
            self._closing.wait(min(pause, left))
            pause = min(2 * pause, _LAST_PAUSE_SECONDS)

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """See `bestbefore.ports.transport.Transport.ack`."""
        self._settle(deliveries, self._ack, "acked")

    def close(self) -> None:
        """End what is under way, once it has been answered."""
        self._crew.shutdown(wait=True, cancel_futures=True)

    # -- for whoever builds on this ----------------------------------------------------------

    def round(self) -> Round:
        """Calls for many things at a time."""
        return Round(self._crew)

    def failed(self, error: InfraiError) -> TransportFailed:
        """*error*, with the name of this queue."""
        return TransportFailed(self.named(error.failure))

    def named(self, failure: Failure) -> Failure:
        """*failure*, with the name of this queue."""
        return Failure(failure.failure_class, f"{self.name}: {failure.error}", failure.retry_after)

    def ready(self) -> None:
        """Have what was to be created first created. Raises TransportFailed."""
        try:
            self._ensure()
        except InfraiError as error:
            raise self.failed(error) from error

    def _settle(
        self, deliveries: Sequence[Delivery], do: Callable[[Receipt], None], done: str
    ) -> None:
        """*do* each, as often as not all of them fail: a message left over is delivered again."""

        def one(receipt: Receipt) -> None:
            try:
                do(receipt)
            except InfraiError as error:
                if error.status not in _GONE:
                    raise
            receipt.settled = True

        ours = [one.receipt for one in deliveries if not one.receipt.settled]
        failures = self.round().all(one, ours)
        if not (left := [failure for failure in failures if failure is not None]):
            return
        if len(left) == len(ours):
            raise TransportFailed(self.named(left[0]))
        log.warning(
            "%s: %d of %d messages were not %s and will come back: %s",
            self.name, len(left), len(ours), done, left[0].error,
        )  # fmt: skip

    # -- taking ------------------------------------------------------------------------------

    def _taken(self, limit: int, lease: timedelta) -> list[Delivery]:
        """What there is now, up to *limit*: call after call, as long as each comes back full."""
        self.ready()
        try:
            most = self._most_per_call(lease)
            found = self._take(min(limit, most), lease)
        except InfraiError as error:
            raise self.failed(error) from error
        full = len(found) >= min(limit, most)
        while full and len(found) < limit and not self._closing.is_set():
            sizes = _cut(limit - len(found), most)[:AT_A_TIME]
            parts: list[list[Delivery]] = []

            def take(size: int, parts: list[list[Delivery]] = parts) -> None:
                parts.append(self._take(size, lease))

            # What one of these fails with, the next receive will say; what came is not lost.
            self.round().all(take, sizes)
            found += [delivery for part in parts for delivery in part]
            full = sum(map(len, parts)) >= sum(sizes)
        return found

    def _take(self, number: int, lease: timedelta) -> list[Delivery]:
        data = self.client.call(
            CONSUME, self._asked(number, lease), key=secrets.token_hex(16), tries=1
        )
        found = items(data, "messages")
        if found is None:
            raise InfraiError(
                Failure(
                    FailureClass.UNKNOWN,
                    f"{CONSUME.name}: expected a list of messages in the answer, found none; "
                    "compare it with the discovery document",
                )
            )
        return [Delivery(body_of(first(one, ("payload", "body"))), _receipt(one)) for one in found]

    def _most_per_call(self, lease: timedelta) -> int:
        chosen = self.client.chosen(CONSUME, self._asked(1, lease) | {"key": ""}, tries=1)
        return chosen.capability.most("max_messages") or _MOST_PER_CALL

    def _asked(self, number: int, lease: timedelta) -> dict[str, str | int]:
        seconds = max(1, math.ceil(lease.total_seconds()))
        longest = self.longest_lease()
        return {
            "queue": self.queue,
            "number": number,
            "visibility": seconds if longest is None else min(seconds, longest),
        }

    def longest_lease(self) -> int | None:
        """The most seconds that a message can be had for; None where nothing says."""
        return self.client.discover(CONSUME.name, tries=1).most("visibility_timeout")

    # -- settling ----------------------------------------------------------------------------

    def _ack(self, receipt: Receipt) -> None:
        # A handle belongs to one delivery, an id to all of them: the same key is the same request.
        key = f"ack-{receipt.message_id or ''}-{receipt.nonce if receipt.handle else ''}"
        self.client.call(ACK, self.known_by(receipt), key=key.strip("-"), tries=1)

    def known_by(self, receipt: Receipt) -> dict[str, str | None]:
        """What names a delivery in a request."""
        return {
            "queue": self.queue,
            "message_id": receipt.message_id,
            "receipt_handle": receipt.handle,
        }


def _receipt(message: Any) -> Receipt:
    return Receipt(
        text(message, "message_id", "id"),
        text(message, "receipt_handle"),
        secrets.token_hex(8),
        first(message, ("payload", "body")),
    )


def _cut(number: int, most: int) -> list[int]:
    """*number* in parts of at most *most*."""
    whole, rest = divmod(number, most)
    return [most] * whole + ([rest] if rest else [])
