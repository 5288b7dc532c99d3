"""The ledger's side of messages that turn up anywhere but in the queue in use: among a broker's own
dead letters, or in a queue that is being left."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from bestbefore.ports.outbox import Standing


class Rerouted(NamedTuple):
    """Operations (by id) that were changed, with the ledger's keys; and why the rest was not."""

    rows: Mapping[bytes, int]
    rest: Mapping[bytes, Standing]


class Rerouting(Protocol):
    """Each method is one transaction."""

    def switch(self, queue: str, now: datetime) -> datetime:
        """From now on operations are sent to *queue*; returns since when they are, if they were
        already. Those that were sent elsewhere stay so, as whoever calls this moves them."""
        ...

    def take_back(self, ids: Sequence[bytes], now: datetime) -> Rerouted:
        """Those of *ids* that are sent, and that nobody has claimed, are not sent any more and due
        at once, under the budget that they have."""
        ...

    def redirect(self, ids: Sequence[bytes], now: datetime, until: datetime) -> Rerouted:
        """Those of *ids* that are sent, or due, and that nobody has claimed, are sent anew,
        unconfirmed *until* then; see `bestbefore.ports.outbox.Outbox.confirm`."""
        ...

    def outstanding(self, before: datetime) -> int:
        """How many operations were sent *before* then and not claimed since."""
        ...
