"""One connection to the broker, made when it is needed, and again after it was lost."""

import asyncio
import random
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, cast

import aio_pika
from aio_pika.abc import AbstractConnection
from aiormq.abc import AbstractConnection as Wire
from aiormq.channel import Channel
from yarl import URL

from bestbefore.adapters.queues.rabbitmq.errors import ERRORS, broken, failing
from bestbefore.adapters.queues.rabbitmq.server import UNKNOWN, Server
from bestbefore.adapters.queues.rabbitmq.settings import RabbitSettings
from bestbefore.adapters.queues.rabbitmq.topology import Topology
from bestbefore.domain.failure import FailureClass, backoff

CONNECT_SECONDS = 10.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_GOODBYE_SECONDS = 5.0


class Link:
    """A connection for one *purpose*. To be used in the loop only.

    After a failed attempt the next one waits a little, longer every time. Whoever asks waits with
    it, so that nobody asks in a hurry.
    """

    def __init__(self, settings: RabbitSettings, purpose: str, topology: Topology) -> None:
        self._settings = settings
        self._purpose = purpose
        self._topology = topology
        self._name = settings.called(settings.queue)
        self._connection: AbstractConnection | None = None
        self._opening: asyncio.Task[Wire] | None = None
        self._prepared = False
        self._failed = 0
        self._not_before = 0.0
        self._background: set[asyncio.Task[None]] = set()
        self.server = UNKNOWN

    async def ready(self) -> Wire:
        """The connection, with both queues in place. Raises TransportFailed."""
        if self._prepared and (there := self._wire()) is not None:
            return there
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    async def channel(self, *, confirms: bool = False) -> Channel:
        """A new channel. Raises TransportFailed."""
        wire = await self.ready()
        with failing(self._name):
            return await channel_of(wire, confirms=confirms)

    def doubt(self) -> None:
        """Look at the queues again before anything else is done: one of them has gone."""
        self._prepared = False

    async def blocked(self) -> bool:
        """Whether the broker takes nothing from this connection: it is short of memory or disk."""
        there = self._wire()
        if there is None:
            return False
        try:
            async with asyncio.timeout(0.05):
                await there.ready()
        except TimeoutError:
            return True
        return False

    def drop(self) -> None:
        """Give the connection up, as nothing comes back on it."""
        connection, self._connection = self._connection, None
        self._prepared = False
        if connection is not None:
            self.later(closed(connection))

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Have *work* done beside everything else; its failures are nobody's."""
        task = asyncio.create_task(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        """End what runs beside, and the connection."""
        if self._background:
            await asyncio.wait(self._background, timeout=_GOODBYE_SECONDS)
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            await closed(self._connection)

    def _wire(self) -> Wire | None:
        connection = self._connection
        if connection is None or connection.transport is None:
            return None
        wire = connection.transport.connection
        return None if wire.is_closed else wire

    def _opened(self, task: asyncio.Task[Wire]) -> None:
        self._opening = None
        if task.cancelled() or task.exception() is not None:
            self._failed += 1
            pause = backoff(
                self._failed, spread=random.random, base=_FIRST_PAUSE, cap=_LONGEST_PAUSE
            )
            self._not_before = time.monotonic() + pause
        else:
            self._failed = 0

    async def _open(self) -> Wire:
        await asyncio.sleep(max(0.0, self._not_before - time.monotonic()))
        with failing(self._name):
            there = self._wire()
            if there is None:
                if self._connection is not None:
                    await closed(self._connection)
                self._connection = await connected(self._settings, self._purpose)
                there = self._wire()
                if there is None:
                    raise ConnectionResetError("the connection was lost")
                self.server = Server.of(there.server_properties)
            if not self.server.confirms:
                raise broken(
                    self._name,
                    "the server knows no publisher confirms, so nobody can tell what it has",
                    FailureClass.MALFORMED,
                )
            wire = there
            async with asyncio.timeout(3 * CONNECT_SECONDS):
                await self._topology.prepare(lambda: channel_of(wire))
            self._prepared = True
            return wire


async def connected(settings: RabbitSettings, purpose: str) -> AbstractConnection:
    """A new connection. Raises what the client raises."""
    connection = aio_pika.Connection(URL(settings.url_for(purpose)))
    try:
        await connection.connect(timeout=CONNECT_SECONDS)
    except BaseException:
        await connection.close()
        raise
    return connection


async def channel_of(wire: Wire, *, confirms: bool = False) -> Channel:
    """A new channel. Raises what the client raises."""
    async with asyncio.timeout(CONNECT_SECONDS):
        opened = await wire.channel(publisher_confirms=confirms, on_return_raises=confirms)
    return cast("Channel", opened)  # the abstract one does not know of all that we use


async def closed(connection: AbstractConnection) -> None:
    """End *connection*, in order if that can be done in time.

    Every one has to be ended: it would do so itself when it is collected as garbage, in whichever
    thread that happens to be.
    """
    try:
        with suppress(*ERRORS):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await connection.close()
    finally:
        await connection.close()  # nothing but a mark, once it has been tried


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    with suppress(*ERRORS):
        await work
