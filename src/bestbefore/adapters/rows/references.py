"""Foreign keys that refer to a table, in every schema, and which rows they keep."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.elements import quoted_name

from bestbefore.adapters.rows.dialect import Column, Condition, Dialect
from bestbefore.adapters.rows.dialects import dialect_of
from bestbefore.adapters.rows.names import find
from bestbefore.domain.rows import RowSource
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import TableRefused

LEFT_TO_THE_DATABASE = frozenset({"SET NULL", "SET DEFAULT"})
"""What happens to rows whose row is gone, without their going or keeping it."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key: ``columns`` of ``table``, the child, refer to ``referred`` of the parent.

    ``on_delete`` is as in SQL: ``NO ACTION``, ``RESTRICT``, ``CASCADE``, ``SET NULL`` or
    ``SET DEFAULT``. ``indexed`` says that an index of the child begins with ``columns``.
    """

    name: str
    table: sa.Table
    columns: tuple[sa.Column[Any], ...]
    referred: tuple[sa.Column[Any], ...]
    on_delete: str
    indexed: bool


@dataclass(frozen=True, slots=True)
class Keeper:
    """Rows of ``table`` that keep the rows they refer to, directly or over rows that would go.

    ``exists`` says that there is one for a row of the table in question.
    """

    table: str
    exists: Condition


def references(connection: sa.Connection, table: sa.Table) -> Sequence[Reference]:
    """Every foreign key that refers to *table*; its own to itself among them."""
    dialect = dialect_of(connection)
    found = []
    for key in dialect.foreign_keys(connection, str(table.schema), table.name):
        itself = (key.schema, key.table) == (table.schema, table.name)
        child = table if itself else table_of(connection, dialect, key.schema, key.table)
        found.append(
            Reference(
                key.name,
                child,
                tuple(_column(child, name) for name in key.columns),
                tuple(_column(table, name) for name in key.referred),
                key.on_delete,
                key.indexed,
            )
        )
    return found


def table_of(
    connection: sa.Connection,
    dialect: Dialect,
    schema: str,
    name: str,
    columns: Sequence[Column] | None = None,
) -> sa.Table:
    """A table as the catalog has it: names and primary key. Types are left to the database."""
    columns = dialect.columns(connection, schema, name) if columns is None else columns
    indexes = dialect.indexes(connection, schema, name)
    key = next((index.columns for index in indexes if index.primary), ())
    return sa.Table(
        quoted_name(name, quote=True),
        sa.MetaData(),
        *(
            sa.Column(
                quoted_name(column.name, quote=True),
                sa.types.NullType(),
                primary_key=column.name in key,
                key=column.name,
            )
            for column in columns
        ),
        schema=quoted_name(schema, quote=True),
    )


def dependents(
    connection: sa.Connection, dialect: Dialect, source: RowSource
) -> Callable[[sa.Table], bool]:
    """Which tables' rows go with the rows that they refer to.

    Raises StoreError where a table that ``dependents`` names is not there.
    """
    if source.dependents is None:
        stay = {found for name in source.governed if (found := _there(connection, dialect, name))}
        return lambda table: _id(table) not in stay
    go = {_found(connection, dialect, name) for name in source.dependents}
    return lambda table: _id(table) in go


def refuse_unrelated(
    connection: sa.Connection,
    dialect: Dialect,
    source: RowSource,
    table: sa.Table,
    goes: Callable[[sa.Table], bool],
) -> None:
    """Raise TableRefused where ``dependents`` names a table that would not go with *table*."""
    if not source.dependents:
        return
    going = {_id(child) for child in _going(connection, table, goes)}
    for name in source.dependents:
        if _found(connection, dialect, name) not in going:
            raise TableRefused(
                f"{name}, under `dependents`, has no foreign key that leads to {source.table}, or "
                "one that the database sets to NULL by itself; take it out"
            )


def _going(
    connection: sa.Connection, table: sa.Table, goes: Callable[[sa.Table], bool]
) -> Iterator[sa.Table]:
    for reference in references(connection, table):
        child = reference.table
        if child is not table and goes(child) and reference.on_delete not in LEFT_TO_THE_DATABASE:
            yield child
            yield from _going(connection, child, goes)


def keepers(
    connection: sa.Connection,
    table: sa.Table,
    inward: Sequence[Reference],
    goes: Callable[[sa.Table], bool],
) -> Iterator[Keeper]:
    """What of other tables keeps rows of *table*, found from its `references`, *inward*.

    O-FK-01: a row that something younger refers to stays, and its neighbours go. Asked as NOT
    EXISTS and never as NOT IN, which a single NULL makes untrue for every row (O-FK-03).

    Raises TableRefused where rows of several tables refer to each other in a circle.
    """
    yield from _keepers(connection, inward, goes, (), (table,))


def _keepers(
    connection: sa.Connection,
    inward: Sequence[Reference],
    goes: Callable[[sa.Table], bool],
    way: tuple[Reference, ...],
    path: tuple[sa.Table, ...],
) -> Iterator[Keeper]:
    for reference in inward:
        child = reference.table
        if reference.on_delete in LEFT_TO_THE_DATABASE or _id(child) == _id(path[-1]):
            continue
        if _id(child) in map(_id, path):
            circle = " -> ".join(map(str, (*path, child)))
            raise TableRefused(
                f"rows of these tables refer to each other in a circle, so that none can go first: "
                f"{circle}; have one of these foreign keys ON DELETE SET NULL"
            )
        longer = (*way, reference)
        if goes(child):
            below = references(connection, child)
            yield from _keepers(connection, below, goes, longer, (*path, child))
        else:
            yield Keeper(str(child), _exists(longer, path[0]))


def _exists(way: Sequence[Reference], table: sa.Table) -> Condition:
    """Whether a row of *table* is referred to along *way*."""
    first, *others = way
    rows = sa.select(sa.literal(1)).select_from(first.table).where(_joined(first))
    for reference in others:
        rows = rows.join(reference.table, _joined(reference))
    return rows.correlate(table).exists()


def _joined(reference: Reference) -> Condition:
    pairs = zip(reference.columns, reference.referred, strict=True)
    return sa.and_(*(child == parent for child, parent in pairs))


def _id(table: sa.Table) -> tuple[str, str]:
    return str(table.schema), table.name


def _found(connection: sa.Connection, dialect: Dialect, name: str) -> tuple[str, str]:
    relation = find(connection, dialect, name)
    return relation.schema, relation.name


def _there(connection: sa.Connection, dialect: Dialect, name: str) -> tuple[str, str] | None:
    """The table called *name*, None where there is none: another policy will say so."""
    try:
        return _found(connection, dialect, name)
    except (StoreError, TableRefused):
        return None


def _column(table: sa.Table, name: str) -> sa.Column[Any]:
    if name in table.c:
        return table.c[name]
    # SQLite keeps the spelling of whoever wrote the foreign key.
    return next(column for column in table.c if column.name.lower() == name.lower())
