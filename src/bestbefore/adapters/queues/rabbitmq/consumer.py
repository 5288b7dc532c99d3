"""Taking messages: a consumer for as long as somebody waits, given as much as was asked for.

The broker pushes, and how much is under way to a consumer is its prefetch. Each call has a
consumer of its own with the call's limit as its prefetch, so nothing is ever fetched that nobody
asked for: no message waits in here while its neighbours are worked on, none is counted as
delivered without anybody having looked at it, and none is withheld from other processes.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from aiormq.abc import DeliveredMessage
from aiormq.channel import Channel

from bestbefore.adapters.queues.rabbitmq.errors import ERRORS, failing
from bestbefore.adapters.queues.rabbitmq.link import Link
from bestbefore.adapters.queues.rabbitmq.topology import CALL_SECONDS
from bestbefore.ports.transport import Delivery, TransportFailed

MOST = 2_000
"""More is given to nobody at a time."""

_AT_LEAST = 0.05
"""Seconds. What is there needs a moment to arrive; in a cluster it comes by way of another node."""

_QUIET = 0.005
"""Seconds without another message after which a batch is as large as it gets."""


class Hand:
    """A channel, and what came by it and is neither acked nor given back: gone with the channel."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.prefetch = 0
        self.tags: dict[int, None] = {}  # in the order they came in
        self.settling = asyncio.Lock()
        self._spoilt = False
        self._inboxes: set[Inbox] = set()
        channel.closing.add_done_callback(self._lost)

    @property
    def lost(self) -> bool:
        """Whether everything in it belongs to somebody else by now."""
        return self._spoilt or self.channel.is_closed

    async def spoil(self) -> None:
        """Give it up. A channel on which a call had no answer takes no other one, and does not say
        that it is closed before the broker has said so."""
        self._spoilt = True
        self._lost(None)
        await self.channel.close()

    def open(self, limit: int) -> "Inbox":
        """A place for what one consumer is given."""
        inbox = Inbox(self, limit)
        self._inboxes.add(inbox)
        return inbox

    def shut(self, inbox: "Inbox") -> None:
        """Nobody waits there any more."""
        self._inboxes.discard(inbox)

    def let_go(self, tags: Iterable[int]) -> tuple[int | None, list[int]]:
        """Take *tags* out: the last one up to which nothing else is left, and those after it."""
        going = {tag for tag in tags if tag in self.tags}
        up_to = None
        for tag in self.tags:
            if tag not in going:
                break
            up_to = tag
        for tag in going:
            del self.tags[tag]
        return up_to, sorted(tag for tag in going if up_to is None or tag > up_to)

    def _lost(self, _closing: object) -> None:
        for inbox in self._inboxes:
            inbox.wake()


