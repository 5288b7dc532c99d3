"""One configured queue, put together."""

import logging

from bestbefore.adapters.queues.rabbitmq.consumer import Consumer
from bestbefore.adapters.queues.rabbitmq.findings import findings
from bestbefore.adapters.queues.rabbitmq.link import Link
from bestbefore.adapters.queues.rabbitmq.loop import Loop
from bestbefore.adapters.queues.rabbitmq.publisher import CONFIRM_SECONDS, Publisher
from bestbefore.adapters.queues.rabbitmq.settings import RabbitSettings
from bestbefore.adapters.queues.rabbitmq.topology import Topology
from bestbefore.adapters.queues.rabbitmq.transport import Calls, RabbitDeadLetters, RabbitTransport
from bestbefore.ports.transport import Broker, TransportFailed

_CHECK_SECONDS = 60.0


def connect(settings: RabbitSettings, *, confirm_seconds: float = CONFIRM_SECONDS) -> Broker:
    """The queue that *settings* say. Connects when it is first used; what was asked of the broker
    and not confirmed after *confirm_seconds* counts as failed."""
    # Whatever it has to say there, whoever called is told, and in our words.
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    loop = Loop("bestbefore-rabbitmq")
    topology = Topology(settings)
    publishing = Link(settings, "publish", topology)
    consuming = Link(settings, "consume", topology)
    queue = Calls(loop, settings.called(settings.queue))
    dead = Calls(loop, settings.called(settings.dead_letters))
    publisher = Publisher(publishing, settings.queue, queue.name, confirm_seconds)
    consumer = Consumer(consuming, settings.queue, queue.name)
    buried = Consumer(consuming, settings.dead_letters, dead.name)

    async def farewell() -> None:
        for mine in (consumer, buried):
            try:
                await mine.close()
            except TransportFailed:
                continue  # the broker takes everything back with the connection
        for link in (consuming, publishing):
            await link.close()

    return Broker(
        RabbitTransport(queue, consuming, publisher, consumer, topology),
        RabbitDeadLetters(dead, buried),
        lambda: queue(lambda: findings(settings), _CHECK_SECONDS),
        lambda: loop.close(farewell),
    )
