"""One page of a plan, as functions on an open transaction."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import batch_changes, followers, staying
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, chunks, micros
from bestbefore.adapters.state.schema import generations, newest, operations, policies, runs
from bestbefore.domain.known import Disposition
from bestbefore.domain.rows import RowBatch
from bestbefore.domain.states import State
from bestbefore.ports.ledger import PlannedPage

_COLUMNS = (
    "operation_id",
    "run_id",
    "policy_id",
    "state",
    "key",
    "etag",
    "last_modified",
    "size",
    "seen_at",
    "generation",
    "deliveries",
    "version_id",
    "follows",
)
_UPLOAD_COLUMNS = (*_COLUMNS, "upload_id")
_DESCRIBED = ("key", "etag", "last_modified", "size", "version_id", "upload_id")


def write(
    database: Database,
    connection: sa.Connection,
    row: int,
    page: PlannedPage,
    keep_last: int,
    now: datetime,
) -> None:
    """Write *page* into the run *row*: operations, counts and what the page saw of the newest."""
    counts = dict.fromkeys(Disposition, 0)
    for entry in page.entries:
        counts[entry.disposition] += 1
    # Locked, as two planners of one policy that insert the same operations, each in its own
    # order, would wait for each other.
    policy = connection.execute(
        sa.select(policies.c.id)
        .join(runs)
        .where(runs.c.id == row)
        .with_for_update(of=policies, key_share=True)
    ).scalar_one()
    added = _add(database, connection, row, policy, page)
    batches: Sequence[RowBatch] = ()
    _mark_candidates(connection, row, page)
    if page.about_rows:
        batches = batch_changes.add(database, connection, row, policy, page)
        batch_changes.describe_candidates(database, connection, row, policy, page)
        added = len(batches)
    if by_version(page):
        _mind_versions(connection, policy, page, micros(now))
    run_rows.bump(
        connection,
        row,
        scanned=page.scanned,
        in_scope=page.in_scope,
        refused=page.refused,
        planned=added,
        waiting=added,
        rows=sum(batch.rows for batch in batches),
        # An operation that another run added since `known` was asked is pending there.
        already_pending=counts[Disposition.ALREADY_PENDING] + counts[Disposition.NEW] - added,
        already_completed=counts[Disposition.ALREADY_COMPLETED],
        already_dead=counts[Disposition.ALREADY_DEAD],
    )
    protected = {name: (n, 0) for name, n in page.protected.items()}
    run_rows.tally(database, connection, row, run_rows.PROTECTED, protected)
    referenced = {table: (n, 0) for table, n in page.referenced.items()}
    run_rows.tally(database, connection, row, run_rows.REFERENCED, referenced)
    batch_changes.add_dependents(database, connection, row, batches)
    if page.uploads:
        eligible = sum(entry.upload_id is not None for entry in page.entries)
        seen = {"scanned": (page.uploads, 0), "eligible": (eligible, 0)}
        run_rows.tally(database, connection, row, run_rows.UPLOADS, seen)
    staying.add(database, connection, row, page.stays)
    _merge_generations(database, connection, row, page)
    _merge_newest(database, connection, row, page, keep_last)


def by_version(page: PlannedPage) -> bool:
    """Whether *page* lists versions: what it means for others is read before it is written."""
    return any(entry.item.version is not None for entry in page.entries)


def _add(
    database: Database, connection: sa.Connection, row: int, policy: int, page: PlannedPage
) -> int:
    """Insert new operations; returns how many were really new."""
    seen_at = micros(page.asked_at)
    values: list[tuple[object, ...]] = []
    uploads: list[tuple[object, ...]] = []
    for operation_id, item, disposition, generation, upload_id, batch in page.entries:
        if disposition is Disposition.NEW and batch is None:
            new = (operation_id, row, policy, "waiting", item.key, item.etag,
                   micros(item.last_modified), item.size, seen_at, generation, 0,
                   item.version_id, bool(item.version and item.version.last_to_go))  # fmt: skip
            if upload_id is None:
                values.append(new)
            else:
                uploads.append((*new, upload_id))
    return sum(
        database.insert_new(connection, operations, columns, rows, "operation_id")
        for columns, rows in ((_COLUMNS, values), (_UPLOAD_COLUMNS, uploads))
        if rows
    )


def _mind_versions(connection: sa.Connection, policy: int, page: PlannedPage, now: int) -> None:
    """What a page of versions means for operations that other runs planned."""
    followers.overtaken(
        connection,
        policy,
        [
            (entry.item.key, entry.operation_id)
            for entry in page.entries
            if entry.item.version is not None and entry.item.version.last_to_go
        ],
        now,
    )
    pending = [
        entry.operation_id
        for entry in page.entries
        if entry.disposition is Disposition.ALREADY_PENDING
    ]
    followers.wake(connection, pending, now)


def _mark_candidates(connection: sa.Connection, row: int, page: PlannedPage) -> None:
    """Mark what ended but is listed again; `conclude` decides about it.

    A preview only heard that there are such operations: it describes them as well.
    """
    marked = [
        {
            "id_": entry.operation_id,
            "gen": entry.generation,
            "last": bool(entry.item.version and entry.item.version.last_to_go),
            "listed_key": entry.item.key,
            "listed_etag": entry.item.etag,
            "listed_last_modified": micros(entry.item.last_modified),
            "listed_size": entry.item.size,
            "listed_version_id": entry.item.version_id,
            "listed_upload_id": entry.upload_id,
        }
        for entry in page.entries
        if entry.disposition in (Disposition.AGAIN, Disposition.REAPPEARED)
    ]
    if marked:
        connection.execute(
            sa.update(operations)
            .where(
                operations.c.operation_id == sa.bindparam("id_"),
                operations.c.state == State.COMPLETED,
            )
            .values(
                candidate_of=row,
                seen_at=micros(page.asked_at),
                generation=sa.bindparam("gen"),
                follows=sa.bindparam("last"),
                **{name: _described(name) for name in _DESCRIBED},
            ),
            marked,
        )


def _described(name: str) -> sa.ColumnElement[Any]:
    """What is listed as *name* of an operation without a key, and what is stored of any other."""
    column = operations.c[name]
    listed = sa.bindparam(f"listed_{name}", type_=column.type)
    return sa.case((operations.c.key == "", listed), else_=column)


def _merge_generations(
    database: Database, connection: sa.Connection, row: int, page: PlannedPage
) -> None:
    if not page.generations:
        return
    insert = database.insert(generations)
    greatest = sa.func.max if database.is_sqlite else sa.func.greatest
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["run_id", "name"],
            set_={"youngest": greatest(generations.c.youngest, insert.excluded.youngest)},
        ),
        [
            {
                "run_id": row,
                "name": name,
                "youngest": micros(seen.youngest),
                "prefix": seen.prefix,
                "kept": False,
            }
            for name, seen in page.generations.items()
        ],
    )


def _merge_newest(
    database: Database, connection: sa.Connection, row: int, page: PlannedPage, keep_last: int
) -> None:
    if not page.newest:
        return
    names = list(page.newest)
    stored: dict[str, list[Any]] = {}
    for chunk in chunks(names):
        found = connection.execute(
            sa.select(newest.c.name, newest.c.kept).where(
                newest.c.run_id == row, newest.c.name.in_(chunk)
            )
        )
        stored |= {name: json.loads(kept) for name, kept in found}
    merged = []
    for name, seen in page.newest.items():
        candidates = stored.get(name, []) + [
            [micros(k.last_modified), k.key, k.operation_id.hex() if k.operation_id else None]
            for k in seen
        ]
        candidates.sort(key=lambda k: (k[0], k[1]), reverse=True)
        merged.append({"run_id": row, "name": name, "kept": json.dumps(candidates[:keep_last])})
    insert = database.insert(newest)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["run_id", "name"], set_={"kept": insert.excluded.kept}
        ),
        merged,
    )
