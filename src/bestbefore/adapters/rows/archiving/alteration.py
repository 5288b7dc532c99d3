"""Archived values that a column takes only altered.

Where a database refuses to cut a value, it may still alter it without an error: it rounds digits
behind the point and fractions of a second, trims blanks, and matches an ENUM's values in any case.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Column, Condition, Expression
from bestbefore.adapters.rows.widths import same_affinity, wide_enough
from bestbefore.domain.row_file import Cell, CellKind, written

_NUMBERS = frozenset({CellKind.INTEGER, CellKind.FLOAT, CellKind.DECIMAL})
_TIMES = frozenset({CellKind.INSTANT, CellKind.DATETIME, CellKind.DATE})


class Altered(Exception):
    """Rows would not come back as they were archived. The message says why."""


def doubtful(
    connection: sa.Connection, here: Mapping[str, Column], archived: Mapping[str, str]
) -> Mapping[str, str]:
    """Columns that might alter what was archived, and why: those of *here* (by name) that are not
    surely as wide as the type that the archive names for them, *archived*."""
    takes = same_affinity if connection.dialect.name == "sqlite" else wide_enough
    return {
        name: f"{name} is {here[name].type} now, and was archived as {type_}"
        for name, type_ in archived.items()
        if not takes(here[name].type, type_)
    }


def refuse(why: Mapping[str, str]) -> None:
    """Raise Altered because of the columns in *why*, which `doubtful` found."""
    raise Altered(f"it would not come back as it was archived: {'; '.join(why.values())}")


def unaltered(
    connection: sa.Connection, here: Expression, there: Expression, column: Column
) -> Condition:
    """Whether *here*, in *column*, is the same value as *there*, in the archive."""
    match connection.dialect.name:
        case "sqlite":
            # Compared without their types, '007' is 7.
            same_type = sa.func.typeof(here) == sa.func.typeof(there)
            return sa.and_(same_type, here.is_not_distinct_from(there))
        case "mysql" | "mariadb" if column.charset is not None:
            return _bytes(here).is_not_distinct_from(_bytes(there))
        case _:
            return here.is_not_distinct_from(there)


def is_unaltered(cell: Cell, kind: CellKind, now: Cell) -> bool:
    """Whether *cell*, of *kind* in a file, is *now* the same value in a table."""
    if written(cell) == written(now):
        return True
    try:
        if kind in _NUMBERS:
            return Decimal(str(cell)) == Decimal(str(now))
        return kind in _TIMES and _wall(cell) == _wall(now)
    except (InvalidOperation, ValueError):
        return False


def _bytes(text: Expression) -> Expression:
    """*text* as the bytes of one character set, which no collation compares in its own way."""
    converted = sa.func.convert(text.op("USING")(sa.literal_column("utf8mb4")))
    return sa.cast(converted, sa.LargeBinary)


def _wall(cell: Cell) -> datetime:
    """What a clock in UTC, as sessions are in, shows."""
    return datetime.fromisoformat(str(cell)).replace(tzinfo=None)
