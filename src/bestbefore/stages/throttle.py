"""How much of each database a worker may have right now: what all workers may do together, hours of
the day, and the strain that the database says it is under.

Asked before anything is claimed, so that what has to wait is in nobody's hands.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from bestbefore.domain.policy import Policy
from bestbefore.domain.throttle import open_at
from bestbefore.domain.zones import zone
from bestbefore.ports.ledger import Operation
from bestbefore.ports.throttle import Throttles
from bestbefore.stages.door import Bounds, Door, Room


class Gate:
    """Every database's door, for the one loop that claims. *bounds* are by the name of a database;
    *threads* is how many batches this worker can have in hand at all."""

    def __init__(
        self,
        throttles: Throttles,
        bounds: Mapping[str, Bounds],
        holder: str,
        lease: timedelta,
        threads: int,
    ) -> None:
        self._doors = {
            name: Door(name, of, throttles, holder, lease, min(of.most, threads))
            for name, of in bounds.items()
        }

    def shut(self, policy: Policy, now: datetime) -> bool:
        """Whether nothing of *policy* may be begun at this hour."""
        door = self._door(policy)
        if door is None or door.bounds.window is None:
            return False
        return not open_at(now, zone(policy.timezone), door.bounds.window)

    def room(self, policy: Policy, out: int, wanted: int, now: datetime) -> Room:
        """How much may be claimed now for at most *wanted* threads, *out* others being at it.

        It counts as begun, so the caller says next what it `took`.
        """
        door = self._door(policy)
        return Room(wanted, wanted) if door is None else door.room(policy, out, wanted, now)

    def took(self, policy: Policy, operations: Sequence[Operation], now: datetime) -> None:
        """What was claimed once there was room."""
        if (door := self._door(policy)) is not None:
            door.took(policy, [operation.size for operation in operations], now)

    def ended(
        self,
        policy: Policy,
        operations: Sequence[Operation],
        results: Sequence[object],
        began: datetime,
        now: datetime,
    ) -> None:
        """What came of *operations*, one after the other since they *began*; no results of those
        that were not begun."""
        if (door := self._door(policy)) is not None:
            sizes = [operation.size for operation in operations]
            door.ended(policy, sizes, results, began, now)

    def news(self) -> None:
        """There may be something to claim where there was nothing."""
        for door in self._doors.values():
            door.news()

    def keep(self, out: Counter[str], now: datetime) -> None:
        """Keep what is in hand from being given to others, and give back what is not needed; *out*
        counts batches by database."""
        for name, door in self._doors.items():
            door.keep(out[name], now)

    def close(self, out: Counter[str], now: datetime) -> None:
        """Give everything back but what is still in hand."""
        for name, door in self._doors.items():
            door.close(out[name], now)

    def _door(self, policy: Policy) -> "Door | None":
        return self._doors.get(policy.connection) if policy.about_rows else None
