"""What `check --queue` says: who answers, which version it is, what the two queues are.

Nothing is created, changed, taken or left behind. What a policy adds to a queue cannot be seen over
AMQP, and is said to be so.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator

from aiormq import spec
from aiormq.abc import AbstractConnection as Wire
from aiormq.exceptions import ChannelAccessRefused, PublishError

from bestbefore.adapters.queues.rabbitmq.errors import ERRORS, failure, said
from bestbefore.adapters.queues.rabbitmq.judging import (
    dead_letter_findings,
    queue_findings,
    server_findings,
)
from bestbefore.adapters.queues.rabbitmq.link import channel_of, closed, connected
from bestbefore.adapters.queues.rabbitmq.server import Server
from bestbefore.adapters.queues.rabbitmq.settings import RabbitSettings
from bestbefore.adapters.queues.rabbitmq.topology import (
    dead_letter_arguments,
    look,
    queue_arguments,
)
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.finding import Finding, Level

_PROBE_SECONDS = 5.0


async def findings(settings: RabbitSettings) -> list[Finding]:
    """Everything there is to say, errors of the connection included. Never raises the client's."""
    try:
        connection = await connected(settings, "check")
    except ERRORS as error:
        return [_unreachable(settings, error)]
    try:
        if connection.transport is None:
            raise ConnectionResetError("the connection was lost")
        wire = connection.transport.connection
        return [finding async for finding in _asked(settings, wire)]
    except ERRORS as error:
        return [_unreachable(settings, error)]
    finally:
        await closed(connection)


async def _asked(settings: RabbitSettings, wire: Wire) -> AsyncIterator[Finding]:
    server = Server.of(wire.server_properties)
    for finding in server_findings(settings, server):
        yield finding
    queue = await look(lambda: channel_of(wire), settings.queue, queue_arguments(settings))
    for finding in queue_findings(settings, server, queue):
        yield finding
    dead = await look(lambda: channel_of(wire), settings.dead_letters, dead_letter_arguments())
    for finding in dead_letter_findings(settings, server, dead):
        yield finding
    if server.confirms:
        async for finding in _may_publish(settings, wire):
            yield finding


async def _may_publish(settings: RabbitSettings, wire: Wire) -> AsyncIterator[Finding]:
    """Publish to a queue that cannot be there: it comes back, and shows that one may."""
    name = settings.called(settings.queue)
    channel = await channel_of(wire, confirms=True)
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            await channel.basic_publish(
                b"",
                routing_key=f"bestbefore-check-{secrets.token_hex(8)}",
                mandatory=True,
                properties=spec.Basic.Properties(message_id=secrets.token_hex(8)),
            )
    except PublishError:
        await channel.close()
    except ChannelAccessRefused as refused:
        yield Finding(
            "queue-right-denied",
            Level.ERROR,
            f"{name}: {said(refused)}",
            "allow this user to write to amq.default and to the queue: rabbitmqctl "
            "set_permissions, see docs/rabbitmq.md",
        )
    except TimeoutError:
        yield Finding(
            "queue-blocked",
            Level.WARNING,
            f"{name}: the broker confirms nothing within {_PROBE_SECONDS:g} s; it may be short of "
            "memory or disk",
            "look at rabbitmq-diagnostics alarms; what is not published waits in the ledger",
        )


def _unreachable(settings: RabbitSettings, error: Exception) -> Finding:
    failed = failure(error, settings.called(settings.queue))
    match failed.failure_class:
        case FailureClass.CREDENTIALS:
            code, remedy = "queue-credentials", "correct user and password in [queue] url"
        case FailureClass.PERMISSION:
            code = "queue-vhost"
            remedy = (
                "correct the part behind the host in [queue] url (/ is written %2F), create the "
                "virtual host (rabbitmqctl add_vhost), or let this user in (rabbitmqctl "
                "set_permissions, see docs/rabbitmq.md)"
            )
        case _:
            code = "queue-unreachable"
            remedy = "see that the broker runs, and that [queue] url has its host and port"
    return Finding(code, Level.ERROR, failed.error, remedy)
