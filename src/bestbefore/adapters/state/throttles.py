"""Slots, turns and reasons to wait, for all processes together.

The row of a connection in ``row_paces`` is locked first in every transaction that changes anything,
and nothing else is locked with it: so they may run beside all others, but not beside each other.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from bestbefore.adapters.state.database import Database, maybe_moment, micros, moment
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import row_paces, row_slots
from bestbefore.domain.throttle import Account, Tempo, Waiter, entitled, ramp
from bestbefore.ports.throttle import Turns, Wait

_QUIET = timedelta(seconds=10)
"""After as long without any batch, work starts slowly."""

_TURN_IN_LINE = timedelta(seconds=10)
"""Where there are fewer slots than holders, each is served for about as long."""

_SAID_FOR = timedelta(seconds=30)
_MOST_COUNTED = 1_000_000


@replays("hold", "turn", "add", "say")
class SqlThrottles:
    """`bestbefore.ports.throttle.Throttles` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def hold(
        self,
        connection: str,
        holder: str,
        *,
        wanted: int,
        out: int,
        done: int,
        most: int,
        now: datetime,
        lease: timedelta,
    ) -> int:
        with self._db.write(shared=True) as transaction:
            pace = self._lock(transaction, connection, now)
            line = {
                row.holder: row
                for row in transaction.execute(
                    sa.select(row_slots).where(
                        row_slots.c.connection == connection,
                        sa.or_(row_slots.c.until > micros(now), row_slots.c.holder == holder),
                    )
                )
            }
            before = line.pop(holder, None)
            others = [
                Waiter(row.holder, row.slots, row.wanted, moment(row.since))
                for row in line.values()
            ]
            since = moment(before.since) if before else now
            served = now if before is None or not before.slots else moment(before.served)
            if now - served >= _TURN_IN_LINE:
                since = served = now  # and to the end of the line
            quiet = now - moment(pace.held_at) >= _QUIET
            batches = min(_MOST_COUNTED, (0 if quiet else pace.batches) + done)
            me = Waiter(holder, out, wanted, since)
            slots = max(out, entitled(me, others, ramp(batches, most)))
            transaction.execute(
                sa.delete(row_slots).where(
                    row_slots.c.connection == connection,
                    sa.or_(row_slots.c.until <= micros(now), row_slots.c.holder == holder),
                )
            )
            if wanted or slots:
                transaction.execute(
                    sa.insert(row_slots).values(
                        connection=connection, holder=holder, slots=slots, wanted=wanted,
                        since=micros(since), served=micros(served), until=micros(now + lease),
                    )
                )  # fmt: skip
            held = slots or any(other.holds for other in others)
            self._set(
                transaction,
                connection,
                batches=batches,
                held_at=micros(now) if held else pace.held_at,
            )
            return slots

    def turn(self, connection: str, wanted: int, rows: int, tempo: Tempo, now: datetime) -> Turns:
        with self._db.write(shared=True) as transaction:
            before = _account(self._lock(transaction, connection, now))
            batches, after = before.begin(wanted, rows, tempo, now)
            if after != before:
                self._set_account(transaction, connection, after)
            return Turns(batches, after.opens(tempo, now))

    def add(self, connection: str, rows: int, tempo: Tempo, now: datetime) -> None:
        with self._db.write(shared=True) as transaction:
            before = _account(self._lock(transaction, connection, now))
            self._set_account(transaction, connection, before.add(rows, tempo, now))

    def say(
        self, connection: str, reason: str | None, until: datetime | None, now: datetime
    ) -> None:
        with self._db.write(shared=True) as transaction:
            self._lock(transaction, connection, now)
            self._set(
                transaction,
                connection,
                reason=reason,
                until=micros(until) if until else None,
                said_at=micros(now),
            )

    def waits(self, now: datetime) -> Sequence[Wait]:
        with self._db.read() as connection:
            found = connection.execute(
                sa.select(row_paces)
                .where(
                    row_paces.c.reason.is_not(None),
                    sa.or_(
                        row_paces.c.said_at > micros(now - _SAID_FOR),
                        row_paces.c.until > micros(now),
                    ),
                )
                .order_by(row_paces.c.connection)
            )
            return [Wait(row.connection, row.reason, maybe_moment(row.until)) for row in found]

    def _lock(
        self, transaction: sa.Connection, connection: str, now: datetime
    ) -> sa.Row[tuple[object, ...]]:
        """The row of *connection*, which nobody else changes until the transaction ends."""
        mine = sa.select(row_paces).where(row_paces.c.connection == connection).with_for_update()
        found = transaction.execute(mine).one_or_none()
        if found is None:
            new = self._db.insert(row_paces).values(connection=connection, at=micros(now))
            transaction.execute(new.on_conflict_do_nothing())
            found = transaction.execute(mine).one()
        return found

    def _set_account(self, transaction: sa.Connection, connection: str, account: Account) -> None:
        self._set(
            transaction,
            connection,
            debt=account.debt,
            at=micros(account.at),
            stirred_at=micros(account.stirred),
        )

    def _set(self, transaction: sa.Connection, connection: str, **values: object) -> None:
        transaction.execute(
            sa.update(row_paces).where(row_paces.c.connection == connection).values(**values)
        )


def _account(pace: sa.Row[tuple[object, ...]]) -> Account:
    return Account(pace.debt, moment(pace.at), moment(pace.stirred_at))
