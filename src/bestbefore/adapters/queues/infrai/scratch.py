"""A queue of our own beside the configured one, and another one for its dead letters.

Not everybody is offered a way to delete queues. Where there is none, both are emptied and stay, and
empty ones count as none.
"""

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from bestbefore.adapters.infrai import InfraiClient, InfraiError, InfraiSettings, place
from bestbefore.adapters.queues.infrai.control import InfraiQueues
from bestbefore.ports.transport import Broker, DeadLetterQueue, TransportFailed

log = logging.getLogger(__name__)

_A_MOMENT = timedelta(seconds=1)
_AT_ONCE = timedelta(0)
_AT_A_TIME = 100


class InfraiScratch:
    """`bestbefore.ports.scratch.ScratchQueue`. *connect* is the adapter's own, to this queue."""

    def __init__(
        self,
        account: InfraiSettings,
        queue: str,
        dead_letter_queue: str,
        retention_days: int,
        connect: Callable[[], Broker],
    ) -> None:
        self._account = account
        self._queue = queue
        self._dead = dead_letter_queue
        self._retention_days = retention_days
        self._connect = connect
        self.name = f"infrai queue {queue!r} at {place(account.base_url.rstrip('/'))}"

    def exists(self) -> bool:
        """See the port."""
        with self._queues() as queues:
            there = self._there(queues)
            if not there or queues.can_delete():
                return bool(there)
        with self._opened(there) as those:
            # For a moment only, so that nothing has to be given back.
            return any(queue.receive(1, _A_MOMENT, _AT_ONCE) for queue in those)

    def create(self) -> None:
        """See the port."""
        with self._queues() as queues:
            queues.create_missing(
                self._queue, self._dead, self._retention_days, secrets.token_hex(8)
            )

    def connect(self) -> Broker:
        """See the port."""
        return self._connect()

    def remove(self) -> None:
        """See the port. Without a way to delete, what somebody has in hand stays as well."""
        with self._queues() as queues:
            there = self._there(queues)
            if queues.can_delete():
                for name in there:
                    queues.delete(name)
                return
        with self._opened(there) as those:
            for queue in those:
                while found := queue.receive(_AT_A_TIME, _A_MOMENT, _AT_ONCE):
                    queue.ack(found)
        if there:
            log.warning(
                "infrai: their discovery has no queue.delete, so that %s stay, empty; delete them "
                "at the vendor if they are in the way", " and ".join(there),
            )  # fmt: skip

    def _there(self, queues: InfraiQueues) -> Sequence[str]:
        known = queues.all()
        # That of the dead letters last, as the other one refers to it.
        return [name for name in (self._queue, self._dead) if name in known]

    @contextmanager
    def _queues(self) -> Iterator[InfraiQueues]:
        client = InfraiClient(self._account)
        try:
            yield InfraiQueues(client)
        except InfraiError as error:
            raise TransportFailed(
                replace(error.failure, error=f"{self.name}: {error.failure.error}")
            ) from error
        finally:
            client.close()

    @contextmanager
    def _opened(self, there: Sequence[str]) -> Iterator[Sequence[DeadLetterQueue]]:
        """Those of the two queues that are *there*."""
        broker = self._connect()
        try:
            both = {self._queue: broker.transport, self._dead: broker.dead_letters}
            yield [queue for name, queue in both.items() if name in there and queue is not None]
        finally:
            broker.close()
