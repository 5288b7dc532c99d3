"""The reading side of the ledger."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import batches
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, maybe_moment, micros, moment
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import (
    events,
    failures,
    incidents,
    operations,
    policies,
    row_batches,
    runs,
    tallies,
    verifications,
)
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import decided_rows
from bestbefore.domain.rows import RowSource
from bestbefore.domain.run import Run
from bestbefore.domain.states import RunState, State
from bestbefore.domain.versions import Versions
from bestbefore.ports.records import (
    EVERY_EVENT,
    ArchiveRecord,
    Attempt,
    Event,
    EventFilter,
    Incident,
    OperationFilter,
    OperationRecord,
    PolicyRecord,
    Tally,
    Throttled,
    Verification,
)

_PAGE = 1000

_corrected = operations.alias("corrected")
_whole = operations.alias("whole")
OPERATIONS = (
    sa.select(
        operations,
        policies.c.name,
        policies.c.version,
        policies.c.owner,
        policies.c.bucket,
        policies.c.action,
        policies.c.versions,
        runs.c.run_id.label("public_run_id"),
        runs.c.slot,
        runs.c.cutoff,
        _corrected.c.operation_id.label("corrected_id"),
        *batches.DETAILS,
        _whole.c.operation_id.label("whole_id"),
        sa.case(
            (
                sa.or_(operations.c.copied_at.is_not(None), row_batches.c.first.is_not(None)),
                policies.c.decides,
            )
        ).label("decides"),
    )
    .join(policies, operations.c.policy_id == policies.c.id)
    .join(runs, operations.c.run_id == runs.c.id)
    .outerjoin(_corrected, operations.c.corrects == _corrected.c.id)
    .outerjoin(row_batches, row_batches.c.operation == operations.c.id)
    .outerjoin(_whole, row_batches.c.parent == _whole.c.id)
    .order_by(operations.c.id)
)
"""Operations with everything the ledger knows, in the order they were planned."""


@replays("save_verification")
class SqlRecords:
    """`bestbefore.ports.records.Records` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def runs(
        self,
        policy: str | None = None,
        limit: int | None = None,
        *,
        state: RunState | None = None,
        after: str | None = None,
    ) -> Sequence[Run]:
        where = [] if policy is None else [policies.c.name == policy]
        if state is not None:
            where.append(runs.c.state == state)
        with self._db.read() as connection:
            if after is not None:
                last = run_rows.named(connection, after)
                slot = micros(last.slot)
                where.append(
                    sa.or_(runs.c.slot < slot, sa.and_(runs.c.slot == slot, runs.c.id < last.row))
                )
            return run_rows.load(connection, *where, limit=limit)

    def run(self, run_id: str) -> Run:
        with self._db.read() as connection:
            return run_rows.named(connection, run_id)

    def name_of(self, run: int) -> str:
        with self._db.read() as connection:
            return run_rows.one(connection, run).run_id

    def newest_released(self, policy: str) -> Run | None:
        with self._db.read() as connection:
            found = run_rows.load(
                connection, policies.c.name == policy, runs.c.released_at.is_not(None), limit=1
            )
        return found[0] if found else None

    def tallies(self, run: Run, kind: str) -> Mapping[str, Tally]:
        with self._db.read() as connection:
            found = connection.execute(
                sa.select(tallies.c.name, tallies.c.n, tallies.c.bytes)
                .where(tallies.c.run_id == run.row, tallies.c.kind == kind, tallies.c.n != 0)
                .order_by(tallies.c.name)
            )
            return {row.name: Tally(row.n, row.bytes) for row in found}

    def policies(self, overdue_before: datetime) -> Sequence[PolicyRecord]:
        with self._db.read() as connection:
            current = connection.execute(
                sa.select(policies).where(policies.c.current.is_(True)).order_by(policies.c.name)
            ).fetchall()
            return [_policy_record(connection, row, micros(overdue_before)) for row in current]

    def throttled(self, now: datetime) -> Sequence[Throttled]:
        with self._db.read() as connection:
            found = connection.execute(
                sa.select(policies.c.connection, sa.func.count(), sa.func.min(operations.c.due_at))
                .join(policies, operations.c.policy_id == policies.c.id)
                .where(
                    operations.c.state == sa.literal_column("'pending'"),
                    operations.c.failure_class == FailureClass.THROTTLED,
                    operations.c.due_at > micros(now),
                    operations.c.sent_at.is_(None),
                )
                .group_by(policies.c.connection)
            )
            return [Throttled(name, n, moment(due)) for name, n, due in found]

    def operations(
        self, which: OperationFilter, limit: int | None = None
    ) -> Iterator[OperationRecord]:
        after, left = 0, limit
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            with self._db.read() as connection:
                page = connection.execute(
                    OPERATIONS.where(operations.c.id > after, *_conditions(which)).limit(size)
                ).fetchall()
            yield from map(operation_record, page)
            if len(page) < size:
                return
            after = page[-1].id
            left = None if left is None else left - len(page)

    def attempts(self, operation: int) -> Sequence[Attempt]:
        with self._db.read() as connection:
            found = connection.execute(
                sa.select(failures).where(failures.c.operation == operation).order_by(failures.c.id)
            )
            return [attempt_record(row) for row in found]

    def events(
        self, limit: int, before: int | None = None, which: EventFilter = EVERY_EVENT
    ) -> Sequence[Event]:
        newest = sa.select(events).order_by(events.c.id.desc()).limit(limit)
        if before is not None:
            newest = newest.where(events.c.id < before)
        for name in ("action", "by", "policy"):
            if (value := getattr(which, name)) is not None:
                newest = newest.where(events.c[name] == value)
        with self._db.read() as connection:
            return [event_record(row) for row in connection.execute(newest)]

    def decisions(self, policy: str | None = None, run_id: str | None = None) -> Iterator[Event]:
        where = [] if policy is None else [events.c.policy == policy]
        where += [] if run_id is None else [events.c.run_id == run_id]
        after = 0
        while True:
            with self._db.read() as connection:
                page = connection.execute(
                    sa.select(events)
                    .where(events.c.id > after, *where)
                    .order_by(events.c.id)
                    .limit(_PAGE)
                ).fetchall()
            yield from map(event_record, page)
            if len(page) < _PAGE:
                return
            after = page[-1].id

    def rule(self, run: Run) -> Mapping[str, object]:
        with self._db.read() as connection:
            stored = connection.execute(
                sa.select(policies.c.decides).join(runs).where(runs.c.id == run.row)
            ).scalar_one()
        return _decided(stored)

    def place(self, run: Run) -> tuple[str, str]:
        with self._db.read() as connection:
            row = connection.execute(
                sa.select(policies.c.owner, policies.c.bucket)
                .join(runs)
                .where(runs.c.id == run.row)
            ).one()
        return row.owner, row.bucket

    def incidents(
        self, policy: str | None, failure_class: FailureClass | None, limit: int
    ) -> Sequence[Incident]:
        where = [] if policy is None else [policies.c.name == policy]
        if failure_class is not None:
            where.append(incidents.c.failure_class == failure_class)
        with self._db.read() as connection:
            found = connection.execute(
                sa.select(incidents, policies)
                .join(policies, incidents.c.policy_id == policies.c.id)
                .where(*where)
                .order_by(incidents.c.n.desc())
                .limit(limit)
            )
            return [
                Incident(row.incident, row.name, row.version, row.owner, not row.current,
                         FailureClass(row.failure_class), row.error, row.n, moment(row.first_at),
                         moment(row.last_at))
                for row in found
            ]  # fmt: skip

    def verification(self, policy: str) -> Verification | None:
        with self._db.read() as connection:
            row = connection.execute(
                sa.select(verifications).where(verifications.c.policy == policy)
            ).one_or_none()
        return None if row is None else verification_record(row)

    def save_verification(self, policy: str, found: Verification) -> None:
        oldest = found.oldest_overdue
        values = {
            "at": micros(found.at),
            "overdue": found.overdue,
            "oldest_overdue": micros(oldest) if oldest else None,
            "held": found.held,
        }
        with self._db.write() as connection:
            connection.execute(
                self._db.insert(verifications)
                .values(policy=policy, **values)
                .on_conflict_do_update(index_elements=["policy"], set_=values)
            )

    def oldest(self, run: Run) -> datetime | None:
        with self._db.read() as connection:
            return maybe_moment(
                connection.execute(
                    sa.select(sa.func.min(operations.c.last_modified)).where(
                        operations.c.run_id == run.row
                    )
                ).scalar()
            )

    def durations(self, policy: str, limit: int) -> Sequence[tuple[int, float]]:
        with self._db.read() as connection:
            return [
                (ended.effect.rows, ended.effect.seconds)
                for ended in batches.effective(connection, policy, limit, *batches.MEASURED)
            ]

    def completed_batches(self, policy: str, limit: int) -> Sequence[bytes]:
        with self._db.read() as connection:
            found = list(batches.effective(connection, policy, limit))
        return [ended.operation_id for ended in found if ended.run == found[0].run]


