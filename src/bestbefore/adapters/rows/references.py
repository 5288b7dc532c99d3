"""Foreign keys that refer to a table, in every schema, and which rows they keep."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.sql.elements import quoted_name

from bestbefore.adapters.rows.dialect import Column, Condition, Dialect, Expression, ForeignKey
from bestbefore.adapters.rows.dialects import dialect_of
from bestbefore.adapters.rows.names import find
from bestbefore.adapters.rows.timestamps import Times
from bestbefore.domain.rows import RowSource
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import TableRefused

_CHANGES = frozenset({"SET NULL", "SET DEFAULT"})

TABLEOID = "tableoid"
"""The system column of PostgreSQL that tells in which partition a row lies."""

TableId = tuple[str, str]
"""The schema and the name of a table."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key: ``columns`` of ``table``, the child, refer to ``referred`` of the parent.

    ``on_delete`` is as in SQL: ``NO ACTION``, ``RESTRICT``, ``CASCADE``, ``SET NULL`` or
    ``SET DEFAULT``. ``indexed`` says that an index of the child begins with ``columns``; for
    ``unique``, ``collations``, ``converts`` and ``unseen`` see `dialect.ForeignKey`. Where only
    some partitions of the parent are referred to, ``relations`` are their OIDs and ``relation`` is
    the column of the parent that holds a row's. ``entries`` is the index of the parent whose
    entries have to be locked so that nothing else comes to refer by this key.
    """

    name: str
    table: sa.Table
    columns: tuple[sa.Column[Any], ...]
    referred: tuple[sa.Column[Any], ...]
    on_delete: str
    indexed: bool
    unique: bool = True
    collations: tuple[str | None, ...] = ()
    converts: bool = False
    relations: tuple[int, ...] = ()
    relation: sa.Column[Any] | None = None
    entries: str | None = None
    unseen: str | None = None

    @property
    def changes(self) -> bool:
        """Whether rows of the child stay when their row is deleted, and lose their reference."""
        return self.on_delete in _CHANGES

    @property
    def silent(self) -> bool:
        """Whether the database removes or changes rows of the child by itself."""
        return self.changes or self.on_delete == "CASCADE"

    @property
    def needed(self) -> tuple[sa.Column[Any], ...]:
        """What has to be known of a row of the parent to find the rows that refer to it."""
        return self.referred if self.relation is None else (*self.referred, self.relation)

    def compared(self, child: sa.FromClause) -> list[Expression]:
        """The columns of *child*, the table or an alias of it, as the database compares them."""
        columns: list[Expression] = [child.c[column.key] for column in self.columns]
        for place, collation in enumerate(self.collations):
            if collation is not None:
                columns[place] = sa.collate(columns[place], collation)
        return columns

    def joined(self, child: sa.FromClause, parent: Sequence[Expression]) -> Condition:
        """Whether a row of *child* refers to the row whose `needed` are *parent*."""
        pairs = zip(parent, self.compared(child), strict=False)
        same = [above == below for above, below in pairs]
        if self.relation is not None:
            # Not as parameters: a list of these is only filled in when a statement is executed.
            same.append(parent[-1].in_([sa.literal_column(str(oid)) for oid in self.relations]))
        return sa.and_(*same)

    def refers(self, child: sa.FromClause, parent: sa.FromClause) -> Condition:
        """Whether a row of *child* refers to one of *parent*: the tables, or aliases of them."""
        return self.joined(child, [parent.c[column.key] for column in self.needed])


@dataclass(frozen=True, slots=True)
class Keeper:
    """Rows of ``table`` that keep the rows they refer to, directly or over rows that would be
    removed with them.

    ``exists`` says that there is one for a row of the table in question.
    """

    table: str
    exists: Condition


class OwnRule(NamedTuple):
    """What the policy of a table itself says: which rows stay under it, and how old they are."""

    stays: Condition
    times: Times


class Allowance:
    """Which tables may lose or change rows with the rows they refer to: those in *named*, or,
    without it, all of them. Partitions of a table are meant with it.

    A table with a policy of its own, one in *rules*, loses only rows that this would remove now;
    its rule is made when it is first asked for, and None says that it would remove none.
    """

    def __init__(
        self,
        named: frozenset[TableId] | None,
        rules: Mapping[TableId, Callable[[], OwnRule | None]],
    ) -> None:
        self._named = named
        self._rules = rules
        self._made: dict[TableId, OwnRule | None] = {}

    def allows(self, reference: Reference) -> bool:
        """Whether rows that refer by *reference* may be removed, or changed if it changes them."""
        table = id_of(reference.table)
        if self._named is not None and table not in self._named:
            return False
        return reference.changes or table not in self._rules or self.rule(table) is not None

    def rule(self, table: TableId) -> OwnRule | None:
        """What the policy of *table* itself says, if it has one that removes anything."""
        if table not in self._rules:
            return None
        if table not in self._made:
            self._made[table] = None  # for what leads back to it
            self._made[table] = self._rules[table]()
        return self._made[table]


class Catalog:
    """What one look at the catalog finds: each table is asked about once, and is one object."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._dialect = dialect_of(connection)
        self._tables: dict[TableId, sa.Table] = {}
        self._references: dict[TableId, Sequence[Reference]] = {}

    def table(self, schema: str, name: str, columns: Sequence[Column] | None = None) -> sa.Table:
        """The table *name*; *columns* are its own where they are known."""
        if (schema, name) not in self._tables:
            table = table_of(self._connection, self._dialect, schema, name, columns)
            self._tables[schema, name] = table
        return self._tables[schema, name]

    def references(self, table: sa.Table) -> Sequence[Reference]:
        """Every foreign key that refers to *table*, or to a partition of it; its own to itself
        among them. Raises TableRefused for one that the database could not follow."""
        there = id_of(table)
        if there not in self._references:
            keys = self._dialect.foreign_keys(self._connection, *there)
            self._references[there] = [self._reference(table, key) for key in keys]
        return self._references[there]

    def _reference(self, table: sa.Table, key: ForeignKey) -> Reference:
        itself = (key.schema, key.table) == id_of(table)
        child = table if itself else self.table(key.schema, key.table)
        if key.relations and TABLEOID not in table.c:
            table.append_column(sa.Column(TABLEOID, sa.types.NullType(), key=TABLEOID, system=True))
        return Reference(
            key.name,
            child,
            tuple(_column(child, name) for name in key.columns),
            tuple(_column(table, name) for name in key.referred),
            key.on_delete,
            key.indexed,
            key.unique,
            tuple(key.collations),
            key.converts,
            tuple(key.relations),
            table.c[TABLEOID] if key.relations else None,
            self._entries(table, key),
            key.unseen,
        )

    def _entries(self, table: sa.Table, key: ForeignKey) -> str | None:
        """See `Reference`."""
        if not self._dialect.locks_entries:
            return None
        indexes = self._dialect.indexes(self._connection, *id_of(table))
        fitting = [
            index
            for index in indexes
            if set(index.columns[: len(key.referred)]) == set(key.referred)
        ]
        # Those of the primary key are locked with the rows.
        return None if any(i.primary for i in fitting) else next((i.name for i in fitting), None)


