"""Rows by the values of their key, a bounded number of them per statement.

Values come from the database and go back to it as its driver gave them; only the database compares
them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.objects import StoreError

T = TypeVar("T")

Key = tuple[Any, ...]

_MOST_VALUES = 10_000
"""Per statement: SQLite allows 32,766 unless built otherwise, PostgreSQL 65,535."""

_MOST_ARMS = 400
"""SQLite finds a list of composite keys by index only where each is spelt out, and allows a depth
of 1,000."""


def chosen(
    connection: sa.Connection, columns: Sequence[sa.ColumnElement[Any]], keys: Sequence[Key]
) -> Iterator[sa.ColumnElement[bool]]:
    """Conditions that together choose the rows whose *columns* are one of *keys*.

    Keys with a NULL choose nothing, as in the database.
    """
    spelt_out = len(columns) > 1 and connection.dialect.name == "sqlite"
    size = _MOST_ARMS if spelt_out else _MOST_VALUES // len(columns)
    for some in pieces([key for key in keys if None not in key], size):
        if len(columns) == 1:
            yield columns[0].in_(_as_they_are([value for (value,) in some]))
        elif spelt_out:
            yield sa.or_(*(_equal(columns, key) for key in some))
        else:
            yield sa.tuple_(*columns).in_(some)


def _as_they_are(values: Sequence[Any]) -> sa.BindParameter[Any]:
    """*values* for the driver. With a type, all of them would be taken for what the first one is,
    and a number of 64 bits behind a small one would be out of range."""
    return sa.bindparam("values", values, sa.types.NullType(), expanding=True, unique=True)


def deleted(connection: sa.Connection, table: sa.Table, condition: sa.ColumnElement[bool]) -> int:
    """Delete the rows of *table* that *condition* chooses; returns how many went."""
    return executed(connection, sa.delete(table).where(condition))


def executed(
    connection: sa.Connection, delete: sa.Delete, parameters: Mapping[str, Any] | None = None
) -> int:
    """Execute *delete*; returns how many rows went."""
    went = connection.execute(delete, parameters).rowcount
    if went < 0:
        said = f"{delete.table}: the driver does not say how many rows went"
        raise StoreError(Failure(FailureClass.UNKNOWN, said))
    return went


def pieces(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """*values* by the *size*."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _equal(columns: Sequence[sa.ColumnElement[Any]], key: Key) -> sa.ColumnElement[bool]:
    pairs = zip(columns, key, strict=True)
    return sa.and_(*(column == value for column, value in pairs))