class Inbox:
    """What one consumer was given so far."""

    def __init__(self, hand: Hand, limit: int) -> None:
        self.messages: list[DeliveredMessage] = []
        self._hand = hand
        self._limit = limit
        self._some = asyncio.Event()
        self._all = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether it has everything that was asked for."""
        return len(self.messages) >= self._limit

    async def put(self, message: DeliveredMessage) -> None:
        """What the client calls for every message, in the order in which they arrive."""
        self._hand.tags[_tag(message)] = None
        self.messages.append(message)
        self._some.set()
        if self.full:
            self._all.set()

    def wake(self) -> None:
        """Nothing will come any more."""
        self._some.set()
        self._all.set()

    async def fill(self, seconds: float) -> None:
        """Return when there is as much as there is for now, or nothing after *seconds*."""
        await _set(self._some, seconds)
        before = 0
        while before < len(self.messages) and not self._all.is_set():
            before = len(self.messages)
            await _set(self._all, _QUIET)


class Receipt(NamedTuple):
    """Good for as long as the channel lives."""

    hand: Hand
    tag: int


class Consumer:
    """Takes messages out of one queue. To be used in the loop only, but for `lost`."""

    def __init__(self, link: Link, queue: str, name: str) -> None:
        self._link = link
        self._queue = queue
        self._name = name
        self._hand: Hand | None = None
        self._opening = asyncio.Lock()
        self._subscribing = asyncio.Lock()
        self._numbers = itertools.count(1)

    async def receive(self, limit: int, seconds: float) -> list[Delivery]:
        """See `Transport.receive`."""
        limit = min(limit, MOST)
        if limit < 1:
            return []
        hand = await self._ready()
        inbox, consumer = hand.open(limit), f"bestbefore-{next(self._numbers)}"
        try:
            with failing(self._name):
                await self._subscribe(hand, inbox, consumer, limit)
                await inbox.fill(max(seconds, _AT_LEAST))
                if not inbox.full and not hand.lost:
                    await hand.channel.basic_cancel(consumer, timeout=CALL_SECONDS)
        except TransportFailed:
            self._link.doubt()
            self._link.later(hand.spoil())
            raise
        except BaseException:
            self._link.later(self._stop(hand, inbox, consumer, []))
            raise
        finally:
            hand.shut(inbox)
        if hand.lost:
            with failing(self._name):
                raise ConnectionResetError("the connection was lost")
        taken = inbox.messages[:limit]
        if len(taken) == limit:
            # With nothing left to be given it stays quiet until something is acked.
            self._link.later(self._stop(hand, inbox, consumer, taken))
        return [Delivery(message.body, Receipt(hand, _tag(message))) for message in taken]

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """See `Transport.ack`."""
        await self._settle(deliveries, _ack)

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        """See `Transport.release`."""
        await self._settle(deliveries, _give_back)

    @staticmethod
    def lost(deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Those that are in nobody's hands here any more."""
        return [
            delivery
            for delivery in deliveries
            if delivery.receipt.hand.lost or delivery.receipt.tag not in delivery.receipt.hand.tags
        ]

    async def close(self) -> None:
        """Give everything back."""
        hand = self._hand
        if hand is not None and not hand.lost:
            with failing(self._name):
                await self._send(hand, list(hand.tags), _give_back)
                await hand.channel.close()

    async def _ready(self) -> Hand:
        async with self._opening:
            await self._link.ready()
            if self._hand is None or self._hand.lost:
                self._hand = Hand(await self._link.channel())
            return self._hand

    async def _subscribe(self, hand: Hand, inbox: Inbox, consumer: str, limit: int) -> None:
        async with self._subscribing:
            if hand.prefetch != limit:
                await hand.channel.basic_qos(prefetch_count=limit, timeout=CALL_SECONDS)
                hand.prefetch = limit
            await hand.channel.basic_consume(
                self._queue, inbox.put, consumer_tag=consumer, timeout=CALL_SECONDS
            )

    async def _stop(
        self, hand: Hand, inbox: Inbox, consumer: str, taken: Sequence[DeliveredMessage]
    ) -> None:
        """End *consumer*, and give back what it got and nobody took."""
        try:
            await hand.channel.basic_cancel(consumer, timeout=CALL_SECONDS)
        except ERRORS:
            await hand.spoil()
            return
        if left := inbox.messages[len(taken) :]:
            await self._send(hand, map(_tag, left), _give_back)

    async def _settle(self, deliveries: Sequence[Delivery], how: "_Settle") -> None:
        tags: dict[Hand, list[int]] = {}
        for delivery in deliveries:
            tags.setdefault(delivery.receipt.hand, []).append(delivery.receipt.tag)
        for hand, mine in tags.items():
            with failing(self._name):
                await self._send(hand, mine, how)

    async def _send(self, hand: Hand, tags: Iterable[int], how: "_Settle") -> None:
        """Settle *tags*, with one frame as far as they are the oldest ones. A lost channel has
        settled everything already."""
        async with hand.settling:  # what is on the wire has to be in the order of `let_go`
            if hand.lost:
                return
            up_to, others = hand.let_go(tags)
            try:
                if up_to is not None:
                    await how(hand.channel, up_to, True)
                for tag in others:
                    await how(hand.channel, tag, False)
            except BaseException:
                # Nobody can tell which of them the broker knows of: it has to get back all of them.
                lost = hand.lost
                self._link.later(hand.spoil())
                if not lost:
                    raise


_Settle = Callable[[Channel, int, bool], Awaitable[None]]


async def _ack(channel: Channel, tag: int, multiple: bool) -> None:
    await channel.basic_ack(tag, multiple=multiple)


async def _give_back(channel: Channel, tag: int, multiple: bool) -> None:
    await channel.basic_nack(tag, multiple=multiple, requeue=True)


async def _set(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _tag(message: DeliveredMessage) -> int:
    tag = message.delivery_tag
    if tag is None:
        raise RuntimeError("a message without a delivery tag")
    return tag
