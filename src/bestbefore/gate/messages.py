"""What is in the scratch queue, and what processes do with it, as scenarios see that."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import cast

from bestbefore.gate.otherwise import Otherwise
from bestbefore.gate.scenario import Broken
from bestbefore.ports.transport import Broker, Delivery, Transport

_LEASE = timedelta(minutes=1)
_PATIENCE_SECONDS = 30.0
_A_MOMENT = timedelta(seconds=0.5)


def received(transport: Transport, number: int) -> Sequence[Delivery]:
    """Take *number* messages. Raises Broken where they do not come."""
    found: list[Delivery] = []
    until = time.monotonic() + _PATIENCE_SECONDS
    while len(found) < number:
        if time.monotonic() > until:
            raise Broken(f"{transport.name}: expected {number} messages, received {len(found)}")
        found += transport.receive(number - len(found), _LEASE, _A_MOMENT)
    return found


@dataclass(slots=True)
class Watch:
    """To be put around a process's broker: counts the messages that it was given and acked."""

    taken: int = 0
    acked: int = 0

    def __call__(self, broker: Broker) -> Broker:
        watched = _Watched(broker.transport, self)
        return replace(broker, transport=cast("Transport", watched))


class _Watched(Otherwise[Transport]):
    """A `Transport` under a `Watch`."""

    def __init__(self, inner: Transport, watch: Watch) -> None:
        super().__init__(inner)
        self._watch = watch

    def receive(self, limit: int, lease: timedelta, wait: timedelta) -> Sequence[Delivery]:
        found = self._inner.receive(limit, lease, wait)
        self._watch.taken += len(found)
        return found

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        self._inner.ack(deliveries)
        self._watch.acked += len(deliveries)
