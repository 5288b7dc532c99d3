"""A table as a policy means it: what of it is eligible, and in which order it is gone through."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows import names
from bestbefore.adapters.rows.archive_table import ArchiveTable, archive_of, refuse_unarchived
from bestbefore.adapters.rows.catalog.effects import refuse_uncountable, refuse_unfollowed
from bestbefore.adapters.rows.dependents import Node, tree
from bestbefore.adapters.rows.descent import some_stay_below
from bestbefore.adapters.rows.dialect import (
    Column,
    Condition,
    Dialect,
    Expression,
    Index,
    Relation,
    Unusable,
    constant,
)
from bestbefore.adapters.rows.dialects import dialect_of
from bestbefore.adapters.rows.kinds import times_of
from bestbefore.adapters.rows.references import (
    Allowance,
    Catalog,
    Keeper,
    OwnRule,
    Reference,
    TableId,
    found_table,
    id_of,
    keepers,
    named_tables,
    table_of,
    with_partitions,
)
from bestbefore.adapters.rows.timestamps import Times
from bestbefore.adapters.rows.where import condition
from bestbefore.domain.rows import Governed, RowSource, TimestampKind, Walk
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import TableRefused

_SHAPE_DIGITS = 16


@dataclass(frozen=True)
class Target:
    """The table of a source.

    ``key`` tells its rows apart. ``along`` are the columns in whose order it is gone through:
    those of the key, behind the timestamp if ``walk`` says so; ``index`` is the index for that,
    None where the database needs no telling. ``own`` are those of its foreign keys to itself by
    which a row keeps another one. ``allowed`` says which other tables may lose or change rows with
    the rows that they refer to, ``node`` how, and ``ages`` tells how old the rows of some of them
    are, by table. ``archive`` is the table that its rows are moved to, if any.
    """

    dialect: Dialect
    place: str
    table: sa.Table
    columns: Mapping[str, Column]
    key: tuple[sa.Column[Any], ...]
    walk: Walk
    along: tuple[sa.Column[Any], ...]
    index: str | None
    times: Times
    where: Condition | None
    keepers: tuple[Keeper, ...]
    own: tuple[Reference, ...]
    allowed: Allowance
    node: Node
    ages: Mapping[str, Times]
    archive: ArchiveTable | None

    @property
    def kind(self) -> TimestampKind:
        """What the timestamp column is."""
        return self.times.kind

    @cached_property
    def shape(self) -> str:
        """A fingerprint of columns, types, key and walk."""
        said = [
            [[column.name, column.type, column.collation] for column in self.columns.values()],
            [column.name for column in self.key],
            [column.name for column in self.along],
            self.kind,
        ]
        return sha256(json.dumps(said).encode()).hexdigest()[:_SHAPE_DIGITS]

    def eligible(self, cutoff: datetime) -> Condition:
        """All that has to hold for a row that may go: it is old, meant, and nothing keeps it."""
        kept = (sa.not_(keeper.exists) for keeper in self.keepers_of(cutoff))
        return sa.and_(self.meant(cutoff), *kept)

    def meant(self, cutoff: datetime) -> Condition:
        """What has to hold for a row by itself: it is old, and ``where`` holds."""
        return sa.and_(*self._meant(cutoff))

    def keepers_of(self, cutoff: datetime) -> Iterator[Keeper]:
        """What may keep a row that is old and meant."""
        yield from self.keepers
        if self.own:
            # It stays if anything below it does (O-FK-02, where all of it is removed).
            removed = sa.and_(self.meant(cutoff), *(sa.not_(k.exists) for k in self.keepers))
            stays = some_stay_below(self.dialect, self.table, self.key, self.own, removed)
            yield Keeper(str(self.table), stays)

    @property
    def walkable(self) -> Condition:
        """Rows that can be walked to: their place in the order goes through text and back."""
        sound = (self.dialect.sound(c, self.columns[c.name]) for c in self.along)
        return sa.and_(sa.true(), *(condition for condition in sound if condition is not None))

    def between(
        self, first: str, last: str, along: Sequence[sa.Column[Any]] | None = None
    ) -> Condition:
        """Rows from *first* to *last*, both inside; those of another table, where *along* are its
        columns in place of ours."""
        along = self.along if along is None else along
        return sa.and_(
            self.dialect.at_least(along, self._values(first), strictly=False),
            self.dialect.at_most(along, self._values(last), strictly=False),
        )

    def at_most(self, last: str) -> Condition:
        """Rows up to *last*, which is inside."""
        return self.dialect.at_most(self.along, self._values(last), strictly=False)

    def within(self, gap: KeyRange) -> Condition:
        """Rows between the ends of *gap*, both outside it."""
        after, until = (None if end is None else self._values(end) for end in gap[:2])
        return self.beyond(after, until)

    def beyond(
        self, after: Sequence[Expression] | None, until: Sequence[Expression] | None
    ) -> Condition:
        """Rows between two ends that are given by the values of ``along``; None is open."""
        parts: list[Condition] = [sa.true()]
        if after is not None:
            parts.append(self.dialect.at_least(self.along, after, strictly=True))
        if until is not None:
            parts.append(self.dialect.at_most(self.along, until, strictly=True))
        return sa.and_(*parts)

    def natives(self, end: str) -> list[Any]:
        """What the driver is given for the texts of *end*."""
        return [
            self.dialect.native(text, self.columns[column.name])
            for text, column in zip(json.loads(end), self.along, strict=True)
        ]

    def typed(self, given: Sequence[Expression]) -> list[Expression]:
        """*given*, which are `natives`, as values of ``along``."""
        return [
            self.dialect.typed(value, self.columns[column.name])
            for value, column in zip(given, self.along, strict=True)
        ]

    def _values(self, end: str) -> list[Expression]:
        return self.typed([constant(value) for value in self.natives(end)])

    def rendered(self, columns: Sequence[sa.ColumnElement[Any]]) -> list[sa.ColumnElement[Any]]:
        """*columns*, which hold the values of ``along``, as `end` takes them."""
        return [
            self.dialect.rendered(value, self.columns[column.name])
            for value, column in zip(columns, self.along, strict=True)
        ]

    def end(self, values: Sequence[Any]) -> str:
        """A JSON array of texts, from what `rendered` gave."""
        texts = [self.dialect.text(value) for value in values]
        return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))

    def _meant(self, cutoff: datetime) -> Iterator[Condition]:
        """What has to hold for a row by itself."""
        yield self.times.before(cutoff)
        if self.where is not None:
            yield self.where
        yield self.walkable


def base_table(connection: sa.Connection, source: RowSource) -> sa.Table:
    """The table of *source*. Raises as `reflect` does."""
    relation = _base(connection, source)
    return table_of(connection, dialect_of(connection), relation.schema, relation.name)


def reflect(
    connection: sa.Connection,
    source: RowSource,
    walk: Walk | None = None,
    catalog: Catalog | None = None,
) -> Target:
    """The table of *source* as it is now, to be gone through in the order of *walk*: without one,
    along an index that begins with the timestamp if there is such an index, else by key.

    Raises TableRefused where the policy does not go with the table, StoreError where something is
    not there, and what the database raises.
    """
    dialect = dialect_of(connection)
    relation = _base(connection, source)
    columns = dialect.columns(connection, relation.schema, relation.name)
    indexes = dialect.indexes(connection, relation.schema, relation.name)
    catalog = Catalog(connection) if catalog is None else catalog
    table = catalog.table(relation.schema, relation.name, columns)
    key, by_key = _key(dialect, source, columns, indexes)
    timestamp = names.column(dialect, columns, source.timestamp, source.table)
    times = times_of(connection, dialect, table.c[timestamp.name], timestamp, source)
    by_time = _by_time(indexes, timestamp.name, key)
    if walk is None:
        walk = Walk.KEY if by_time is None else Walk.TIMESTAMP
    elif walk is Walk.TIMESTAMP and by_time is None:
        raise TableRefused(
            f"{source.table} has batches along an index that begins with {timestamp.name}, and "
            "there is no such index any more; create it again, or cancel their runs"
        )
    along = key if walk is Walk.KEY else [timestamp.name, *(n for n in key if n != timestamp.name)]
    refuse_uncountable(connection, dialect, source, table)
    allowed = Allowance(
        named_tables(connection, dialect, source), _own_rules(connection, source, catalog)
    )
    inward = catalog.references(table)
    refuse_unarchived(source, table, inward, allowed)
    refuse_unfollowed(connection, catalog, source, table, allowed)
    where = source.where
    return Target(
        dialect=dialect,
        place=f"{dialect.place(connection)}/{relation.schema}.{relation.name}",
        table=table,
        columns={column.name: column for column in columns},
        key=tuple(table.c[name] for name in key),
        walk=walk,
        along=tuple(table.c[name] for name in along),
        index=(by_key if walk is Walk.KEY or by_time is None else by_time.name) or None,
        times=times,
        where=None if where is None else condition(connection, table, columns, where),
        keepers=tuple(keepers(catalog, table, allowed)),
        own=tuple(
            reference
            for reference in inward
            if reference.table is table and not (reference.changes and allowed.allows(reference))
        ),
        allowed=allowed,
        node=(node := tree(catalog, table, tuple(table.c[name] for name in key), allowed)),
        ages=_ages(connection, node, times, allowed),
        archive=archive_of(connection, dialect, source, table, columns, key),
    )


def _ages(
    connection: sa.Connection, node: Node, times: Times, allowed: Allowance
) -> Mapping[str, Times]:
    """How the rows beside those of *node* tell their age: as a policy of their own says, or by a
    column of the same name and kind."""
    found = {str(node.table): times}
    removed, changed = node.tables()
    for table in {str(table): table for table in (*removed[1:], *changed)}.values():
        if str(table) in found:
            continue
        if (rule := allowed.rule(id_of(table))) is not None:
            found[str(table)] = rule.times
            continue
        for column in times.dialect.columns(connection, str(table.schema), table.name):
            if (column.name, column.family) == (times.column.name, times.of.family):
                found[str(table)] = replace(times, column=table.c[column.name], of=column)
    return found


def _own_rules(
    connection: sa.Connection, source: RowSource, catalog: Catalog
) -> Mapping[TableId, Callable[[], OwnRule | None]]:
    """The policies of other tables, by table. The partitions of one lose no rows of their own."""
    dialect = dialect_of(connection)
    rules: dict[TableId, Callable[[], OwnRule | None]] = {}
    for governed in source.governed:
        there = found_table(connection, dialect, governed.table)
        if there is None:
            continue
        rules |= dict.fromkeys(with_partitions(connection, dialect, there), lambda: None)
        rules[there] = partial(_own_rule, connection, source, governed, catalog)
    return rules


def _own_rule(
    connection: sa.Connection, source: RowSource, governed: Governed, catalog: Catalog
) -> OwnRule | None:
    if governed.source is None or governed.cutoff is None:
        return None
    # Policies of tables that refer to each other in a circle do not ask each other for ever.
    others = tuple(one for one in source.governed if one is not governed)
    own = replace(governed.source, governed=others)
    target = reflect(connection, own, catalog=catalog)
    removed = sa.func.coalesce(target.eligible(governed.cutoff), sa.false())
    return OwnRule(sa.not_(removed), target.times)


def _base(connection: sa.Connection, source: RowSource) -> Relation:
    relation = names.find(connection, dialect_of(connection), source.table)
    if relation.what:
        raise TableRefused(f"{source.table} is not a base table but {relation.what}")
    return relation


def _key(
    dialect: Dialect, source: RowSource, columns: Sequence[Column], indexes: Sequence[Index]
) -> tuple[list[str], str]:
    """The key's columns in the order of its index, and that index. Raises TableRefused."""
    unique = [index for index in indexes if index.unique and index.whole and None not in index[1]]
    if source.key:
        given = {names.column(dialect, columns, name, source.table).name for name in source.key}
        fitting = [index for index in unique if set(index.columns) == given]
        if not fitting:
            raise TableRefused(
                f"{source.table} has no unique index over exactly ({', '.join(source.key)}), so "
                "that these columns would not tell its rows apart; create one, or correct rows.key"
            )
    else:
        fitting = [index for index in unique if index.primary]
        if not fitting:
            raise TableRefused(
                f"{source.table} has no primary key, so that nothing would tell its rows apart; "
                "add one, or name the columns of a unique index without NULLs as rows.key"
            )
    key = [str(name) for name in fitting[0].columns]
    by_name = {column.name: column for column in columns}
    for name in key:
        column = by_name[name]
        if column.generated:
            raise TableRefused(f"{source.table}.{name} is generated and cannot be in the key")
        if column.nullable:
            raise TableRefused(
                f"{source.table}.{name} may be NULL and so cannot be in the key; make it NOT NULL"
            )
        try:
            dialect.keyable(column)
        except Unusable as error:
            raise TableRefused(
                f"{source.table}.{name} cannot be in the key: {error}; name a unique index over "
                "other columns as rows.key"
            ) from error
    return key, fitting[0].name


def _by_time(indexes: Sequence[Index], timestamp: str, key: Sequence[str]) -> Index | None:
    """The index that begins with the timestamp, if there is one; best with the key behind it."""
    found = [index for index in indexes if index.whole and index.columns[0] == timestamp]
    rest = [name for name in key if name != timestamp]
    return max(
        found, key=lambda index: list(index.columns[1 : len(rest) + 1]) == rest, default=None
    )
