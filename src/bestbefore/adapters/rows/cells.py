"""Values of rows on their way into a file and back: exactly, whatever their type.

What drivers would round, shift or refuse (decimals, times, intervals, JSON, arrays) leaves the
database as the text that it renders, and goes back as that text.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Column, Expression, cast
from bestbefore.adapters.rows.widths import affinity
from bestbefore.domain.row_file import Cell, CellKind

_BRACKETS = re.compile(r"\([^)]*\)")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?(\+00)?")
_RAW = frozenset({CellKind.BOOLEAN, CellKind.INTEGER, CellKind.FLOAT, CellKind.BYTES})
_TIMES = frozenset({CellKind.INSTANT, CellKind.DATETIME})


class Cells(Protocol):
    """How one kind of database has its values read and written."""

    def kind(self, column: Column) -> CellKind:
        """What *column* holds."""
        ...

    def read(self, value: Expression, column: Column) -> Expression:
        """*value* of *column* as what has to be selected."""
        ...

    def reader(self, column: Column) -> Callable[[Any], Cell] | None:
        """What makes a cell of what the driver gave for `read`, if it is not one; not of NULL."""
        ...

    def value(self, cell: Cell, column: Column) -> Any:
        """*cell* as what the driver has to be given for the very same value in *column*."""
        ...


class _Postgresql:
    _KINDS: Mapping[str, CellKind] = {
        "boolean": CellKind.BOOLEAN,
        "smallint": CellKind.INTEGER,
        "integer": CellKind.INTEGER,
        "bigint": CellKind.INTEGER,
        "real": CellKind.FLOAT,
        "double precision": CellKind.FLOAT,
        "numeric": CellKind.DECIMAL,
        "timestamp with time zone": CellKind.INSTANT,
        "timestamp without time zone": CellKind.DATETIME,
        "date": CellKind.DATE,
        "bytea": CellKind.BYTES,
    }

    def kind(self, column: Column) -> CellKind:
        return self._KINDS.get(_BRACKETS.sub("", column.type), CellKind.TEXT)

    def read(self, value: Expression, column: Column) -> Expression:
        return value if self.kind(column) in _RAW else cast(value, "text")

    def reader(self, column: Column) -> Callable[[Any], Cell] | None:
        return _iso if self.kind(column) in _TIMES else None

    def value(self, cell: Cell, column: Column) -> Any:  # noqa: ARG002
        return cell  # a text of no type, which the server reads as it reads any input


class _Mariadb:
    _KINDS: Mapping[str, CellKind] = {
        **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), CellKind.INTEGER),
        **dict.fromkeys(("float", "double"), CellKind.FLOAT),
        "decimal": CellKind.DECIMAL,
        "timestamp": CellKind.INSTANT,
        "datetime": CellKind.DATETIME,
        "date": CellKind.DATE,
        **dict.fromkeys(("binary", "varbinary", "bit"), CellKind.BYTES),
        **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), CellKind.BYTES),
        **dict.fromkeys(("geometry", "point", "linestring", "polygon", "multipoint"),
                        CellKind.BYTES),
        **dict.fromkeys(("multilinestring", "multipolygon", "geometrycollection"), CellKind.BYTES),
    }  # fmt: skip
    _AS_IT_IS = frozenset({"char", "varchar", "enum", "set", "json"})

    def kind(self, column: Column) -> CellKind:
        return self._KINDS.get(self._base(column), CellKind.TEXT)

    def read(self, value: Expression, column: Column) -> Expression:
        base = self._base(column)
        if base == "float":
            # Shown with six digits; as a double it is what it is.
            return cast(value, "DOUBLE")
        if self.kind(column) in _RAW or base in self._AS_IT_IS or base.endswith("text"):
            return value
        return cast(value, "CHAR")

    def reader(self, column: Column) -> Callable[[Any], Cell] | None:
        match self.kind(column):
            case CellKind.INSTANT:
                return _iso_in_utc
            case CellKind.DATETIME:
                return _iso
            case _:
                return None

    def value(self, cell: Cell, column: Column) -> Any:
        if isinstance(cell, str) and self.kind(column) is CellKind.INSTANT:
            return cell.removesuffix("+00:00")  # the session is in UTC
        return cell

    @staticmethod
    def _base(column: Column) -> str:
        return str(column.type.partition("(")[0].partition(" ")[0]).lower()


class _Sqlite:
    """Values have types of their own here, whatever the column says."""

    _KINDS: Mapping[str, CellKind] = {
        "INTEGER": CellKind.INTEGER,
        "REAL": CellKind.FLOAT,
        "BLOB": CellKind.BYTES,
    }

    def kind(self, column: Column) -> CellKind:
        return self._KINDS.get(affinity(column.type), CellKind.TEXT)

    def read(self, value: Expression, column: Column) -> Expression:  # noqa: ARG002
        return value

    def reader(self, column: Column) -> None:  # noqa: ARG002
        return None

    def value(self, cell: Cell, column: Column) -> Any:  # noqa: ARG002
        return cell


_CELLS: Mapping[str, Cells] = {
    "postgresql": _Postgresql(),
    "mysql": _Mariadb(),
    "mariadb": _Mariadb(),
    "sqlite": _Sqlite(),
}


def cells_of(connection: sa.Connection) -> Cells:
    """How the database of *connection* has its values read and written."""
    return _CELLS[connection.dialect.name]


def _iso_in_utc(text: str) -> str:
    """`_iso` of an instant that is written without an offset, as the session's is UTC."""
    return _iso(f"{text}+00") if _MOMENT.fullmatch(text) else text


def _iso(text: str) -> str:
    """A date and time as every program reads it. What no calendar has stays as it is."""
    if not _MOMENT.fullmatch(text):
        return text
    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:  # a zero date
        return text
