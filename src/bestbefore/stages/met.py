"""Messages that were met outside the path of the data, told apart."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bestbefore.domain.probe import is_probe
from bestbefore.ports.outbox import Standing
from bestbefore.ports.rerouting import Rerouted
from bestbefore.ports.strays import Stray, operation_in
from bestbefore.ports.transport import Delivery

_OVER = (Standing.ENDED, Standing.DEAD)


class Met(NamedTuple):
    """Messages by the operation that each is about, as (id, body), and those about none."""

    messages: Sequence[tuple[bytes, bytes]]
    strays: Sequence[Stray]

    @property
    def bodies(self) -> Mapping[bytes, bytes]:
        """One body for each operation."""
        return dict(self.messages)


class Fates(NamedTuple):
    """What became of messages: ``changed`` operations, messages about what has ``ended``, those
    whose operation is ``in_ledger`` whatever becomes of them, and all that execute nothing."""

    changed: int
    ended: int
    in_ledger: int
    strays: Sequence[Stray]


def told_apart(deliveries: Sequence[Delivery]) -> Met:
    """*deliveries* by what they are about. Probes are about nothing, and nobody's concern."""
    messages: list[tuple[bytes, bytes]] = []
    strays: list[Stray] = []
    for delivery in deliveries:
        if is_probe(delivery.body):
            continue
        found = operation_in(delivery.body)
        if isinstance(found, Stray):
            strays.append(found)
        else:
            messages.append((found, delivery.body))
    return Met(messages, strays)


def fates(met: Met, ledger: Rerouted) -> Fates:
    """What becomes of *met*, as the *ledger* said."""
    unknown = [
        Stray.unknown(body, id_)
        for id_, body in met.messages
        if ledger.rest.get(id_) is Standing.UNKNOWN
    ]
    ended = sum(ledger.rest.get(id_) in _OVER for id_, _ in met.messages)
    changed = len(ledger.rows)
    in_ledger = len(met.messages) - changed - ended - len(unknown)
    return Fates(changed, ended, in_ledger, [*met.strays, *unknown])
