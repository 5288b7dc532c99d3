"""Pauses and breakers: what keeps work from being done for now."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, maybe_moment, micros, moment
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import breakers, pauses
from bestbefore.ports.controls import Breaker, Pause

_FIRST_PROBE_SECONDS = 30.0
_LAST_PROBE_SECONDS = 600.0
_PAUSES = sa.select(pauses).where(
    sa.or_(pauses.c.until.is_(None), pauses.c.until > sa.bindparam("now"))
)
_BREAKERS = sa.select(breakers).order_by(breakers.c.connection)


@replays("pause", "trip", "claim_probe", "reset")
class SqlControls:
    """`bestbefore.ports.controls.Controls` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def pauses(self, now: datetime) -> Sequence[Pause]:
        with self._db.read() as connection:
            found = connection.execute(_PAUSES, {"now": micros(now)})
            return [
                Pause(row.policy or None, row.reason, maybe_moment(row.until), row.by,
                      moment(row.at))
                for row in found
            ]  # fmt: skip

    def pause(
        self, policy: str | None, reason: str, until: datetime | None, by: str, now: datetime
    ) -> None:
        values = {
            "reason": reason,
            "until": micros(until) if until else None,
            "by": by,
            "at": micros(now),
        }
        with self._db.write() as connection:
            connection.execute(
                self._db.insert(pauses)
                .values(policy=policy or "", **values)
                .on_conflict_do_update(index_elements=["policy"], set_=values)
            )
            run_rows.note(connection, "pause", reason, by, now, policy=policy)

    def resume_work(self, policy: str | None, by: str, now: datetime) -> bool:
        with self._db.write() as connection:
            lifted = connection.execute(
                sa.delete(pauses).where(pauses.c.policy == (policy or ""))
            ).rowcount
            if lifted:
                run_rows.note(connection, "resume", "", by, now, policy=policy)
                self._db.ring(connection)
        return bool(lifted)

    def breakers(self) -> Sequence[Breaker]:
        with self._db.read() as connection:
            found = connection.execute(_BREAKERS)
            return [
                Breaker(row.connection, row.reason, moment(row.opened_at),
                        moment(row.next_probe_at))
                for row in found
            ]  # fmt: skip

    def trip(self, connection: str, reason: str, now: datetime) -> None:
        insert = (
            self._db.insert(breakers)
            .values(
                connection=connection,
                reason=reason,
                opened_at=micros(now),
                next_probe_at=micros(now + timedelta(seconds=_FIRST_PROBE_SECONDS)),
                interval=_FIRST_PROBE_SECONDS,
            )
            .on_conflict_do_update(index_elements=["connection"], set_={"reason": reason})
        )
        with self._db.write() as transaction:
            transaction.execute(insert)

    def claim_probe(self, connection: str, now: datetime) -> bool:
        with self._db.write() as transaction:
            waited = transaction.execute(
                sa.select(breakers.c.interval).where(
                    breakers.c.connection == connection, breakers.c.next_probe_at <= micros(now)
                )
            ).scalar_one_or_none()
            if waited is None:
                return False
            interval = min(waited * 2, _LAST_PROBE_SECONDS)
            transaction.execute(
                sa.update(breakers)
                .where(breakers.c.connection == connection)
                .values(interval=interval, next_probe_at=micros(now + timedelta(seconds=interval)))
            )
        return True

    def reset(self, connection: str) -> None:
        with self._db.write() as transaction:
            transaction.execute(sa.delete(breakers).where(breakers.c.connection == connection))
            self._db.ring(transaction)
