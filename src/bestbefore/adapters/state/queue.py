"""The embedded queue: the operation row is the message.

``due_at`` says when it can be had; of a claimed one it is the end of the lease. ``token`` names
the claim, so that a late ack finds nothing to change. What was sent to a broker (``sent_at``) is
left to `bestbefore.adapters.state.outbox`, but for suspects, which nobody sends.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.state import counters, followers
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, chunks, micros, moment
from bestbefore.adapters.state.followers import Purging
from bestbefore.adapters.state.replay import replays
from bestbefore.adapters.state.schema import operations, runs
from bestbefore.domain.counts import Count
from bestbefore.domain.failure import Budget, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.states import RunState, State
from bestbefore.domain.suspects import suspects_together
from bestbefore.ports.ledger import Operation, Span

_FRESH = Budget.fresh()


@replays("publish", "receive", "extend", "release")
class StateQueue:
    """`bestbefore.ports.queue.Queue` on the operations themselves."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._purging = Purging(database)

    def publish(self, span: Span, now: datetime) -> int:
        purges = self._purging.of([span.policy])
        with self._db.write(shared=not purges) as connection:
            published = connection.execute(
                _PUBLISH, {**span._asdict(), "now": micros(now)}
            ).rowcount
            run_rows.bump(connection, span.run, waiting=-published, pending=published)
            if purges:
                followers.tie(connection, *span, micros(now))
            for_good = {(Count.PUBLISHED, ""): (published, 0)}
            counters.add(self._db, connection, span.policy, for_good)
            if published:
                self._db.ring(connection)
            return published

    def receive(
        self, policy: int, limit: int, now: datetime, lease: timedelta, *, suspects: bool = False
    ) -> Sequence[Operation]:
        claim = {
            "policy": policy,
            "now": micros(now),
            "until": micros(now + lease),
            "limit": limit,
            "claim": secrets.randbits(62),
        }
        # How many suspects to give out together is decided by how many there are.
        with self._db.write(shared=not suspects) as connection:
            if suspects:
                claim["limit"] = min(limit, _together(connection, claim))
            if not claim["limit"]:
                return []
            statement = _CLAIM_SUSPECTS if suspects else _CLAIM
            # Only a suspect that was alone has been charged with what happened to its process.
            claim["charge"] = int(not suspects or claim["limit"] == 1)
            found = connection.execute(statement, claim).fetchall()
        # In the order they were planned in, that of their keys, whichever way they were updated.
        found = sorted(found, key=itemgetter(0))
        return [claimed_operation(row, claim["claim"]) for row in found]

    def extend(self, operations_: Sequence[Operation], until: datetime) -> Sequence[Operation]:
        with self._db.write(shared=True) as connection:
            return change_claimed(
                connection,
                operations_,
                sa.update(operations).values(due_at=micros(until)),
            )

    def ack(self, operations_: Sequence[Operation]) -> None:
        """Nothing: the row that holds the result was the message."""

    def release(self, operations_: Sequence[Operation], due_at: datetime) -> None:
        with self._db.write(shared=True) as connection:
            change_claimed(
                connection,
                operations_,
                sa.update(operations).values(
                    due_at=micros(due_at), token=None, deliveries=operations.c.deliveries - 1
                ),
            )
            self._db.ring(connection)


def claim_one(
    connection: sa.Connection, operation_id: bytes, policy: int, now: datetime, lease: timedelta
) -> Operation | None:
    """Claim the operation with this id if it is due, or a broker has it, whatever came of its last
    delivery."""
    token = secrets.randbits(62)
    claim = {
        "operation": operation_id,
        "policy": policy,
        "now": micros(now),
        "until": micros(now + lease),
        "claim": token,
    }
    row = connection.execute(_CLAIM_ONE, claim).one_or_none()
    return None if row is None else claimed_operation(row, token)


def change_claimed(
    connection: sa.Connection, claimed: Sequence[Operation], change: sa.Update
) -> list[Operation]:
    """Apply *change* to what is still held under its claim's token; returns what is not."""
    statement = change.where(
        operations.c.id.in_(sa.bindparam("ids", expanding=True)),
        operations.c.token == sa.bindparam("claim"),
        operations.c.state == State.PENDING,
    ).returning(operations.c.id)
    lost: list[Operation] = []
    for token, group in _by_token(claimed).items():
        for chunk in chunks(group):
            kept = {
                row.id
                for row in connection.execute(
                    statement, {"ids": [operation.row for operation in chunk], "claim": token}
                )
            }
            lost += [operation for operation in chunk if operation.row not in kept]
    return lost


def completed(outcome: Outcome, by: str, now: datetime) -> dict[str, object]:
    """What changes about a claimed operation that ends with *outcome*."""
    return {
        "state": State.COMPLETED,
        "outcome": outcome,
        "completed_at": micros(now),
        "completed_by": by,
        "token": None,
        "due_at": None,
        "deliveries": 0,
        "held": sa.false(),
    }


def _by_token(claimed: Sequence[Operation]) -> dict[int, list[Operation]]:
    """*claimed*, grouped by the claim they are held under."""
    groups: dict[int, list[Operation]] = {}
    for operation in claimed:
        groups.setdefault(operation.token, []).append(operation)
    return groups


