"""Which slots were expected, and what nothing else in the ledger says about them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from bestbefore.domain.slots import Circumstances, Slot

MOST_KEPT = 1_000
"""Slots of one policy with a verdict; the oldest ones beyond are forgotten."""

LOOK_EVERY = timedelta(minutes=1)
"""How often somebody who runs all the time says that he looked, if nothing else happened."""


class Expected(NamedTuple):
    """The schedule of a policy, as the file of who looks has it."""

    policy: str
    schedule: str | None
    timezone: str


class Jump(NamedTuple):
    """The clock went from one instant to another while next to no time passed for who saw it."""

    before: datetime
    after: datetime


class Watched(NamedTuple):
    """What a look found: the newest slot that the schedule has named since it is known."""

    slot: Slot
    seen: Circumstances


class MissedSlot(NamedTuple):
    """A slot that nobody answered; ``made_up_by`` is the next later run that has drained."""

    policy: str
    slot: datetime
    reason: str
    noticed_at: datetime
    made_up_by: str | None


class Slots(Protocol):
    """The slots of one ledger. Every method is one transaction."""

    def look(
        self, expected: Expected, grace: timedelta, now: datetime, jump: Jump | None = None
    ) -> Watched | None:
        """Note the slots that came since somebody last looked, and judge those nobody answers.

        A schedule that is new, or was edited, expects nothing before *now*; removing it ends what
        it expected. Two files that are in use at the same time, as while a fleet is restarted,
        are both expected of. A clock that had been ahead by more than a few minutes takes its
        slots back. None without a slot since the schedule is known.
        """
        ...

    def failed(self, policy: str, slot: datetime, trouble: str) -> None:
        """Note why planning *slot* failed."""
        ...

    def collapse(self, policy: str, slot: datetime, now: datetime, *, missed: bool) -> None:
        """Note that the run of *slot* takes the work of unanswered earlier slots.

        Those without a verdict are skipped; with *missed* also those that were missed since the
        last slot that was answered.
        """
        ...

    def history(self, policy: str, since: datetime, limit: int) -> Sequence[Slot]:
        """What is known of slots from *since* on, newest first: *limit* of them at most."""
        ...

    def missed(self, names: Collection[str], since: datetime, limit: int) -> Sequence[MissedSlot]:
        """Missed slots of policies that no later run made up for, and others noticed from *since*
        on; newest first, *limit* of them at most."""
        ...

    def missed_counts(self, names: Collection[str]) -> Mapping[str, int]:
        """By policy, how many missed slots no later run has made up for; only those with any."""
        ...
