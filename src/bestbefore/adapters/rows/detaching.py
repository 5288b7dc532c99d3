"""A partition is removed as a whole: it is marked, detached, counted, and dropped if the policy
says so.

None of these steps can share a transaction with the ones before, so each finds out how far an
earlier try has come: the mark, which is the intent, says what is ours (`marks`). What cannot be
ended is undone: the partition is attached again, with the bounds that its mark holds.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.schema import DropTable

from bestbefore.adapters.rows import completion, marks
from bestbefore.adapters.rows.catalog import partition_tree
from bestbefore.adapters.rows.engine import COUNT_SECONDS, Database
from bestbefore.adapters.rows.errors import failure_of
from bestbefore.adapters.rows.partitions import (
    Parent,
    decided,
    obstacles,
    oid_in,
    old,
    parent_of,
    refuse_kept,
    refused,
)
from bestbefore.adapters.rows.table import Target, reflect
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Effect, Partitions, RowSource, grown
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import RowTask, TableRefused

_DETACH_SECONDS = 30.0
"""How long a detachment may wait for transactions that still see the partition."""

_CONCURRENTLY_SINCE = 14
"""The version of PostgreSQL that can detach without locking out readers of the whole table."""

_ANOTHER_DETACHED = "55000"
"""SQLSTATE where another partition is being detached, or a default partition has just come."""

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


class _Verdict(NamedTuple):
    """What becomes of a partition: ``how``, or nothing because of ``why``. ``refused`` says that
    the policy wants it all the same."""

    how: Partitions | None
    why: str = ""
    refused: bool = False


class _Work(NamedTuple):
    """One try at a partition. ``attached`` says that its rows are still rows of ``table``; ``mark``
    is ours, whether it is written already or not."""

    database: Database
    task: RowTask
    by: str
    oid: int
    found: _Found
    table: sa.Table
    parent: Parent | None
    attached: bool
    mark: marks.Mark | None
    verdict: _Verdict
    records: sa.Table | None

    @property
    def partition(self) -> sa.Table:
        return self.found.table

    @property
    def ours(self) -> bool:
        return _is_of(self.task, marks.mark_in(self.found.said))


class _InTheWay(Exception):
    """Ends the transaction that would have removed the partition; the message says why.

    ``planned_anew`` says that the next plan sees that as well, and has its rows removed in batches.
    """

    def __init__(self, why: str, *, planned_anew: bool) -> None:
        super().__init__(why)
        self.planned_anew = planned_anew


def remove(database: Database, source: RowSource, task: RowTask, by: str) -> Effect | Failure:
    """Detach the partition of *task*, and drop it if *source* says so.

    Raises TableRefused, StoreError and what the database raises; a repeat goes on from there.
    """
    with database.reading() as connection:
        work = _look(connection, database, source, task, by)
    if isinstance(work, Effect):
        return work
    if work.attached:
        if work.verdict.how is None:
            return _left(work)
        if (rows := _counted(work)) > task.batch.rows:
            _unmark(work)
            return _failed(work, f"{grown(task.batch.rows, rows)}; it was not detached")
        _create(work)
        if not work.ours:
            work = _marked(work)
    if work.attached or work.found.pending:
        _detached(work)
    if work.verdict.how is None:
        return _undone(work, _InTheWay(work.verdict.why, planned_anew=True))
    _create(work)
    return _finished(work)


def _look(
    connection: sa.Connection, database: Database, source: RowSource, task: RowTask, by: str
) -> _Work | Effect:
    """How far the partition of *task* has come; an effect where nothing is to be done about it."""
    target = reflect(connection, source)
    records = None if source.ledger_only else completion.records_in(target.table.schema)
    if records is not None and completion.exists(connection, records):
        done = completion.read(connection, records, task.operation_id)
        if done is not None:
            return replace(done[0], replayed=True)
    oid = oid_in(task.batch.first)
    row = connection.execute(_FOUND, {"oid": oid}).one_or_none()
    if row is None:
        return Effect(Outcome.ABSENT, 0)
    found, parent = _Found(*row), parent_of(connection, target)
    inside = parent is not None and found.parent == parent.oid
    attached = inside and not found.pending
    mark = marks.mark_in(found.said)
    if (found.parent is not None and not inside) or not (attached or _is_of(task, mark)):
        return Effect(Outcome.PROTECTED, 0)  # a person did something about it
    verdict = _verdict(connection, source, target, oid, found)
    if attached and parent is not None:
        partition = next((p for p in old(connection, target, task.cutoff) if p.oid == oid), None)
        if partition is None:
            verdict = _Verdict(None, "it may hold rows that are not old")
        else:
            mark = marks.Mark(task.operation_id, parent.oid, partition.since, partition.until)
    return _Work(
        database, task, by, oid, found, target.table, parent, attached, mark, verdict, records
    )


def _is_of(task: RowTask, mark: marks.Mark | None) -> bool:
    return mark is not None and mark.operation_id == task.operation_id


def _verdict(
    connection: sa.Connection, source: RowSource, target: Target, oid: int, found: _Found
) -> _Verdict:
    try:
        decision = refused(source, decided(connection, source, target))
        if decision.how is None:
            obstacle = decision.obstacle
            return _Verdict(None, "its rows go in batches" if obstacle is None else obstacle.why)
        kept = obstacles(connection, decision, [oid]).get(oid, ())
        refuse_kept(source, f"{found.schema}.{found.name}", kept)
    except TableRefused as error:
        return _Verdict(None, str(error), refused=True)
    return _Verdict(None, partition_tree.named(kept)) if kept else _Verdict(decision.how)


def _left(work: _Work) -> Effect | Failure:
    """Leave a partition that is attached. The next plan has its rows removed in batches, or is
    refused."""
    _unmark(work)
    if work.verdict.refused:
        said = f"{work.table}: {work.verdict.why}"
        return Failure(FailureClass.MALFORMED, said, whole_source=True)
    return Effect(Outcome.PROTECTED, 0)


def _counted(work: _Work) -> int:
    with work.database.counting() as connection:
        return _rows(connection, work.partition)


def _rows(connection: sa.Connection, table: sa.Table) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def _create(work: _Work) -> None:
    """Create the table of completed batches if it is not there."""
    if work.records is not None:
        with work.database.writing() as connection:
            completion.create(connection, work.records)


def _marked(work: _Work) -> _Work:
    """Write our mark, and say so."""
    if work.mark is None:
        raise AssertionError("an attached partition has bounds to note")
    said = marks.with_mark(work.found.said, work.mark)
    with work.database.writing() as connection:
        marks.say(connection, work.partition, said)
    return work._replace(found=work.found._replace(said=said))


def _unmark(work: _Work) -> None:
    if work.ours:
        with work.database.writing() as connection:
            marks.say(connection, work.partition, marks.without_mark(work.found.said))


def _detached(work: _Work) -> None:
    """Detach it. Where that will never be possible it keeps no mark, unless it is half done."""
    try:
        _detach(work)
    except sa.exc.DBAPIError as error:
        _lasting(error, work)
        with work.database.reading() as connection:
            row = connection.execute(_FOUND, {"oid": work.oid}).one_or_none()
        if row is not None and _Found(*row).parent is not None and not _Found(*row).pending:
            _unmark(work)
        raise


def _detach(work: _Work) -> None:
    with work.database.alone() as connection:
        quoted = connection.dialect.identifier_preparer.format_table
        change = f"ALTER TABLE {quoted(work.table)} DETACH PARTITION {quoted(work.partition)}"
        version = int((connection.dialect.server_version_info or (0,))[0])
        if work.found.pending:
            how = "FINALIZE"
        elif version >= _CONCURRENTLY_SINCE and not (work.parent and work.parent.default):
            how = "CONCURRENTLY"
        else:
            how = ""
        if how:
            with _cancelled_after(connection, _DETACH_SECONDS), _waiting_its_turn(work):
                connection.exec_driver_sql(f"{change} {how}")
            return
    with work.database.writing() as connection, _waiting_its_turn(work):
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


@contextmanager
def _waiting_its_turn(work: _Work) -> Iterator[None]:
    """Try again later where another partition of the table is being detached at this moment."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _ANOTHER_DETACHED:
            raise
        said = failure_of(error, str(work.partition)).error
        remedy = f"if no process works on that one: ALTER TABLE {work.table} DETACH … FINALIZE"
        raise StoreError(Failure(FailureClass.TRANSIENT, f"{said}; {remedy}")) from error


