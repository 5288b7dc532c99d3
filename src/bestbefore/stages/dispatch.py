"""Publish what is released, fairly, and never so much that one sick store fills the queue."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from bestbefore.ports.ledger import PolicyVersion, WorkLedger
from bestbefore.ports.queue import Queue

MOST_OUT = 10_000
"""Published and unsettled operations per connection, for all processes together."""

_SLICE = 1_000

Resend = Callable[[Sequence[int], int, datetime], int]
"""Sends what is due of some policy versions (rows) until so many of them are out; returns how many
that were. What the ledger itself gives out needs none."""


def dispatch(
    ledger: WorkLedger,
    queue: Queue,
    versions: Sequence[PolicyVersion],
    priorities: Mapping[str, int],
    now: datetime,
    lease: timedelta,
    resend: Resend | None = None,
    most: int = MOST_OUT,
) -> int:
    """Publish waiting operations of *versions*, until *most* of a connection are out; returns how
    many.

    Higher priorities (by policy name, 0 if unknown) come first; within one, connections take
    turns in slices, so that a long backlog of one does not stand before the others. What was
    published before and is due comes before what waits.
    """
    published = 0
    if resend is not None:
        ordered = sorted(versions, key=lambda v: -priorities.get(v.name, 0))
        for connection in dict.fromkeys(v.connection for v in ordered):
            rows = [v.row for v in ordered if v.connection == connection]
            published += resend(rows, most, now)
    room = {
        connection: most
        - ledger.out([v.row for v in versions if v.connection == connection], now, lease)
        for connection in {v.connection for v in versions}
    }
    for priority in sorted({priorities.get(v.name, 0) for v in versions}, reverse=True):
        turns = [v for v in versions if priorities.get(v.name, 0) == priority]
        while turns:
            for version in list(turns):
                limit = room[version.connection]
                if len(turns) > 1:
                    limit = min(_SLICE, limit)
                span = ledger.waiting(version.row, limit) if limit > 0 else None
                if span is None:
                    turns.remove(version)
                    continue
                sent = queue.publish(span, now)
                if not sent:  # another process publishes these at this moment
                    turns.remove(version)
                room[version.connection] -= sent
                published += sent
    return published
