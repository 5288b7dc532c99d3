"""Bring an outside scheduler in line: what the policies want, against what is deployed.

The policies are right. A pause is the ledger's and changes nothing here: a trigger that comes
meanwhile finds the policy paused, its slot is missed for that reason, and a pause that ends by
itself needs nobody to call the vendor. So a schedule that is off there is a difference.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from bestbefore.domain.policy import Policy
from bestbefore.ports.scheduler import (
    TARGET,
    Deployed,
    Inexpressible,
    Scheduler,
    SchedulerFailed,
    Terms,
    Wanted,
)


class Drift(StrEnum):
    """How what is deployed is not what is wanted."""

    MISSING = "missing"
    CHANGED = "changed"
    DISABLED = "disabled"
    LEFT_OVER = "left over"  # of a policy that is not there any more, or has no schedule any more
    REPEATED = "repeated"  # there once more
    FOREIGN = "foreign"  # left over as well, but it calls somebody else, who may want it
    INEXPRESSIBLE = "inexpressible"

    @property
    def settled(self) -> bool:
        """Whether `settle` does something about it."""
        return self not in (Drift.FOREIGN, Drift.INEXPRESSIBLE)


class Change(NamedTuple):
    """One term as it is there, and as it should be."""

    there: str
    wanted: str


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """One thing that is not as it should be. ``changes`` are terms by name; ``why`` is what stands
    in the way where nothing can be done."""

    policy: str
    drift: Drift
    wanted: Wanted | None = None
    deployed: Deployed | None = None
    changes: Mapping[str, Change] | None = None
    why: str = ""


def wanted_by(policies: Mapping[str, Policy]) -> Sequence[Wanted]:
    """The schedules of those policies that have one."""
    return [
        Wanted(name, policy.schedule, policy.timezone)
        for name, policy in sorted(policies.items())
        if policy.schedule is not None
    ]


def compare(wanted: Sequence[Wanted], scheduler: Scheduler) -> Sequence[Difference]:
    """Everything in which *scheduler* is not as *wanted*, by policy. Changes nothing.

    Raises SchedulerFailed where nobody answers.
    """
    there = {
        policy: list(found)
        for policy, found in groupby(
            sorted(scheduler.deployed(), key=lambda one: (one.policy, one.id)),
            key=lambda one: one.policy,
        )
    }
    differences = [
        difference
        for one in wanted
        for difference in _of_one(one, there.pop(one.policy, []), scheduler)
    ]
    differences += [_left_over(one, scheduler) for found in there.values() for one in found]
    return sorted(differences, key=lambda one: one.policy)


def settle(difference: Difference, scheduler: Scheduler) -> None:
    """Put *difference* right; done twice it does no harm. Raises SchedulerFailed."""
    match difference:
        case Difference(drift=Drift.MISSING | Drift.CHANGED, wanted=Wanted() as wanted):
            scheduler.put(wanted, difference.deployed)
        case Difference(drift=Drift.DISABLED, deployed=Deployed() as deployed):
            scheduler.resume(deployed)
        case Difference(drift=Drift.LEFT_OVER | Drift.REPEATED, deployed=Deployed() as deployed):
            scheduler.delete(deployed)
        case _:
            pass


def settle_all(
    differences: Sequence[Difference], scheduler: Scheduler
) -> Mapping[Difference, SchedulerFailed]:
    """Put everything right that can be, one failure keeping none of the others; returns those.

    What is missing comes first and what goes comes last, so that no slot is lost in between.
    """
    failed = {}
    for difference in sorted(differences, key=lambda one: one.wanted is None):
        try:
            settle(difference, scheduler)
        except SchedulerFailed as error:
            failed[difference] = error
    return failed


def changes(terms: Terms, deployed: Deployed) -> Mapping[str, Change]:
    """In which terms *deployed* is not what *terms* say. What a vendor does not show cannot
    differ."""
    return {
        name: Change(value, terms.get(name, ""))
        for name, value in deployed.terms.items()
        if value != terms.get(name, "")
    }


def _of_one(
    wanted: Wanted, there: Sequence[Deployed], scheduler: Scheduler
) -> Iterator[Difference]:
    try:
        terms = scheduler.terms(wanted)
    except Inexpressible as error:
        # What is there of it stays: an older schedule is better than none.
        yield Difference(wanted.policy, Drift.INEXPRESSIBLE, wanted, why=str(error))
        return
    if not there:
        yield Difference(wanted.policy, Drift.MISSING, wanted)
        return
    best, *others = sorted(there, key=lambda one: (len(changes(terms, one)), not one.enabled))
    if differing := changes(terms, best):
        yield Difference(wanted.policy, Drift.CHANGED, wanted, best, differing)
    elif not best.enabled:
        yield Difference(wanted.policy, Drift.DISABLED, wanted, best)
    for other in others:
        yield Difference(wanted.policy, Drift.REPEATED, deployed=other)


def _left_over(deployed: Deployed, scheduler: Scheduler) -> Difference:
    ours = deployed.terms.get(TARGET, scheduler.target) == scheduler.target
    drift = Drift.LEFT_OVER if ours else Drift.FOREIGN
    return Difference(deployed.policy, drift, deployed=deployed)
