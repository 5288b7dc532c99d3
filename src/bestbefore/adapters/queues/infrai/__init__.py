"""Infrai's queue, over plain HTTP.

What is documented of it is little and contradicts itself, so every request is made from what the
vendor's discovery says: docs/infrai.md.
"""

import threading
from dataclasses import dataclass, field, replace
from datetime import timedelta

from bestbefore.adapters.infrai import (
    DEFAULT_BASE_URL,
    InfraiClient,
    InfraiError,
    InfraiSettings,
)
from bestbefore.adapters.queues.infrai.control import MOST_RETENTION_DAYS, InfraiQueues
from bestbefore.adapters.queues.infrai.findings import findings
from bestbefore.adapters.queues.infrai.mailbox import Mailbox
from bestbefore.adapters.queues.infrai.scratch import InfraiScratch
from bestbefore.adapters.queues.infrai.transport import InfraiTransport
from bestbefore.ports.scratch import BESIDE, ScratchQueue
from bestbefore.ports.transport import Broker

__all__ = ["InfraiQueueSettings", "InfraiQueues", "connect", "create", "push_to", "scratch"]

ASSUMED_RETENTION_DAYS = 4
"""Of a queue that says nothing of its own: too little only has messages published again earlier."""


@dataclass(frozen=True, slots=True)
class InfraiQueueSettings:
    """One queue of an account, and that of its dead letters.

    With ``declare``, whatever is missing of the two is created before the first message; nothing
    is without. ``retention_days`` is for queues that are created, by default the most there can be,
    and what holds for a queue that says nothing of its own. Raises ValueError for a key or an
    address that cannot be used.
    """

    queue: str
    dead_letter_queue: str
    api_key: str = field(repr=False)
    base_url: str = DEFAULT_BASE_URL
    declare: bool = False
    retention_days: int | None = None
    timeout: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        _ = self.account
        if self.queue == self.dead_letter_queue:
            raise ValueError("dead_letter_queue: expected another one than queue")
        if not 1 <= self.created_with_days <= MOST_RETENTION_DAYS:
            raise ValueError(f"retention_days: expected 1 to {MOST_RETENTION_DAYS}")

    @property
    def created_with_days(self) -> int:
        """How long a queue that we create keeps messages."""
        return MOST_RETENTION_DAYS if self.retention_days is None else self.retention_days

    @property
    def assumed_days(self) -> int:
        """How long a queue keeps them of which nothing says it."""
        return ASSUMED_RETENTION_DAYS if self.retention_days is None else self.retention_days

    @property
    def account(self) -> InfraiSettings:
        """Where the vendor is and who we are there."""
        return InfraiSettings(self.api_key, self.base_url, self.timeout)


def connect(settings: InfraiQueueSettings) -> Broker:
    """The queue that *settings* name. Nothing is sent before it is used."""
    client = InfraiClient(settings.account)
    queues = InfraiQueues(client)
    closing = threading.Event()
    topology = _Topology(settings, queues)
    transport = InfraiTransport(
        client, settings.queue, closing, topology.ensure, topology.retention
    )
    dead_letters = Mailbox(client, settings.dead_letter_queue, closing, topology.ensure)

    def close() -> None:
        closing.set()
        transport.close()
        dead_letters.close()
        client.close()

    return Broker(
        transport,
        dead_letters,
        lambda: findings(
            client, queues, settings.queue, settings.dead_letter_queue, settings.assumed_days
        ),
        close,
    )


def create(settings: InfraiQueueSettings) -> list[str]:
    """Create what is missing of the queue and its dead letters; returns what was created.

    Raises InfraiError.
    """
    client = InfraiClient(settings.account)
    try:
        return InfraiQueues(client).create_missing(
            settings.queue, settings.dead_letter_queue, settings.created_with_days
        )
    finally:
        client.close()


def push_to(settings: InfraiQueueSettings, url: str, secret: str | None) -> str:
    """Have the queue's messages pushed to *url*, signed with *secret*; returns the id of that.

    Raises InfraiError, also where the vendor could not call *url*.
    """
    client = InfraiClient(settings.account)
    try:
        return InfraiQueues(client).push_to(settings.queue, url, secret)
    finally:
        client.close()


def scratch(settings: InfraiQueueSettings) -> ScratchQueue:
    """A queue of our own beside the one that *settings* name; nothing is sent yet."""
    queue = f"{settings.queue}{BESIDE}"
    beside = replace(settings, queue=queue, dead_letter_queue=f"{queue}-dead", declare=False)
    return InfraiScratch(
        beside.account, queue, beside.dead_letter_queue, beside.created_with_days,
        lambda: connect(beside),
    )  # fmt: skip


class _Topology:
    """What there is of the two queues, asked once."""

    def __init__(self, settings: InfraiQueueSettings, queues: InfraiQueues) -> None:
        self._settings = settings
        self._queues = queues
        self._lock = threading.Lock()
        self._ensured = not settings.declare
        self._retention: timedelta | None = None

    def ensure(self) -> None:
        """Create what is missing, if that is wanted. Raises InfraiError."""
        if self._ensured:
            return
        with self._lock:
            if not self._ensured:
                self._queues.create_missing(
                    self._settings.queue,
                    self._settings.dead_letter_queue,
                    self._settings.created_with_days,
                )
                self._ensured = True

    def retention(self) -> timedelta:
        """After how long a message is gone, as far as they say; else as the settings have it, and
        what cannot be asked now is asked again."""
        settings = self._settings
        with self._lock:
            if self._retention is None:
                try:
                    queue = self._queues.all().get(settings.queue)
                except InfraiError:
                    return timedelta(days=settings.assumed_days)
                days = settings.assumed_days
                if queue is not None and queue.retention_days is not None:
                    days = min(queue.retention_days, MOST_RETENTION_DAYS)
                elif queue is None and settings.declare:
                    days = settings.created_with_days  # as it will be
                self._retention = timedelta(days=days)
            return self._retention
