"""What a file of archived rows holds, whatever its format.

Every value goes in as the exact thing the database would take back: what Python could round,
shift or reorder (decimals, instants, JSON, intervals) is the text that the database renders.
"""

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from typing import Any, TypeAlias

Cell: TypeAlias = bool | int | float | str | bytes | None
Row: TypeAlias = tuple[Cell, ...]

_BYTES, _FLOAT = "base64", "float"


class CellKind(StrEnum):
    """What the values of a column are to programs that know no database."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"  # digits as text
    INSTANT = "instant"  # ISO 8601 with an offset, in UTC
    DATETIME = "datetime"  # ISO 8601 without one
    DATE = "date"
    BYTES = "bytes"
    TEXT = "text"  # and whatever the database has that is none of these


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column: its name, its kind, and its type as the database writes it."""

    name: str
    kind: CellKind
    type: str


@dataclass(frozen=True)
class RowFile:
    """The rows of one batch, in the order of its walk, and where they are from."""

    operation_id: bytes
    policy: str
    policy_version: str
    table: str
    columns: tuple[FileColumn, ...]
    rows: Sequence[Row]

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over the rows' values, the same for every format and for the table itself."""
        summed = sha256()
        for row in self.rows:
            summed.update(f"{written(row)}\n".encode())
        return summed.digest()

    def header(self) -> dict[str, object]:
        """Everything but the rows, for a file to say about itself."""
        return {
            "operation_id": self.operation_id.hex(),
            "policy": self.policy,
            "policy_version": self.policy_version,
            "table": self.table,
            "columns": [
                {"name": column.name, "kind": column.kind, "type": column.type}
                for column in self.columns
            ],
            "rows": len(self.rows),
            "sha256": self.digest.hex(),
        }


def columns_of(header: Mapping[Any, Any]) -> tuple[FileColumn, ...]:
    """The columns that *header* tells of. Raises ValueError where it is none of ours."""
    try:
        return tuple(
            FileColumn(column["name"], CellKind(column["kind"]), column["type"])
            for column in header["columns"]
        )
    except (KeyError, TypeError) as error:
        raise _not_ours(error) from error


def row_file(header: Mapping[Any, Any], rows: Sequence[Row]) -> RowFile:
    """The file with *header* and *rows*. Raises ValueError where the two do not agree."""
    try:
        found = RowFile(
            bytes.fromhex(header["operation_id"]),
            header["policy"],
            header["policy_version"],
            header["table"],
            columns_of(header),
            rows,
        )
        count, digest = header["rows"], header["sha256"]
    except (KeyError, TypeError) as error:
        raise _not_ours(error) from error
    if len(rows) != count:
        raise ValueError(f"it holds {len(rows):,} rows, and says {count:,}")
    if found.digest.hex() != digest:
        raise ValueError(f"the SHA-256 of its rows is {found.digest.hex()}, and it says {digest}")
    return found


def _not_ours(error: Exception) -> ValueError:
    return ValueError(f"what it says about itself is incomplete ({error!r})")


def written(value: Cell | Row | Mapping[str, Cell]) -> str:
    """A cell, or some of them, as JSON from which `cell_of` gets exactly what went in."""
    try:
        return _JSON.encode(value)
    except ValueError:  # a float that JSON has no number for
        match value:
            case tuple():
                return _JSON.encode([_finite(cell) for cell in value])
            case Mapping():
                return _JSON.encode({name: _finite(cell) for name, cell in value.items()})
            case _:
                return _JSON.encode(_finite(value))


def _finite(cell: Cell) -> Any:
    odd = isinstance(cell, float) and not math.isfinite(cell)
    return {_FLOAT: str(cell)} if odd else cell


def _as_text(cell: bytes) -> dict[str, str]:
    return {_BYTES: b64encode(cell).decode()}


_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_as_text)


def cell_of(value: object) -> Cell:
    """The cell of which *value* is the JSON, already read. Raises ValueError if it is none."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    match value:
        case {"base64": str() as text, **more} if not more:
            return b64decode(text, validate=True)
        case {"float": str() as text, **more} if not more:
            return float(text)
        case _:
            raise ValueError(f"no value of ours: {json.dumps(value)[:100]}")
