"""RabbitMQ: on the server that is there, beside the loop somebody would write with aio-pika."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from bench.queues import AT_ONCE, LeftOut, Ours, Side
from bestbefore.ports.transport import Message

_CONFIRMS_TOGETHER = 1_000
"""As many as ours waits for at a time."""


@contextmanager
def sides() -> Iterator[dict[str, Side]]:
    """See the package."""
    from support.rabbitmq import URL, Rabbit

    try:
        with Rabbit() as rabbit, asyncio.Runner() as loop:
            # Both queues are made by the adapter, so that they are of the same kind.
            ours, theirs = rabbit.broker(rabbit.name()), rabbit.name()
            rabbit.broker(theirs).transport.publish([Message("0" * 64, b"{}")])
            # Its loop stands still between two rounds.
            connection = loop.run(aio_pika.connect(URL, heartbeat=600))
            channel = loop.run(_opened(connection))
            loop.run((loop.run(channel.get_queue(theirs))).purge())
            try:
                yield {
                    "bestbefore": Ours(ours.transport),
                    "aio-pika": Bare(loop, channel, theirs),
                }
            finally:
                loop.run(connection.close())
    except OSError as why:
        raise LeftOut(str(why)) from why


async def _opened(connection: aio_pika.abc.AbstractConnection) -> AbstractChannel:
    channel = connection.channel(publisher_confirms=True, on_return_raises=True)
    await channel.initialize()
    await channel.set_qos(prefetch_count=AT_ONCE)
    return channel


class Bare:
    """As many confirms at a time, the same prefetch, and one frame to ack as many."""

    def __init__(self, loop: asyncio.Runner, channel: AbstractChannel, queue: str) -> None:
        self._loop = loop
        self._channel = channel
        self._queue = queue

    def publish(self, messages: Sequence[Message]) -> None:
        self._loop.run(self._publish(messages))

    def settle(self, number: int) -> None:
        self._loop.run(self._settle(number))

    async def _publish(self, messages: Sequence[Message]) -> None:
        exchange = self._channel.default_exchange
        for first in range(0, len(messages), _CONFIRMS_TOGETHER):
            await asyncio.gather(
                *(
                    exchange.publish(
                        aio_pika.Message(
                            one.body,
                            content_type="application/json",
                            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                            message_id=one.operation_id,
                        ),
                        self._queue,
                        mandatory=True,
                    )
                    for one in messages[first : first + _CONFIRMS_TOGETHER]
                )
            )

    async def _settle(self, number: int) -> None:
        done = asyncio.Event()
        taken = 0

        async def take(message: AbstractIncomingMessage) -> None:
            nonlocal taken
            taken += 1
            if taken % AT_ONCE == 0 or taken == number:
                await message.ack(multiple=True)
            if taken == number:
                done.set()

        queue = await self._channel.get_queue(self._queue)
        consumer = await queue.consume(take)
        await done.wait()
        await queue.cancel(consumer)
