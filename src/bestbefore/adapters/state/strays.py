"""Messages that execute nothing, in the state database."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, chunks, micros, moment
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import strays
from bestbefore.domain.failure import FailureClass
from bestbefore.ports.ledger import DeadFilter, NotInLedger
from bestbefore.ports.strays import ANY, KEPT_BYTES, Stray, StrayRecord

_CLASS = FailureClass.MALFORMED


# Absorbing twice counts a message once too often, which is less than losing it.
@replays("absorb", "discard")
class SqlStrays:
    """`bestbefore.ports.strays.Strays` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def absorb(self, strays_: Sequence[Stray], now: datetime) -> None:
        if not strays_:
            return
        insert = self._db.insert(strays)
        once_more = insert.on_conflict_do_update(
            index_elements=["id"],
            set_={
                "received": strays.c.received + 1,
                "error": insert.excluded.error,
                "last_at": insert.excluded.last_at,
            },
        )
        rows = [
            {
                "id": one.stray_id,
                "body": one.body[:KEPT_BYTES],
                "size": len(one.body),
                "failure_class": _CLASS,
                "error": one.error,
                "received": 1,
                "first_at": micros(now),
                "last_at": micros(now),
            }
            for one in strays_
        ]
        with self._db.write() as connection:
            for row in rows:  # one by one, as a message may be among them twice
                connection.execute(once_more, row)

    def found(
        self, which: DeadFilter = ANY, limit: int | None = None, after: bytes | None = None
    ) -> Sequence[StrayRecord]:
        asked = (
            sa.select(strays)
            .where(*_conditions(which))
            .order_by(strays.c.first_at, strays.c.id)
            .limit(limit)
        )
        with self._db.read() as connection:
            if after is not None:
                asked = asked.where(_following(connection, after))
            return [_record(row) for row in connection.execute(asked)]

    def count(self, which: DeadFilter = ANY) -> int:
        with self._db.read() as connection:
            return connection.execute(
                sa.select(sa.func.count()).select_from(strays).where(*_conditions(which))
            ).scalar_one()

    def discard(self, stray_ids: Sequence[bytes], reason: str, by: str, now: datetime) -> int:
        discarded = 0
        for chunk in chunks(stray_ids):
            with self._db.write() as connection:
                gone = connection.execute(
                    sa.delete(strays)
                    .where(strays.c.id.in_(chunk))
                    .returning(strays.c.id, strays.c.size, strays.c.received, strays.c.error)
                ).fetchall()
                for row in gone:
                    detail = (
                        f"{reason} (a message of {row.size:,} bytes, received {row.received:,} "
                        f"times: {row.error})"
                    )
                    run_rows.note(
                        connection, "message discarded", detail, by, now, operation_id=row.id
                    )
                discarded += len(gone)
        return discarded


def _conditions(which: DeadFilter) -> list[sa.ColumnElement[bool]]:
    about_operations = (which.policy, which.incident, which.contains)
    other_class = which.failure_class not in (None, _CLASS)
    if any(given is not None for given in about_operations) or which.superseded or other_class:
        return [sa.false()]
    conditions: list[sa.ColumnElement[bool]] = []
    if which.ids is not None:
        conditions.append(strays.c.id.between(*which.ids))
    if which.among is not None:
        conditions.append(strays.c.id.in_(which.among))
    return conditions


def _following(connection: sa.Connection, stray_id: bytes) -> sa.ColumnElement[bool]:
    """What comes after the stray with this id, in the order they first came."""
    first_at = connection.execute(
        sa.select(strays.c.first_at).where(strays.c.id == stray_id)
    ).scalar_one_or_none()
    if first_at is None:
        raise NotInLedger(f"message {stray_id.hex()}: the ledger holds none of that id")
    return sa.or_(
        strays.c.first_at > first_at,
        sa.and_(strays.c.first_at == first_at, strays.c.id > stray_id),
    )


def _record(row: Any) -> StrayRecord:
    return StrayRecord(
        bytes(row.id),
        bytes(row.body),
        row.size,
        row.error,
        row.received,
        moment(row.first_at),
        moment(row.last_at),
    )
