"""`status`: is cleanup keeping up, and what stands in its way?"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from bestbefore.domain.policy import Policy
from bestbefore.domain.sizing import RECENT, planned_size
from bestbefore.domain.throttle import Window, open_at, opens
from bestbefore.domain.zones import zone
from bestbefore.ports.calendar import Calendar
from bestbefore.ports.controls import Controls
from bestbefore.ports.holds import Holds
from bestbefore.ports.records import PolicyRecord, Records
from bestbefore.ports.slots import Slots
from bestbefore.ports.throttle import Throttles
from bestbefore.read.documents import Document, hold_document, when
from bestbefore.read.slots import missed_documents

OVERDUE_AFTER = timedelta(hours=1)
"""How long after its slot something that should be gone counts as overdue."""


def status_document(
    policies: Mapping[str, Policy],
    records: Records,
    controls: Controls,
    calendar: Calendar,
    holds: Holds,
    throttles: Throttles,
    windows: Mapping[str, Window],
    slots: Slots,
    strays: int,
    queue: Document,
    state: Document,
    now: datetime,
) -> Document:
    """Every policy of the file, and every one only the ledger still knows.

    ``overdue`` is what of a slot an hour ago or more is not done, from stored counts; what a
    fresh listing says is `verify`'s answer, repeated here with its time as ``verified``.
    ``missed`` counts slots that nobody answered and no later run has made up for.
    ``batch_size`` is how many rows the next batches have. *windows* are by the name of a database,
    *strays* is how many messages execute nothing, *queue* says who carries commands, and *state* is
    what `bestbefore.read.state` says about the state database itself.
    """
    known = {record.name: record for record in records.policies(now - OVERDUE_AFTER)}
    missed = slots.missed_counts(policies)
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
                "missed": missed.get(name, 0),
                "last_slot": when(record.last_slot) if record else None,
                "state": record.last_state if record else None,
                "backlog": record.backlog if record else 0,
                "dead": record.dead if record else 0,
                "held": record.held if record else 0,
                "overdue": record.overdue if record else 0,
                "oldest_overdue": when(record.oldest_overdue) if record else None,
                "batch_size": _batch_size(policy, records) if policy else None,
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
        "missed": missed_documents(policies, slots, now),
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
            *(
                _throttle(name, "it asked to slow down", due, n)
                for name, n, due in records.throttled(now)
            ),
            *(_throttle(*wait) for wait in throttles.waits(now)),
            *_shut(policies, known, windows, now),
        ],
        "strays": strays,
        "queue": queue,
        "state": state,
    }


def _batch_size(policy: Policy, records: Records) -> int | None:
    """Of the next row batches; None where it is about objects."""
    if not policy.about_rows:
        return None
    return planned_size(policy.rows, lambda: records.durations(policy.name, RECENT))


def _throttle(
    connection: str, reason: str, until: datetime | None, waiting: int | None = None
) -> Document:
    """What holds a connection back. ``waiting`` and ``next_due`` are about operations that a store
    has sent back."""
    return {
        "connection": connection,
        "reason": reason,
        "until": when(until),
        "waiting": waiting,
        "next_due": None if waiting is None else when(until),
    }


def _shut(
    policies: Mapping[str, Policy],
    known: Mapping[str, PolicyRecord],
    windows: Mapping[str, Window],
    now: datetime,
) -> Iterator[Document]:
    """Databases with a backlog that are outside their window, once for each time zone."""
    seen = set()
    for name, policy in policies.items():
        window = windows.get(policy.connection) if policy.about_rows else None
        if window is None or name not in known or not known[name].backlog:
            continue
        there = zone(policy.timezone)
        if not open_at(now, there, window) and (policy.connection, policy.timezone) not in seen:
            seen.add((policy.connection, policy.timezone))
            hours = "-".join(f"{hour:%H:%M}" for hour in window)
            reason = f"window: {hours} in {policy.timezone}"
            yield _throttle(policy.connection, reason, opens(now, there, window))
