"""What a DELETE does beyond its rows, and which of that could not be planned, shown and counted.

The database removes or changes rows of other tables by foreign keys, and runs triggers and rules.
All of it is read from the catalog here, for the table and for every table whose rows are rows of it
too (`Dialect.below`). The planner, the worker, `check`, `explain` and the code for partitions ask
this module; what cannot be counted is refused for all of them alike.
"""

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Dialect
from bestbefore.adapters.rows.dialects import dialect_of
from bestbefore.adapters.rows.references import Allowance, Catalog, Reference
from bestbefore.domain.rows import RowSource
from bestbefore.ports.rows import TableRefused

SMALL_TABLE = 10_000
"""Rows up to which a table may be read as a whole for each batch, as that takes milliseconds."""


def refuse_uncountable(
    connection: sa.Connection, dialect: Dialect, source: RowSource, table: sa.Table
) -> None:
    """Raise TableRefused where the catalog or the data of *table* may hide what a DELETE does."""
    schema, name = str(table.schema), table.name
    children = [one for one in dialect.below(connection, schema, name) if not one.is_partition]
    if children:
        named = ", ".join(f"{one.schema}.{one.name}" for one in children)
        raise TableRefused(
            f"other tables inherit from {source.table} ({named}), so that a DELETE would remove "
            "their rows as well, uncounted; take them out with ALTER TABLE … NO INHERIT, or make "
            "them partitions"
        )
    if not source.accepts_row_security and dialect.row_security(connection, schema, name):
        raise TableRefused(
            f"row security decides which rows of {source.table} this role sees, so that old rows "
            "may stay unseen and nothing could be proven; give the role a policy for all rows or "
            'BYPASSRLS, or write row_security = "accept" to clean up only what it sees'
        )
    _refuse_hidden(connection, dialect, source, table)


def _refuse_hidden(
    connection: sa.Connection, dialect: Dialect, source: RowSource, table: sa.Table
) -> None:
    if source.trusts_foreign_keys:
        return
    hidden = dialect.hidden_foreign_keys(connection, str(table.schema), table.name)
    if hidden is not None:
        raise TableRefused(
            f"not all foreign keys that refer to {table} can be seen, so that rows of other tables "
            f"might be removed or changed uncounted: {hidden}; or write "
            'foreign_keys_seen = "trust" if there are no others'
        )


def refuse_unfollowed(
    connection: sa.Connection,
    catalog: Catalog,
    source: RowSource,
    table: sa.Table,
    allowed: Allowance,
) -> None:
    """Raise TableRefused where rows that refer to those of *table* could not be followed or
    counted, over any number of steps."""
    for reference in _followed(catalog, allowed, (table,)):
        child = reference.table
        if reference.unseen is not None:
            raise TableRefused(
                f"rows of {child} refer to those of {source.table} ({reference.name}), and they "
                f"cannot all be seen: {reference.unseen}"
            )
        if child is table and not reference.unique:
            raise TableRefused(_shared(reference, "make these columns unique"))
        if not allowed.allows(reference):
            continue
        if reference.changes:
            _refuse_changed_further(catalog, reference)
        if child is not table:
            _refuse_child(connection, source, reference)


def _followed(
    catalog: Catalog, allowed: Allowance, path: tuple[sa.Table, ...]
) -> Iterator[Reference]:
    """References to the last table of *path* and to what would be removed with it. Circles end
    here; they are refused elsewhere."""
    for reference in catalog.references(path[-1]):
        yield reference
        child = reference.table
        if child not in path and allowed.allows(reference) and not reference.changes:
            yield from _followed(catalog, allowed, (*path, child))


def _refuse_child(connection: sa.Connection, source: RowSource, reference: Reference) -> None:
    dialect, child = dialect_of(connection), reference.table
    if not reference.unique:
        remedy = f"make these columns unique, or take {child.name} out of `dependents`"
        raise TableRefused(_shared(reference, remedy))
    if not reference.changes:
        _refuse_hidden(connection, dialect, source, child)
    below = dialect.below(connection, str(child.schema), child.name)
    if not reference.changes and any(not one.is_partition for one in below):
        raise TableRefused(
            f"other tables inherit from {child}, so that a DELETE would remove their rows as "
            f"well; take {child.name} out of `dependents`"
        )
    if not (reference.indexed or source.allow_full_scan or _is_small(connection, child)):
        columns = ", ".join(column.name for column in reference.columns)
        raise TableRefused(
            f"{child} refers to {source.table} by ({columns}) without an index "
            f"({reference.name}), so that all of it would be read for every batch: create an index "
            f"of {child} that begins with ({columns}), or write allow_full_scan = true"
        )


def _shared(reference: Reference, remedy: str) -> str:
    columns = ", ".join(column.name for column in reference.referred)
    return (
        f"{reference.table} refers to ({columns}), which several rows may share "
        f"({reference.name}), so that rows that stay would lose theirs too; {remedy}"
    )


def _refuse_changed_further(catalog: Catalog, reference: Reference) -> None:
    """Raise TableRefused where a foreign key refers to what *reference* has the database change."""
    child = reference.table
    changed = {column.name for column in reference.columns}
    for further in catalog.references(child):
        if not changed.isdisjoint(column.name for column in further.referred):
            raise TableRefused(
                f"{reference.name} of {child} is ON DELETE {reference.on_delete}, and "
                f"{further.table} refers to the columns that this changes ({further.name}), so "
                "that its rows would be changed too, uncounted; take "
                f"{child.name} out of `dependents`"
            )


def _is_small(connection: sa.Connection, table: sa.Table) -> bool:
    some = sa.select(sa.literal(1).label("one")).select_from(table).limit(SMALL_TABLE + 1)
    rows = sa.select(sa.func.count()).select_from(some.subquery())
    return bool(connection.execute(rows).scalar_one() <= SMALL_TABLE)


def triggers(
    connection: sa.Connection, removed: Sequence[sa.Table], changed: Sequence[sa.Table]
) -> list[str]:
    """What the database runs by itself where rows of *removed* are deleted and rows of *changed*
    lose their reference, each as ``table: name``, with a line for what cannot be seen."""
    dialect = dialect_of(connection)
    found: dict[str, None] = {}
    for event, tables in (("DELETE", removed), ("UPDATE", changed)):
        for table in tables:
            there = str(table.schema), table.name
            found.update(dict.fromkeys(dialect.triggers(connection, *there, event)))
            if (hidden := dialect.hidden_triggers(connection, *there)) is not None:
                found[f"{table}: {hidden}"] = None
    return list(found)