def dump_budget(budget: Budget) -> str:
    """*budget* as stored: attempts by class, and the start of each wait by class."""
    return json.dumps(
        {
            "spent": dict(budget.spent),
            "waiting_since": {
                name: since.isoformat() for name, since in budget.waiting_since.items()
            },
        }
    )


def load_budget(stored: str | None) -> Budget:
    """The budget stored as *stored*."""
    if stored is None:
        return _FRESH
    fields = json.loads(stored)
    return Budget(
        {FailureClass(name): n for name, n in fields["spent"].items()},
        {
            FailureClass(name): datetime.fromisoformat(since).astimezone(UTC)
            for name, since in fields["waiting_since"].items()
        },
    )


def claimed_operation(row: Sequence[Any], token: int) -> Operation:
    """A claimed row, its columns in the order of `CLAIMED`: by position, as names cost a third."""
    (id_, operation_id, policy, run, key, etag, last_modified, size, seen_at, deliveries,
     budget, last_failed_at, cancelled, upload_id, version, follows, held,
     redriven) = row  # fmt: skip
    return Operation(
        id_,
        operation_id,
        policy,
        run,
        key,
        etag,
        moment(last_modified),
        size,
        moment(seen_at),
        deliveries,
        load_budget(budget),
        last_failed_at is not None,
        token,
        cancelled,
        upload_id,
        version,
        follows,
        held,
        redriven > 0,
    )


# What others lock is left to them: to wait for it, with what is locked already in hand, while they
# wait for that in another order, is a deadlock. (Who looks again at a row that changed meanwhile
# has locked it, whether it is still wanted or not.)
UNPUBLISHED = (
    sa.select(operations.c.id)
    .where(
        operations.c.run_id == sa.bindparam("run"),
        operations.c.state == sa.literal_column("'waiting'"),
        operations.c.id.between(sa.bindparam("first"), sa.bindparam("last")),
        # The run may have been parked since the span was read.
        sa.exists().where(runs.c.id == sa.bindparam("run"), runs.c.state == RunState.OPEN),
    )
    .with_for_update(of=operations, skip_locked=True)
)
_PUBLISH = (
    sa.update(operations)
    .where(operations.c.id.in_(UNPUBLISHED))
    .values(state=State.PENDING, due_at=sa.bindparam("now"))
)


CLAIMED = (
    operations.c.id,
    operations.c.operation_id,
    operations.c.policy_id,
    operations.c.run_id,
    operations.c.key,
    operations.c.etag,
    operations.c.last_modified,
    operations.c.size,
    operations.c.seen_at,
    operations.c.deliveries,
    operations.c.budget,
    operations.c.last_failed_at,
    operations.c.cancelled,
    operations.c.upload_id,
    operations.c.version_id,
    operations.c.follows,
    operations.c.held,
    operations.c.redriven,
)


def _is_due(suspects: bool) -> sa.ColumnElement[bool]:
    # The states are written out so that the planner sees the partial index's condition.
    return sa.and_(
        operations.c.state == sa.literal_column("'pending'"),
        operations.c.policy_id == sa.bindparam("policy"),
        operations.c.due_at <= sa.bindparam("now"),
        operations.c.deliveries > 0 if suspects else operations.c.deliveries == 0,
        operations.c.sent_at.is_(None),  # a broker has it
    )


_SUSPECTS = sa.select(sa.func.count(), sa.func.min(operations.c.company)).where(_is_due(True))


def _together(connection: sa.Connection, claim: Mapping[str, int]) -> int:
    """How many of a policy's suspects to give out at once; 0 if there are none."""
    suspects, company = connection.execute(_SUSPECTS, claim).one()
    return suspects_together(suspects, company or 0) if suspects else 0


def _claim(suspects: bool) -> sa.Update:
    # Apart from the update, as PostgreSQL may run a subquery of it more than once, and each time
    # it would find others that nobody has locked yet.
    due = (
        sa.select(operations.c.id)
        .where(_is_due(suspects))
        .order_by(operations.c.due_at)
        .limit(sa.bindparam("limit"))
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    return (
        sa.update(operations)
        .where(operations.c.id.in_(sa.select(due.c.id)))
        .values(
            due_at=sa.bindparam("until"),
            token=sa.bindparam("claim"),
            deliveries=operations.c.deliveries + sa.bindparam("charge"),
            company=sa.bindparam("limit"),
        )
        .returning(*CLAIMED)
    )


_CLAIM_ONE = (
    sa.update(operations)
    .where(
        operations.c.operation_id == sa.bindparam("operation"),
        operations.c.policy_id == sa.bindparam("policy"),
        operations.c.state == sa.literal_column("'pending'"),
        sa.or_(operations.c.due_at <= sa.bindparam("now"), operations.c.sent_at.is_not(None)),
    )
    .values(
        sent_at=None,
        due_at=sa.bindparam("until"),
        token=sa.bindparam("claim"),
        deliveries=operations.c.deliveries + 1,
        company=1,
    )
    .returning(*CLAIMED)
)


_CLAIM = _claim(suspects=False)
_CLAIM_SUSPECTS = _claim(suspects=True)
