"""A partition goes as a whole: it is marked, detached, and dropped if the policy says so.

None of these steps can share a transaction with the ones before, so each finds out how far an
earlier try has come. The mark, the operation's id in the partition's comment, is the intent: it
tells a partition that we have detached from one that somebody else detached to keep it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.schema import DropTable, SetTableComment

from bestbefore.adapters.rows import completion
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.partitions import fate, oid_in, old, parent_of
from bestbefore.adapters.rows.table import reflect
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Effect, Partitions, RowSource
from bestbefore.ports.rows import RowTask

_DETACH_SECONDS = 30.0
"""How long a detachment may wait for transactions that still see the partition."""

_CONCURRENTLY_SINCE = 14
"""The version of PostgreSQL that can detach without locking out readers of the whole table."""

_FOUND = sa.text("""
    SELECT n.nspname, c.relname, i.inhparent,
        coalesce(to_jsonb(i) ->> 'inhdetachpending', 'false') = 'true',
        coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), '')
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid
    WHERE c.oid = :oid
""")


class _Found(NamedTuple):
    """A partition as it is now; ``parent`` is None once it is detached. ``pending`` says that a
    detachment of it was interrupted."""

    schema: str
    name: str
    parent: int | None
    pending: bool
    said: str

    @property
    def table(self) -> sa.Table:
        return sa.Table(self.name, sa.MetaData(), schema=self.schema)


class _Detachment(NamedTuple):
    """What one try needs: ``drops`` says that the partition does not stay as a table."""

    found: _Found
    parent: sa.Table
    default: bool
    drops: bool
    records: sa.Table | None


def remove(database: Database, source: RowSource, task: RowTask, by: str) -> Effect | Failure:
    """Detach the partition of *task*, and drop it if *source* says so.

    Raises TableRefused, StoreError and what the database raises; a repeat goes on from there.
    """
    mark = f"bestbefore {task.operation_id.hex()}"
    with database.reading() as connection:
        target = reflect(connection, source)
        records = None if source.ledger_only else completion.records_in(target.table.schema)
        missing = records is not None and not completion.exists(connection, records)
        if records is not None and not missing:
            done = completion.read(connection, records, task.operation_id)
            if done is not None:
                return replace(done[0], replayed=True)
        row = connection.execute(_FOUND, {"oid": oid_in(task.batch.first)}).one_or_none()
        if row is None:
            return Effect(Outcome.ABSENT, 0)
        found = _Found(*row)
        wanted = fate(connection, source, target)
        parent = parent_of(connection, target)
        is_old = any(one.end == task.batch.first for one in old(connection, target, task.cutoff))
    ours = found.said.endswith(mark)
    attached = parent is not None and found.parent == parent.oid
    if wanted is None or not (ours or (attached and is_old)) or (found.parent and not attached):
        return Effect(Outcome.PROTECTED, 0)
    if records is not None and missing:
        with database.writing() as connection:
            completion.create(connection, records)
    drops = wanted is Partitions.DROP
    default = parent is not None and bool(parent.default)
    step = _Detachment(found, target.table, default, drops, records)
    if attached:
        if not ours:
            _mark(database, found, mark)
        _detach(database, step)
    return _finish(database, step, task, by)


def _mark(database: Database, found: _Found, mark: str) -> None:
    said = f"{found.said} {mark}".strip()
    partition = sa.Table(found.name, sa.MetaData(), schema=found.schema, comment=said)
    with database.writing() as connection:
        connection.execute(SetTableComment(partition))


def _detach(database: Database, step: _Detachment) -> None:
    with database.alone() as connection:
        quoted = connection.dialect.identifier_preparer.format_table
        change = f"ALTER TABLE {quoted(step.parent)} DETACH PARTITION {quoted(step.found.table)}"
        version = int((connection.dialect.server_version_info or (0,))[0])
        if step.found.pending:
            how = "FINALIZE"
        elif version >= _CONCURRENTLY_SINCE and not step.default:
            how = "CONCURRENTLY"
        else:
            how = ""
        if how:
            with _cancelled_after(connection, _DETACH_SECONDS):
                connection.exec_driver_sql(f"{change} {how}")
            return
    with database.writing() as connection:
        # It waits for its lock no longer than any of our statements, and so do those behind it.
        connection.exec_driver_sql(change)


@contextmanager
def _cancelled_after(connection: sa.Connection, seconds: float) -> Iterator[None]:
    """Have the server give up. A timeout of the session would outlive us behind a pooler."""
    driver = connection.connection.driver_connection
    timer = threading.Timer(seconds, driver.cancel)  # type: ignore[union-attr]
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _finish(database: Database, step: _Detachment, task: RowTask, by: str) -> Effect | Failure:
    """Count what is in the detached partition, drop it if it is to go, and write that down."""
    partition, records = step.found.table, step.records
    with database.counting() as connection:
        rows = connection.scalar(sa.select(sa.func.count()).select_from(partition)) or 0
    end = Outcome.DELETED if step.drops else Outcome.ARCHIVED
    effect = Effect(end, rows, archived=0 if step.drops else rows)
    with database.writing() as connection:
        if records is not None and not completion.begin(connection, records, task, by):
            error = f"{partition}: another worker wrote the completion record meanwhile"
            return Failure(FailureClass.TRANSIENT, error)
        if step.drops:
            connection.execute(DropTable(partition))
        if records is not None:
            completion.amend(connection, records, task, effect)
    return effect
