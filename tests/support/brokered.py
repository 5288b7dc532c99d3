"""A world whose queue is over a broker in memory, which may have dead letters of its own."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from bestbefore.app.settings import QueueSettings, Settings
from bestbefore.domain.policy import Policy
from bestbefore.ports.transport import Broker, Delivery
from support.memory_transport import MemoryBroker, MemoryTransport
from support.worlds import World

DEAD = "memory dead letters"


class Brokered(World):
    """``queue`` is a broker's name in *brokers*, or "state". ``dead`` are its dead letters."""

    def __init__(
        self,
        folder: Path,
        *policies: Policy,
        queue: str,
        brokers: Mapping[str, MemoryBroker],
        dead: MemoryBroker | None = None,
        **more: Any,
    ) -> None:
        self.queue = queue
        self.brokers = brokers
        self.dead_letters = dead
        super().__init__(folder, *policies, **more)

    def beside(self, queue: str) -> "Brokered":
        """A second process over the same state, stores and clock, whose queue is another."""
        return Brokered(
            self.folder,
            *self.system.settings.policies.values(),
            queue=queue,
            brokers=self.brokers,
            clock=self.clock,
            stores=self.stores,
            state_url=self.state_url,
        )

    def connect(self, settings: Settings) -> Broker:
        """The broker that *settings* name."""
        name = named(settings)
        there = self.brokers[name].broker()
        transport = MemoryTransport(self.brokers[name], name)
        if self.dead_letters is None or name != self.queue:
            return replace(there, transport=transport)
        return replace(
            there, transport=transport, dead_letters=MemoryTransport(self.dead_letters, DEAD)
        )

    def send(self) -> None:
        """Publish what is planned or due, and work on none of it."""
        self.system.working.send(Rounds())

    def _queue(self) -> QueueSettings:
        return settings_of(self.queue)


def settings_of(queue: str) -> QueueSettings:
    """``[queue]`` for the broker *queue*."""
    if queue == "state":
        return QueueSettings()
    return QueueSettings("sqs", values={"queue_url": url_of(queue)})


def url_of(queue: str) -> str:
    return f"http://127.0.0.1:1/{queue}"


def named(settings: Settings) -> str:
    return str(settings.queue.values["queue_url"]).rpartition("/")[2]


def bodies(broker: MemoryBroker) -> list[bytes]:
    """What *broker* has right now, in nobody's hands."""
    transport = broker.transport()
    found: list[Delivery] = broker.take(10_000, timedelta(seconds=1))
    transport.release(found)
    return [delivery.body for delivery in found]


class Rounds:
    """False so many times, True from then on: what stops a loop after as many rounds."""

    def __init__(self, n: int = 1) -> None:
        self._left = n

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0
