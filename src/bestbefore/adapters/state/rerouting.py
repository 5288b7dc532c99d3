"""Operations whose messages turned up where none is received from usually."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from bestbefore.adapters.state.database import Database, chunks, micros, moment
from bestbefore.adapters.state.outbox import is_sent, name_queue, standings
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import operations, outbox
from bestbefore.ports.outbox import Standing
from bestbefore.ports.rerouting import Rerouted


@replays("switch", "take_back", "redirect")
class SqlRerouting:
    """`bestbefore.ports.rerouting.Rerouting` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def switch(self, queue: str, now: datetime) -> datetime:
        with self._db.write() as connection:
            row = connection.execute(sa.select(outbox.c.queue, outbox.c.since)).one_or_none()
            if row is not None and row.queue == queue and row.since is not None:
                return moment(row.since)
            name_queue(self._db, connection, queue, now)
            return now

    def take_back(self, ids: Sequence[bytes], now: datetime) -> Rerouted:
        return self._change(ids, is_sent(), now, sent_at=None, due_at=micros(now))

    def redirect(self, ids: Sequence[bytes], now: datetime, until: datetime) -> Rerouted:
        free = sa.and_(
            operations.c.state == sa.literal_column("'pending'"),
            operations.c.deliveries == 0,
            sa.or_(operations.c.sent_at.is_not(None), operations.c.due_at <= micros(now)),
        )
        return self._change(ids, free, now, sent_at=micros(now), due_at=micros(until))

    def outstanding(self, before: datetime) -> int:
        with self._db.read() as connection:
            return connection.execute(
                sa.select(sa.func.count())
                .select_from(operations)
                .where(is_sent(), operations.c.sent_at < micros(before))
            ).scalar_one()

    def _change(
        self,
        ids: Sequence[bytes],
        which: sa.ColumnElement[bool],
        now: datetime,
        **values: int | None,
    ) -> Rerouted:
        """Change those of *ids* that are *which*; look why the others are not."""
        rows: dict[bytes, int] = {}
        rest: dict[bytes, Standing] = {}
        if not ids:
            return Rerouted(rows, rest)
        with self._db.write(shared=True) as connection:
            for chunk in chunks(ids):
                found = connection.execute(
                    sa.select(operations.c.id, operations.c.operation_id)
                    .where(operations.c.operation_id.in_(chunk), which)
                    # Else it is being claimed at this moment.
                    .with_for_update(skip_locked=True)
                ).fetchall()
                rows |= {bytes(row.operation_id): row.id for row in found}
                connection.execute(
                    sa.update(operations)
                    .where(operations.c.id.in_([row.id for row in found]))
                    .values(**values)
                )
            for chunk in chunks([id_ for id_ in ids if id_ not in rows]):
                rest |= standings(connection, chunk, micros(now))
            self._db.ring(connection)
        return Rerouted(rows, rest)
