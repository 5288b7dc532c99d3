"""Incidents and what they count, as functions on an open transaction.

They change in the transaction that changes the operations they count, after runs and tallies and
in the order of their names, so that transactions beside each other never wait for one another.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa

from bestbefore.adapters.state.database import Database, chunks, micros
from bestbefore.adapters.state.schema import incidents, operations
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.incident import gist, incident_id


class Kind(NamedTuple):
    """What the dead letters of an incident have in common."""

    policy: int
    failure_class: FailureClass
    error: str

    @property
    def name(self) -> bytes:
        return incident_id(self.failure_class, self.error)


def kind(policy: int, failure_class: FailureClass, error: str, key: str) -> Kind:
    """Which incident an operation on *key* belongs to that died of *error*."""
    return Kind(policy, failure_class, gist(error, key))


def grow(
    database: Database, connection: sa.Connection, by: Mapping[Kind, int], now: datetime
) -> None:
    """Count so many operations more that died now."""
    if not by:
        return
    insert = database.insert(incidents)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["incident", "policy_id"],
            set_={
                "n": incidents.c.n + insert.excluded.n,
                "last_at": insert.excluded.last_at,
            },
        ),
        [
            {
                "incident": of.name,
                "policy_id": of.policy,
                "failure_class": of.failure_class,
                "error": of.error,
                "n": n,
                "first_at": micros(now),
                "last_at": micros(now),
            }
            for of, n in sorted(by.items(), key=lambda item: (item[0].name, item[0].policy))
        ],
    )


def shrink(connection: sa.Connection, left: Iterable[tuple[bytes, int]]) -> None:
    """Count one less for each of *left*, names of incidents with rows of policy versions.

    What is over goes; so this is for a transaction that runs alone.
    """
    for (name, policy), n in sorted(Counter(left).items()):
        this = sa.and_(incidents.c.incident == name, incidents.c.policy_id == policy)
        connection.execute(sa.update(incidents).where(this).values(n=incidents.c.n - n))
        connection.execute(sa.delete(incidents).where(this, incidents.c.n <= 0))


def buried(
    database: Database, connection: sa.Connection, rows: Iterable[int], now: datetime
) -> None:
    """Count operations, given by their rows, that are dead now and belong to no incident yet."""
    by: Counter[Kind] = Counter()
    for chunk in chunks(list(rows)):
        found = connection.execute(
            sa.select(
                operations.c.id,
                operations.c.policy_id,
                operations.c.failure_class,
                operations.c.error,
                operations.c.key,
            ).where(operations.c.id.in_(chunk))
        ).fetchall()
        of = {
            row.id: kind(row.policy_id, FailureClass(row.failure_class), row.error, row.key)
            for row in found
        }
        by.update(of.values())
        connection.execute(
            sa.update(operations)
            .where(operations.c.id == sa.bindparam("row"))
            .values(incident=sa.bindparam("name")),
            [{"row": row, "name": its.name} for row, its in of.items()],
        )
    grow(database, connection, by, now)
