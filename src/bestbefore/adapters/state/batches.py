"""Row batches as the ledger has them: what only operations on them have.

Functions on an open transaction, none of which changes anything.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from bestbefore.adapters.state import planned
from bestbefore.adapters.state.database import chunks, moment
from bestbefore.adapters.state.known import parked_before
from bestbefore.adapters.state.schema import operations, policies, row_batches, runs
from bestbefore.domain.outcome import REMOVED, Outcome
from bestbefore.domain.policy import Policy
from bestbefore.domain.rows import Effect, RowBatch, Walk
from bestbefore.ports.ledger import Batched, Taken

DETAILS = tuple(column for column in row_batches.c if column.name != "policy_id")
"""What `maybe_batch` and `maybe_effect` read, beside the outcome."""


def taken(
    connection: sa.Connection, policy: Policy, taking_over: datetime | None
) -> Sequence[Taken]:
    """See `bestbefore.ports.ledger.PlanLedger.taken`."""
    versions = sa.select(policies.c.id).where(
        policies.c.name == policy.name, policies.c.version == policy.version
    )
    left_out = set() if taking_over is None else parked_before(connection, taking_over)
    open_runs = sa.select(runs.c.id).where(
        runs.c.policy_id.in_(versions), runs.c.waiting > 0, runs.c.id.not_in(left_out)
    )
    # Each by its own partial index, and in one statement, as a batch may move from one to another.
    ids = sa.union_all(
        sa.select(operations.c.id).where(
            operations.c.state == sa.literal_column("'waiting'"),
            operations.c.run_id.in_(open_runs),
        ),
        sa.select(operations.c.id).where(
            operations.c.state == sa.literal_column("'pending'"),
            operations.c.policy_id.in_(versions),
        ),
        sa.select(operations.c.id).where(
            operations.c.state == sa.literal_column("'dead'"),
            operations.c.policy_id.in_(versions),
        ),
    ).subquery()
    found = connection.execute(
        sa.select(row_batches.c.first, row_batches.c.last, row_batches.c.walk)
        .join(ids, ids.c.id == row_batches.c.operation)
        .order_by(row_batches.c.operation)
    )
    return [Taken(first, last, Walk(walk)) for first, last, walk in found]


def batches(connection: sa.Connection, rows: Collection[int]) -> Mapping[int, Batched]:
    """See `bestbefore.ports.ledger.WorkLedger.batches`."""
    found: dict[int, Batched] = {}
    for chunk in chunks(list(rows)):
        for row in connection.execute(
            sa.select(*DETAILS, runs.c.cutoff, runs.c.slot)
            .select_from(row_batches)
            .join(operations, operations.c.id == row_batches.c.operation)
            .join(runs, runs.c.id == operations.c.run_id)
            .where(row_batches.c.operation.in_(chunk))
        ):
            found[row.operation] = Batched(batch_of(row), moment(row.cutoff), moment(row.slot))
    return found


class Ended(NamedTuple):
    """A batch that did something: its operation, the row of its run, and its effect."""

    operation_id: bytes
    run: int
    effect: Effect


MEASURED = (
    row_batches.c.walk != Walk.PARTITION,
    row_batches.c.replayed.is_(False),
    row_batches.c.deleted + row_batches.c.archived > 0,
)
"""Of `effective` ones: those whose duration says how long others of their kind take."""


def effective(
    connection: sa.Connection, policy: str, limit: int, *which: sa.ColumnElement[bool]
) -> Iterator[Ended]:
    """The batches of *policy* that were planned last and ended as deleted or archived, those of
    the newest version first, at most *limit*."""
    versions = connection.scalars(
        sa.select(policies.c.id)
        .where(policies.c.name == policy)
        .order_by(policies.c.planned_at.desc(), policies.c.id.desc())
    ).all()
    left = limit
    for version in versions:
        if not left:
            return
        found = connection.execute(
            sa.select(
                operations.c.operation_id, operations.c.run_id, operations.c.outcome, *DETAILS
            )
            .select_from(row_batches)
            .join(operations, operations.c.id == row_batches.c.operation)
            .where(
                row_batches.c.policy_id == version,
                row_batches.c.seconds.is_not(None),
                operations.c.outcome.in_(sorted(REMOVED)),
                *which,
            )
            .order_by(row_batches.c.operation.desc())
            .limit(left)
        ).fetchall()
        yield from (Ended(row.operation_id, row.run_id, effect_of(row)) for row in found)
        left -= len(found)


def maybe_batch(row: Any) -> RowBatch | None:
    """The batch in a row with `DETAILS`, if it is about one."""
    return None if row.first is None else batch_of(row)


def maybe_effect(row: Any) -> Effect | None:
    """The effect in it, if that is known."""
    return None if row.seconds is None else effect_of(row)


def batch_of(row: Any) -> RowBatch:
    """The batch in a row with `DETAILS`."""
    return RowBatch(
        row.first,
        row.last,
        row.rows,
        moment(row.oldest),
        Walk(row.walk),
        row.shape,
        planned.loaded(row.planned_dependents),
    )


def effect_of(row: Any) -> Effect:
    """The effect in a row with `DETAILS` and an outcome."""
    return Effect(
        Outcome(row.outcome),
        row.deleted + row.archived,
        json.loads(row.dependents),
        row.archived,
        row.blocked,
        row.replayed,
        row.seconds,
        json.loads(row.changed) if row.changed else {},
    )
