"""What working reads and writes: spans to publish, what a plan relied on, results."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from bestbefore.adapters.state import batches, counters, results
from bestbefore.adapters.state import copies as copy_rows
from bestbefore.adapters.state import incidents as incident_rows
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, chunks, maybe_moment, micros, moment
from bestbefore.adapters.state.followers import Purging
from bestbefore.adapters.state.queue import claim_one, dump_budget
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import (
    failures,
    generations,
    newest,
    operations,
    policies,
    runs,
)
from bestbefore.domain.counts import Count
from bestbefore.domain.failure import Budget, FailureClass
from bestbefore.domain.states import RunState, State
from bestbefore.ports.ledger import (
    Batched,
    Kept,
    Leftover,
    Operation,
    PolicyVersion,
    Settlement,
    Span,
)
from bestbefore.ports.objects import Copy

_CRASHED = "crashes workers: {n} deliveries ended without a result (the worker died or hung)"


@replays("record", "bury_crashed")
class SqlWorkLedger:
    """`bestbefore.ports.ledger.WorkLedger` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._purging = Purging(database)

    def versions(self) -> Sequence[PolicyVersion]:
        with self._db.read() as connection:
            return [PolicyVersion(*row) for row in connection.execute(_BUSY)]

    def suspects(self, policies_: Collection[int], now: datetime) -> bool:
        with self._db.read() as connection:
            which = {"policies": list(policies_), "now": micros(now)}
            return connection.execute(_SUSPECTS, which).first() is not None

    def waiting(self, policy: int, limit: int) -> Span | None:
        with self._db.read() as connection:
            open_runs = connection.execute(
                sa.select(runs.c.id)
                .where(
                    runs.c.policy_id == policy, runs.c.state == RunState.OPEN, runs.c.waiting > 0
                )
                .order_by(runs.c.slot)
            ).scalars()
            for run in open_runs.all():
                some = (
                    sa.select(operations.c.id)
                    .where(
                        operations.c.run_id == run,
                        operations.c.state == sa.literal_column("'waiting'"),
                    )
                    .order_by(operations.c.id)
                    .limit(limit)
                    .subquery()
                )
                first, last = connection.execute(
                    sa.select(sa.func.min(some.c.id), sa.func.max(some.c.id))
                ).one()
                if first is not None:
                    return Span(policy, run, first, last)
        return None

    def out(self, policies_: Collection[int], now: datetime, lease: timedelta) -> int:
        which = {"policies": list(policies_), "now": micros(now), "until": micros(now + lease)}
        with self._db.read() as connection:
            found: int = connection.execute(_OUT, which).scalar_one()
        return found

    def claim(
        self, operation_id: bytes, policy: int, now: datetime, lease: timedelta
    ) -> Operation | None:
        with self._db.write(shared=True) as connection:
            return claim_one(connection, operation_id, policy, now, lease)

    def record(self, settlements: Sequence[Settlement], by: str, now: datetime) -> list[Operation]:
        purging = self._purging.of(s.operation.policy for s in settlements)
        with self._db.write(shared=not purging) as connection:
            return results.record(self._db, connection, settlements, purging, by, now)

    def bury_crashed(self, policies_: Collection[int], limit: int, now: datetime) -> int:
        lapsed = sa.and_(
            operations.c.state == sa.literal_column("'pending'"),
            operations.c.policy_id.in_(policies_),
            operations.c.due_at <= micros(now),
            operations.c.deliveries >= limit,
        )
        with self._db.write() as connection:
            found = connection.execute(
                sa.select(
                    operations.c.run_id, operations.c.id, operations.c.held, operations.c.policy_id
                ).where(lapsed)
            ).fetchall()
            if not found:
                return 0
            error = _CRASHED.format(n=limit)
            connection.execute(
                sa.update(operations)
                .where(lapsed)
                .values(
                    state=State.DEAD,
                    token=None,
                    due_at=None,
                    deliveries=0,
                    held=sa.false(),
                    budget=dump_budget(Budget({FailureClass.CRASHED: limit}, {})),
                    failure_class=FailureClass.CRASHED,
                    error=error,
                    first_failed_at=sa.func.coalesce(operations.c.first_failed_at, micros(now)),
                    last_failed_at=micros(now),
                )
            )
            connection.execute(
                sa.insert(failures),
                [
                    {
                        "operation": row.id,
                        "at": micros(now),
                        "failure_class": FailureClass.CRASHED,
                        "error": error,
                        "by": "lease",
                    }
                    for row in found
                ],
            )
            for run in {row.run_id for row in found}:
                n = sum(row.run_id == run for row in found)
                held = sum(row.run_id == run and row.held for row in found)
                run_rows.bump(connection, run, pending=-n, dead=n, held=-held)
                run_rows.drain_if_done(connection, run, now)
            for policy, n in Counter(row.policy_id for row in found).items():
                crashed = FailureClass.CRASHED
                died: counters.Counts = {
                    (Count.DIED, crashed): (n, 0),
                    (Count.DEAD, crashed): (n, 0),
                }
                counters.add(self._db, connection, policy, died)
            incident_rows.buried(self._db, connection, [row.id for row in found], now)
            return len(found)

    def leftovers(self, now: datetime) -> Sequence[Leftover]:
        with self._db.read() as connection:
            by_state = connection.execute(_LEFT, {"now": micros(now)}).fetchall()
            found = []
            for policy, name, version, waiting, parked, dead, planning, planners in by_state:
                due, leased, delayed, held, next_due = connection.execute(
                    _PENDING, {"policy": policy, "now": micros(now)}
                ).one()
                if any((waiting, parked, dead, planning, due, leased, delayed, held)):
                    found.append(
                        Leftover(policy, name, version, parked, waiting, due or 0, leased or 0,
                                 delayed or 0, dead, maybe_moment(next_due), planning > 0,
                                 planning > 0 and not planners, held or 0)
                    )  # fmt: skip
            return found

    def kept_generations(self, run: int) -> Mapping[str, str]:
        with self._db.read() as connection:
            found = connection.execute(
                sa.select(generations.c.name, generations.c.prefix).where(
                    generations.c.run_id == run, generations.c.kept.is_(True)
                )
            )
            return {row.name: row.prefix for row in found}

    def generations(self, run: int) -> frozenset[str]:
        with self._db.read() as connection:
            return run_rows.generations_seen(connection, run)

    def kept_last(self, run: int, groups: Collection[str]) -> Mapping[str, Sequence[Kept]]:
        kept: dict[str, Sequence[Kept]] = {}
        with self._db.read() as connection:
            for chunk in chunks(list(groups)):
                for name, stored in connection.execute(
                    sa.select(newest.c.name, newest.c.kept).where(
                        newest.c.run_id == run, newest.c.name.in_(chunk)
                    )
                ):
                    kept[name] = [
                        Kept(moment(at), key, bytes.fromhex(id_) if id_ else None)
                        for at, key, id_ in json.loads(stored)
                    ]
        return kept

    def target(self, run: int) -> str:
        with self._db.read() as connection:
            place: str = connection.execute(
                sa.select(runs.c.target).where(runs.c.id == run)
            ).scalar_one()
        return place

    def batches(self, operations_: Collection[int]) -> Mapping[int, Batched]:
        with self._db.read() as connection:
            return batches.batches(connection, operations_)

    def copies(self, operations_: Collection[int]) -> Mapping[int, Copy]:
        with self._db.read() as connection:
            return copy_rows.recorded(connection, operations_)

    def record_copies(
        self, copies: Sequence[tuple[Operation, Copy]], now: datetime
    ) -> list[Operation]:
        with self._db.write() as connection:
            return copy_rows.record(connection, copies, now)


