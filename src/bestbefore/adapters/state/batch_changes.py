"""Row batches: planned, ended, split, and moved between runs; functions on an open transaction.

A run's ``rows`` are those of its planned batches, and so are the sums of their dependents. Parts of
a batch that the same run planned add nothing to them: what they hold is in it already.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import batches, planned
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, chunks, micros
from bestbefore.adapters.state.queue import change_claimed, completed
from bestbefore.adapters.state.schema import operations, row_batches, runs
from bestbefore.domain.known import Disposition
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Effect, RowBatch
from bestbefore.domain.states import State
from bestbefore.ports.ledger import Operation, PlannedPage, Split

_NO_EFFECT = dict.fromkeys(
    ("deleted", "archived", "blocked", "dependents", "changed", "replayed", "seconds"), sa.null()
)


def add(
    database: Database, connection: sa.Connection, run: int, policy: int, page: PlannedPage
) -> Sequence[RowBatch]:
    """Insert the new batches of *page*; returns those that were really new."""
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


def add_dependents(
    database: Database, connection: sa.Connection, run: int, added: Iterable[RowBatch]
) -> None:
    """Add the dependents of *added* to the sums of *run*."""
    sums = planned.Sums()
    most = 0
    for batch in added:
        planned.add(sums, batch.dependents)
        most = max(most, planned.total(batch.dependents))
    _write(database, connection, run, sums, most)


def describe_candidates(
    database: Database, connection: sa.Connection, run: int, policy: int, page: PlannedPage
) -> None:
    """Describe what *page* marked for *run* as it was listed now: what was counted for an earlier
    run may be more or less by now. Of what is in a preview, this ledger had only heard."""
    listed = {
        entry.operation_id: entry.batch
        for entry in page.entries
        if entry.batch is not None
        and entry.disposition in (Disposition.AGAIN, Disposition.REAPPEARED)
    }
    whole = operations.alias("whole")
    for chunk in chunks(list(listed)):
        found = connection.execute(
            sa.select(
                operations.c.id,
                operations.c.operation_id,
                operations.c.run_id,
                sa.func.coalesce(whole.c.run_id == operations.c.run_id, False).label("is_part"),
                *batches.DETAILS,
            )
            .outerjoin(row_batches, row_batches.c.operation == operations.c.id)
            .outerjoin(whole, row_batches.c.parent == whole.c.id)
            .where(operations.c.operation_id.in_(chunk), operations.c.candidate_of == run)
        ).fetchall()
        for row in found:
            before, batch = batches.maybe_batch(row), listed[row.operation_id]
            if before == batch:
                continue
            if before is None:
                _describe(connection, policy, {row.id: batch})
            else:
                _describe_anew(connection, row.id, batch)
            if not row.is_part:
                _recount(database, connection, row.run_id, before, batch)


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
    _take_dependents_along(database, connection, run)
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


def _take_dependents_along(database: Database, connection: sa.Connection, run: int) -> None:
    """Move the sums of the dependents of what *run* plans again, as their rows are moved."""
    whole = operations.alias("whole")
    found = connection.execute(
        sa.select(
            operations.c.run_id,
            whole.c.run_id.label("whole_in"),
            row_batches.c.planned_dependents,
        )
        .join(row_batches, row_batches.c.operation == operations.c.id)
        .outerjoin(whole, row_batches.c.parent == whole.c.id)
        .where(operations.c.candidate_of == run, row_batches.c.planned_dependents.is_not(None))
    )
    here, there, most = planned.Sums(), dict[int, planned.Sums](), 0
    for before, whole_in, stored in found:
        dependents = planned.loaded(stored)
        most = max(most, planned.total(dependents))
        if whole_in != before:
            planned.add(there.setdefault(before, planned.Sums()), dependents, -1)
        if whole_in != run:
            planned.add(here, dependents)
    for before, sums in sorted(there.items()):
        _write(database, connection, before, sums)
    _write(database, connection, run, here, most)


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
                "changed": json.dumps(dict(effect.changed)),
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
    for table, n in effect.changed.items():
        yield "changed", table, n


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
    added = _insert(
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
    return len(added)


def _insert(
    database: Database,
    connection: sa.Connection,
    new: Sequence[tuple[bytes, RowBatch]],
    *,
    policy_id: int,
    parent: int | None = None,
    **values: object,
) -> Sequence[RowBatch]:
    """Insert operations on *new* but for those that are there already; returns those that were
    not."""
    if not new:
        return ()
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
    return list(described.values())


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
                    "parent": parent,
                    **_counted(batch),
                }
                for row, batch in described.items()
            ],
        )


def _describe_anew(connection: sa.Connection, row: int, batch: RowBatch) -> None:
    """Say of an operation (row) what its batch holds by now, between the same ends."""
    connection.execute(
        sa.update(row_batches).where(row_batches.c.operation == row).values(_counted(batch))
    )
    connection.execute(
        sa.update(operations)
        .where(operations.c.id == row)
        .values(etag=batch.shape, last_modified=micros(batch.oldest), size=batch.rows)
    )


def _counted(batch: RowBatch) -> dict[str, object]:
    return {
        "rows": batch.rows,
        "oldest": micros(batch.oldest),
        "walk": batch.walk,
        "shape": batch.shape,
        "planned_dependents": planned.dumped(batch.dependents),
    }


def _recount(
    database: Database,
    connection: sa.Connection,
    run: int,
    before: RowBatch | None,
    batch: RowBatch,
) -> None:
    """Have the sums of *run*, in which an operation still is, follow what its batch holds."""
    run_rows.bump(connection, run, rows=batch.rows - (before.rows if before else 0))
    sums = planned.Sums()
    planned.add(sums, batch.dependents)
    planned.add(sums, before.dependents if before else (), -1)
    _write(database, connection, run, sums)


def _write(
    database: Database, connection: sa.Connection, run: int, sums: planned.Sums, most: int = 0
) -> None:
    """Add *sums* to those of *run*, one batch of which has as many dependents as *most*."""
    if most:
        connection.execute(
            sa.update(runs)
            .where(runs.c.id == run, runs.c.most_dependents < most)
            .values(most_dependents=most)
        )
    for kind in planned.KINDS:
        tables = {table: (n, 0) for (of, table), n in sums.items() if of == kind}
        run_rows.tally(database, connection, run, kind, tables)
