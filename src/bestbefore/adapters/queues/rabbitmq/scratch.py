"""A queue of our own beside the configured one, and another one for its dead letters."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from bestbefore.adapters.queues.rabbitmq.broker import connect
from bestbefore.adapters.queues.rabbitmq.errors import failing
from bestbefore.adapters.queues.rabbitmq.link import channel_of, closed, connected
from bestbefore.adapters.queues.rabbitmq.loop import Loop
from bestbefore.adapters.queues.rabbitmq.settings import RabbitSettings
from bestbefore.adapters.queues.rabbitmq.topology import (
    CALL_SECONDS,
    OpenChannel,
    Topology,
    exists,
)
from bestbefore.domain.failure import FailureClass
from bestbefore.ports.scratch import BESIDE, ScratchQueue
from bestbefore.ports.transport import Broker, TransportFailed

T = TypeVar("T")
_SECONDS = 60.0


def scratch(settings: RabbitSettings) -> ScratchQueue:
    """A queue of our own beside the one that *settings* name; nothing is made yet. Raises
    ValueError for a name that leaves none for it."""
    return RabbitScratch(settings)


class RabbitScratch:
    """`bestbefore.ports.scratch.ScratchQueue`, declared whatever the configuration says of
    declaring."""

    def __init__(self, settings: RabbitSettings) -> None:
        self._settings = replace(
            settings, queue=f"{settings.queue}{BESIDE}", dead_letter_queue=None, declare=True
        )
        self.name = self._settings.called(self._settings.queue)

    def exists(self) -> bool:
        """See the port."""

        async def there(open_channel: OpenChannel) -> bool:
            return any([await exists(open_channel, queue) for queue in self._both])

        return self._done(there)

    def create(self) -> None:
        """See the port."""
        self._done(Topology(self._settings).prepare)

    def connect(self) -> Broker:
        """See the port."""
        return connect(replace(self._settings, declare=False))

    def remove(self) -> None:
        """See the port."""

        async def deleted(open_channel: OpenChannel) -> None:
            channel = await open_channel()
            for queue in self._both:
                await channel.queue_delete(queue, timeout=CALL_SECONDS)

        self._done(deleted)

    @property
    def _both(self) -> tuple[str, str]:
        return self._settings.queue, self._settings.dead_letters

    def _done(self, work: Callable[[OpenChannel], Awaitable[T]]) -> T:
        """What *work* returns, over a connection of its own. Raises TransportFailed."""

        async def done() -> T:
            connection = await connected(self._settings, "gate")
            try:
                if connection.transport is None:
                    raise ConnectionResetError("the connection was lost")
                wire = connection.transport.connection
                return await work(lambda: channel_of(wire))
            finally:
                await closed(connection)

        loop = Loop("bestbefore-rabbitmq-scratch")
        try:
            with failing(self.name):
                return loop.run(done, _SECONDS)
        except TransportFailed as failed:
            if failed.failure.failure_class is not FailureClass.PERMISSION:
                raise
            error = (
                f"{failed.failure.error}; a scratch queue is made and removed here: give this user "
                f"the rights to configure, write and read on queues called {self._settings.queue} "
                f"and {self._settings.dead_letters}"
            )
            raise TransportFailed(replace(failed.failure, error=error)) from failed
        finally:
            loop.close(_nothing)


async def _nothing() -> None:
    return
