"""Which slot a trigger means."""

from datetime import datetime, timedelta

from bestbefore.domain.identity import instant
from bestbefore.domain.policy import Policy
from bestbefore.ports.calendar import Calendar
from bestbefore.ports.ledger import PlanLedger

EARLY_TOLERANCE = timedelta(seconds=60)


class SlotRefused(Exception):
    """No run may answer this slot. The message names it and says what is accepted."""


def choose_slot(
    policy: Policy,
    wanted: datetime | None,
    calendar: Calendar,
    ledger: PlanLedger,
    now: datetime,
) -> datetime:
    """The slot to plan, a whole second: *wanted*, else the latest one due.

    A policy without a schedule continues the slot of its newest run while that is planning or
    open, else it is the current second. Raises SlotRefused for a slot in the future.
    """
    if wanted is not None:
        if wanted > now + EARLY_TOLERANCE:
            raise SlotRefused(
                f"policies.{policy.name}: the slot {instant(wanted)} is in the future; it is "
                f"{instant(now)} now"
            )
        return wanted.replace(microsecond=0)
    if policy.schedule is not None:
        return calendar.latest(policy.schedule, policy.timezone, now)
    return ledger.open_run_slot(policy) or now.replace(microsecond=0)
