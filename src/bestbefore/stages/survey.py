"""What planning and verification know about a source: where it is, and how it is scanned."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from bestbefore.domain.hold import Held
from bestbefore.domain.known import Known
from bestbefore.domain.pointer import Pointer
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Run
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import Claim, PlanLedger, Taken
from bestbefore.ports.objects import KeyRange

LEASE = timedelta(seconds=60)


class PlanRefused(Exception):
    """This cannot be planned. The message names the policy, what was found and the remedy."""


class Stopped(Exception):
    """The scan was asked to stop; its cursors are stored."""


@dataclass(frozen=True, slots=True)
class Errand:
    """One scan of one policy: what to compare with, what to write to, and who is told.

    ``known`` and ``taken`` ask the ledger that the scan is compared with, which for a preview is
    not the one that it writes to; ``taken`` is given the slot. One that ``verifies`` also finds
    what workers have begun to remove and not ended.
    """

    policy: Policy
    ledger: PlanLedger
    known: Callable[[Sequence[bytes]], Mapping[bytes, Known]]
    taken: Callable[[datetime], Sequence[Taken]]
    clock: Clock
    spread: Callable[[], float]
    on_page: Callable[[Run], None]
    stopping: Callable[[], bool]
    held: Held
    verifies: bool = False


class Scanning(Protocol):
    """A scan that can be begun or gone on with."""

    def run(self, claim: Claim, run: Run, cursors: Sequence[KeyRange] | None) -> None:
        """Scan what is left of *run*'s ranges. Raises StoreError, PlanTakenOver and Stopped."""
        ...

    def pointer(self) -> Pointer | None:
        """What ``current_pointer`` says now, if the policy has one. Raises StoreError."""
        ...


class Survey(Protocol):
    """One kind of source. It looks and never deletes."""

    def target(self, policy: Policy, now: datetime) -> str:
        """Where *policy* looks, once that is known to be fit for planning.

        Raises PlanRefused and StoreError.
        """
        ...

    def doubt(self, policy: Policy, ended: Callable[[], Sequence[bytes]]) -> str | None:
        """Why a person should look before anything else goes, although nothing fails; *ended* asks
        for the newest operations of *policy* that had an effect. Raises StoreError."""
        ...

    def scan(self, errand: Errand) -> Scanning:
        """The scan for *errand*."""
        ...
