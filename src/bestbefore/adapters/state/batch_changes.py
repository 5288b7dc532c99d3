"""Row batches: planned, ended, split, and moved between runs; functions on an open transaction.

A run's ``rows`` are those of its planned batches. Parts of a batch that the same run planned add
nothing to them: their rows are in it already.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import batches
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, chunks, micros
from bestbefore.adapters.state.queue import change_claimed, completed
from bestbefore.adapters.state.schema import operations, row_batches
from bestbefore.domain.known import Disposition
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Effect, RowBatch
from bestbefore.domain.states import State
from bestbefore.ports.ledger import Operation, PlannedPage, Split

_NO_EFFECT = dict.fromkeys(
    ("deleted", "archived", "blocked", "dependents", "replayed", "seconds"), sa.null()
)


def add(
    database: Database, connection: sa.Connection, run: int, policy: int, page: PlannedPage
) -> tuple[int, int]:
    """Insert the new batches of *page*; returns how many were really new, and their rows."""
    return _insert(
        database,
        connection,
        [
            (entry.operation_id, entry.batch)
            for entry in page.entries
            if entry.batch is not None and entry.disposition is Disposition.NEW
        ],
        run_id=run,
        policy_id=policy,
        state=State.WAITING,
        seen_at=micros(page.asked_at),
    )


def describe_candidates(
    connection: sa.Connection, run: int, policy: int, page: PlannedPage
) -> None:
    """Of what *page* marked for *run*: describe what this ledger only heard of, for a preview."""
    listed = {
        entry.operation_id: entry.batch
        for entry in page.entries
        if entry.batch is not None
        and entry.disposition in (Disposition.AGAIN, Disposition.REAPPEARED)
    }
    for chunk in chunks(list(listed)):
        found = connection.execute(
            sa.select(operations.c.id, operations.c.operation_id, operations.c.run_id)
            .outerjoin(row_batches, row_batches.c.operation == operations.c.id)
            .where(
                operations.c.operation_id.in_(chunk),
                operations.c.candidate_of == run,
                row_batches.c.operation.is_(None),
            )
        ).fetchall()
        for row in found:
            batch = listed[row.operation_id]
            _describe(connection, policy, {row.id: batch})
            run_rows.bump(connection, row.run_id, rows=batch.rows)


def take_along(database: Database, connection: sa.Connection, run: int) -> None:
    """Move the rows of what *run* plans again from the runs it was in, and forget its effects."""
    mine = operations.c.candidate_of == run
    whole = operations.alias("whole")

    def counted(there: Any) -> sa.ColumnElement[int]:
        is_part = sa.and_(whole.c.id.is_not(None), whole.c.run_id == there)
        return run_rows.total(sa.case((is_part, 0), else_=row_batches.c.rows))

    moved = connection.execute(
        sa.select(operations.c.run_id, counted(operations.c.run_id), counted(run))
        .join(row_batches, row_batches.c.operation == operations.c.id)
        .outerjoin(whole, row_batches.c.parent == whole.c.id)
        .where(mine)
        .group_by(operations.c.run_id)
    ).fetchall()
    for before, rows_there, rows_here in moved:
        run_rows.bump(connection, before, rows=-rows_there)
        run_rows.bump(connection, run, rows=rows_here)
    had_effect = connection.execute(
        sa.select(operations.c.run_id, operations.c.outcome, *batches.DETAILS)
        .join(row_batches, row_batches.c.operation == operations.c.id)
        .where(mine, row_batches.c.seconds.is_not(None))
    ).fetchall()
    for row in had_effect:
        for kind, name, n in effect_tallies(batches.effect_of(row)):
            run_rows.tally(database, connection, row.run_id, kind, {name: (-n, 0)})
    if had_effect:
        connection.execute(
            sa.update(row_batches)
            .where(row_batches.c.operation.in_(sa.select(operations.c.id).where(mine)))
            .values(_NO_EFFECT)
        )


def record_effects(connection: sa.Connection, ended: Sequence[tuple[Operation, Effect]]) -> None:
    """Write down what operations changed that this transaction completed."""
    connection.execute(
        sa.update(row_batches).where(row_batches.c.operation == sa.bindparam("row")),
        [
            {
                "row": operation.row,
                "deleted": effect.rows - effect.archived,
                "archived": effect.archived,
                "blocked": effect.blocked,
                "dependents": json.dumps(dict(effect.dependents)),
                "replayed": effect.replayed,
                "seconds": effect.seconds,
            }
            for operation, effect in ended
        ],
    )


def effect_tallies(effect: Effect) -> Iterator[tuple[str, str, int]]:
    """Kind, name and number of everything *effect* adds to its run's tallies."""
    for word, n in effect.counts().items():
        yield "rows", word, n
    for table, n in effect.dependents.items():
        yield "dependents", table, n


def split(
    database: Database, connection: sa.Connection, settlement: Split, by: str, now: datetime
) -> int | None:
    """End an operation that goes on as its parts.

    Returns how many of these are new, or None if the claim was lost meanwhile.
    """
    operation, (parts, why) = settlement
    ended = sa.update(operations).values(**completed(Outcome.SPLIT, by, now), reason=why)
    if change_claimed(connection, [operation], ended):
        return None
    # Of a run that was cancelled while this was in hand, whoever gets the parts only closes them.
    cancelled = connection.execute(
        sa.select(operations.c.cancelled).where(operations.c.id == operation.row)
    ).scalar_one()
    added, _ = _insert(
        database,
        connection,
        parts,
        parent=operation.row,
        run_id=operation.run,
        policy_id=operation.policy,
        state=State.PENDING,
        seen_at=micros(now),
        due_at=micros(now),
        cancelled=cancelled,
    )
    return added


def _insert(
    database: Database,
    connection: sa.Connection,
    new: Sequence[tuple[bytes, RowBatch]],
    *,
    policy_id: int,
    parent: int | None = None,
    **values: object,
) -> tuple[int, int]:
    """Insert operations on *new* but for those that are there already; returns how many were not,
    and their rows."""
    if not new:
        return 0, 0
    insert = database.insert(operations).on_conflict_do_nothing(index_elements=["operation_id"])
    added = connection.execute(
        insert.returning(operations.c.id, operations.c.operation_id),
        [
            {
                "operation_id": operation_id,
                "policy_id": policy_id,
                "key": batch.label,
                "etag": batch.shape,
                "last_modified": micros(batch.oldest),
                "size": batch.rows,
                "deliveries": 0,
                **values,
            }
            for operation_id, batch in new
        ],
    ).fetchall()
    batch_of = dict(new)
    described = {row.id: batch_of[row.operation_id] for row in added}
    _describe(connection, policy_id, described, parent)
    return len(added), sum(batch.rows for batch in described.values())


def _describe(
    connection: sa.Connection,
    policy: int,
    described: Mapping[int, RowBatch],
    parent: int | None = None,
) -> None:
    """Say of operations (rows) what they are about."""
    if described:
        connection.execute(
            sa.insert(row_batches),
            [
                {
                    "operation": row,
                    "policy_id": policy,
                    "first": batch.first,
                    "last": batch.last,
                    "rows": batch.rows,
                    "oldest": micros(batch.oldest),
                    "walk": batch.walk,
                    "shape": batch.shape,
                    "parent": parent,
                }
                for row, batch in described.items()
            ],
        )
