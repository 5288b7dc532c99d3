"""Batches of eligible rows, cut by the database: one statement for many of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.cutting import parts
from bestbefore.adapters.rows.dialect import Condition
from bestbefore.adapters.rows.planning.counting import counted
from bestbefore.adapters.rows.table import Target
from bestbefore.domain.rows import MOST_DEPENDENTS, RowBatch, Walk
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import RowTask, Slice

_KEPT, _REMOVED = 0, 1
"""What a row is: young or not meant, or eligible. From 2 on, the keeper that keeps it."""


def cut(
    connection: sa.Connection,
    target: Target,
    cutoff: datetime,
    gap: KeyRange,
    size: int,
    most: int,
    spans: Sequence[tuple[str, str]] = (),
) -> Slice:
    """See `RowReader.slice`."""
    batches: list[RowBatch] = []
    keepers = [keeper.table for keeper in target.keepers_of(cutoff)]
    referenced: Counter[str] = Counter()
    looked, end, first, oldest = 0, "", "", cutoff
    for row in connection.execute(_ends(target, cutoff, gap, size, most, spans)).mappings():
        end = target.end([row[name] for name in _names(target)])
        number = row["number"]
        if row["is_last"]:
            looked += number
            if row["fate"] > _REMOVED:
                referenced[keepers[row["fate"] - _REMOVED - 1]] += number
        if row["fate"] != _REMOVED:
            continue
        at = target.times.read(row["oldest"])
        if number % size == 1 % size:
            first, oldest = end, at
        if number % size == 0 or row["is_last"]:
            count, oldest = (number - 1) % size + 1, min(oldest, at)
            batches.append(RowBatch(first, end, count, oldest, target.walk, target.shape))
    rest = KeyRange(end, gap.until) if looked == most else None
    which = _within(target, KeyRange(gap.after, None), spans)
    which = sa.and_(which, target.at_most(end)) if rest else sa.and_(which, target.within(gap))
    if batches:
        batches = list(_counted(connection, target, cutoff, batches, which, size))
    return Slice(batches, rest, looked, referenced)


def _counted(
    connection: sa.Connection,
    target: Target,
    cutoff: datetime,
    batches: Sequence[RowBatch],
    which: Condition,
    size: int,
) -> Iterator[RowBatch]:
    """*batches*, of *size* eligible rows each among those that *which* chooses, with what is
    removed and changed with them. One with more than `MOST_DEPENDENTS` of that is cut again."""
    counts = counted(connection, target, cutoff, which, size)
    for place, batch in enumerate(batches):
        dependents = counts.get(place * size, ())
        beside = sum(one.removed + one.changed for one in dependents)
        if beside <= MOST_DEPENDENTS or batch.rows == 1:
            yield replace(batch, dependents=dependents)
            continue
        # At most as many parts as `parts` cuts at once.
        smaller = max(1, batch.rows * MOST_DEPENDENTS // (2 * beside), batch.rows // 900)
        task = RowTask(b"", "", "", batch, cutoff)
        cut_again = parts(connection, target, task, min(smaller, batch.rows // 2))
        between = target.between(batch.first, batch.last)
        if len(cut_again) < 2:
            yield replace(batch, dependents=dependents)
            continue
        yield from _counted(
            connection, target, cutoff, cut_again, between, min(smaller, batch.rows // 2)
        )


def looked_at(
    target: Target,
    cutoff: datetime,
    gap: KeyRange,
    most: int,
    spans: Sequence[tuple[str, str]] = (),
) -> sa.Select[Any]:
    """The next rows of *gap* in walk order, at most *most*, and what each of them is: `_KEPT`,
    `_REMOVED`, or the place of the keeper that keeps it."""
    columns = [
        column.label(name) for column, name in zip(target.along, _names(target), strict=True)
    ]
    meant = target.meant(cutoff)
    if target.walk is Walk.KEY:
        columns.append(sa.case((meant, target.times.value)).label("at"))
    kept_by = [keeper.exists for keeper in target.keepers_of(cutoff)]
    whens = [(exists, place) for place, exists in enumerate(kept_by, _REMOVED + 1)]
    fate: sa.ColumnElement[int] = sa.case(
        (sa.not_(sa.func.coalesce(meant, sa.false())), _KEPT), *whens, else_=_REMOVED
    )
    rows = sa.select(*columns, fate.label("fate"))
    rows = rows.where(_within(target, gap, spans), target.walkable)
    if target.walk is Walk.TIMESTAMP:
        rows = rows.where(target.times.reach(cutoff))
    rows = rows.order_by(*target.along).limit(most)
    return target.dialect.walking(rows, target.table, target.index)


def _within(target: Target, gap: KeyRange, spans: Sequence[tuple[str, str]]) -> Condition:
    """Rows of *gap*, without those whose time lies in a range of *spans* (its end is outside)."""
    column, of = target.times.column, target.columns[target.times.column.name]
    value = target.dialect.value
    outside = (
        sa.or_(column < value(since, of), column >= value(until, of)) for since, until in spans
    )
    return sa.and_(target.within(gap), *outside)


def _ends(
    target: Target,
    cutoff: datetime,
    gap: KeyRange,
    size: int,
    most: int,
    spans: Sequence[tuple[str, str]],
) -> sa.Select[Any]:
    """The first and the last of each *size* eligible rows, and the last of each kind, in order.

    ``number`` counts the rows of each kind apart. Whoever goes on behind the last row has looked at
    all kinds up to there.
    """
    looked = looked_at(target, cutoff, gap, most, spans).subquery("looked")
    walk = [looked.c[name] for name in _names(target)]
    apart = sa.func.row_number().over(partition_by=looked.c.fate, order_by=walk)
    following = sa.func.lead(looked.c.fate).over(partition_by=looked.c.fate, order_by=walk)
    rows = sa.select(*looked.c, apart.label("number"), following.label("following")).cte("numbered")
    is_last = rows.c.following.is_(None)
    at_end = sa.or_(rows.c.number % size == 1 % size, rows.c.number % size == 0)
    walk = [rows.c[name] for name in _names(target)]
    rendered = zip(target.rendered(walk), _names(target), strict=True)
    ends = sa.select(
        *(value.label(name) for value, name in rendered),
        rows.c.fate,
        rows.c.number,
        sa.case((is_last, 1), else_=0).label("is_last"),
    ).where(sa.or_(is_last, sa.and_(rows.c.fate == _REMOVED, at_end)))
    if target.walk is Walk.TIMESTAMP:
        # Of others it is not asked for: there are times that no driver can read.
        oldest = sa.case((rows.c.fate == _REMOVED, target.times.value_of(walk[0])))
        ends = ends.add_columns(oldest.label("oldest"))
    else:
        # As a window this takes MariaDB the square of the time.
        batch = rows.c.number - 1 - (rows.c.number - 1) % size
        by_batch = (
            sa.select(rows.c.fate, batch.label("batch"), sa.func.min(rows.c.at).label("oldest"))
            .group_by(rows.c.fate, batch)
            .subquery("batches")
        )
        same = sa.and_(by_batch.c.fate == rows.c.fate, by_batch.c.batch == batch)
        ends = ends.join(by_batch, same).add_columns(by_batch.c.oldest)
    return ends.order_by(*walk)


def _names(target: Target) -> list[str]:
    return [f"w{n}" for n, _ in enumerate(target.along)]
