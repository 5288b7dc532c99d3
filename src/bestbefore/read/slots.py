"""Schedules and their slots: what comes, what became of those that came, and who was missed."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from bestbefore.domain.policy import Policy
from bestbefore.domain.slots import Slot, state_of
from bestbefore.domain.zones import zone
from bestbefore.ports.calendar import Calendar, ClockChange
from bestbefore.ports.controls import Pause
from bestbefore.ports.slots import MissedSlot, Slots
from bestbefore.read.documents import Document, when

SHOWN_FOR = timedelta(days=7)
"""How long a missed slot is listed that a later run has made up for."""

MOST_LISTED = 100
"""Missed slots in one list."""

MOST_SLOTS = 1_000
"""Slots in one calendar."""

_UPCOMING = 5
_YEAR = timedelta(days=366)


def calendar_document(
    policy: Policy,
    slots: Slots,
    grace: timedelta,
    now: datetime,
    days: int,
    most: int = MOST_SLOTS,
) -> Document:
    """The slots of the last *days* days, newest first, and what became of each.

    At most *most*; ``complete`` says whether these are all. ``late_seconds`` is how long
    after its time a slot was answered, 0 where that was within the grace.
    """
    found = slots.history(policy.name, now - timedelta(days=days), most)
    return {
        "policy": policy.name,
        "schedule": policy.schedule,
        "timezone": policy.timezone,
        "days": days,
        "complete": len(found) < most,
        "slots": [_slot(slot, grace, now) for slot in found],
    }


def missed_documents(policies: Collection[str], slots: Slots, now: datetime) -> list[Document]:
    """Missed slots nobody made up for, and all that were noticed in the last days; newest first."""
    return [_missed(slot) for slot in slots.missed(policies, now - SHOWN_FOR, MOST_LISTED)]


def schedule_documents(
    policies: Mapping[str, Policy],
    calendar: Calendar,
    pauses: Sequence[Pause],
    now: datetime,
    *,
    skips: bool = False,
) -> list[Document]:
    """The next slots of every policy that has a schedule, and where clocks change them.

    *skips* says that whoever fires leaves out a local time that does not exist.
    """
    paused = {pause.policy: pause.reason for pause in pauses}
    return [
        {
            "policy": name,
            "schedule": policy.schedule,
            "timezone": policy.timezone,
            "catch_up": "now" if policy.catch_up else "next",
            "paused": paused.get(name, paused.get(None)),
            "next": [
                {"slot": when(slot), "local": _local(slot, policy)}
                for slot in upcoming(policy, calendar, now, _UPCOMING)
            ],
            "notes": [
                note_document(change, policy, skips=skips)
                for change in changes(policy, calendar, now)
            ],
        }
        for name, policy in sorted(policies.items())
        if policy.schedule is not None
    ]


def upcoming(policy: Policy, calendar: Calendar, now: datetime, n: int) -> list[datetime]:
    """The next *n* slots of *policy*; none without a schedule."""
    if policy.schedule is None:
        return []
    until = datetime.max.replace(tzinfo=now.tzinfo)
    return list(islice(calendar.between(policy.schedule, policy.timezone, now, until), n))


def changes(policy: Policy, calendar: Calendar, now: datetime) -> Sequence[ClockChange]:
    """Where, within a year, the schedule of *policy* names a local time that is skipped or
    doubled."""
    if policy.schedule is None:
        return ()
    return calendar.clock_changes(policy.schedule, policy.timezone, now, now + _YEAR)


def note_document(change: ClockChange, policy: Policy, *, skips: bool = False) -> Document:
    """*change*, with what it means as a sentence; *skips* as for `schedule_documents`."""
    local = f"{change.local:%Y-%m-%d %H:%M}"
    runs_at = f"it runs once, at {_local(change.slot, policy)} ({when(change.slot)})"
    if skips and change.skipped:
        runs_at = (
            f"the outside scheduler fires nothing in its place, the slot {when(change.slot)} will "
            "be missed, and the next one takes its work"
        )
    what = "does not exist" if change.skipped else "comes twice"
    return {
        "local": local,
        "slot": when(change.slot),
        "kind": "skipped" if change.skipped else "doubled",
        "text": f"{local} {what} in {policy.timezone}: {runs_at}",
    }


def _local(slot: datetime, policy: Policy) -> str:
    return slot.astimezone(zone(policy.timezone)).isoformat(timespec="minutes")


def _slot(slot: Slot, grace: timedelta, now: datetime) -> Document:
    state, reason = state_of(slot, grace, now)
    return {
        "slot": when(slot.at),
        "state": state.value,
        "reason": reason,
        "run_id": slot.run.run_id if slot.run else None,
        "run_state": slot.run.state.value if slot.run else None,
        "late_seconds": int(slot.late_by(grace).total_seconds()),
        "noticed_at": when(slot.verdict.at) if slot.verdict else None,
    }


def _missed(missed: MissedSlot) -> Document:
    return {
        "policy": missed.policy,
        "slot": when(missed.slot),
        "reason": missed.reason,
        "noticed_at": when(missed.noticed_at),
        "made_up_by": missed.made_up_by,
    }
