"""Where holds are kept. They outlive every run and every version of a policy."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from bestbefore.domain.hold import Hold


class Holds(Protocol):
    """The holds of one ledger. Every method is one transaction and is written down as an event."""

    def in_force(self, now: datetime) -> Sequence[Hold]:
        """Every hold that nobody removed and whose end has not come, oldest first."""
        ...

    def add(self, hold: Hold) -> None:
        """Put *hold* in force. Adding it again changes nothing."""
        ...

    def remove(self, hold_id: str, by: str, now: datetime) -> Hold:
        """Lift a hold in force and return it. Raises NotInLedger where there is none."""
        ...
