"""What a plan is told about a table, and why some tables are refused."""

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex

from bestbefore.adapters.rows.archive_table import unarchived
from bestbefore.adapters.rows.kinds import look_at_values
from bestbefore.adapters.rows.partitions import decided, refused
from bestbefore.adapters.rows.references import references, refuse_unrelated
from bestbefore.adapters.rows.slices import looked_at
from bestbefore.adapters.rows.table import Target, reflect
from bestbefore.adapters.rows.where import doubts
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.rows import RowSource, Walk
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import TableFacts, TableRefused

_SOME = 1_000
"""Rows that a slice is explained with."""


def described(
    connection: sa.Connection, source: RowSource, walk: Walk | None
) -> tuple[TableFacts, Target]:
    """See `RowReader.describe`."""
    target = reflect(connection, source, walk)
    refuse_unrelated(connection, target.dialect, source, target.table, target.allowed)
    refused(source, decided(connection, source, target))
    now = target.dialect.now(connection)
    if not source.allow_full_scan:
        target.dialect.walks(connection)
        slice_ = looked_at(target, now, KeyRange(None, None), _SOME)
        _refuse_full_scan(connection, source, target, slice_)
    notes = [
        *target.dialect.notes(connection),
        *_trusted(connection, source, target),
        *look_at_values(connection, target.times, source),
        _order(target),
        *_lost(connection, source, target),
        *([] if target.where is None else doubts(connection, target.table, target.where)),
    ]
    facts = TableFacts(
        target.place, now, target.walk, target.kind, target.shape, str(target.table), notes
    )
    return facts, target


def _refuse_full_scan(
    connection: sa.Connection, source: RowSource, target: Target, slice_: sa.Select[tuple[object]]
) -> None:
    column = target.times.column
    remedy = (
        f"{index_ddl(connection, target.table, [column, *target.key])}; or, where it is small "
        "enough for that, write allow_full_scan = true"
    )
    if target.walk is Walk.KEY:
        raise TableRefused(
            f"all of {source.table} would be read to find what is old, as no index begins with "
            f"{column.name}: {remedy}"
        )
    scan = target.dialect.full_scan(connection, slice_, target.table)
    if scan is not None:
        raise TableRefused(
            f"all of {source.table} would be read to find what is old: there is an index that "
            f"begins with {column.name}, and the database does not use it ({scan}): {remedy}"
        )


def index_ddl(connection: sa.Connection, table: sa.Table, columns: list[sa.Column[object]]) -> str:
    """The statement that creates an index of *columns*."""
    names = list(dict.fromkeys(column.name for column in columns))
    copy = table.to_metadata(sa.MetaData())
    index = sa.Index(f"{table.name}_{names[0]}", *(copy.c[name] for name in names))
    return " ".join(str(CreateIndex(index).compile(dialect=connection.dialect)).split())


def _trusted(connection: sa.Connection, source: RowSource, target: Target) -> Iterator[Finding]:
    """What the policy accepts although it cannot be seen."""
    dialect, table = target.dialect, target.table
    there = str(table.schema), table.name
    if source.trusts_foreign_keys:
        hidden = dialect.hidden_foreign_keys(connection, *there)
        if hidden is not None:
            yield Finding(
                "foreign-keys-trusted",
                Level.WARNING,
                f'{table}: foreign_keys_seen = "trust", so rows of tables whose foreign keys this '
                f"user cannot see may be removed or changed uncounted: {hidden}",
                "grant that, and remove the key",
            )
    if source.accepts_row_security and dialect.row_security(connection, *there):
        yield Finding(
            "row-security-accepted",
            Level.WARNING,
            f'{table}: row_security = "accept", so rows that this role does not see stay, and are '
            "not reported",
            "give the role a policy for all rows, and remove the key",
        )


def _lost(connection: sa.Connection, source: RowSource, target: Target) -> Iterator[Finding]:
    """What is deleted for good although rows are archived."""
    if source.archive is None:
        return
    inward = references(connection, target.table)
    for table in unarchived(target.table, inward, target.allowed):
        yield Finding(
            "dependents-unarchived",
            Level.WARNING,
            f"rows of {table} are deleted with those of {target.table}, and archived nowhere",
            "take it out of rows.dependents if they have to be kept: what they refer to stays then",
        )


def _order(target: Target) -> Finding:
    along = ", ".join(column.name for column in target.along)
    return Finding("walk", Level.INFO, f"{target.table} is gone through by {along}", "")
