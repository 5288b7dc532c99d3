"""One BullMQ queue behind a synchronous face: its client, its loop, and how calls fail."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from bullmq import Queue
from bullmq.backend import Backend
from redis.exceptions import RedisError

from bestbefore.adapters.queues.bullmq.client import (
    CONNECT_SECONDS,
    READ_SECONDS,
    BullSettings,
    Together,
    place,
)
from bestbefore.adapters.queues.bullmq.errors import failure
from bestbefore.adapters.queues.bullmq.loop import Loop, LoopClosed
from bestbefore.ports.transport import TransportFailed

T = TypeVar("T")

_CALL_SECONDS = 2 * (CONNECT_SECONDS + READ_SECONDS)
"""What a call may take that does not wait: its several requests together."""

_OLDEST_REDIS = "6.2.0"
"""What BullMQ recommends at least. It asks for the version by itself otherwise, and warns."""


class Jobs:
    """The queue as BullMQ's package has it. What is called ``async`` here runs in `run` only."""

    def __init__(self, settings: BullSettings, client: Callable[[BullSettings], Together]) -> None:
        self.name = name_of(settings)
        self._loop = Loop(f"bullmq-{settings.queue}")
        try:
            self.client, self.queue = self._loop.run(_opened(settings, client), _CALL_SECONDS)
        except BaseException:
            self._loop.close()
            raise

    @property
    def backend(self) -> Backend:
        """BullMQ's operations on one job each; those started together go together."""
        return self.queue.backend

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 0.0) -> T:
        """The result of *work*, which may take *seconds* longer than any call. Raises
        TransportFailed."""
        try:
            return self._loop.run(work, _CALL_SECONDS + seconds)
        except (RedisError, OSError, LoopClosed) as error:
            raise TransportFailed(failure(error, self.name)) from error

    @staticmethod
    def now() -> float:
        """The loop's time in seconds, for what runs in it."""
        return asyncio.get_running_loop().time()

    def close(self) -> None:
        """End the connections and the thread. Any number of times."""
        with contextlib.suppress(TransportFailed):  # nobody is there to say goodbye to
            self.run(self.queue.close())
        self._loop.close()


def name_of(settings: BullSettings) -> str:
    """What people call the queue, without any secret."""
    return f"BullMQ queue {settings.prefix}:{settings.queue} at {place(settings.url)}"


async def _opened(
    settings: BullSettings, client: Callable[[BullSettings], Together]
) -> tuple[Together, Queue]:
    connection = client(settings)
    queue = Queue(settings.queue, {"connection": connection, "prefix": settings.prefix})
    queue.backend.connection.version = _OLDEST_REDIS
    return connection, queue


async def all_of(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What all of *work*, done at the same time, returns. All of it is over before an error is
    raised, so that nothing goes on behind the caller's back."""
    results = await asyncio.gather(*work, return_exceptions=True)
    found: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        found.append(result)
    return found


def body(fields: Mapping[str, str]) -> bytes:
    """The data of a job as it was written, JSON or not."""
    return fields.get("data", "").encode("utf-8", "surrogateescape")
