"""A scheduler of somebody else's: it is told when to trigger, and triggers.

Which slots are expected stands in the policies, and the ledger decides what became of each. So a
vendor that fires twice, late or not at all changes nothing but when a run begins: two triggers of
one slot are one run, and a slot without one is missed. Pauses are the ledger's too and are never
carried to a vendor: what is switched off there is a difference, and `bestbefore.stages.sync`, which
compares and puts right, switches it on again.

`bestbefore.contracts.scheduler` is the behaviour that every adapter has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding

EXPRESSION, TIMEZONE, TARGET = "expression", "timezone", "target"
"""The terms that every adapter names; an adapter may add its own."""

Terms = Mapping[str, str]
"""What a schedule consists of as one vendor spells it, by name, for people to read and to compare.

Never with a secret: in its place stands a digest. Whether it is enabled is none of the terms.
"""


class SchedulerFailed(Exception):
    """A call came to nothing. ``failure`` is why, and its text names the scheduler."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure


class Inexpressible(ValueError):
    """This vendor has no words for such a schedule. The message names the policy, and what to
    write in its place."""


class Wanted(NamedTuple):
    """The schedule of one policy: five cron fields with cronsim's semantics, and an IANA zone."""

    policy: str
    schedule: str
    timezone: str


@dataclass(frozen=True, slots=True)
class Deployed:
    """One schedule that the vendor has. ``id`` is the vendor's name for it.

    ``terms`` holds those that the vendor shows, an empty text for one that it says is not set.
    """

    id: str
    policy: str
    enabled: bool
    terms: Terms


class VendorRun(NamedTuple):
    """What the vendor remembers of one trigger: ``ok`` is None while, or where, it does not say."""

    at: datetime
    ok: bool | None
    output: str


class SkippedHour(StrEnum):
    """What becomes of a local time that does not exist because a clock was set forward."""

    AFTER = "after"
    """It fires once after the gap, as the expected slot does."""
    NEVER = "never"
    """It does not fire that day: the slot is missed."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a vendor does and does not do, so that suites, `check` and the docs need not know it.

    It fires at most ``precision`` after the time (as far as it promises anything), and not at all
    for what came while a schedule was off. ``longest_run`` is how long it waits for an answer; None
    where it waits for none. ``updates`` says that a schedule can be changed in place, else it is
    replaced; ``triggers`` that one can be fired by hand; ``tells_runs`` that it remembers some.
    ``tells_slot`` says that a trigger names the time that it stands for.
    """

    skipped_hour: SkippedHour
    precision: timedelta
    longest_run: timedelta | None
    updates: bool
    triggers: bool
    tells_runs: bool
    tells_slot: bool


@runtime_checkable
class Scheduler(Protocol):
    """The schedules of one configuration at one vendor. May be called from several threads.

    Each method gives up in the end, and then raises SchedulerFailed; repeating it does no harm.
    """

    @property
    def name(self) -> str:
        """What people call it: its kind and its place, without any secret."""
        ...

    @property
    def target(self) -> str:
        """Where its triggers go, as `TARGET` in `Terms` has it."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What this vendor does. Asks nobody."""
        ...

    def terms(self, wanted: Wanted) -> Terms:
        """What *wanted* is in this vendor's words; asks nobody. Raises Inexpressible."""
        ...

    def deployed(self) -> Sequence[Deployed]:
        """Everything that is there under this configuration's group or prefix, by policy.

        Several of one policy are possible. Other people's schedules are not among them; one under
        the same group with another target may be.
        """
        ...

    def put(self, wanted: Wanted, instead_of: Deployed | None = None) -> Deployed:
        """Have the schedule there, enabled, with the `terms` of *wanted*; whole, not merged.

        *instead_of* is what is there already, and is there no longer, or in its new shape,
        afterwards; its replacement comes first, so that no slot is lost in between. Done twice it
        is there once. Raises Inexpressible too.
        """
        ...

    def pause(self, deployed: Deployed) -> None:
        """Have it fire no more, and leave everything else as it is, known to us or not."""
        ...

    def resume(self, deployed: Deployed) -> None:
        """Have it fire again, and leave everything else as it is, known to us or not."""
        ...

    def delete(self, deployed: Deployed) -> None:
        """Have it be gone; one that is gone already is no failure."""
        ...

    def trigger(self, deployed: Deployed) -> None:
        """Fire it now, once. Only where `Capabilities.triggers`."""
        ...

    def runs(self, deployed: Deployed, limit: int) -> Sequence[VendorRun]:
        """The last triggers, newest first. Empty unless `Capabilities.tells_runs`."""
        ...

    def findings(self) -> Sequence[Finding]:
        """What an operator should know of the place itself: whether it is there, what it may do.

        Read only. What differs between policies and schedules is not repeated here.
        """
        ...

    def close(self) -> None:
        """End its connections."""
        ...
