"""How many rows of other tables are removed or changed with the rows of each batch.

One statement counts for all batches of a slice. It follows the same foreign keys as the worker
(`dependents.Node`), and what it counts is an upper bound: a row that two of them lead to counts
twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.dependents import Node
from bestbefore.adapters.rows.dialect import Condition, Expression
from bestbefore.adapters.rows.references import Reference, id_of
from bestbefore.adapters.rows.table import Target
from bestbefore.domain.rows import DependentRows, RowBatch
from bestbefore.ports.rows import RowTask

_ALL = 0

Counts = Mapping[int, tuple[DependentRows, ...]]
"""What was counted, by the number of eligible rows before the batch."""


def counted(
    connection: sa.Connection,
    target: Target,
    cutoff: datetime,
    which: Condition,
    size: int | None = None,
) -> Counts:
    """What is removed and changed with the eligible rows for which *which* holds, by batches of
    *size* rows in walk order; as one batch without it."""
    if not target.node.takes_along:
        return {}
    target.dialect.joins(connection)
    statement = _Statement(target, cutoff)
    found: dict[int, dict[str, DependentRows]] = {}
    for kind, table, batch, n, younger in statement.ask(connection, which, size):
        tables = found.setdefault(batch, {})
        before = tables.get(table, DependentRows(table, younger=0))
        tables[table] = _added(before, kind, int(n), None if younger is None else int(younger))
    return {
        batch: tuple(one for one in tables.values() if one.removed or one.changed)
        for batch, tables in found.items()
    }


def of_batch(
    connection: sa.Connection, target: Target, cutoff: datetime, which: Condition
) -> tuple[DependentRows, ...]:
    """`counted` of one batch."""
    return counted(connection, target, cutoff, which).get(_ALL, ())


def shared(
    connection: sa.Connection, target: Target, task: RowTask, parts: Sequence[RowBatch]
) -> tuple[RowBatch, ...]:
    """*parts* of the batch of *task*, each with what it may remove and change: all of them
    together no more than was planned. Parts for which nothing is left are left out, and the next
    plan finds their rows."""
    itself = str(target.table)
    left = {one.table: one for one in task.batch.dependents}
    along = left.get(itself, DependentRows(itself))
    # A row of the table is removed in its own part, or with a row that it refers to.
    left[itself] = along._replace(removed=along.removed + task.batch.rows)
    given = []
    for part in parts:
        rows = min(part.rows, left[itself].removed)
        if not rows:
            break
        left[itself] = left[itself]._replace(removed=left[itself].removed - rows)
        needs = of_batch(connection, target, task.cutoff, target.between(part.first, part.last))
        given.append(replace(part, rows=rows, dependents=tuple(_taken(needs, left))))
    return tuple(given)


def _taken(
    needs: Sequence[DependentRows], left: dict[str, DependentRows]
) -> Iterator[DependentRows]:
    """Of *needs* what is *left*, which it is taken from."""
    for need in needs:
        have = left.get(need.table, DependentRows(need.table))
        removed = min(need.removed, have.removed)
        changed = min(need.changed, have.changed)
        left[need.table] = have._replace(
            removed=have.removed - removed, changed=have.changed - changed
        )
        if removed or changed:
            yield need._replace(removed=removed, changed=changed)


def _added(before: DependentRows, kind: str, n: int, younger: int | None) -> DependentRows:
    return before._replace(
        removed=before.removed + (n if kind == "removed" else 0),
        changed=before.changed + (n if kind == "changed" else 0),
        younger=None if before.younger is None or younger is None else before.younger + younger,
    )


@dataclass(slots=True)
class _Level:
    """Rows of one table that are removed: a CTE with their batch and the values that are needed
    to find what refers to them."""

    rows: sa.CTE
    node: Node

    @property
    def batch(self) -> sa.ColumnElement[Any]:
        return self.rows.c.batch

    def values(self, columns: Sequence[sa.Column[Any]]) -> list[Expression]:
        have = self.node.columns
        return [self.rows.c[f"c{have.index(column)}"] for column in columns]


class _Statement:
    """Puts the one statement together, table by table."""

    def __init__(self, target: Target, cutoff: datetime) -> None:
        self._target = target
        self._cutoff = cutoff
        self._counts: list[tuple[str, str, sa.Select[Any]]] = []
        self._names = 0
        self._found: dict[tuple[str, str], sa.CTE] = {}

    def ask(
        self, connection: sa.Connection, which: Condition, size: int | None
    ) -> Iterator[tuple[str, str, int, Any, Any]]:
        """Kind, table, batch, rows and younger rows."""
        first = self._selected(which, size)
        level = self._closed(first, self._target.eligible(self._cutoff))
        if level is not first:
            # Rows of the table itself that have to be removed with these, in other batches.
            itself = str(self._target.table)
            self._count("removed", itself, level.rows, level.batch, sa.literal(0))
            self._count("inside", itself, first.rows, first.batch, sa.literal(0))
        self._below(level)
        numbered = (
            select.add_columns(sa.literal(place).label("place"))
            for place, (_, _, select) in enumerate(self._counts)
        )
        answers = connection.execute(sa.union_all(*numbered)).fetchall()
        inside = {batch: n for batch, n, _, place in answers if self._counts[place][0] == "inside"}
        for batch, n, younger, place in answers:
            kind, table, _ = self._counts[place]
            if kind != "inside":
                own = kind == "removed" and level is not first and place == 0
                yield kind, table, batch, n - (inside.get(batch, 0) if own else 0), younger

    def _selected(self, which: Condition, size: int | None) -> _Level:
        target, node = self._target, self._target.node
        batch: Expression = sa.literal(_ALL)
        if size is not None:
            before = sa.func.row_number().over(order_by=list(target.along)) - 1
            batch = before - before % size
        rows = sa.select(*_labelled(node), batch.label("batch"))
        rows = rows.where(which, target.eligible(self._cutoff))
        rows = target.dialect.walking(rows, target.table, target.index)
        return _Level(rows.cte(self._name()), node)

    def _closed(self, level: _Level, only: Condition) -> _Level:
        """*level* with the rows of the same table that refer to its rows, over any number of steps,
        as far as *only* holds."""
        node = level.node
        if not node.own:
            return level
        names = [column.name for column in level.rows.c]
        closed = sa.select(*(level.rows.c[name] for name in names)).cte(
            self._name(), recursive=True
        )
        above = _Level(closed, node)
        refers = sa.or_(*(ref.joined(node.table, above.values(ref.needed)) for ref in node.own))
        more = sa.select(*_labelled(node), *self._rest(names, node, above))
        more = more.select_from(closed.join(node.table, refers)).where(only)
        return _Level(closed.union(more), node)

    def _rest(
        self, names: Sequence[str], node: Node, above: _Level
    ) -> Iterator[sa.ColumnElement[Any]]:
        """What a level has besides the values of its rows, in the order of *names*."""
        for name in names[len(node.columns) :]:
            if name == "batch":
                yield above.batch
            else:
                yield self._younger(node.table, str(node.table))

    def _below(self, level: _Level) -> None:
        for reference in level.node.changes:
            self._changed(level, reference)
        for reference, node, _ in level.node.branches:
            child = node.table
            joined = level.rows.join(child, self._joined(level, reference, child))
            younger = self._younger(child, str(child)).label("younger")
            rows = sa.select(*_labelled(node), level.batch.label("batch"), younger)
            rows = rows.select_from(joined)
            found = self._closed(_Level(rows.cte(self._name()), node), sa.true())
            self._count("removed", str(child), found.rows, found.batch, found.rows.c.younger)
            self._below(found)

    def _joined(self, level: _Level, reference: Reference, child: sa.FromClause) -> Condition:
        """Whether a row of *child* refers to one of *level*."""
        joined = reference.joined(child, level.values(reference.needed))
        if not self._target.dialect.joins_ranges:
            return joined
        # Says nothing new. Without it the index of the child is read from its beginning.
        (value, *_), (column, *_) = level.values(reference.referred), reference.compared(child)
        ends = self._ends(level, value)
        first, last = (sa.select(ends.c[end]).scalar_subquery() for end in ("first", "last"))
        return sa.and_(joined, column.between(first, last))

    def _ends(self, level: _Level, value: Expression) -> sa.CTE:
        """The least and the greatest *value* of *level*, found once for all that refers to it."""
        about = level.rows.name, str(value)
        if about not in self._found:
            some = sa.select(value).where(value.is_not(None)).limit(1)
            first, last = some.order_by(value), some.order_by(value.desc())
            self._found[about] = sa.select(
                first.scalar_subquery().label("first"), last.scalar_subquery().label("last")
            ).cte(self._name())
        return self._found[about]

    def _changed(self, level: _Level, reference: Reference) -> None:
        """Rows that lose their reference; those that the policy removes itself do not count."""
        table, target = reference.table, self._target
        itself = id_of(table) == id_of(target.table)
        child: sa.FromClause = table.alias() if itself else table
        joined = level.rows.join(child, self._joined(level, reference, child))
        younger = self._younger(child, str(table))
        rows = sa.select(level.batch.label("batch"), younger.label("younger")).select_from(joined)
        if itself:
            same = sa.and_(*(child.c[column.key] == column for column in target.key))
            selected = sa.select(sa.literal(1)).select_from(target.table)
            selected = selected.where(same, target.eligible(self._cutoff))
            rows = rows.where(sa.not_(selected.correlate(child).exists()))
        found = rows.cte(self._name())
        self._count("changed", str(table), found, found.c.batch, found.c.younger)

    def _count(
        self,
        kind: str,
        table: str,
        rows: sa.CTE,
        batch: sa.ColumnElement[Any],
        younger: sa.ColumnElement[Any],
    ) -> None:
        n = sa.func.count().label("n")
        total = sa.func.sum(younger).label("young")
        select = sa.select(batch.label("batch"), n, total).select_from(rows).group_by(batch)
        self._counts.append((kind, table, select))

    def _younger(self, rows: sa.FromClause, table: str) -> Expression:
        """1 where one of *rows*, of the table called so, is younger than the cutoff, NULL where
        nothing tells."""
        target = self._target
        times = target.times if table == str(target.table) else target.ages.get(table)
        if times is None:
            return sa.cast(sa.null(), sa.Integer)
        # A table that refers by two foreign keys is there twice: the column has to be this one's.
        column: Any = rows.c[times.column.key]
        times = replace(times, column=column)
        young = sa.and_(times.dated, sa.not_(times.before(self._cutoff)))
        return sa.case((young, 1), else_=0)

    def _name(self) -> str:
        self._names += 1
        return f"rows_{self._names}"


def _labelled(node: Node) -> list[sa.Label[Any]]:
    return [column.label(f"c{place}") for place, column in enumerate(node.columns)]