def id_of(table: sa.Table) -> TableId:
    return str(table.schema), table.name


def references(connection: sa.Connection, table: sa.Table) -> Sequence[Reference]:
    """See `Catalog.references`."""
    return Catalog(connection).references(table)


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


def named_tables(
    connection: sa.Connection, dialect: Dialect, source: RowSource
) -> frozenset[TableId] | None:
    """The tables that ``dependents`` names, and their partitions; None where it means all.

    Raises StoreError where one is not there.
    """
    if source.dependents is None:
        return None
    return frozenset(
        one
        for name in source.dependents
        for one in with_partitions(connection, dialect, _found(connection, dialect, name))
    )


def with_partitions(connection: sa.Connection, dialect: Dialect, table: TableId) -> list[TableId]:
    """*table* and its partitions, over any number of steps."""
    below = dialect.below(connection, *table)
    return [table, *((one.schema, one.name) for one in below if one.is_partition)]


def refuse_unrelated(
    connection: sa.Connection,
    dialect: Dialect,
    source: RowSource,
    table: sa.Table,
    allowed: Allowance,
) -> None:
    """Raise TableRefused where ``dependents`` names a table that nothing leads to from *table*."""
    if not source.dependents:
        return
    reached = {id_of(child) for child in _reached(Catalog(connection), table, allowed)}
    for name in source.dependents:
        found = _found(connection, dialect, name)
        if reached.isdisjoint(with_partitions(connection, dialect, found)):
            raise TableRefused(
                f"{name}, under `dependents`, has no foreign key that leads to {source.table}; "
                "take it out"
            )