def _policy_record(connection: sa.Connection, policy: Any, overdue_before: int) -> PolicyRecord:
    # Everything of that name: older versions' operations are still there until they are dropped.
    mine = sa.select(runs).join(policies).where(policies.c.name == policy.name).subquery()
    undone = mine.c.waiting + mine.c.pending - mine.c.held
    left = undone + mine.c.dead
    is_overdue = sa.and_(mine.c.first_slot < overdue_before, left > 0)
    backlog, dead, held, overdue, oldest = connection.execute(
        sa.select(
            sa.func.coalesce(run_rows.total(undone), 0),
            sa.func.coalesce(run_rows.total(mine.c.dead), 0),
            sa.func.coalesce(run_rows.total(mine.c.held), 0),
            sa.func.coalesce(run_rows.total(sa.case((is_overdue, left), else_=0)), 0),
            sa.func.min(sa.case((is_overdue, mine.c.first_slot))),
        )
    ).one()
    last = connection.execute(
        sa.select(mine.c.slot, mine.c.state).order_by(mine.c.slot.desc()).limit(1)
    ).one_or_none()
    return PolicyRecord(
        policy.name,
        policy.version,
        policy.owner,
        moment(last.slot) if last else None,
        last.state if last else None,
        backlog,
        dead,
        overdue,
        maybe_moment(oldest),
        held,
    )


