"""Operations that a broker carries: `bestbefore.ports.outbox.Outbox` on their rows.

``sent_at`` is the mark. Only what is here, and what ends an operation whoever has it, touches
a row with it: the embedded queue leaves those alone.
"""

import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple

import sqlalchemy as sa

from bestbefore.adapters.state import batches, counters, followers, results
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, chunks, micros, moment
from bestbefore.adapters.state.followers import Purging
from bestbefore.adapters.state.queue import CLAIMED, UNPUBLISHED, claimed_operation
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import operations, outbox, policies, runs
from bestbefore.domain.command import ObjectCommand, RowCommand
from bestbefore.domain.counts import Count
from bestbefore.domain.failure import Failure, GiveUp
from bestbefore.domain.message import Command
from bestbefore.domain.states import State
from bestbefore.ports.ledger import Died, Span
from bestbefore.ports.outbox import Claims, Marked, Outgoing, Standing

_MOST_KNOWN = 1_000


class _Origin(NamedTuple):
    """What every message of a run has."""

    policy: str
    version: str
    bucket: str
    action: str
    about_rows: bool
    slot: datetime
    cutoff: datetime


@replays("confirm", "fail", "refuse", "claim", "hand_back", "lost", "recall", "mark", "mark_due")
class SqlOutbox:
    """`bestbefore.ports.outbox.Outbox` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._purging = Purging(database)
        self._origins: dict[int, _Origin] = {}
        self._policies: dict[tuple[str, str], int] = {}

    def use(self, queue: str, now: datetime) -> bool:
        with self._db.read() as connection:
            if connection.scalar(sa.select(outbox.c.queue)) == queue:
                return False
        with self._db.write() as connection:
            before = connection.scalar(sa.select(outbox.c.queue))
            name_queue(self._db, connection, queue, now)
            if before in (None, queue):
                return False
            _recall(self._db, connection, now)
        return True

    def mark(self, span: Span, limit: int, now: datetime, until: datetime) -> Marked:
        purges = self._purging.of([span.policy])
        which = {**span._asdict(), "limit": limit, "now": micros(now), "until": micros(until)}
        with self._db.write(shared=not purges) as connection:
            published = 0
            if purges:  # where each of these has to be looked at before it may go
                published = connection.execute(_PUBLISH_FOLLOWERS, which).rowcount
            found = connection.execute(_MARK_SPAN, which).fetchall()
            published += len(found)
            run_rows.bump(connection, span.run, waiting=-published, pending=published)
            if purges:
                followers.tie(connection, *span, micros(now))
            for_good = {(Count.PUBLISHED, ""): (published, 0)}
            counters.add(self._db, connection, span.policy, for_good)
            # In the order they were planned in, whichever way they were updated.
            found = sorted(found, key=itemgetter(0))
            return Marked(published, self._outgoing(connection, found))

    def mark_due(
        self, policy: int, limit: int, now: datetime, until: datetime
    ) -> Sequence[Outgoing]:
        which = {"policy": policy, "limit": limit, "now": micros(now)}
        with self._db.write(shared=True) as connection:
            due = connection.execute(_DUE, which).fetchall()
            if not due:
                return []
            found: list[Any] = []
            for chunk in chunks([row.id for row in due]):
                marks = {"rows": chunk, "now": micros(now), "until": micros(until)}
                found += connection.execute(_MARK, marks).fetchall()
            order = {row.id: n for n, row in enumerate(due)}
            found.sort(key=lambda row: order[row.id])
            again = Counter(row.run_id for row in due if row.sent_at is not None)
            for run, n in sorted(again.items()):
                run_rows.tally(self._db, connection, run, "republished", {"": (n, 0)})
            for_good = {(Count.REPUBLISHED, ""): (again.total(), 0)}
            counters.add(self._db, connection, policy, for_good)
            return self._outgoing(connection, found)

    def sent(self, policies: Collection[int] | None = None) -> int:
        count = sa.select(sa.func.count()).select_from(operations).where(is_sent())
        if policies is not None:
            count = count.where(operations.c.policy_id.in_(policies))
        with self._db.read() as connection:
            return connection.execute(count).scalar_one()

    def under_way(self, policies: Collection[int], now: datetime) -> int:
        which = {"policies": list(policies), "now": micros(now)}
        with self._db.read() as connection:
            return connection.execute(_UNDER_WAY, which).scalar_one()

    def confirm(self, rows: Sequence[int], marked_at: datetime, due_at: datetime) -> None:
        with self._db.write(shared=True) as connection:
            _unless_claimed(connection, rows, marked_at, due_at=micros(due_at))

    def fail(self, rows: Sequence[int], marked_at: datetime, due_at: datetime) -> None:
        with self._db.write(shared=True) as connection:
            _unless_claimed(connection, rows, marked_at, sent_at=None, due_at=micros(due_at))

    def refuse(
        self, refused: Sequence[tuple[int, Failure]], marked_at: datetime, by: str, now: datetime
    ) -> int:
        why = dict(refused)
        token = secrets.randbits(62)
        with self._db.write() as connection:
            # As if a worker had claimed it and found that it cannot be done.
            found = _unless_claimed(connection, list(why), marked_at, sent_at=None, token=token)
            taken = [claimed_operation(row, token) for row in found]
            purging = self._purging.of(operation.policy for operation in taken)
            died = [
                Died(o, GiveUp(why[o.row], o.budget.charge(why[o.row].failure_class, now)))
                for o in taken
            ]
            results.record(self._db, connection, died, purging, by, now)
            return len(died)

    def policies(self, named: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], int]:
        unknown = set(named) - self._policies.keys()
        if unknown:
            with self._db.read() as connection:
                for chunk in chunks(sorted(unknown)):
                    found = connection.execute(
                        sa.select(policies.c.name, policies.c.version, policies.c.id).where(
                            sa.tuple_(policies.c.name, policies.c.version).in_(chunk)
                        )
                    )
                    self._policies |= {(row.name, row.version): row.id for row in found}
        return {name: self._policies[name] for name in named if name in self._policies}

    def claim(self, ids: Sequence[bytes], now: datetime, lease: timedelta) -> Claims:
        token = secrets.randbits(62)
        with self._db.write(shared=True) as connection:
            sent: dict[int, int | None] = {}
            seen: set[bytes] = set()
            found: list[Any] = []
            for chunk in chunks(ids):
                claimable = connection.execute(_CLAIMABLE, {"ids": chunk, "now": micros(now)})
                rows = [(row.id, row.operation_id, row.sent_at) for row in claimable]
                sent |= {row: sent_at for row, _, sent_at in rows}
                seen.update(bytes(operation_id) for _, operation_id, _ in rows)
            for some in chunks(list(sent)):
                claim = {
                    "rows": some,
                    "until": micros(now + lease),
                    "claim": token,
                    "company": len(sent),
                }
                found += connection.execute(_CLAIM, claim).fetchall()
            rest: dict[bytes, Standing] = {}
            for chunk in chunks([id_ for id_ in ids if id_ not in seen]):
                rest |= standings(connection, chunk, micros(now))
        # In the order they were planned in, that of their keys.
        taken = [claimed_operation(row, token) for row in sorted(found, key=itemgetter(0))]
        newest = max((at for at in sent.values() if at is not None), default=None)
        return Claims(taken, rest, None if newest is None else moment(newest))

    def hand_back(self, ids: Sequence[bytes], due_at: datetime) -> None:
        with self._db.write(shared=True) as connection:
            for chunk in chunks(ids):
                mine = (
                    sa.select(operations.c.id)
                    .where(operations.c.operation_id.in_(chunk), is_sent())
                    .with_for_update(skip_locked=True)
                    .scalar_subquery()
                )
                connection.execute(
                    sa.update(operations)
                    .where(operations.c.id.in_(mine))
                    .values(sent_at=None, due_at=micros(due_at))
                )
            self._db.ring(connection)

    def lost(
        self,
        before: datetime,
        now: datetime,
        policies: Collection[int] | None = None,
        most: int | None = None,
    ) -> int:
        gone = sa.and_(
            is_sent(), operations.c.sent_at < micros(before), operations.c.due_at > micros(now)
        )
        if policies is not None:
            gone = sa.and_(gone, operations.c.policy_id.in_(policies))
        if not self._any(gone):
            return 0
        if most is not None:
            oldest = sa.select(operations.c.id).where(gone).order_by(operations.c.sent_at)
            gone = operations.c.id.in_(oldest.limit(most))
        with self._db.write() as connection:
            changed = connection.execute(
                sa.update(operations).where(gone).values(due_at=micros(now))
            ).rowcount
            self._db.ring(connection)
            return changed

    def recall(self, now: datetime) -> int:
        if not self._any(is_sent()):
            return 0
        with self._db.write() as connection:
            return _recall(self._db, connection, now)

    def _any(self, which: sa.ColumnElement[bool]) -> bool:
        with self._db.read() as connection:
            one = sa.select(operations.c.id).where(which).limit(1)
            return connection.execute(one).first() is not None

    def _outgoing(self, connection: sa.Connection, found: Sequence[Any]) -> list[Outgoing]:
        """The messages of marked rows."""
        for run in {row.run_id for row in found} - self._origins.keys():
            if len(self._origins) >= _MOST_KNOWN:
                self._origins.clear()
            self._origins[run] = _origin(connection, run)
        of_rows = [row.id for row in found if self._origins[row.run_id].about_rows]
        described = batches.batches(connection, of_rows) if of_rows else {}
        outgoing = []
        for row in found:
            origin = self._origins[row.run_id]
            command: Command = (
                _object_command(origin, row)
                if row.id not in described
                else RowCommand(
                    origin.policy, origin.version, origin.slot, origin.action, origin.bucket,
                    origin.cutoff, described[row.id][0],
                )
            )  # fmt: skip
            outgoing.append(Outgoing(row.id, bytes(row.operation_id), command))
        return outgoing


def _object_command(origin: _Origin, row: Any) -> ObjectCommand:
    return ObjectCommand(
        origin.policy,
        origin.version,
        origin.slot,
        origin.action,
        origin.bucket,
        row.key,
        row.etag,
        moment(row.last_modified),
        row.upload_id,
        row.version_id,
    )


def _origin(connection: sa.Connection, run: int) -> _Origin:
    row = connection.execute(
        sa.select(
            policies.c.name, policies.c.version, policies.c.bucket, policies.c.action,
            policies.c.about_rows, runs.c.slot, runs.c.cutoff,
        )
        .join(policies, runs.c.policy_id == policies.c.id)
        .where(runs.c.id == run)
    ).one()  # fmt: skip
    return _Origin(*row[:5], moment(row.slot), moment(row.cutoff))


def name_queue(database: Database, connection: sa.Connection, queue: str, now: datetime) -> None:
    """Note where operations are sent from now on."""
    named = {"queue": queue, "since": micros(now)}
    connection.execute(
        database.insert(outbox)
        .values(id=1, **named)
        .on_conflict_do_update(index_elements=["id"], set_=named)
    )


def is_sent() -> sa.ColumnElement[bool]:
    """Whether a broker has it, or is about to, and nobody has claimed it."""
    return sa.and_(
        operations.c.sent_at.is_not(None), operations.c.state == sa.literal_column("'pending'")
    )


def _recall(database: Database, connection: sa.Connection, now: datetime) -> int:
    recalled = connection.execute(
        sa.update(operations).where(is_sent()).values(sent_at=None, due_at=micros(now))
    ).rowcount
    database.ring(connection)
    return recalled


def _unless_claimed(
    connection: sa.Connection, rows: Sequence[int], marked_at: datetime, **values: object
) -> list[Any]:
    """Change those of *rows* that are still as they were marked; returns them."""
    found: list[Any] = []
    for chunk in chunks(rows):
        marked = (
            sa.select(operations.c.id)
            .where(
                operations.c.id.in_(chunk),
                operations.c.sent_at == micros(marked_at),
                operations.c.state == sa.literal_column("'pending'"),
            )
            .with_for_update(skip_locked=True)  # else it is being claimed at this moment
            .scalar_subquery()
        )
        change = sa.update(operations).where(operations.c.id.in_(marked)).values(**values)
        if "token" in values:
            found += connection.execute(change.returning(*CLAIMED)).fetchall()
        else:
            connection.execute(change)
    return found


def standings(
    connection: sa.Connection, ids: Sequence[bytes], now: int
) -> Mapping[bytes, Standing]:
    """Why each of *ids* cannot be claimed."""
    known = {bytes(row.operation_id): row for row in connection.execute(_LOOK, {"ids": ids})}
    return {id_: _standing(known.get(id_), now) for id_ in ids}


def _standing(row: Any, now: int) -> Standing:
    if row is None:
        return Standing.UNKNOWN
    match State(row.state):
        case State.WAITING:
            return Standing.WAITING
        case State.COMPLETED:
            return Standing.ENDED
        case State.DEAD:
            return Standing.DEAD
        case State.PENDING:
            idle = row.token is None and row.deliveries == 0
            return Standing.DELAYED if idle and row.due_at > now else Standing.IN_HAND


_PUBLISH_FOLLOWERS = (
    sa.update(operations)
    .where(operations.c.id.in_(UNPUBLISHED.where(operations.c.follows.is_(True))))
    .values(state=State.PENDING, due_at=sa.bindparam("now"))
)

_OUTGOING = (
    operations.c.id,
    operations.c.operation_id,
    operations.c.run_id,
    operations.c.key,
    operations.c.etag,
    operations.c.last_modified,
    operations.c.upload_id,
    operations.c.version_id,
)

# Apart from the update, as PostgreSQL may run a subquery of it more than once.
_NEXT = (
    UNPUBLISHED.where(operations.c.follows.is_(False))
    .order_by(operations.c.id)
    .limit(sa.bindparam("limit"))
    .cte("next")
)
_MARK_SPAN = (
    sa.update(operations)
    .where(operations.c.id.in_(sa.select(_NEXT.c.id)))
    .values(state=State.PENDING, sent_at=sa.bindparam("now"), due_at=sa.bindparam("until"))
    .returning(*_OUTGOING)
)

_DUE = (
    sa.select(operations.c.id, operations.c.run_id, operations.c.sent_at)
    .where(
        operations.c.state == sa.literal_column("'pending'"),
        operations.c.policy_id == sa.bindparam("policy"),
        operations.c.due_at <= sa.bindparam("now"),
        operations.c.deliveries == 0,
    )
    .order_by(operations.c.due_at, operations.c.id)
    .limit(sa.bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_UNDER_WAY = (
    sa.select(sa.func.count())
    .select_from(operations)
    .where(
        is_sent(),
        operations.c.policy_id.in_(sa.bindparam("policies", expanding=True)),
        operations.c.due_at > sa.bindparam("now"),
    )
)
_ROWS = operations.c.id.in_(sa.bindparam("rows", expanding=True))
_MARK = (
    sa.update(operations)
    .where(_ROWS)
    .values(sent_at=sa.bindparam("now"), due_at=sa.bindparam("until"))
    .returning(*_OUTGOING)
)

_BY_ID = operations.c.operation_id.in_(sa.bindparam("ids", expanding=True))
_LOOK = sa.select(
    operations.c.operation_id,
    operations.c.state,
    operations.c.token,
    operations.c.due_at,
    operations.c.deliveries,
).where(_BY_ID)
_CLAIMABLE = (
    sa.select(operations.c.id, operations.c.operation_id, operations.c.sent_at)
    .where(
        _BY_ID,
        operations.c.state == sa.literal_column("'pending'"),
        operations.c.deliveries == 0,
        sa.or_(operations.c.sent_at.is_not(None), operations.c.due_at <= sa.bindparam("now")),
    )
    .with_for_update(skip_locked=True)
)
_CLAIM = (
    sa.update(operations)
    .where(_ROWS)
    .values(
        sent_at=None,
        due_at=sa.bindparam("until"),
        token=sa.bindparam("claim"),
        deliveries=1,
        company=sa.bindparam("company"),
    )
    .returning(*CLAIMED)
)
