"""What lies between batches that are still to be worked on."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.table import Target
from bestbefore.ports.objects import KeyRange

_AT_A_TIME = 200
"""Gaps per statement: SQLite unites up to 500 selects."""


def gaps(
    connection: sa.Connection, target: Target, taken: Sequence[tuple[str, str]]
) -> list[KeyRange]:
    """See `RowReader.gaps`. Those without a row are left out: most batches are neighbours, and a
    hundred thousand of them would be as many slices with nothing in them."""
    if not taken:
        return [KeyRange(None, None)]
    along = [(column, target.columns[column.name]) for column in target.along]
    order = target.dialect.sorted(connection, along, [json.loads(first) for first, _ in taken])
    found, after = [], None
    for place in order:
        first, last = taken[place]
        found.append(KeyRange(after, first))
        after = last
    found.append(KeyRange(after, None))
    return list(_not_empty(connection, target, found))


def _not_empty(
    connection: sa.Connection, target: Target, gaps: Sequence[KeyRange]
) -> Iterator[KeyRange]:
    first, *between, last = gaps
    yield first
    probe, names = _probe(connection, target)
    for start in range(0, len(between), _AT_A_TIME):
        some = between[start : start + _AT_A_TIME]
        values: list[Any] = []
        for place, gap in enumerate(some):
            given = {
                "place": place,
                **_named("a", target, gap.after),
                **_named("u", target, gap.until),
            }
            values += [given[name] for name in names]
        united = " UNION ALL ".join([probe] * len(some))
        there = set(connection.exec_driver_sql(united, tuple(values)).scalars())
        yield from (gap for place, gap in enumerate(some) if place in there)
    yield last


def _probe(connection: sa.Connection, target: Target) -> tuple[str, list[str]]:
    """A select of its place for a gap in which there is a row, and the names of its values in
    order. Compiled once, and then only repeated: hundreds of them take longer to put together than
    to answer."""

    def ends(letter: str) -> list[sa.ColumnElement[Any]]:
        return target.typed([sa.bindparam(f"{letter}{n}") for n, _ in enumerate(target.along)])

    rows: sa.Select[Any] = sa.select(sa.literal_column("1")).select_from(target.table)
    rows = rows.where(target.beyond(ends("a"), ends("u")))
    rows = target.dialect.walking(rows, target.table, target.index)
    probe: sa.Select[Any] = sa.select(sa.bindparam("place")).where(rows.exists())
    names: list[str] = []
    compiled = probe.compile(connection)
    if compiled.positional:
        return str(compiled), list(compiled.positiontup or ())

    def positional(found: re.Match[str]) -> str:
        names.append(found[1])
        return "%s"

    return re.sub(r"%\((\w+)\)s", positional, str(compiled)), names


def _named(letter: str, target: Target, end: str | None) -> dict[str, Any]:
    values = target.natives(end) if end is not None else ()
    return {f"{letter}{n}": value for n, value in enumerate(values)}