def _finished(work: _Work) -> Effect | Failure:
    """End it in one transaction: count, drop or release it, and write that down."""
    try:
        return _ended(work)
    except _InTheWay as found:
        return _undone(work, found)
    except sa.exc.DBAPIError as error:
        said = _lasting(error, work).error
        return _undone(work, _InTheWay(said, planned_anew=False))


def _ended(work: _Work) -> Effect | Failure:
    drops = work.verdict.how is Partitions.DROP
    partition, records, task = work.partition, work.records, work.task
    with work.database.writing() as connection:
        _lock(connection, partition, "ACCESS EXCLUSIVE" if drops else "SHARE")
        rows = _rows(connection, partition)
        if rows > task.batch.rows:
            raise _InTheWay(grown(task.batch.rows, rows), planned_anew=False)
        kept = partition_tree.of_partitions(connection, [work.oid], drops=drops)
        if kept:
            raise _InTheWay(partition_tree.named(kept[work.oid]), planned_anew=True)
        effect = Effect(Outcome.DELETED if drops else Outcome.ARCHIVED, rows)
        effect = replace(effect, archived=0 if drops else rows)
        if records is not None and not completion.begin(connection, records, task, work.by):
            error = f"{partition}: another worker wrote the completion record meanwhile"
            return Failure(FailureClass.TRANSIENT, error)
        if drops:
            connection.execute(DropTable(partition))
        else:
            marks.say(connection, partition, marks.without_mark(work.found.said))
        if records is not None:
            completion.amend(connection, records, task, effect)
    return effect


