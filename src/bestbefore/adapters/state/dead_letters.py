"""Dead letters: found, sent again, closed or corrected."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import batches, counters, followers, regrown
from bestbefore.adapters.state import incidents as incident_rows
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, execute_many, micros, moment
from bestbefore.adapters.state.queue import load_budget
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import operations, policies, row_batches, runs
from bestbefore.domain.counts import Count
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import Listed
from bestbefore.domain.states import State
from bestbefore.ports.ledger import DeadFilter, DeadLetter, LedgerError, NotInLedger

_CHUNK = 1_000
"""Rows a person's decision changes at once, so that workers get their turn in between."""

_SELECT = (
    sa.select(
        operations,
        policies.c.name,
        policies.c.version,
        policies.c.owner,
        policies.c.bucket,
        policies.c.action,
        policies.c.current,
        runs.c.run_id.label("public_run_id"),
        runs.c.slot,
        runs.c.cutoff,
        *batches.DETAILS,
    )
    .join(policies, operations.c.policy_id == policies.c.id)
    .join(runs, operations.c.run_id == runs.c.id)
    .outerjoin(row_batches, row_batches.c.operation == operations.c.id)
    .where(operations.c.state == sa.literal_column("'dead'"))
    .order_by(operations.c.first_failed_at, operations.c.id)
)


_IDS = (
    sa.select(operations.c.id)
    .join(policies, operations.c.policy_id == policies.c.id)
    .where(operations.c.state == sa.literal_column("'dead'"))
)


