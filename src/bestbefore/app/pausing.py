"""Pauses, put and lifted, for the command line, the API and the dashboard alike."""

from datetime import datetime

from bestbefore.app.system import System
from bestbefore.read.documents import Document, when


def pause(
    system: System, policy: str | None, reason: str, until: datetime | None, by: str
) -> Document:
    """Stop work on *policy*, or on every one, and say which slots are missed meanwhile. Raises
    UnknownPolicy and LedgerError."""
    if policy is not None:
        system.policy(policy)
    misses = system.schedule.pause(policy, reason, until, by)
    return {
        "paused": policy or "*",
        "reason": reason,
        "until": when(until),
        "misses": [
            {"policy": name, "first": when(missed.first), "slots": missed.slots}
            for name, missed in misses.items()
        ],
    }


def resume(system: System, policy: str | None, by: str) -> Document:
    """Lift the pause of *policy*, or the one of every policy, and say what comes first. Raises
    LedgerError."""
    lifted, coming = system.schedule.resume(policy, by)
    return {
        "resumed": lifted,
        "backlog": {
            record.name: record.backlog
            for record in system.records.policies(system.clock.now())
            if policy in (None, record.name)
        },
        "first": [
            {"policy": name, "slot": when(first.slot), "now": first.now, "paused": first.paused}
            for name, first in coming.items()
        ],
    }
