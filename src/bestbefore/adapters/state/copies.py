"""Copies of archived objects: recorded, left behind, brought back."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa

from bestbefore.adapters.state.database import Database, chunks, execute_many, micros
from bestbefore.adapters.state.schema import events, operations, policies, runs
from bestbefore.ports.ledger import Operation
from bestbefore.ports.objects import Copy

_RECORD = (
    sa.update(operations)
    .where(
        operations.c.id == sa.bindparam("row"),
        operations.c.token == sa.bindparam("claim"),
        operations.c.state == sa.literal_column("'pending'"),
    )
    .values(
        copied_at=sa.bindparam("at"),
        archive_key=sa.bindparam("copy"),
        archive_etag=sa.bindparam("etag_there"),
    )
)

_RESTORED = (
    sa.update(operations)
    .where(operations.c.id == sa.bindparam("row"))
    .values(restored_at=sa.bindparam("at"), restored_etag=sa.bindparam("etag_here"))
)
_LEFT_BEHIND = "changed after it was copied; the copy stays: "
_LEFT_ARCHIVE = "brought back from "


class SqlArchives:
    """`bestbefore.ports.ledger.Archives` on a SQL database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def restored(self, back: Sequence[tuple[int, str]], by: str, now: datetime) -> None:
        if not back:
            return
        with self._db.write() as connection:
            values = [(row, micros(now), etag) for row, etag in back]
            execute_many(connection, _RESTORED, ("row", "at", "etag_here"), values)
            rows = [row for row, _ in back]
            _note(connection, rows, "restore", _LEFT_ARCHIVE, by, now)

    def rows_restored(self, operation: int, detail: str, by: str, now: datetime) -> None:
        with self._db.write() as connection:
            connection.execute(
                sa.update(operations)
                .where(operations.c.id == operation)
                .values(restored_at=micros(now))
            )
            text = sa.literal(detail)
            _insert(connection, "restore", text, by, now, operations.c.id == operation)


def recorded(connection: sa.Connection, rows: Collection[int]) -> Mapping[int, Copy]:
    """See `bestbefore.ports.ledger.WorkLedger.copies`."""
    found: dict[int, Copy] = {}
    for chunk in chunks(list(rows)):
        for id_, key, etag in connection.execute(
            sa.select(operations.c.id, operations.c.archive_key, operations.c.archive_etag).where(
                operations.c.id.in_(chunk),
                operations.c.copied_at.is_not(None),
            )
        ):
            found[id_] = Copy(key, etag)
    return found


def record(
    connection: sa.Connection, copies: Sequence[tuple[Operation, Copy]], now: datetime
) -> list[Operation]:
    """See `bestbefore.ports.ledger.WorkLedger.record_copies`."""
    if not copies:
        return []
    values = [
        (operation.row, operation.token, micros(now), copy.key, copy.etag)
        for operation, copy in copies
    ]
    names = ("row", "claim", "at", "copy", "etag_there")
    if execute_many(connection, _RECORD, names, values) == len(copies):
        return []
    held = {
        (id_, token)
        for chunk in chunks(copies)
        for id_, token in connection.execute(
            sa.select(operations.c.id, operations.c.token).where(
                operations.c.id.in_([o.row for o, _ in chunk]),
                operations.c.state == sa.literal_column("'pending'"),
            )
        )
    }
    return [o for o, _ in copies if (o.row, o.token) not in held]


def note_left_behind(
    connection: sa.Connection, rows: Sequence[int], by: str, now: datetime
) -> None:
    """Write down of which *rows* a copy stays although the original was not deleted.

    Nothing is removed from an archive: the copy is of what the plan saw, and what is there now is
    something newer.
    """
    _note(connection, rows, "copy left", _LEFT_BEHIND, by, now)


def _note(
    connection: sa.Connection,
    rows: Sequence[int],
    action: str,
    detail: str,
    by: str,
    now: datetime,
) -> None:
    """One event for each of *rows* that has a copy; *detail* is followed by the copy's key."""
    for chunk in chunks(rows):
        copied = sa.and_(operations.c.id.in_(chunk), operations.c.copied_at.is_not(None))
        text = sa.literal(detail) + operations.c.archive_key
        _insert(connection, action, text, by, now, copied)


def _insert(
    connection: sa.Connection,
    action: str,
    detail: sa.ColumnElement[str],
    by: str,
    now: datetime,
    which: sa.ColumnElement[bool],
) -> None:
    """One event for each operation that is meant."""
    connection.execute(
        sa.insert(events).from_select(
            ["at", "by", "action", "policy", "run_id", "operation_id", "detail"],
            sa.select(
                sa.literal(micros(now), sa.BigInteger),
                sa.literal(by),
                sa.literal(action),
                policies.c.name,
                runs.c.run_id,
                operations.c.operation_id,
                detail,
            )
            .join(policies, operations.c.policy_id == policies.c.id)
            .join(runs, operations.c.run_id == runs.c.id)
            .where(which),
        )
    )
