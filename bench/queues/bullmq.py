"""BullMQ: on the Redis that tests use, beside the loops that one writes with its own client."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import redis
from bullmq import Queue, Worker
from redis.asyncio import Redis

from bench.queues import AT_ONCE, LEASE, LeftOut, Ours, Side
from bestbefore.adapters.queues.bullmq.client import BullSettings
from bestbefore.adapters.queues.bullmq.transport import job_id
from bestbefore.ports.transport import Message

_CONCURRENCY = 25
"""Jobs that a bare client has under way at a time: 10 and 50 were slower."""


@contextmanager
def sides() -> Iterator[dict[str, Side]]:
    """See the package."""
    from support.bull import URL, bull_on

    try:
        with redis.Redis.from_url(URL, socket_connect_timeout=5) as server:
            server.ping()
    except redis.ConnectionError as why:
        raise LeftOut(f"no Redis at {URL}: {why}") from why
    with ExitStack() as stack:
        ours, bare = stack.enter_context(bull_on(URL)), stack.enter_context(bull_on(URL))
        client = Bare(bare.settings)
        stack.callback(client.close)
        yield {
            "bestbefore": Ours(ours.connect().transport),
            f"bullmq, {_CONCURRENCY} at a time": client,
        }


class Bare:
    """`addBulk`, and many coroutines that each fetch a job and complete it."""

    def __init__(self, settings: BullSettings) -> None:
        self._loop = asyncio.Runner()
        self._settings = settings
        self._client, self._queue, self._worker = self._loop.run(self._opened())

    def publish(self, messages: Sequence[Message]) -> None:
        self._loop.run(self._publish(messages))

    def settle(self, number: int) -> None:
        self._loop.run(self._settle(number))

    def close(self) -> None:
        self._loop.run(self._client.aclose())
        self._loop.close()

    async def _opened(self) -> tuple[Redis, Queue, Worker]:
        where = self._settings
        client = Redis.from_url(where.url, decode_responses=True, protocol=2)
        options: dict[str, Any] = {"connection": client, "prefix": where.prefix}
        milliseconds = int(LEASE.total_seconds() * 1000)
        worker = Worker(where.queue, None, options | {"lockDuration": milliseconds})
        return client, Queue(where.queue, options), worker

    async def _publish(self, messages: Sequence[Message]) -> None:
        for begin in range(0, len(messages), AT_ONCE):
            await self._queue.addBulk(
                [
                    {
                        "name": "command",
                        "data": json.loads(one.body),
                        "opts": {"jobId": job_id(one.operation_id), "removeOnComplete": True},
                    }
                    for one in messages[begin : begin + AT_ONCE]
                ]
            )

    async def _settle(self, number: int) -> None:
        left = number

        async def work(token: str) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                job = await self._worker.getNextJob(token)
                assert job is not None, "a message never came"
                await self._worker.backend.moveToCompleted(job, None, True, token, False)

        await asyncio.gather(*(work(f"bare:{n}") for n in range(_CONCURRENCY)))
