"""Counts of a policy for good, as functions on an open transaction: a scrape reads only these.

They change in the transaction that changes what they count, and upkeep does not touch them. In a
*shared* transaction they come last, after runs and tallies, each policy's in one call, so that no
two transactions ever wait for each other.
"""

from collections.abc import Mapping

import sqlalchemy as sa

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.schema import policy_counts
from bestbefore.domain.counts import Count, bucket

Counts = dict[tuple[Count, str], tuple[int, int]]
"""Numbers, and amounts (bytes or microseconds), by what they count."""


def add(
    database: Database,
    connection: sa.Connection,
    policy: int,
    counts: Mapping[tuple[Count, str], tuple[int, int]],
) -> None:
    """Add *counts* to those of the policy version *policy* (a row)."""
    changes = [
        {"policy_id": policy, "kind": kind, "name": name, "n": n, "amount": amount}
        for (kind, name), (n, amount) in sorted(counts.items())
        if n
    ]
    if not changes:
        return
    insert = database.insert(policy_counts)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["policy_id", "kind", "name"],
            set_={
                "n": policy_counts.c.n + insert.excluded.n,
                "amount": policy_counts.c.amount + insert.excluded.amount,
            },
        ),
        changes,
    )


def put(counts: Counts, kind: Count, name: str, n: int, amount: int = 0) -> None:
    """Add to *counts* what is to be added to the database later."""
    before, amount_before = counts.get((kind, name), (0, 0))
    counts[kind, name] = (before + n, amount_before + amount)


def put_seconds(counts: Counts, kind: Count, seconds: float) -> None:
    """Add one duration to *counts*; a clock that was set back counts as no time at all."""
    seconds = max(0.0, seconds)
    put(counts, kind, bucket(kind, seconds), 1, round(seconds * 1_000_000))
