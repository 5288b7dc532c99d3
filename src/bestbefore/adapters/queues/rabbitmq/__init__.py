"""RabbitMQ over AMQP 0-9-1: quorum queues, publisher confirms, receipts that die with a channel.

The client (aio-pika) is asynchronous; it runs on a loop in a thread of its own (`loop`). One
connection publishes and another one consumes (`link`), as a broker that is short of memory stops
reading from whoever publishes. `topology` says what the queues have to be and finds out what they
are, `publisher` and `consumer` are the five verbs, `findings` is what `check --queue` says.
"""

from bestbefore.adapters.queues.rabbitmq.broker import connect
from bestbefore.adapters.queues.rabbitmq.scratch import scratch
from bestbefore.adapters.queues.rabbitmq.settings import RabbitSettings

__all__ = ["RabbitSettings", "connect", "scratch"]