def _reached(catalog: Catalog, table: sa.Table, allowed: Allowance) -> Iterator[sa.Table]:
    """Tables with a foreign key to *table*, over any number of steps of allowed ones; those that
    are not allowed to lose any rows, and *table* itself, among them."""
    for reference in catalog.references(table):
        child = reference.table
        yield child
        if child is not table and allowed.allows(reference) and not reference.changes:
            yield from _reached(catalog, child, allowed)


def keepers(catalog: Catalog, table: sa.Table, allowed: Allowance) -> Iterator[Keeper]:
    """What of other tables keeps rows of *table*: a row that refers to it, whatever its foreign key
    does ON DELETE, unless its table is allowed to lose or change it.

    O-FK-01: a row that something younger refers to stays, and its neighbours are removed. Asked as
    NOT EXISTS and never as NOT IN, which a single NULL makes untrue for every row (O-FK-03).

    Raises TableRefused where rows of several tables refer to each other in a circle.
    """
    yield from _keepers(catalog, allowed, (), (table,))


def _keepers(
    catalog: Catalog,
    allowed: Allowance,
    way: tuple[Reference, ...],
    path: tuple[sa.Table, ...],
) -> Iterator[Keeper]:
    for reference in catalog.references(path[-1]):
        child = reference.table
        if id_of(child) == id_of(path[-1]):
            continue
        longer = (*way, reference)
        circle = id_of(child) in map(id_of, path)
        if circle and not reference.changes:
            said = " -> ".join(map(str, (*path, child)))
            raise TableRefused(
                f"rows of these tables refer to each other in a circle, so that none can be "
                f"removed first: {said}; have one of these foreign keys ON DELETE SET NULL"
            )
        if not allowed.allows(reference):
            yield Keeper(str(child), _exists(longer, path[0]))
        elif not reference.changes:
            if (rule := allowed.rule(id_of(child))) is not None:
                yield Keeper(str(child), _exists(longer, path[0], last=rule.stays))
            yield from _keepers(catalog, allowed, longer, (*path, child))


def _exists(
    way: Sequence[Reference],
    above: sa.FromClause,
    *outer: sa.FromClause,
    last: Condition | None = None,
) -> Condition:
    """Whether a row of *above* is referred to along *way*, by one for which *last* holds. A row of
    the first table that the way leads back to does not keep itself."""
    reference, *others = way
    first = outer[0] if outer else above
    back = isinstance(first, sa.Table) and id_of(reference.table) == id_of(first)
    child: sa.FromClause = reference.table.alias() if back else reference.table
    rows = sa.select(sa.literal(1)).select_from(child).where(reference.refers(child, above))
    if back and isinstance(first, sa.Table) and (key := list(first.primary_key.columns)):
        rows = rows.where(sa.not_(sa.and_(*(child.c[c.key] == c for c in key))))
    if others:
        rows = rows.where(_exists(others, child, first, last=last))
    elif last is not None:
        rows = rows.where(last)
    return rows.correlate(above, *outer).exists()


def _found(connection: sa.Connection, dialect: Dialect, name: str) -> TableId:
    relation = find(connection, dialect, name)
    return relation.schema, relation.name


def found_table(connection: sa.Connection, dialect: Dialect, name: str) -> TableId | None:
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