def _conditions(which: OperationFilter) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    if which.policy is not None:
        conditions.append(policies.c.name == which.policy)
    if which.run_id is not None:
        conditions.append(runs.c.run_id == which.run_id)
    if which.key is not None:
        conditions.append(operations.c.key == which.key)
    if which.operation_id is not None:
        conditions.append(operations.c.operation_id == which.operation_id)
    if which.ids is not None:
        conditions.append(operations.c.operation_id.between(*which.ids))
    if which.copied:
        archived = operations.c.outcome == sa.literal_column("'archived'")
        conditions.append(sa.or_(operations.c.copied_at.is_not(None), archived))
    return conditions


def event_record(row: Any) -> Event:
    """A row of ``events``."""
    return Event(
        at=moment(row.at),
        by=row.by,
        action=row.action,
        policy=row.policy,
        run_id=row.run_id,
        detail=row.detail,
        row=row.id,
        operation_id=row.operation_id,
    )


def verification_record(row: Any) -> Verification:
    """A row of ``verifications``."""
    return Verification(moment(row.at), row.overdue, maybe_moment(row.oldest_overdue), row.held)


def attempt_record(row: Any) -> Attempt:
    """A row of ``failures``."""
    return Attempt(moment(row.at), FailureClass(row.failure_class), row.error, row.by)


def _archive_record(row: Any) -> ArchiveRecord | None:
    if row.copied_at is None:
        return None
    place = _decided(row.decides)
    return ArchiveRecord(
        home=place["rows.database"] if row.first is not None else place["objects.store"],
        store=place["archive.store"],
        bucket=place["archive.bucket"],
        key=row.archive_key,
        etag=row.archive_etag,
        copied_at=moment(row.copied_at),
        restored_at=maybe_moment(row.restored_at),
        restored_etag=row.restored_etag,
    )


@lru_cache(maxsize=64)  # one per policy version
def _decided(stored: str) -> Mapping[str, Any]:
    """What decides what goes, where to included, of one policy version."""
    decided: Mapping[str, Any] = json.loads(stored)
    return decided


@lru_cache(maxsize=64)
def _source(stored: str) -> RowSource:
    return decided_rows(_decided(stored))


def operation_record(row: Any) -> OperationRecord:
    """A row of `OPERATIONS`."""
    return OperationRecord(
        row=row.id,
        operation_id=row.operation_id,
        policy=row.name,
        policy_version=row.version,
        owner=row.owner,
        run_id=row.public_run_id,
        slot=moment(row.slot),
        cutoff=moment(row.cutoff),
        action=row.action,
        bucket=row.bucket,
        key=row.key,
        etag=row.etag,
        last_modified=moment(row.last_modified),
        size=row.size,
        seen_at=moment(row.seen_at),
        state=State(row.state),
        outcome=Outcome(row.outcome) if row.outcome else None,
        completed_at=maybe_moment(row.completed_at),
        completed_by=row.completed_by,
        due_at=maybe_moment(row.due_at) if row.sent_at is None else None,
        sent_at=maybe_moment(row.sent_at),
        failure_class=FailureClass(row.failure_class) if row.failure_class else None,
        error=row.error,
        redriven=row.redriven,
        reappearances=row.reappearances,
        corrects=row.corrected_id,
        reason=row.reason,
        archive=_archive_record(row),
        upload_id=row.upload_id,
        version_id=row.version_id,
        held=row.held,
        hides=row.versions == Versions.MARKER,
        batch=batches.maybe_batch(row),
        effect=batches.maybe_effect(row),
        parent=row.whole_id,
        source=None if row.first is None else _source(row.decides),
        restored_at=maybe_moment(row.restored_at),
        claimed=row.token is not None,
    )
