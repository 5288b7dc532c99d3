"""One row, for a person who asks why it stays or is removed, and what deleting a batch does."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.catalog.effects import triggers
from bestbefore.adapters.rows.deletion import Deletion
from bestbefore.adapters.rows.dialect import Condition
from bestbefore.adapters.rows.planning.counting import of_batch
from bestbefore.adapters.rows.table import Target
from bestbefore.adapters.rows.timestamps import FUTURE
from bestbefore.domain.rows import RowBatch, Walk
from bestbefore.ports.rows import RowSeen, RowsShown

_AT_A_TIME = 200
"""Batches per statement: each has two values per column of the order."""


def seen(connection: sa.Connection, target: Target, cutoff: datetime, key: str) -> RowSeen | None:
    """See `RowReader.find`. Raises DataError where *key* cannot be one, as far as the database is
    who finds out."""
    dialect, times = target.dialect, target.times
    row_is = _is(target, key)
    if row_is is None:
        return None
    keepers = [*target.keepers_of(cutoff)]
    said = [
        times.before(cutoff),
        sa.true() if target.where is None else target.where,
        times.dated,
        times.after(dialect.now(connection) + FUTURE),
        *(keeper.exists for keeper in keepers),
    ]
    row = connection.execute(
        sa.select(
            dialect.rendered(times.column, times.of), *(sa.case((one, 1), else_=0) for one in said)
        ).where(row_is)
    ).one_or_none()
    if row is None:
        return None
    timestamp, old, wanted, dated, future, *kept = row
    return RowSeen(
        timestamp=None if timestamp is None else dialect.text(timestamp),
        old=bool(old),
        wanted=bool(wanted),
        undated=not dated,
        future=bool(future),
        referenced=next(
            (keeper.table for keeper, keeps in zip(keepers, kept, strict=True) if keeps), None
        ),
        dependents=of_batch(connection, target, cutoff, row_is),
    )


def shown(
    connection: sa.Connection, target: Target, cutoff: datetime, batch: RowBatch
) -> RowsShown:
    """See `RowReader.show`."""
    removed, changed = target.node.tables()
    run = triggers(connection, removed, changed)
    if batch.walk is Walk.PARTITION:
        _, name = json.loads(batch.first)
        return RowsShown(f"ALTER TABLE {target.table} DETACH PARTITION {name}", run)
    deletion = Deletion(target, cutoff)
    # One spelling of parameters for all databases, and one that Python fills in.
    kind: Any = type(connection.dialect)
    dialect = kind(paramstyle="pyformat")
    compiled = deletion.statement.compile(dialect=dialect)
    values = compiled.params | deletion.ends(batch)
    literal = {name: _literal(value) for name, value in values.items()}
    return RowsShown(" ".join((str(compiled) % literal).split()), run)


def _literal(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).upper().replace("NONE", "NULL")
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return "'" + str(value).replace("'", "''") + "'"


def among(
    connection: sa.Connection, target: Target, key: str, ends: Sequence[tuple[str, str]]
) -> int | None:
    """See `RowReader.batch_of`. Raises DataError as `seen` does."""
    row_is = _is(target, key)
    if row_is is None:
        return None
    for start in range(0, len(ends), _AT_A_TIME):
        some = enumerate(ends[start : start + _AT_A_TIME], start)
        within = sa.case(*((target.between(first, last), n) for n, (first, last) in some))
        found: int | None = connection.execute(sa.select(within).where(row_is)).scalar()
        if found is not None:
            return found
    return None


def _is(target: Target, key: str) -> Condition | None:
    """Whether a row is the one with *key*; None where none can be, as far as we find out."""
    try:
        return sa.and_(
            *(
                column == target.dialect.value(text, target.columns[column.name])
                for column, text in zip(target.key, _texts(key, len(target.key)), strict=True)
            )
        )
    except ValueError:
        return None


def _texts(key: str, columns: int) -> Sequence[str]:
    """The texts of *key*: a JSON array of as many, or else one that is meant as it is."""
    try:
        texts = json.loads(key)
    except ValueError:
        return [key]
    whole = isinstance(texts, list) and len(texts) == columns
    return [str(text) for text in texts] if whole else [key]
