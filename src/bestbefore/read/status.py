"""`status`: is cleanup keeping up, and what stands in its way?"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from bestbefore.domain.policy import Policy
from bestbefore.ports.calendar import Calendar
from bestbefore.ports.controls import Controls
from bestbefore.ports.holds import Holds
from bestbefore.ports.records import Records
from bestbefore.read.documents import Document, hold_document, when

OVERDUE_AFTER = timedelta(hours=1)
"""How long after its slot something that should be gone counts as overdue."""


def status_document(
    policies: Mapping[str, Policy],
    records: Records,
    controls: Controls,
    calendar: Calendar,
    holds: Holds,
    state: Document,
    now: datetime,
) -> Document:
    """Every policy of the file, and every one only the ledger still knows.

    ``overdue`` is what of a slot an hour ago or more is not done, from stored counts; what a
    fresh listing says is `verify`'s answer, repeated here with its time as ``verified``.
    *state* is what `bestbefore.read.state` says about the database itself.
    """
    known = {record.name: record for record in records.policies(now - OVERDUE_AFTER)}
    paused = {pause.policy: pause.reason for pause in controls.pauses(now)}
    rows = []
    for name in sorted(known.keys() | policies.keys()):
        record, policy = known.get(name), policies.get(name)
        verified = records.verification(name)
        slot = policy and policy.schedule and calendar.following(
            policy.schedule, policy.timezone, now
        )  # fmt: skip
        rows.append(
            {
                "policy": name,
                "version": policy.version if policy else record and record.version,
                "owner": policy.owner if policy else record and record.owner,
                "in_file": policy is not None,
                "paused": paused.get(name, paused.get(None)),
                "next_slot": when(slot or None),
                "last_slot": when(record.last_slot) if record else None,
                "state": record.last_state if record else None,
                "backlog": record.backlog if record else 0,
                "dead": record.dead if record else 0,
                "held": record.held if record else 0,
                "overdue": record.overdue if record else 0,
                "oldest_overdue": when(record.oldest_overdue) if record else None,
                "verified": verified
                and {
                    "at": when(verified.at),
                    "overdue": verified.overdue,
                    "oldest_overdue": when(verified.oldest_overdue),
                    "held": verified.held,
                },
            }
        )
    return {
        "policies": rows,
        "missed": [],
        "holds": [hold_document(hold) for hold in holds.in_force(now)],
        "breakers": [
            {
                "connection": breaker.connection,
                "reason": breaker.reason,
                "opened_at": when(breaker.opened_at),
                "next_probe_at": when(breaker.next_probe_at),
            }
            for breaker in controls.breakers()
        ],
        "throttles": [
            {"connection": name, "waiting": n, "next_due": when(due)}
            for name, n, due in records.throttled(now)
        ],
        "state": state,
    }