@replays()
class SqlDeadLetters:
    """`bestbefore.ports.ledger.DeadLetters` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def dead(
        self,
        which: DeadFilter,
        limit: int | None = None,
        after: bytes | None = None,
        looking_at: int | None = None,
    ) -> Sequence[DeadLetter]:
        if looking_at is None:
            asked = _SELECT.where(*self._conditions(which))
        else:
            asked = _SELECT.where(operations.c.id.in_(self._found(which, limit, looking_at)))
        with self._db.read() as connection:
            if after is not None:
                asked = asked.where(_following(connection, after))
            return [_dead_letter(row) for row in connection.execute(asked.limit(limit))]

    def count(self, which: DeadFilter) -> int:
        some = _IDS.where(*self._conditions(which)).subquery()
        with self._db.read() as connection:
            found: int = connection.execute(
                sa.select(sa.func.count()).select_from(some)
            ).scalar_one()
        return found

    def redrive(self, rows: Sequence[int], due: Sequence[datetime], by: str, now: datetime) -> int:
        redriven = 0
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            with self._db.write() as connection:
                found = _dead(connection, chunk)
                moments = map(micros, due[start : start + _CHUNK])
                redriven += execute_many(
                    connection, _REDRIVE, ("due", "row"), list(zip(moments, chunk, strict=True))
                )
                more = regrown.accept(connection, [row.id for row in found])
                for run, n in sorted(Counter(row.run_id for row in found).items()):
                    run_rows.bump(connection, run, dead=-n, pending=n, rows=more.get(run, 0))
                    run_rows.reopen(connection, run)
                _count_redriven(self._db, connection, found)
                incident_rows.shrink(connection, [(row.incident, row.policy_id) for row in found])
                run_rows.note(connection, "redrive", f"{len(chunk):,} dead letters", by, now)
                self._db.ring(connection)
        return redriven

    def discard(self, rows: Sequence[int], reason: str, by: str, now: datetime) -> int:
        discarded = 0
        for start in range(0, len(rows), _CHUNK):
            with self._db.write() as connection:
                found = _dead(connection, rows[start : start + _CHUNK])
                for row in found:
                    _close(self._db, connection, row.id, Outcome.DISCARDED, reason, by, now)
                incident_rows.shrink(connection, [(row.incident, row.policy_id) for row in found])
                discarded += len(found)
        return discarded

    def correct(self, row: int, operation_id: bytes, item: Listed, by: str, now: datetime) -> None:
        with self._db.write() as connection:
            if batches.batches(connection, [row]):
                raise LedgerError("only the operation of an object can be put in another's place")
            taken = connection.execute(
                sa.select(operations.c.state).where(operations.c.operation_id == operation_id)
            ).scalar_one_or_none()
            if taken is not None:
                raise LedgerError(
                    f"operation {operation_id.hex()}: the ledger has this target already ({taken})"
                )
            incident_rows.shrink(
                connection,
                [(one.incident, one.policy_id) for one in _dead(connection, [row])],
            )
            closed = _close(
                self._db,
                connection,
                row,
                Outcome.CORRECTED,
                f"replaced by {operation_id.hex()}",
                by,
                now,
            )
            if closed is None:
                raise LedgerError("only a dead letter can be corrected, and this one is not dead")
            connection.execute(
                sa.insert(operations).values(
                    operation_id=operation_id,
                    run_id=closed.run_id,
                    policy_id=closed.policy_id,
                    state=State.PENDING,
                    key=item.key,
                    etag=item.etag,
                    last_modified=micros(item.last_modified),
                    size=item.size,
                    seen_at=micros(now),
                    due_at=micros(now),
                    deliveries=0,
                    corrects=row,
                    version_id=item.version_id,
                )
            )
            run_rows.bump(connection, closed.run_id, planned=1, pending=1)
            for_good = {(Count.PLANNED, ""): (1, 0), (Count.PUBLISHED, ""): (1, 0)}
            counters.add(self._db, connection, closed.policy_id, for_good)
            run_rows.reopen(connection, closed.run_id)
            self._db.ring(connection)

    def _found(self, which: DeadFilter, limit: int | None, looking_at: int) -> sa.Select[int]:
        """Those that *which* selects among so many, before anything else is read of them."""
        looked_at = _IDS.add_columns(operations.c.key).where(
            *self._conditions(replace(which, contains=None))
        )
        if which.incident is not None:  # in the order of its index
            looked_at = looked_at.order_by(operations.c.first_failed_at, operations.c.id)
        if which.contains is None:
            return sa.select(looked_at.limit(limit or looking_at).subquery().c.id)
        some = looked_at.limit(looking_at).subquery()
        return sa.select(some.c.id).where(self._within(some.c.key, which.contains)).limit(limit)

    def _within(self, key: sa.ColumnElement[str], part: str) -> sa.ColumnElement[bool]:
        # Not LIKE, which takes some characters for others.
        find = sa.func.instr if self._db.is_sqlite else sa.func.strpos
        return find(key, part) > 0

    def _conditions(self, which: DeadFilter) -> list[sa.ColumnElement[bool]]:
        conditions: list[sa.ColumnElement[bool]] = []
        if which.policy is not None:
            conditions.append(policies.c.name == which.policy)
        if which.failure_class is not None:
            conditions.append(operations.c.failure_class == which.failure_class)
        if which.ids is not None:
            conditions.append(operations.c.operation_id.between(*which.ids))
        if which.among is not None:
            conditions.append(operations.c.operation_id.in_(which.among))
        if which.superseded is not None:
            conditions.append(policies.c.current.is_(not which.superseded))
        if which.incident is not None:
            conditions.append(operations.c.incident == which.incident)
        if which.contains is not None:
            conditions.append(self._within(operations.c.key, which.contains))
        return conditions


_REDRIVE = (
    sa.update(operations)
    .where(
        operations.c.id == sa.bindparam("row"),
        operations.c.state == sa.literal_column("'dead'"),
    )
    .values(
        state=sa.literal_column("'pending'"),
        due_at=sa.bindparam("due"),
        token=sa.null(),
        deliveries=sa.literal_column("0"),
        cancelled=sa.false(),
        budget=sa.null(),
        incident=sa.null(),
        redriven=operations.c.redriven + sa.literal_column("1"),
    )
)


def _count_redriven(database: Database, connection: sa.Connection, found: Sequence[Any]) -> None:
    """Note for good that the dead letters *found* are redriven, some for the first time."""
    for policy, letters in groupby(sorted(found, key=_policy_of), key=_policy_of):
        counts: counters.Counts = {}
        for letter in letters:
            counters.put(counts, Count.DEAD, letter.failure_class, -1)
            counters.put(counts, Count.REDRIVEN, "", int(letter.redriven == 0))
        counters.add(database, connection, policy, counts)


def _policy_of(row: Any) -> int:
    return int(row.policy_id)


def _dead(connection: sa.Connection, rows: Sequence[int]) -> Sequence[Any]:
    """Those of *rows* that are dead: what has to be counted elsewhere when they leave."""
    return connection.execute(
        sa.select(
            operations.c.id,
            operations.c.run_id,
            operations.c.policy_id,
            operations.c.failure_class,
            operations.c.redriven,
            operations.c.incident,
        )
        .where(operations.c.id.in_(rows), operations.c.state == State.DEAD)
        .order_by(operations.c.id)
    ).fetchall()


def _close(
    database: Database,
    connection: sa.Connection,
    row: int,
    outcome: Outcome,
    reason: str,
    by: str,
    now: datetime,
) -> Any:
    """End a dead letter; returns its row, or None where it is not dead."""
    closed = connection.execute(
        sa.update(operations)
        .where(operations.c.id == row, operations.c.state == State.DEAD)
        .values(
            state=State.COMPLETED,
            outcome=outcome,
            incident=None,
            completed_at=micros(now),
            completed_by=by,
        )
        .returning(operations.c.run_id, operations.c.policy_id, operations.c.operation_id,
                   operations.c.key, operations.c.version_id, operations.c.failure_class)
    ).one_or_none()  # fmt: skip
    if closed is not None:
        run_rows.bump(connection, closed.run_id, dead=-1, completed=1)
        run_rows.tally(database, connection, closed.run_id, "outcome", {outcome: (1, 0)})
        for_good = {
            (Count.DEAD, closed.failure_class): (-1, 0),
            (Count.COMPLETED, outcome): (1, 0),
        }
        counters.add(database, connection, closed.policy_id, for_good)
        run_rows.note(connection, outcome, reason, by, now, operation_id=bytes(closed.operation_id))
        if closed.version_id is not None:
            followers.release(connection, closed.policy_id, [closed.key], micros(now))
    return closed


def _following(connection: sa.Connection, operation_id: bytes) -> sa.ColumnElement[bool]:
    """What comes after the operation with this id, in the order of dead letters."""
    failed_at, id_ = operations.c.first_failed_at, operations.c.id
    last = connection.execute(
        sa.select(failed_at, id_).where(operations.c.operation_id == operation_id)
    ).one_or_none()
    if last is None or last.first_failed_at is None:
        raise NotInLedger(f"operation {operation_id.hex()}: it is no dead letter, and never was")
    return sa.or_(
        failed_at > last.first_failed_at, sa.and_(failed_at == last.first_failed_at, id_ > last.id)
    )


def _dead_letter(row: Any) -> DeadLetter:
    budget = load_budget(row.budget)
    return DeadLetter(
        row=row.id,
        operation_id=row.operation_id,
        policy=row.name,
        policy_version=row.version,
        owner=row.owner,
        superseded=not row.current,
        run_id=row.public_run_id,
        slot=moment(row.slot),
        cutoff=moment(row.cutoff),
        bucket=row.bucket,
        action=row.action,
        key=row.key,
        etag=row.etag,
        last_modified=moment(row.last_modified),
        size=row.size,
        version_id=row.version_id,
        failure_class=FailureClass(row.failure_class),
        error=row.error,
        attempts=budget.attempts,
        first_failed_at=moment(row.first_failed_at),
        last_failed_at=moment(row.last_failed_at),
        redriven=row.redriven,
        upload_id=row.upload_id,
        batch=batches.maybe_batch(row),
    )