def _lock(connection: sa.Connection, table: sa.Table, mode: str) -> None:
    """Keep others from changing *table*, which is no part of anything any more. To count it may
    take as long as it takes."""
    quoted = connection.dialect.identifier_preparer.format_table(table)
    connection.exec_driver_sql(f"LOCK TABLE {quoted} IN {mode} MODE")
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{COUNT_SECONDS}s'")


def _undone(work: _Work, why: _InTheWay) -> Effect | Failure:
    """Attach a detached partition again, because of *why*.

    Raises what the database raises that passes, so that it is tried again.
    """
    if (problem := _attached_again(work)) is not None:
        return _failed(
            work,
            f"{why}; it is detached, and cannot be attached again: {problem}. It stays as a table "
            "of its own, marked, and counts as overdue: put right what is in the way and redrive, "
            "or attach or drop it by hand",
        )
    if why.planned_anew:
        return _left(work._replace(found=work.found._replace(said="")))
    return _failed(work, f"{why}; it is attached again")


def _attached_again(work: _Work) -> str | None:
    """Attach the partition with the bounds it had, without its mark; why that cannot be, if so."""
    mark, parent = work.mark, work.parent
    if mark is None or parent is None or mark.parent != parent.oid:
        return "its bounds are not known any more"
    try:
        with work.database.writing() as connection:
            quoted = connection.dialect.identifier_preparer.format_table
            connection.exec_driver_sql(
                f"ALTER TABLE {quoted(work.table)} ATTACH PARTITION {quoted(work.partition)} "
                f"FOR VALUES FROM ('{mark.since}') TO ('{mark.until}')"
            )
            marks.say(connection, work.partition, marks.without_mark(work.found.said))
    except sa.exc.DBAPIError as error:
        return _lasting(error, work).error
    return None


def _lasting(error: sa.exc.DBAPIError, work: _Work) -> Failure:
    """*error* as a failure. Raises it where it passes."""
    failure = failure_of(error, str(work.partition))
    if failure.failure_class in (FailureClass.TRANSIENT, FailureClass.CREDENTIALS):
        raise error
    return failure


def _failed(work: _Work, said: str) -> Failure:
    """A failure that is not tried again before a person has seen it."""
    return Failure(FailureClass.MALFORMED, f"{work.partition}: {said}")
