"""`check --queue`: can the queue be used, and what will it do to commands?"""

import secrets
from collections.abc import Iterator
from datetime import timedelta

from bestbefore.app.system import System
from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.probe import probe
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.transport import Delivery, Message, Transport, TransportFailed

_PATIENCE = timedelta(seconds=10)
_WAIT = timedelta(seconds=1)
_MOST_HELD = 100


def checked(system: System, *, trying: bool) -> Iterator[Finding]:
    """Everything worth saying about the queue. Publishes one message that executes nothing, where
    it is to be tried."""
    queue = system.settings.queue
    lease = f"a command is leased for {queue.lease.total_seconds():.0f} s"
    if not queue.is_elsewhere:
        said = f"the queue is the state database; {lease}"
        yield Finding("queue-in-state", Level.INFO, said, "")
        return
    try:
        broker = system.broker
    except LedgerError as error:
        yield Finding("queue-unusable", Level.ERROR, str(error), "install it, or correct [queue]")
        return
    except TransportFailed as error:
        yield _failed(error.failure)
        return
    if broker is None:
        return
    transport = broker.transport
    yield Finding("queue", Level.INFO, f"the queue is {transport.name}; {lease}", "")
    try:
        found = broker.findings()
        yield from found
        # A probe may be what creates a queue that is missing, or drowns in one that is broken.
        if trying and all(finding.level is not Level.ERROR for finding in found):
            yield _tried(transport, system.clock, queue.lease)
    except TransportFailed as error:
        yield _failed(error.failure)


def _tried(transport: Transport, clock: Clock, lease: timedelta) -> Finding:
    """Publish, receive and ack a probe; what else comes meanwhile is given back."""
    body = probe(secrets.token_hex(16))
    (refused,) = transport.publish([Message(secrets.token_hex(32), body)])
    if refused is not None:
        return _failed(refused)
    until = clock.now() + _PATIENCE
    others: list[Delivery] = []
    try:
        while clock.now() < until and len(others) < _MOST_HELD:
            for delivery in transport.receive(10, lease, _WAIT):
                if delivery.body == body:
                    transport.ack([delivery])
                    return Finding(
                        "queue-probed",
                        Level.INFO,
                        f"{transport.name}: one message that executes nothing was published, "
                        "received and acked",
                        "",
                    )
                others.append(delivery)
    finally:
        transport.release(others)
    return Finding(
        "queue-probe-not-seen",
        Level.WARNING,
        f"{transport.name}: one message that executes nothing was published, and did not come "
        f"within {_PATIENCE.total_seconds():.0f} s",
        "nothing to do where workers run or much is queued: one of them acks it; else look who "
        "consumes this queue",
    )


def _failed(failure: Failure) -> Finding:
    return Finding(
        f"queue-{failure.failure_class}",
        Level.ERROR,
        failure.error,
        "look at [queue], at the broker, and at the rights of its keys",
    )
