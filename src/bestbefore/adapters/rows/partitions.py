"""Range partitions that are old as a whole, as the catalog has them. PostgreSQL only.

A partition is told by its OID, as its name can be given to another table.
"""

import json
import re
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa

from bestbefore.adapters.rows.references import references
from bestbefore.adapters.rows.table import Target
from bestbefore.domain.rows import Partitions, RowBatch, RowSource, TimestampKind, Walk
from bestbefore.ports.rows import TableRefused, Whole

_WRITTEN = (TimestampKind.AUTO, TimestampKind.ISO_TEXT)
"""Kinds whose bounds do not compare as times do."""

_BOUNDS = re.compile(r"FOR VALUES FROM \((?P<since>.+)\) TO \((?P<until>.+)\)", re.DOTALL)

_BY_TIME = sa.text("""
    SELECT c.oid, p.partdefid FROM pg_catalog.pg_partitioned_table p
    JOIN pg_catalog.pg_class c ON c.oid = p.partrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = :column
    WHERE n.nspname = :schema AND c.relname = :table AND p.partstrat = 'r' AND p.partnatts = 1
        AND p.partattrs[0] = a.attnum
""")
_PARTITIONS = sa.text("""
    SELECT c.oid, n.nspname, c.relname, pg_catalog.pg_get_expr(c.relpartbound, c.oid)
    FROM pg_catalog.pg_inherits i
    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE i.inhparent = :parent ORDER BY c.oid
""")
_TRIGGERED = sa.text("""
    SELECT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = :parent
        AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 8 <> 0)
""")


class Parent(NamedTuple):
    """A table that is partitioned by range of its timestamp. ``default`` is 0 where it has no
    default partition."""

    oid: int
    default: int


class Old(NamedTuple):
    """A partition that is old as a whole; ``since`` and ``until`` are texts of its bounds."""

    oid: int
    schema: str
    name: str
    since: str
    until: str

    @property
    def end(self) -> str:
        """Both ends of its batch: a JSON array of the OID and the name."""
        names = [str(self.oid), f"{self.schema}.{self.name}"]
        return json.dumps(names, ensure_ascii=False, separators=(",", ":"))


def oid_in(end: str) -> int:
    """The OID in an `Old.end`."""
    return int(json.loads(end)[0])


def whole(
    connection: sa.Connection,
    source: RowSource,
    target: Target,
    cutoff: datetime,
    taken: Collection[str],
) -> Whole:
    """See `RowReader.partitions`. Raises TableRefused."""
    if fate(connection, source, target) is None:
        return Whole((), None)
    partitions = list(old(connection, target, cutoff))
    batches = [_batch(connection, target, one) for one in partitions if one.end not in taken]
    return Whole(tuple(batches), _latest(connection, target, [one.until for one in partitions]))


def fate(connection: sa.Connection, source: RowSource, target: Target) -> Partitions | None:
    """What becomes of old partitions, `Partitions.DROP` or `Partitions.DETACH`; None where rows go
    in batches. Raises TableRefused where *source* wants partitions to go that must not."""
    wanted = source.partitions
    by_rows = wanted is Partitions.AUTO
    if wanted is Partitions.ROWS or (by_rows and connection.dialect.name != "postgresql"):
        return None
    parent = None if connection.dialect.name != "postgresql" else parent_of(connection, target)
    if parent is None or target.kind in _WRITTEN:
        why: str | None = (
            f"{source.table} is not partitioned by range of {target.times.column.name}"
        )
    else:
        why = _in_the_way(connection, source, target, parent)
    if why is None:
        return Partitions.DROP if by_rows else wanted
    if by_rows:
        return None
    raise TableRefused(f'partitions = "{wanted}": {why}; write "rows" or leave it out')


def parent_of(connection: sa.Connection, target: Target) -> Parent | None:
    """The table of *target*, if it is partitioned so."""
    table = target.table
    there = {"schema": table.schema, "table": table.name, "column": target.times.column.name}
    found = connection.execute(_BY_TIME, there).one_or_none()
    return None if found is None else Parent(*found)


def old(connection: sa.Connection, target: Target, cutoff: datetime) -> Iterator[Old]:
    """Partitions all of whose rows are before *cutoff* and have a time that can be read.

    One that begins with MINVALUE may hold rows without such a time, and so may the default one:
    their rows go in batches.
    """
    if (parent := parent_of(connection, target)) is None:
        return
    column = target.columns[target.times.column.name]
    for oid, schema, name, said in connection.execute(_PARTITIONS, {"parent": parent.oid}):
        bounds = _BOUNDS.fullmatch(said)
        since, until = (_literal(bounds[end]) if bounds else None for end in ("since", "until"))
        if since is None or until is None:
            continue
        begins, ends = (target.dialect.value(text, column) for text in (since, until))
        is_old = sa.and_(ends <= target.times.bound(cutoff), target.times.readable(begins))
        if connection.execute(sa.select(is_old)).scalar_one():
            yield Old(oid, schema, name, since, until)


def _in_the_way(
    connection: sa.Connection, source: RowSource, target: Target, parent: Parent
) -> str | None:
    """Why whole partitions must not go although all of their rows are old."""
    if source.where is not None:
        return "`where` narrows down which rows go"
    if source.archive is not None:
        return "its rows are to be archived"
    if references(connection, target.table):
        return f"other rows refer to those of {source.table}"
    if connection.execute(_TRIGGERED, {"parent": parent.oid}).scalar_one():
        return f"{source.table} has a trigger for rows that are deleted"
    return None


def _literal(bound: str) -> str | None:
    """The text of one end of a partition; None where it has none."""
    if bound in ("MINVALUE", "MAXVALUE") or "infinity" in bound:
        return None
    return bound[1:-1].replace("''", "'") if bound.startswith("'") else bound


def _batch(connection: sa.Connection, target: Target, partition: Old) -> RowBatch:
    table = sa.table(partition.name, schema=partition.schema)
    rows = connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
    column = target.columns[target.times.column.name]
    begins = connection.execute(sa.select(target.dialect.value(partition.since, column)))
    oldest = target.times.read(begins.scalar_one())
    return RowBatch(partition.end, partition.end, rows, oldest, Walk.PARTITION, target.shape)


def _latest(connection: sa.Connection, target: Target, untils: list[str]) -> str | None:
    """The latest of *untils*, as the database compares them."""
    if not untils:
        return None
    column = target.times.column
    places = target.dialect.sorted(
        connection, [(column, target.columns[column.name])], [[until] for until in untils]
    )
    return untils[places[-1]]
