"""Which slot a trigger means."""

from datetime import datetime, timedelta

from bestbefore.domain.identity import instant
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Trigger
from bestbefore.ports.calendar import Calendar
from bestbefore.ports.ledger import PlanLedger


class SlotRefused(Exception):
    """No run may answer this slot. The message names it and says what is accepted."""


def choose_slot(
    policy: Policy,
    wanted: datetime | None,
    calendar: Calendar,
    ledger: PlanLedger,
    now: datetime,
    trigger: Trigger,
    early: timedelta,
) -> datetime:
    """The slot to plan, a whole second: *wanted*, else the latest one due.

    A trigger that comes at most *early* before a slot, and is nearer to it than to the one before,
    means that one: clocks differ. Only a person who types `plan` always means the latest one due.
    A policy without a schedule continues the slot of its newest run while that is planning or
    open, else it is the current second. Raises SlotRefused for a slot that is further away.
    """
    if wanted is not None:
        if wanted > now + early:
            raise SlotRefused(
                f"policies.{policy.name}: the slot {instant(wanted)} is in the future; it is "
                f"{instant(now)} now"
            )
        return wanted.replace(microsecond=0)
    if policy.schedule is None:
        return ledger.open_run_slot(policy) or now.replace(microsecond=0)
    due = calendar.latest(policy.schedule, policy.timezone, now)
    if trigger is Trigger.PLAN:
        return due
    coming = calendar.following(policy.schedule, policy.timezone, now)
    return coming if coming - now <= min(early, now - due) else due
