"""The ledger's side of upkeep: what is old, pruned in small transactions."""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, chunks, maybe_moment, micros, moment
from bestbefore.adapters.state.records import (
    OPERATIONS,
    attempt_record,
    event_record,
    operation_record,
)
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import (
    events,
    failures,
    metadata,
    operations,
    previews,
    row_batches,
    runs,
    upkeep,
)
from bestbefore.domain.states import RunState
from bestbefore.ports.records import Attempt, Event
from bestbefore.ports.upkeep import Old, Pass, UpkeepRecord, UpkeepTakenOver

_WINDOW = 50_000
"""Rows looked at in one go: some megabytes to read, without any lock."""

_THE_ROW = {"id": 1}


@replays("claim", "expect", "prune_operations", "prune_events", "done", "failed")
class SqlUpkeepLedger:
    """`bestbefore.ports.upkeep.UpkeepLedger` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def claim(self, now: datetime, every: timedelta, lease: timedelta) -> Pass | None:
        token = secrets.randbits(62)
        free = sa.or_(upkeep.c.until.is_(None), upkeep.c.until <= micros(now))
        due = sa.or_(upkeep.c.finished_at.is_(None), upkeep.c.finished_at <= micros(now - every))
        with self._db.read() as connection:
            # Nearly always nothing is due: that must not take the write lock.
            nothing = connection.execute(
                sa.select(upkeep.c.id).where(
                    sa.not_(sa.and_(free, sa.or_(upkeep.c.started_at.is_not(None), due)))
                )
            ).first()
        if nothing is not None:
            return None
        with self._db.write() as connection:
            connection.execute(
                self._db.insert(upkeep)
                .values(**_THE_ROW, looked_at=0, operations=0, events=0)
                .on_conflict_do_nothing(index_elements=["id"])
            )
            connection.execute(
                sa.update(upkeep)
                .where(upkeep.c.started_at.is_(None), free, due)
                .values(started_at=micros(now), looked_at=0, export=None, operations=0, events=0)
            )
            found = connection.execute(
                sa.update(upkeep)
                .where(upkeep.c.started_at.is_not(None), free)
                .values(token=token, until=micros(now + lease))
                .returning(upkeep.c.started_at, upkeep.c.looked_at, upkeep.c.export)
            ).one_or_none()
        if found is None:
            return None
        return Pass(token, moment(found.started_at), found.looked_at, found.export)

    def old_operations(self, after: int, before: datetime, limit: int, now: datetime) -> Old:
        with self._db.read() as connection:
            # A window of ids and not a limit alone: where little is old, that would read on and on.
            first = connection.execute(
                sa.select(sa.func.min(operations.c.id)).where(operations.c.id > after)
            ).scalar()
            if first is None:
                return Old([], None)
            last = first + _WINDOW - 1
            found = connection.execute(
                OPERATIONS.where(operations.c.id.between(first, last), _may_go(before, now)).limit(
                    limit
                )
            ).fetchall()
            attempts = _attempts(connection, [row.id for row in found if row.failure_class])
        upto = found[-1].id if len(found) == limit else last
        return Old([(operation_record(row), attempts.get(row.id, [])) for row in found], upto)

    def old_events(self, before: datetime, limit: int) -> Sequence[Event]:
        with self._db.read() as connection:
            found = connection.execute(
                sa.select(events)
                .where(events.c.at < micros(before))
                .order_by(events.c.id)
                .limit(limit)
            )
            return [event_record(row) for row in found]

    def expect(self, held: Pass, export: str, now: datetime, lease: timedelta) -> None:
        with self._db.write() as connection:
            _hold(connection, held, until=micros(now + lease), export=export)

    def prune_operations(
        self, held: Pass, ids: Sequence[bytes], before: datetime, now: datetime, lease: timedelta
    ) -> int:
        with self._db.write() as connection:
            found = connection.execute(
                sa.select(operations.c.id, operations.c.run_id)
                .where(operations.c.operation_id.in_(ids), _may_go(before, now))
                .with_for_update(skip_locked=True)
            ).fetchall()
            rows = [row.id for row in found]
            _hold(
                connection,
                held,
                until=micros(now + lease),
                operations=upkeep.c.operations + len(rows),
            )
            connection.execute(sa.delete(failures).where(failures.c.operation.in_(rows)))
            connection.execute(sa.delete(row_batches).where(row_batches.c.operation.in_(rows)))
            connection.execute(sa.delete(operations).where(operations.c.id.in_(rows)))
            for run, n in Counter(row.run_id for row in found).items():
                run_rows.bump(connection, run, pruned=n)
                # It names some of the keys that are only in exports from now on.
                connection.execute(sa.delete(previews).where(previews.c.run_id == run))
        return len(rows)

    def prune_events(
        self, held: Pass, rows: Sequence[int], before: datetime, now: datetime, lease: timedelta
    ) -> int:
        with self._db.write() as connection:
            pruned = connection.execute(
                sa.delete(events).where(events.c.id.in_(rows), events.c.at < micros(before))
            ).rowcount
            _hold(connection, held, until=micros(now + lease), events=upkeep.c.events + pruned)
        return pruned

    def done(self, held: Pass, looked_at: int, *, finished: bool, now: datetime) -> None:
        ended = {"started_at": None, "finished_at": micros(now)} if finished else {}
        with self._db.write() as connection:
            _hold(
                connection,
                held,
                until=None,
                looked_at=looked_at,
                export=None,
                error=None,
                failed_at=None,
                **ended,
            )

    def failed(self, held: Pass, error: str, now: datetime) -> None:
        with self._db.write() as connection:
            connection.execute(
                sa.update(upkeep)
                .where(upkeep.c.token == held.token)
                .values(until=None, error=error, failed_at=micros(now))
            )

    def describe(self, before: datetime | None, since: datetime) -> UpkeepRecord:
        n = sa.func.coalesce
        there = runs.c.planned - runs.c.pruned
        old = sa.false() if before is None else runs.c.created_at < micros(before)
        young = runs.c.created_at >= micros(since)
        with self._db.read() as connection:
            held, added, prunable, pruned = connection.execute(
                sa.select(
                    n(sa.func.sum(there), 0),
                    n(sa.func.sum(sa.case((young, runs.c.planned), else_=0)), 0),
                    n(sa.func.sum(sa.case((old, runs.c.completed - runs.c.pruned), else_=0)), 0),
                    n(sa.func.sum(runs.c.pruned), 0),
                )
            ).one()
            row = connection.execute(sa.select(upkeep)).one_or_none()
            size, used, free = self._size(connection)
        return UpkeepRecord(
            bytes=size,
            used=used,
            free=free,
            operations=int(held),
            added=int(added),
            prunable=int(prunable),
            pruned=int(pruned),
            running=row is not None and row.started_at is not None,
            finished_at=maybe_moment(row.finished_at) if row else None,
            pass_operations=row.operations if row else 0,
            pass_events=row.events if row else 0,
            error=row.error if row else None,
            failed_at=maybe_moment(row.failed_at) if row else None,
        )

    def _size(self, connection: sa.Connection) -> tuple[int, int, int]:
        """Bytes on disk, those of the tables, and those that hold nothing."""
        if not self._db.is_sqlite:
            ours = sa.text(
                "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class "
                "WHERE relkind = 'r' AND relname IN :names AND pg_table_is_visible(oid)"
            ).bindparams(sa.bindparam("names", expanding=True))
            size = connection.execute(ours, {"names": list(metadata.tables)}).scalar_one()
            return int(size), int(size), 0
        file = Path(self._db.url.database or "")
        written = (file, file.with_name(file.name + "-wal"))
        size = sum(part.stat().st_size for part in written if part.exists())
        pages, empty, page = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("page_count", "freelist_count", "page_size")
        )
        return size, (pages - empty) * page, empty * page


def _may_go(before: datetime, now: datetime) -> sa.ColumnElement[bool]:
    """Completed before *before*, and nothing that stays needs it.

    What is needed: an operation that a person put in the place of this one, or that this one was
    split into, names it; a run that wants to plan it again has not decided yet; a planner at work
    has been told what is known of its policy's operations.
    """
    live = runs.c.state.in_((RunState.PLANNING, RunState.OPEN))
    unfinished = sa.and_(runs.c.complete.is_(False), live)
    successor = operations.alias("successor")
    part = row_batches.alias("part")
    return sa.and_(
        operations.c.state == sa.literal_column("'completed'"),
        operations.c.completed_at < micros(before),
        ~sa.exists(sa.select(1).where(successor.c.corrects == operations.c.id)),
        ~sa.exists(sa.select(1).where(part.c.parent == operations.c.id)),
        sa.or_(
            operations.c.candidate_of.is_(None),
            operations.c.candidate_of.not_in(sa.select(runs.c.id).where(unfinished)),
        ),
        operations.c.policy_id.not_in(
            sa.select(runs.c.policy_id).where(
                unfinished,
                runs.c.planner_token.is_not(None),
                runs.c.planner_until > micros(now),
            )
        ),
    )


def _hold(connection: sa.Connection, held: Pass, **values: object) -> None:
    """Change the pass, which has to be *held* still."""
    changed = connection.execute(
        sa.update(upkeep).where(upkeep.c.token == held.token).values(**values)
    )
    if changed.rowcount != 1:
        raise UpkeepTakenOver("another process goes on with this pass of upkeep")


def _attempts(connection: sa.Connection, rows: Sequence[int]) -> Mapping[int, Sequence[Attempt]]:
    """The failed attempts on each of *rows*, oldest first."""
    found: dict[int, list[Attempt]] = {}
    for chunk in chunks(rows):
        those = connection.execute(
            sa.select(failures).where(failures.c.operation.in_(chunk)).order_by(failures.c.id)
        )
        for row in those:
            found.setdefault(row.operation, []).append(attempt_record(row))
    return found
