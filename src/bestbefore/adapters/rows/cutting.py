"""A batch in smaller ones, cut from what is between its ends now."""

from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.table import Target
from bestbefore.domain.rows import RowBatch
from bestbefore.ports.rows import RowTask

_MOST_PARTS = 1_000


def halves(connection: sa.Connection, target: Target, task: RowTask) -> tuple[RowBatch, ...]:
    """Two parts; one or none where there is no more than one row."""
    rows = sa.select(sa.func.count()).select_from(target.table).where(meant(target, task))
    there = min(task.batch.rows, connection.execute(rows).scalar_one())
    return parts(connection, target, task, max(1, (there + 1) // 2))


def parts(
    connection: sa.Connection, target: Target, task: RowTask, size: int
) -> tuple[RowBatch, ...]:
    """Parts of *size* rows each, in walk order, at most a thousand: the last one may be larger,
    and is divided again once its turn comes."""
    batches: list[RowBatch] = []
    first = ""
    for row in connection.execute(_ends(target, task, size)).mappings():
        end = target.end([row[f"w{n}"] for n, _ in enumerate(target.along)])
        start, number, rows = int(row["start"]), int(row["number"]), int(row["rows"])
        if number == start + 1:
            first = end
        if number == start + rows:
            oldest = target.times.read(row["oldest"])
            batches.append(RowBatch(first, end, rows, oldest, target.walk, target.shape))
    return tuple(batches)


def _ends(target: Target, task: RowTask, size: int) -> sa.Select[Any]:
    """The first and the last row of each part, with how many rows are before that part and in it,
    and the time of its oldest."""
    names = [f"w{n}" for n, _ in enumerate(target.along)]
    along = [column.label(name) for name, column in zip(names, target.along, strict=True)]
    eligible = (
        sa.select(*along, target.times.value.label("at"))
        .where(meant(target, task))
        .subquery("eligible")
    )
    number = sa.func.row_number().over(order_by=[eligible.c[name] for name in names])
    numbered = sa.select(*eligible.c, number.label("number")).subquery("numbered")
    before = numbered.c.number - 1
    last = (_MOST_PARTS - 1) * size
    start = sa.case((before < last, before - before % size), else_=last).label("start")
    started = sa.select(*numbered.c, start).subquery("started")
    counted = sa.select(
        *started.c,
        sa.func.count().over(partition_by=started.c.start).label("rows"),
        sa.func.min(started.c.at).over(partition_by=started.c.start).label("oldest"),
    ).subquery("counted")
    c = counted.c
    rendered = target.rendered([c[name] for name in names])
    return (
        sa.select(
            *(value.label(name) for value, name in zip(rendered, names, strict=True)),
            c.start, c.number, c["rows"], c.oldest,
        )
        .where(sa.or_(c.number == c.start + 1, c.number == c.start + c["rows"]))
        .order_by(c.number)
    )  # fmt: skip


def meant(target: Target, task: RowTask) -> sa.ColumnElement[bool]:
    """The rows of *task*, as far as they may go."""
    between = target.between(task.batch.first, task.batch.last)
    return sa.and_(between, target.eligible(task.cutoff))
