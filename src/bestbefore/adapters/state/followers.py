"""The newest entry of a key, which goes last: removed earlier, it would bring old data to life.

Its operation *follows* the others of its key. Published, it is tied: pending and held, due never.
Whatever settles one of the others calls `release`, in the same transaction, and the tie is loosed
once none of them is unsettled: waiting, pending, dead, or still to be decided on by a plan. So it
survives pages, kills, redrives and new runs without anybody having to remember it.
"""

from collections.abc import Collection, Iterable, Sequence

import sqlalchemy as sa

from bestbefore.adapters.state import policies as policy_rows
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.database import Database, chunks, micros
from bestbefore.adapters.state.schema import TIED, UNSETTLED, operations
from bestbefore.domain.failure import NEVER, FailureClass
from bestbefore.domain.states import State
from bestbefore.domain.versions import Versions

_NEVER = micros(NEVER)


class Purging:
    """Which policies purge; a policy version never changes its mind.

    Where one does, whether an operation may be loosed is read before it is written, and so no
    other transaction may run beside that.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self._known: dict[int, bool] = {}

    def of(self, policies: Iterable[int]) -> list[int]:
        """Those of *policies*, given by their rows, that purge."""
        asked = set(policies)
        unknown = asked - self._known.keys()
        if unknown:
            with self._db.read() as connection:
                for row in unknown:
                    self._known[row] = policy_rows.versions_of(connection, row) == Versions.PURGE
        return [row for row in sorted(asked) if self._known[row]]


_other = operations.alias("other")
_unsettled_other = sa.exists().where(
    _other.c.policy_id == operations.c.policy_id,
    _other.c.key == operations.c.key,
    _other.c.id != operations.c.id,
    sa.text(
        "other.version_id IS NOT NULL "
        "AND (other.state <> 'completed' OR other.candidate_of IS NOT NULL)"
    ),
)
_TIED_ONE = sa.and_(
    operations.c.policy_id == sa.bindparam("policy"),
    sa.text(TIED),
    operations.c.state == sa.literal_column("'pending'"),
    operations.c.token.is_(None),
    operations.c.due_at == _NEVER,
)
_LOOSE = (
    sa.update(operations)
    .where(_TIED_ONE, ~_unsettled_other)
    .values(held=sa.false(), due_at=sa.bindparam("now"))
    .returning(operations.c.run_id)
)
_LOOSE_SOME = _LOOSE.where(operations.c.key.in_(sa.bindparam("keys", expanding=True)))


def tie(connection: sa.Connection, policy: int, run: int, first: int, last: int, now: int) -> int:
    """Tie what was published as due of a span and follows others; returns how many."""
    tied = connection.execute(
        sa.update(operations)
        .where(
            operations.c.run_id == run,
            operations.c.policy_id == policy,
            operations.c.state == sa.literal_column("'pending'"),
            operations.c.id.between(first, last),
            operations.c.follows.is_(True),
            operations.c.held.is_(False),
            operations.c.token.is_(None),
            operations.c.due_at == now,
        )
        .values(held=sa.true(), due_at=_NEVER)
        .returning(operations.c.key)
    ).scalars()
    keys = list(tied)
    run_rows.bump(connection, run, held=len(keys))
    release(connection, policy, keys, now)
    return len(keys)


def release(connection: sa.Connection, policy: int, keys: Collection[str], now: int) -> None:
    """Make due what waits, under *keys*, only for others that are settled by now."""
    names = sorted(set(keys))
    for chunk in chunks(names):
        found = connection.execute(_LOOSE_SOME, {"policy": policy, "now": now, "keys": chunk})
        _loosed(connection, found.scalars().all())


def release_all(connection: sa.Connection, policy: int, now: int) -> None:
    """The same for every key of a policy version: after something that settled many."""
    _loosed(connection, connection.execute(_LOOSE, {"policy": policy, "now": now}).scalars().all())


def overtaken(
    connection: sa.Connection, policy: int, newer: Sequence[tuple[str, bytes]], now: int
) -> None:
    """Of *newer* (key and operation id), which follow from now on: nothing older of their keys
    does any more. It need not wait either, as it covers nothing now."""
    for chunk in chunks(newer):
        followed_before = sa.and_(
            operations.c.policy_id == policy,
            operations.c.key.in_([key for key, _ in chunk]),
            sa.text(UNSETTLED),
            operations.c.follows.is_(True),
            operations.c.operation_id.not_in([operation_id for _, operation_id in chunk]),
        )
        loosed = connection.execute(
            sa.update(operations)
            .where(
                followed_before,
                operations.c.held.is_(True),
                operations.c.token.is_(None),
                operations.c.due_at == _NEVER,
                operations.c.failure_class.is_distinct_from(FailureClass.HELD),
            )
            .values(follows=sa.false(), held=sa.false(), due_at=now)
            .returning(operations.c.run_id)
        ).scalars().all()  # fmt: skip
        connection.execute(sa.update(operations).where(followed_before).values(follows=sa.false()))
        _loosed(connection, loosed)


def wake(connection: sa.Connection, ids: Sequence[bytes], now: int) -> None:
    """Make those of *ids* due once that a lock without a date holds: a plan listed them again."""
    for chunk in chunks(ids):
        connection.execute(
            sa.update(operations)
            .where(
                operations.c.operation_id.in_(chunk),
                operations.c.state == State.PENDING,
                operations.c.held.is_(True),
                operations.c.failure_class == FailureClass.HELD,
                operations.c.token.is_(None),
                operations.c.due_at == _NEVER,
            )
            .values(due_at=now)
        )


def _loosed(connection: sa.Connection, runs: Sequence[int]) -> None:
    for run in set(runs):
        run_rows.bump(connection, run, held=-runs.count(run))
        run_rows.reopen(connection, run)
