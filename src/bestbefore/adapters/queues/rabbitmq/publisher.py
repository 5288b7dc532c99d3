"""Publishing in bulk: many messages under way at a time, each with an answer of its own."""

import asyncio
from collections.abc import Iterator, Sequence

from aiormq import spec
from aiormq.channel import Channel
from aiormq.exceptions import DeliveryError, PublishError

from bestbefore.adapters.queues.rabbitmq.errors import ERRORS, cancelled, failure
from bestbefore.adapters.queues.rabbitmq.link import Link
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.transport import Message, TransportFailed

CONFIRM_SECONDS = 30.0
"""For everything that is under way together to be confirmed."""

_TOGETHER = 1_000
_BYTES_TOGETHER = 4 * 1024 * 1024
_PERSISTENT = 2


class Publisher:
    """Puts messages into one queue. To be used in the loop only."""

    def __init__(
        self, link: Link, queue: str, name: str, confirm_seconds: float = CONFIRM_SECONDS
    ) -> None:
        self._link = link
        self._queue = queue
        self._name = name
        self._confirm_seconds = confirm_seconds
        self._channel: Channel | None = None
        self._opening = asyncio.Lock()

    async def publish(self, messages: Sequence[Message]) -> list[Failure | None]:
        """See `Transport.publish`."""
        channel = await self._ready()
        most = self._link.server.max_body
        answers: list[Failure | None] = [self._fits(message, most) for message in messages]
        fit = [number for number, refused in enumerate(answers) if refused is None]
        lost: Failure | None = None
        for window in _windows(messages, fit):
            sent: list[Failure | None] = [lost] * len(window)
            if lost is None:
                sent, lost = await self._together(channel, [messages[n] for n in window])
            for number, answer in zip(window, sent, strict=True):
                answers[number] = answer
        return answers

    async def _ready(self) -> Channel:
        async with self._opening:
            try:
                await self._link.ready()
                if self._channel is None or self._channel.is_closed:
                    self._channel = await self._link.channel(confirms=True)
            except TransportFailed:
                if await self._link.blocked():
                    self._link.drop()
                    raise TransportFailed(self._blocked()) from None
                raise
            return self._channel

    async def _together(
        self, channel: Channel, messages: Sequence[Message]
    ) -> tuple[list[Failure | None], Failure | None]:
        """One answer each, and why it is of no use to go on, if it is."""
        tasks = [asyncio.create_task(self._send(channel, message)) for message in messages]
        try:
            _, waiting = await asyncio.wait(tasks, timeout=self._confirm_seconds)
            lost = await self._late(channel) if waiting else None
        finally:
            for task in tasks:
                task.cancel()
        answers = [lost if task in waiting else task.result() for task in tasks]
        if lost is None and channel.is_closed:
            lost = next(filter(None, answers), None)
        return answers, lost

    async def _late(self, channel: Channel) -> Failure:
        """Why there was no answer in time. Nothing more is expected of that connection."""
        if await self._link.blocked():
            why = self._blocked()
        else:
            why = Failure(
                FailureClass.TRANSIENT,
                f"{self._name}: not confirmed within {self._confirm_seconds:g} s",
            )
        if self._channel is channel:
            self._channel = None
            self._link.drop()
        return why

    async def _send(self, channel: Channel, message: Message) -> Failure | None:
        try:
            await channel.basic_publish(
                message.body,
                routing_key=self._queue,
                mandatory=True,
                properties=spec.Basic.Properties(
                    content_type="application/json",
                    delivery_mode=_PERSISTENT,
                    message_id=message.operation_id,
                ),
                wait=False,
            )
        except PublishError as returned:
            self._link.doubt()
            said = f"returned as {returned.args[0]}: there is no such queue any more"
            return Failure(FailureClass.TRANSIENT, f"{self._name}: {said}")
        except DeliveryError:
            said = "refused by the broker: the queue is full, or has lost most of its nodes"
            return Failure(FailureClass.TRANSIENT, f"{self._name}: {said}")
        except asyncio.CancelledError as error:
            if cancelled():
                raise
            return failure(error, self._name)
        except ERRORS as error:
            return failure(error, self._name)
        return None

    def _fits(self, message: Message, most: int) -> Failure | None:
        size = len(message.body)
        if size <= most:
            return None
        return Failure(
            FailureClass.MALFORMED,
            f"{self._name}: a message of {size:,} bytes, where the broker takes at most {most:,}",
        )

    def _blocked(self) -> Failure:
        return Failure(
            FailureClass.THROTTLED,
            f"{self._name}: the broker takes nothing at present, as it is short of memory or disk "
            "(rabbitmq-diagnostics alarms)",
        )


def _windows(messages: Sequence[Message], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Which of *messages* are under way together."""
    window: list[int] = []
    size = 0
    for number in numbers:
        length = len(messages[number].body)
        if window and (len(window) == _TOGETHER or size + length > _BYTES_TOGETHER):
            yield window
            window, size = [], 0
        window.append(number)
        size += length
    if window:
        yield window
