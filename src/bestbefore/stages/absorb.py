"""Bring a broker's own dead letters back into the ledger, which knows what they are about.

The broker only counts deliveries. Whether an operation is out of its budget, the ledger says: so
what is not done is due again at once, and what is done is only taken away there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from bestbefore.ports.clock import Clock
from bestbefore.ports.rerouting import Rerouting
from bestbefore.ports.strays import Strays
from bestbefore.ports.transport import DeadLetterQueue
from bestbefore.stages.met import fates, told_apart

_AT_ONCE = 100
_AT_HAND = timedelta(0)
_LOOKS = 3
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Absorbed:
    """How many messages left the broker, and what became of them.

    ``due_again`` operations are due at once. ``already_ended`` messages are about what is completed
    or dead, ``in_ledger`` ones about what waits there anyway: due, delayed, not released, or in a
    worker's hands. ``strays`` execute nothing and wait for a person.
    """

    absorbed: int = 0
    due_again: int = 0
    already_ended: int = 0
    in_ledger: int = 0
    strays: int = 0


def absorb(
    source: DeadLetterQueue,
    rerouting: Rerouting,
    strays: Strays,
    clock: Clock,
    lease: timedelta,
    stopping: Callable[[], bool],
) -> Absorbed:
    """Empty *source* into the ledger, until it has been empty for a few looks.

    Nothing leaves the broker before the ledger has it; whoever is killed in between repeats that.
    Raises TransportFailed and LedgerError.
    """
    done, empty = Absorbed(), 0
    while empty < _LOOKS and not stopping():
        deliveries = source.receive(_AT_ONCE, lease, _AT_HAND)
        if not deliveries:
            empty += 1
            clock.sleep(_PAUSE_SECONDS)
            continue
        empty, now, met = 0, clock.now(), told_apart(deliveries)
        became = fates(met, rerouting.take_back(list(met.bodies), now))
        strays.absorb(became.strays, now)
        source.ack(deliveries)
        done = Absorbed(
            done.absorbed + len(deliveries),
            done.due_again + became.changed,
            done.already_ended + became.ended,
            done.in_ledger + became.in_ledger,
            done.strays + len(became.strays),
        )
    return done