def _if(condition: sa.ColumnElement[bool], value: object) -> sa.ColumnElement[int]:
    """*value* where *condition* holds, else 0."""
    return sa.case((condition, value), else_=0)


_PLANNED_ON = sa.and_(
    runs.c.complete.is_(False), runs.c.state.in_((RunState.PLANNING, RunState.OPEN))
)
_PLANNED_BY_SOMEBODY = sa.and_(
    _PLANNED_ON, runs.c.planner_token.is_not(None), runs.c.planner_until > sa.bindparam("now")
)
_LEFT = (
    sa.select(
        runs.c.policy_id,
        policies.c.name,
        policies.c.version,
        run_rows.total(_if(runs.c.state == RunState.OPEN, runs.c.waiting)),
        run_rows.total(_if(runs.c.state == RunState.PARKED, runs.c.waiting)),
        run_rows.total(runs.c.dead),
        sa.func.sum(_if(_PLANNED_ON, 1)),
        sa.func.sum(_if(_PLANNED_BY_SOMEBODY, 1)),
    )
    .join(policies)
    .group_by(runs.c.policy_id, policies.c.name, policies.c.version)
    .order_by(runs.c.policy_id)
)
_BUSY = (
    sa.select(
        policies.c.id,
        policies.c.name,
        policies.c.version,
        policies.c.connection,
        policies.c.current,
        policies.c.fingerprint,
    )
    .where(
        sa.exists().where(
            runs.c.policy_id == policies.c.id, sa.or_(runs.c.waiting > 0, runs.c.pending > 0)
        )
    )
    .order_by(policies.c.id)
)

_IS_PENDING = operations.c.state == sa.literal_column("'pending'")
_THEIRS = operations.c.policy_id.in_(sa.bindparam("policies", expanding=True))
_SUSPECTS = (
    sa.select(operations.c.id)
    .where(
        _IS_PENDING,
        _THEIRS,
        operations.c.due_at <= sa.bindparam("now"),
        operations.c.deliveries > 0,
    )
    .limit(1)
)
# Claimed ones are dated within a lease from now; what is dated later is delayed. What a broker has
# counts however it is dated, by an index of its own.
_COUNT = sa.select(sa.func.count()).select_from(operations)
_HERE = _COUNT.where(
    _IS_PENDING,
    _THEIRS,
    operations.c.due_at <= sa.bindparam("until"),
    sa.or_(operations.c.due_at <= sa.bindparam("now"), operations.c.token.is_not(None)),
    operations.c.sent_at.is_(None),
)
_AT_BROKER = _COUNT.where(_IS_PENDING, _THEIRS, operations.c.sent_at.is_not(None))
_OUT = sa.select(_HERE.scalar_subquery() + _AT_BROKER.scalar_subquery())

_SENT = operations.c.sent_at.is_not(None)
_LATER = sa.and_(operations.c.due_at > sa.bindparam("now"), ~_SENT)
_DUE = sa.or_(operations.c.due_at <= sa.bindparam("now"), _SENT)
_LEASED = sa.and_(_LATER, operations.c.token.is_not(None))
_DELAYED = sa.and_(_LATER, operations.c.token.is_(None))
_HELD = sa.and_(_DELAYED, operations.c.held.is_(True))
_PENDING = sa.select(
    sa.func.sum(_if(_DUE, 1)),
    sa.func.sum(_if(_LEASED, 1)),
    sa.func.sum(_if(sa.and_(_DELAYED, operations.c.held.is_(False)), 1)),
    sa.func.sum(_if(_HELD, 1)),
    sa.func.min(operations.c.due_at),
).where(
    _IS_PENDING,
    operations.c.policy_id == sa.bindparam("policy"),
)
