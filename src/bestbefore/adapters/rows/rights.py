"""What a check says about deleting from a table: rights, our own table, what may interfere."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows import completion
from bestbefore.adapters.rows.archive_table import ArchiveTable
from bestbefore.adapters.rows.dependents import Node
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.errors import failure_of
from bestbefore.adapters.rows.plans import Plan
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding, Level

_PG_TABLE = sa.text("""
    SELECT has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'DELETE') AS deletes,
        has_any_column_privilege(c.oid, 'UPDATE') AS locks
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = :schema AND c.relname = :table
""")
_PG_RECORDS = sa.text("""
    SELECT has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
        AND has_table_privilege(c.oid, 'UPDATE')
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = :schema AND c.relname = :table
""")
_PG_CREATE = sa.text("SELECT has_schema_privilege(:schema, 'CREATE')")
_MYSQL_CREATE = sa.text("""
    SELECT EXISTS (SELECT 1 FROM information_schema.USER_PRIVILEGES
            WHERE PRIVILEGE_TYPE = 'CREATE')
        OR EXISTS (SELECT 1 FROM information_schema.SCHEMA_PRIVILEGES
            WHERE PRIVILEGE_TYPE = 'CREATE' AND :schema LIKE TABLE_SCHEMA)
""")


class _Undone(Exception):
    """Leaves a transaction that was only there to ask."""


def findings(database: Database, plan: Plan, *, archived: bool) -> Iterator[Finding]:
    """What *plan* relies on, for rows that are *archived* before they go. Changes nothing.

    Raises what the database raises.
    """
    node, records = plan.node, plan.records
    for table, locked in _tables(node):
        yield from _about(database, table, locked=locked or (archived and table is node.table))
    if plan.target.archive is not None:
        yield _about_archive(database, node.table, plan.target.archive)
    if records is None:
        yield Finding(
            "completion-table",
            Level.WARNING,
            f'{node.table}: batches leave no record beside the data (completion = "ledger"), so '
            "a restored copy of it is not noticed",
            'set completion = "target" where one more table is allowed',
        )
    else:
        yield from _about_records(database, records)


def _tables(node: Node) -> Iterator[tuple[sa.Table, bool]]:
    """Every table that rows go from, and whether they are locked first."""
    yield node.table, not node.alone
    for branch in node.branches:
        yield from _tables(branch.node)


def _about(database: Database, table: sa.Table, *, locked: bool) -> Iterator[Finding]:
    named = {"schema": str(table.schema), "table": str(table.name)}
    with database.reading() as connection:
        kind = completion.kind_of(connection)
        if kind == "postgresql":
            yield from _about_postgresql(connection, table, named, locked=locked)
    if kind != "postgresql":
        yield _probed(database, table)


def _about_postgresql(
    connection: sa.Connection, table: sa.Table, named: Mapping[str, Any], *, locked: bool
) -> Iterator[Finding]:
    found = connection.execute(_PG_TABLE, named).one()
    needs = "SELECT, DELETE and UPDATE (of any column, to lock)" if locked else "SELECT and DELETE"
    if found.deletes and (found.locks or not locked):
        yield _allowed(table)
    else:
        yield Finding(
            "delete-denied",
            Level.ERROR,
            f"{table}: this role may not do all that is needed: {needs}",
            "grant them",
        )


def _probed(database: Database, table: sa.Table) -> Finding:
    """Try to delete no row at all."""
    denied = _denied(database, table, _deletes_none(table))
    if denied is not None:
        return Finding("delete-denied", Level.ERROR, denied.error, "grant SELECT and DELETE")
    return _allowed(table)


def _about_archive(database: Database, table: sa.Table, archive: ArchiveTable) -> Finding:
    """Try to archive no row at all."""
    denied = _denied(
        database, archive.table, lambda connection: archive.fill(connection, sa.false(), bytes(32))
    )
    if denied is not None:
        return Finding("archive-denied", Level.ERROR, denied.error, "grant INSERT and SELECT")
    columns = len(archive.pairs)
    said = f"{archive.table} takes the rows of {table} ({columns} columns)"
    return Finding("archive-reached", Level.INFO, said, "")


def _deletes_none(table: sa.Table) -> Callable[[sa.Connection], object]:
    statement = sa.delete(table).where(sa.literal_column("1 = 0"))
    return lambda connection: connection.execute(statement)


def _denied(
    database: Database, table: sa.Table, act: Callable[[sa.Connection], object]
) -> Failure | None:
    """Why this role may not do what *act* does to *table*, which is no change; None if it may."""
    try:
        with suppress(_Undone), database.writing() as connection:
            act(connection)
            raise _Undone
    except sa.exc.DBAPIError as error:
        failure = failure_of(error, str(table))
        if failure.failure_class is not FailureClass.PERMISSION:
            raise
        return failure
    return None


def _allowed(table: sa.Table) -> Finding:
    return Finding("delete-allowed", Level.INFO, f"{table}: rows may be deleted", "")


def _about_records(database: Database, records: sa.Table) -> Iterator[Finding]:
    named = {"schema": str(records.schema), "table": records.name}
    with database.reading() as connection:
        kind = completion.kind_of(connection)
        there = completion.exists(connection, records)
        remedy = completion.ddl(connection, records)
        may = True
        if kind == "postgresql":
            may = bool(connection.execute(_PG_RECORDS if there else _PG_CREATE, named).scalar_one())
        elif kind == "mysql" and not there:
            may = bool(connection.execute(_MYSQL_CREATE, named).scalar_one())
    if may:
        state = "is there" if there else "will be created with the first batch"
        yield Finding("completion-table", Level.INFO, f"{records} {state}", "")
        if there and _denied(database, records, _deletes_none(records)) is not None:
            yield Finding(
                "completion-table-kept",
                Level.WARNING,
                f"{records}: this role may remove nothing from it, so it grows by a row per batch "
                "for ever, whatever [state] keep says",
                "grant DELETE",
            )
    elif there:
        yield Finding(
            "completion-table-denied",
            Level.ERROR,
            f"{records}: this role may not do all that is needed: SELECT, INSERT and UPDATE",
            "grant them",
        )
    else:
        yield Finding(
            "completion-table-denied",
            Level.ERROR,
            f"{records} is missing, and this role may not create it",
            f"have its owner run: {remedy}",
        )
