"""Range partitions that are old as a whole, as the catalog has them. PostgreSQL only.

A partition is told by its OID, as its name can be given to another table.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa

from bestbefore.adapters.rows import marks
from bestbefore.adapters.rows.catalog import partition_tree
from bestbefore.adapters.rows.catalog.partition_tree import Obstacle
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
# One whose detachment was begun, and not ended, is no part of the table for any new statement.
_PARTITIONS = sa.text("""
    SELECT c.oid, n.nspname, c.relname, pg_catalog.pg_get_expr(c.relpartbound, c.oid)
    FROM pg_catalog.pg_inherits i
    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE i.inhparent = :parent AND coalesce(to_jsonb(i) ->> 'inhdetachpending', 'false') = 'false'
    ORDER BY c.oid
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
        """Both ends of its batch."""
        return end_of(self.oid, self.schema, self.name)


class Decision(NamedTuple):
    """What becomes of old partitions: ``how`` is `Partitions.DROP` or `Partitions.DETACH`, and None
    where rows are removed in batches. ``obstacle`` says why, where the policy's own words do not.
    """

    how: Partitions | None
    obstacle: Obstacle | None = None


def end_of(oid: int, schema: str, name: str) -> str:
    """Both ends of a partition's batch: a JSON array of its OID and its name."""
    return json.dumps([str(oid), f"{schema}.{name}"], ensure_ascii=False, separators=(",", ":"))


def oid_in(end: str) -> int:
    """The OID in an `end_of`."""
    return int(json.loads(end)[0])


def whole(
    connection: sa.Connection,
    source: RowSource,
    target: Target,
    cutoff: datetime,
    taken: Collection[str],
) -> Whole:
    """See `RowReader.partitions`. Raises TableRefused."""
    decision = refused(source, decided(connection, source, target))
    if decision.how is None:
        return Whole(())
    partitions = list(old(connection, target, cutoff))
    kept = obstacles(connection, decision, [one.oid for one in partitions])
    for one in partitions:
        refuse_kept(source, f"{one.schema}.{one.name}", kept.get(one.oid, ()))
    # What was planned stays planned; its worker finds out what is in the way by now.
    apart = [one for one in partitions if one.oid not in kept or one.end in taken]
    batches = [_batch(connection, target, one) for one in apart if one.end not in taken]
    return Whole(tuple(batches), _joined(apart))


def marked(
    connection: sa.Connection, source: RowSource, target: Target, cutoff: datetime
) -> Iterator[RowBatch]:
    """See `RowReader.marked`."""
    if connection.dialect.name != "postgresql":
        return
    for found in marks.left_over(connection, source, target):
        table = sa.table(found.name, schema=found.schema)
        rows = connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
        if rows:
            # What was marked by 0.1 does not say how old it is.
            since = found.mark.since
            oldest = cutoff if since is None else _read(connection, target, since)
            end = end_of(found.oid, found.schema, found.name)
            yield RowBatch(end, end, rows, oldest, Walk.PARTITION, target.shape)


def holding(
    connection: sa.Connection, source: RowSource, target: Target, cutoff: datetime, at: str
) -> str | None:
    """The ends of the batch of the partition that is removed as a whole with rows of the time *at*,
    which is a text of their column."""
    decision = decided(connection, source, target)
    if decision.how is None:
        return None
    column = target.columns[target.times.column.name]
    value = target.dialect.value
    for one in old(connection, target, cutoff):
        time, since, until = (value(text, column) for text in (at, one.since, one.until))
        inside = connection.execute(sa.select(sa.and_(time >= since, time < until))).scalar_one()
        if inside:
            return None if obstacles(connection, decision, [one.oid]) else one.end
    return None


def decided(connection: sa.Connection, source: RowSource, target: Target) -> Decision:
    """What becomes of the old partitions of *target*, as far as the table itself decides."""
    wanted = source.partitions
    by_rows = wanted is Partitions.AUTO
    if wanted is Partitions.ROWS or (by_rows and connection.dialect.name != "postgresql"):
        return Decision(None)
    parent = None if connection.dialect.name != "postgresql" else parent_of(connection, target)
    if parent is None or target.kind in _WRITTEN:
        column = target.times.column.name
        return Decision(None, Obstacle(f"it is not partitioned by range of {column}", ""))
    if source.where is not None:
        return Decision(None, Obstacle("`where` narrows down which rows are removed", ""))
    if source.archive is not None:
        return Decision(None, Obstacle("its rows are to be archived", ""))
    in_the_way = partition_tree.of_table(connection, parent.oid)
    if in_the_way:
        remedies = "; ".join(one.remedy for one in in_the_way)
        return Decision(None, Obstacle(partition_tree.named(in_the_way), remedies))
    return Decision(Partitions.DROP if by_rows else wanted)


def refused(source: RowSource, decision: Decision) -> Decision:
    """*decision*. Raises TableRefused where *source* wants what it says cannot be."""
    if decision.obstacle is None or source.partitions is Partitions.AUTO:
        return decision
    raise TableRefused(_refusal(source, source.table, [decision.obstacle]))


def obstacles(
    connection: sa.Connection, decision: Decision, partitions: Sequence[int]
) -> Mapping[int, Sequence[Obstacle]]:
    """What is in the way of some of *partitions*, by their OIDs."""
    drops = decision.how is Partitions.DROP
    return partition_tree.of_partitions(connection, partitions, drops=drops)


def refuse_kept(source: RowSource, partition: str, found: Sequence[Obstacle]) -> None:
    """Raise TableRefused where *source* wants a *partition* to be removed as a whole although
    something was *found* in its way."""
    if found and source.partitions is not Partitions.AUTO:
        raise TableRefused(_refusal(source, partition, found))


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


def _refusal(source: RowSource, what: str, found: Sequence[Obstacle]) -> str:
    remedies = "; ".join(dict.fromkeys(one.remedy for one in found if one.remedy))
    verb = "detached" if source.partitions is Partitions.DETACH else "dropped"
    return (
        f'partitions = "{source.partitions}": {what} cannot be {verb} without another effect: '
        f"{partition_tree.named(found)}; {remedies}{', or ' if remedies else ''}"
        'write "rows" or leave it out'
    )


def _literal(bound: str) -> str | None:
    """The text of one end of a partition; None where it has none."""
    if bound in ("MINVALUE", "MAXVALUE") or "infinity" in bound:
        return None
    return bound[1:-1].replace("''", "'") if bound.startswith("'") else bound


def _batch(connection: sa.Connection, target: Target, partition: Old) -> RowBatch:
    table = sa.table(partition.name, schema=partition.schema)
    rows = connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
    oldest = _read(connection, target, partition.since)
    return RowBatch(partition.end, partition.end, rows, oldest, Walk.PARTITION, target.shape)


def _read(connection: sa.Connection, target: Target, bound: str) -> datetime:
    column = target.columns[target.times.column.name]
    value = connection.execute(sa.select(target.dialect.value(bound, column))).scalar_one()
    return target.times.read(value)


def _joined(partitions: Sequence[Old]) -> tuple[tuple[str, str], ...]:
    """The ranges that *partitions* cover, neighbours as one."""
    until = {one.since: one.until for one in partitions}
    starts = [one.since for one in partitions if one.since not in {*until.values()}]
    joined = []
    for since in starts:
        end = since
        while end in until:
            end = until[end]
        joined.append((since, end))
    return tuple(joined)
