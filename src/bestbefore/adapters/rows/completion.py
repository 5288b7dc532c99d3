"""Our table of completed batches, beside the data: a batch and its record are one transaction.

It stands in the schema of the table it is about, so that whoever restores that one restores both.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateTable

from bestbefore.adapters.rows.dialects import dialect_of
from bestbefore.adapters.rows.errors import failure_of, is_duplicate
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import COMPLETED_BATCHES, Effect
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import RowTask

_IDS_AT_A_TIME = 500

_CHANGED = "changed"
"""Under this name the record has changed rows by table, beside the tables that lost rows: their
full names have a dot. A column of its own would have to be added to tables that others own."""

_ID = sa.CHAR(64).with_variant(
    mysql.CHAR(64, charset="ascii", collation="ascii_bin"), "mysql", "mariadb"
)
_INSTANT = sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_NOW: Mapping[str, sa.ColumnElement[Any]] = {
    "postgresql": sa.func.now(),
    "mysql": sa.func.utc_timestamp(6),
    "sqlite": sa.func.strftime("%Y-%m-%d %H:%M:%f", "now"),
}


@lru_cache
def records_in(schema: str | None) -> sa.Table:
    """The table of completed batches in *schema* (None: the connection's own)."""
    return sa.Table(
        COMPLETED_BATCHES,
        sa.MetaData(),
        sa.Column("operation_id", _ID, primary_key=True),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("policy_version", sa.Text, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False, quote=True),
        sa.Column("dependents", sa.Text, nullable=False),
        sa.Column("archived", sa.BigInteger, nullable=False),
        sa.Column("blocked", sa.BigInteger, nullable=False),
        sa.Column("completed_at", _INSTANT, nullable=False),
        sa.Column("completed_by", sa.Text, nullable=False),
        schema=schema,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
    )


def exists(connection: sa.Connection, records: sa.Table) -> bool:
    """Whether *records* is there, as far as we may know."""
    there = dialect_of(connection).relations(connection, [str(records.schema)], [records.name])
    return bool(there)


def ddl(connection: sa.Connection, records: sa.Table) -> str:
    """The statement that creates *records*, in one line."""
    create = CreateTable(records, if_not_exists=True)
    return " ".join(str(create.compile(dialect=connection.dialect)).split())


def create(connection: sa.Connection, records: sa.Table) -> None:
    """Create *records* if it is not there. It needs a transaction to itself: MySQL commits.

    Raises StoreError, with the statement as remedy where we have no right to run it.
    """
    if exists(connection, records):  # `IF NOT EXISTS` needs the right to create all the same
        return
    try:
        connection.execute(CreateTable(records, if_not_exists=True))
    except sa.exc.DBAPIError as error:
        if is_duplicate(error):  # somebody else was faster, between PostgreSQL's look and its step
            return
        failure = failure_of(error, str(records))
        if failure.failure_class is FailureClass.PERMISSION:
            failure = _not_allowed(connection, records, failure)
        raise StoreError(failure) from error


def _not_allowed(connection: sa.Connection, records: sa.Table, failure: Failure) -> Failure:
    return Failure(
        FailureClass.PERMISSION,
        f'{failure.error}; or have its owner run: {ddl(connection, records)}; or set '
        '`completion = "ledger"`, which is weaker',
    )  # fmt: skip


def begin(connection: sa.Connection, records: sa.Table, task: RowTask, by: str) -> bool:
    """Write the record of *task* with the counts it was planned with. False if there is one, after
    which this transaction has to be rolled back."""
    values = {
        "operation_id": task.operation_id.hex(),
        "policy": task.policy,
        "policy_version": task.policy_version,
        "rows": task.batch.rows,
        "completed_by": by,
    }
    kind = kind_of(connection)
    try:
        written = connection.execute(
            _insert(records, kind), values, execution_options={"preserve_rowcount": True}
        )
    except sa.exc.IntegrityError as error:
        if kind == "mysql" and is_duplicate(error):  # which can only ignore every error, or none
            return False
        raise
    return written.rowcount == 1


@lru_cache
def _insert(records: sa.Table, kind: str) -> sa.Insert:
    """A record that nobody else has written. What is not given is as in most of them."""
    same = {"dependents": "{}", "archived": 0, "blocked": 0, "completed_at": _NOW[kind]}
    match kind:
        case "postgresql":
            return postgresql.insert(records).values(same).on_conflict_do_nothing()
        case "sqlite":
            return sqlite.insert(records).values(same).on_conflict_do_nothing()
        case _:
            return sa.insert(records).values(same)


def amend(connection: sa.Connection, records: sa.Table, task: RowTask, effect: Effect) -> None:
    """Correct the record of *task* to what *effect* counted, where it is not what was planned."""
    if effect == Effect(effect.outcome, task.batch.rows):
        return
    connection.execute(
        sa.update(records)
        .where(records.c.operation_id == task.operation_id.hex())
        .values(
            {
                "rows": effect.rows,
                "dependents": _written(effect),
                "archived": effect.archived,
                "blocked": effect.blocked,
            }
        )
    )


def read(
    connection: sa.Connection, records: sa.Table, operation_id: bytes
) -> tuple[Effect, str] | None:
    """What the record of a batch says it changed, and who did it."""
    found = connection.execute(
        sa.select(
            records.c.rows,
            records.c.dependents,
            records.c.archived,
            records.c.blocked,
            records.c.completed_by,
        ).where(records.c.operation_id == operation_id.hex())
    ).one_or_none()
    if found is None:
        return None
    rows, dependents, archived, blocked, by = found
    removed = json.loads(dependents)
    changed = removed.pop(_CHANGED, {})
    end = outcome(rows, archived)
    return Effect(end, rows, removed, archived, blocked, changed=changed), by


def _written(effect: Effect) -> str:
    """What an effect did beside its rows, as the record has it."""
    changed = {_CHANGED: dict(effect.changed)} if effect.changed else {}
    return json.dumps({**effect.dependents, **changed}, sort_keys=True)


def outcome(rows: int, archived: int) -> Outcome:
    """How a batch ended that was allowed to change *rows*."""
    if not rows:
        return Outcome.ABSENT
    return Outcome.ARCHIVED if archived else Outcome.DELETED


def known(
    connection: sa.Connection, records: sa.Table, operation_ids: Iterable[bytes]
) -> frozenset[bytes]:
    """Those of *operation_ids* that have a record. A database restored from a copy of yesterday
    lacks today's. Batches that ended as protected never had one."""
    if not exists(connection, records):
        return frozenset()
    found: set[bytes] = set()
    ids = [id_.hex() for id_ in operation_ids]
    for start in range(0, len(ids), _IDS_AT_A_TIME):
        some = records.c.operation_id.in_(ids[start : start + _IDS_AT_A_TIME])
        rows = connection.execute(sa.select(records.c.operation_id).where(some))
        found.update(bytes.fromhex(id_) for id_ in rows.scalars())
    return frozenset(found)


def forget(connection: sa.Connection, records: sa.Table, operation_ids: Sequence[bytes]) -> None:
    """Remove the records of *operation_ids*, as far as there are any."""
    if exists(connection, records):
        ids = [id_.hex() for id_ in operation_ids]
        connection.execute(sa.delete(records).where(records.c.operation_id.in_(ids)))


def kind_of(connection: sa.Connection) -> str:
    """Which database it is: MariaDB is a MySQL."""
    name = connection.dialect.name
    return "mysql" if name == "mariadb" else name
