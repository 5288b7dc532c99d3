"""What a scrape reads: the counts of policies, and sums over runs. No operation is counted."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, maybe_moment, micros, moment
from bestbefore.adapters.state.records import verification_record
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import (
    operations,
    policies,
    policy_counts,
    runs,
    trigger_counts,
    verifications,
)
from bestbefore.domain.counts import Count
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.states import RunState
from bestbefore.domain.trigger import Fate
from bestbefore.ports.measures import Counted, DeadSince, Standing
from bestbefore.ports.records import Verification


@replays()
class SqlMeasures:
    """`bestbefore.ports.measures.Measuring` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def counted(self) -> Sequence[Counted]:
        of = policy_counts.c
        with self._db.read() as connection:
            found = connection.execute(
                sa.select(policies.c.name, of.kind, of.name.label("what"), run_rows.total(of.n),
                          run_rows.total(of.amount))
                .join(policies)
                .group_by(policies.c.name, of.kind, of.name)
                .order_by(policies.c.name, of.kind, of.name)
            )  # fmt: skip
            return [
                Counted(policy, Count(kind), name, n, amount)
                for policy, kind, name, n, amount in found
                if n
            ]

    def standings(self, overdue_before: datetime) -> Sequence[Standing]:
        with self._db.read() as connection:
            current = connection.execute(
                sa.select(policies.c.name, policies.c.connection, policies.c.about_rows)
                .where(policies.c.current.is_(True))
                .order_by(policies.c.name)
            ).fetchall()
            sums = {
                row[0]: row[1:]
                for row in connection.execute(_SUMS, {"before": micros(overdue_before)})
            }
        return [_standing(*row, sums[row.name]) for row in current]

    def dead_since(self) -> Sequence[DeadSince]:
        dead = operations.c
        with self._db.read() as connection:
            some = connection.execute(
                sa.select(policy_counts.c.policy_id, policy_counts.c.name, policies.c.name)
                .join(policies)
                .where(policy_counts.c.kind == Count.DEAD, policy_counts.c.n > 0)
            ).fetchall()
            found: dict[tuple[str, FailureClass], int] = {}
            for policy, class_, name in some:
                # One at a time, as each is the first entry of a range of an index.
                oldest = connection.execute(
                    sa.select(sa.func.min(dead.first_failed_at)).where(
                        dead.policy_id == policy,
                        dead.failure_class == class_,
                        dead.state == sa.literal_column("'dead'"),
                    )
                ).scalar()
                if oldest is not None:
                    key = (name, FailureClass(class_))
                    found[key] = min(oldest, found.get(key, oldest))
        return [DeadSince(name, class_, moment(at)) for (name, class_), at in found.items()]

    def count_triggers(self, more: Mapping[Fate, int]) -> None:
        insert = self._db.insert(trigger_counts)
        with self._db.write() as connection:
            connection.execute(
                insert.on_conflict_do_update(
                    index_elements=["fate"],
                    set_={"n": trigger_counts.c.n + insert.excluded.n},
                ),
                [{"fate": fate, "n": n} for fate, n in sorted(more.items())],
            )

    def triggers(self) -> Mapping[Fate, int]:
        with self._db.read() as connection:
            found = connection.execute(sa.select(trigger_counts)).fetchall()
        return {Fate(fate): n for fate, n in found}

    def verifications(self) -> Mapping[str, Verification]:
        with self._db.read() as connection:
            found = connection.execute(sa.select(verifications)).fetchall()
        return {row.policy: verification_record(row) for row in found}


def _standing(name: str, connection: str, about_rows: bool, sums: Sequence[Any]) -> Standing:
    waiting, parked, pending, held, parked_runs, overdue, oldest, drained = sums
    return Standing(
        policy=name,
        connection=connection,
        about_rows=about_rows,
        waiting=waiting,
        parked=parked,
        pending=pending,
        held=held,
        parked_runs=parked_runs,
        overdue=overdue,
        oldest_overdue=maybe_moment(oldest),
        drained_at=maybe_moment(drained),
    )


def _sum(numbers: sa.ColumnElement[int], *where: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.coalesce(
        run_rows.total(sa.case((sa.and_(*where), numbers), else_=0) if where else numbers), 0
    )


_parked = runs.c.state == RunState.PARKED
_left = runs.c.waiting + runs.c.pending - runs.c.held + runs.c.dead
_overdue = sa.and_(runs.c.first_slot < sa.bindparam("before"), _left > 0)
_SUMS = (
    sa.select(
        policies.c.name,
        _sum(runs.c.waiting, ~_parked),
        _sum(runs.c.waiting, _parked),
        _sum(runs.c.pending - runs.c.held),
        _sum(runs.c.held),
        _sum(sa.literal_column("1"), _parked),
        _sum(_left, _overdue),
        sa.func.min(sa.case((_overdue, runs.c.first_slot))),
        sa.func.max(runs.c.drained_at),
    )
    .select_from(policies)
    .outerjoin(runs)
    .group_by(policies.c.name)
)
