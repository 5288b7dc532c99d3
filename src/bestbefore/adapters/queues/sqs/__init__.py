"""AWS SQS and what speaks its language: a queue, its dead letters, and what `check` says."""

from functools import partial

from bestbefore.adapters.queues.sqs.client import Connection, SqsSettings
from bestbefore.adapters.queues.sqs.dead_letters import SqsDeadLetters
from bestbefore.adapters.queues.sqs.findings import findings
from bestbefore.adapters.queues.sqs.queue import SqsQueue
from bestbefore.adapters.queues.sqs.scratch import SqsScratch
from bestbefore.ports.scratch import ScratchQueue
from bestbefore.ports.transport import Broker

__all__ = ["SqsSettings", "connect", "scratch"]


def connect(settings: SqsSettings) -> Broker:
    """The queue that *settings* name. Sends nothing yet.

    SQS knows no consumers: what a process holds when it closes comes back when its lease ends,
    unless it was released before.
    """
    place = settings.place
    connection = Connection(settings)
    dead_letters = SqsDeadLetters(connection, place, settings.dead_letters)
    return Broker(
        SqsQueue(connection, place),
        dead_letters,
        partial(findings, connection, place, dead_letters),
        connection.close,
    )


def scratch(settings: SqsSettings) -> ScratchQueue:
    """A queue of our own beside the one that *settings* name; nothing is made yet. Raises
    ValueError for a name that leaves none for it."""
    return SqsScratch(settings, connect)
