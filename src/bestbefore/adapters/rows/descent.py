"""Rows that refer to rows of the same table: none is removed while something below it stays."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Condition, Dialect

if TYPE_CHECKING:
    from bestbefore.adapters.rows.references import Reference

_DEPTH = 8
"""How far down it is looked where a database cannot ask recursively. What is deeper keeps the rows
above it, and goes first: a run takes that many generations."""


def some_stay_below(
    dialect: Dialect,
    table: sa.Table,
    key: Sequence[sa.Column[Any]],
    own: Sequence["Reference"],
    goes: Condition,
) -> Condition:
    """Whether *goes* does not hold for some row that refers to a row of *table* by *own*, over any
    number of steps. A row that refers to itself keeps itself only where the database has it so."""
    needed = {*key, *(column for ref in own for column in (*ref.columns, *ref.needed))}
    columns = [column for column in table.c if column in needed]
    rows = sa.select(*columns, sa.case((goes, 1), else_=0).label("goes")).select_from(table)
    if dialect.asks_recursively:
        return _recursively(table, key, own, rows)
    firm = [ref for ref in own if dialect.keeps_itself and not ref.silent]
    return _spelt_out(table, key, own, firm, rows, _DEPTH)


def _recursively(
    table: sa.Table, key: Sequence[sa.Column[Any]], own: Sequence["Reference"], rows: Any
) -> Condition:
    child = rows.subquery("child")
    below = (
        sa.select(child)
        .where(_refers(child, table, key, own))
        .correlate(table)
        .cte("below", recursive=True, nesting=True)
    )
    deeper = rows.subquery("deeper")
    below = below.union(sa.select(deeper).join(below, _refers(deeper, below, key, own)))
    return sa.select(sa.literal(1)).select_from(below).where(below.c.goes == 0).exists()


def _spelt_out(
    above: Any,
    key: Sequence[sa.Column[Any]],
    own: Sequence["Reference"],
    firm: Sequence["Reference"],
    rows: Any,
    depth: int,
) -> Condition:
    """*firm* are those of *own* by which a row keeps itself: without an end to that, it stays."""
    child = rows.subquery(f"below_{depth}")
    linked = sa.or_(_refers(child, above, key, own), *(ref.refers(child, above) for ref in firm))
    refers = sa.select(sa.literal(1)).select_from(child).where(linked)
    if not depth:
        return refers.correlate(above).exists()
    stays = sa.or_(child.c.goes == 0, _spelt_out(child, key, own, firm, rows, depth - 1))
    return refers.where(stays).correlate(above).exists()


def _refers(
    child: Any, parent: Any, key: Sequence[sa.Column[Any]], own: Sequence["Reference"]
) -> Condition:
    """Whether a row of *child* refers to one of *parent* that is another row."""
    links = (ref.refers(child, parent) for ref in own)
    itself = sa.and_(*(child.c[column.key] == parent.c[column.key] for column in key))
    return sa.and_(sa.or_(*links), sa.not_(itself))
