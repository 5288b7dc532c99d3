"""Holds in the state database."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, maybe_moment, micros, moment
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import holds
from bestbefore.domain.hold import Hold, Scope
from bestbefore.ports.ledger import NotInLedger

_IN_FORCE = (
    sa.select(holds)
    .where(sa.or_(holds.c.until.is_(None), holds.c.until > sa.bindparam("now")))
    .order_by(holds.c.at, holds.c.hold_id)
)


@replays("add")
class SqlHolds:
    """`bestbefore.ports.holds.Holds` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def in_force(self, now: datetime) -> Sequence[Hold]:
        with self._db.read() as connection:
            return [_hold(row) for row in connection.execute(_IN_FORCE, {"now": micros(now)})]

    def add(self, hold: Hold) -> None:
        scope = hold.scope
        insert = (
            self._db.insert(holds)
            .values(
                hold_id=hold.hold_id,
                policy=scope.policy,
                store=scope.store,
                place=scope.place,
                bucket=scope.bucket,
                prefix=scope.prefix,
                reason=hold.reason,
                until=micros(hold.until) if hold.until else None,
                by=hold.by,
                at=micros(hold.at),
            )
            .on_conflict_do_nothing(index_elements=["hold_id"])
            .returning(holds.c.hold_id)
        )
        with self._db.write() as connection:
            if connection.execute(insert).first() is not None:
                _note(connection, "hold", hold, hold.by, hold.at)

    def remove(self, hold_id: str, by: str, now: datetime) -> Hold:
        with self._db.write() as connection:
            row = connection.execute(
                _IN_FORCE.where(holds.c.hold_id == hold_id), {"now": micros(now)}
            ).one_or_none()
            if row is None:
                raise NotInLedger(
                    f"hold {hold_id}: there is no such hold in force; "
                    "`bestbefore hold list` shows them"
                )
            hold = _hold(row)
            connection.execute(sa.delete(holds).where(holds.c.hold_id == hold_id))
            _note(connection, "hold removed", hold, by, now)
        return hold


def _note(connection: sa.Connection, action: str, hold: Hold, by: str, now: datetime) -> None:
    detail = f"{hold.scope}: {hold}"
    run_rows.note(connection, action, detail, by, now, policy=hold.scope.policy)


def _hold(row: Any) -> Hold:
    return Hold(
        Scope(row.policy, row.store, row.place, row.bucket, row.prefix),
        row.reason,
        maybe_moment(row.until),
        row.by,
        moment(row.at),
    )
