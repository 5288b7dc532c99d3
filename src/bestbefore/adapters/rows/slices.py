"""Batches of eligible rows, cut by the database: one statement for many of them."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.table import Target
from bestbefore.domain.rows import RowBatch, Walk
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import Slice

_GOES, _REFERENCED = 1, 2


def cut(
    connection: sa.Connection,
    target: Target,
    cutoff: datetime,
    gap: KeyRange,
    size: int,
    most: int,
    since: str | None = None,
) -> Slice:
    """See `RowReader.slice`."""
    batches: list[RowBatch] = []
    looked, referenced, end, first, oldest = 0, 0, "", "", cutoff
    for row in connection.execute(_ends(target, cutoff, gap, size, most, since)).mappings():
        end = target.end([row[name] for name in _names(target)])
        number = row["number"]
        if row["is_last"]:
            looked += number
            referenced += number if row["goes"] == _REFERENCED else 0
        if row["goes"] != _GOES:
            continue
        at = target.times.read(row["oldest"])
        if number % size == 1 % size:
            first, oldest = end, at
        if number % size == 0 or row["is_last"]:
            count, oldest = (number - 1) % size + 1, min(oldest, at)
            batches.append(RowBatch(first, end, count, oldest, target.walk, target.shape))
    rest = KeyRange(end, gap.until) if looked == most else None
    return Slice(batches, rest, looked, {"": referenced} if referenced else {})


def looked_at(
    target: Target, cutoff: datetime, gap: KeyRange, most: int, since: str | None = None
) -> sa.Select[Any]:
    """The next rows of *gap* in walk order, at most *most*, and whether each of them goes: `_GOES`,
    `_REFERENCED`, or 0 where it is young or not meant."""
    columns = [
        column.label(name) for column, name in zip(target.along, _names(target), strict=True)
    ]
    goes = target.eligible(cutoff)
    if target.walk is Walk.KEY:
        columns.append(sa.case((goes, target.times.value)).label("at"))
    whens = [(goes, _GOES)]
    if target.keepers or target.own:
        whens.append((target.meant(cutoff), _REFERENCED))
    rows = sa.select(*columns, sa.case(*whens, else_=0).label("goes"))
    rows = rows.where(target.within(gap), target.walkable)
    if since is not None:
        of = target.columns[target.times.column.name]
        rows = rows.where(target.times.column >= target.dialect.value(since, of))
    if target.walk is Walk.TIMESTAMP:
        rows = rows.where(target.times.reach(cutoff))
    rows = rows.order_by(*target.along).limit(most)
    return target.dialect.walking(rows, target.table, target.index)


def _ends(
    target: Target, cutoff: datetime, gap: KeyRange, size: int, most: int, since: str | None
) -> sa.Select[Any]:
    """The first and the last of each *size* rows that go, and the last of each kind, in order.

    ``number`` counts the rows of each kind apart. Whoever goes on behind the last row has looked at
    all kinds up to there.
    """
    looked = looked_at(target, cutoff, gap, most, since).subquery("looked")
    walk = [looked.c[name] for name in _names(target)]
    apart = sa.func.row_number().over(partition_by=looked.c.goes, order_by=walk)
    following = sa.func.lead(looked.c.goes).over(partition_by=looked.c.goes, order_by=walk)
    rows = sa.select(*looked.c, apart.label("number"), following.label("following")).cte("numbered")
    is_last = rows.c.following.is_(None)
    at_end = sa.or_(rows.c.number % size == 1 % size, rows.c.number % size == 0)
    walk = [rows.c[name] for name in _names(target)]
    rendered = zip(target.rendered(walk), _names(target), strict=True)
    ends = sa.select(
        *(value.label(name) for value, name in rendered),
        rows.c.goes,
        rows.c.number,
        sa.case((is_last, 1), else_=0).label("is_last"),
    ).where(sa.or_(is_last, sa.and_(rows.c.goes == _GOES, at_end)))
    if target.walk is Walk.TIMESTAMP:
        # Of others it is not asked for: there are times that no driver can read.
        oldest = sa.case((rows.c.goes == _GOES, target.times.value_of(walk[0])))
        ends = ends.add_columns(oldest.label("oldest"))
    else:
        # As a window this takes MariaDB the square of the time.
        batch = rows.c.number - 1 - (rows.c.number - 1) % size
        by_batch = (
            sa.select(rows.c.goes, batch.label("batch"), sa.func.min(rows.c.at).label("oldest"))
            .group_by(rows.c.goes, batch)
            .subquery("batches")
        )
        same = sa.and_(by_batch.c.goes == rows.c.goes, by_batch.c.batch == batch)
        ends = ends.join(by_batch, same).add_columns(by_batch.c.oldest)
    return ends.order_by(*walk)


def _names(target: Target) -> list[str]:
    return [f"w{n}" for n, _ in enumerate(target.along)]
