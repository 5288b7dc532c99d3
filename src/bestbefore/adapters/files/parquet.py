"""Apache Parquet, through pyarrow (an extra)."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from bestbefore.domain.row_file import (
    Cell,
    CellKind,
    FileColumn,
    RowFile,
    cell_of,
    columns_of,
    row_file,
    written,
)

_ABOUT = b"bestbefore"
_AS_JSON = b"bestbefore.json"
"""Metadata that lists the columns whose values are JSON literals, as the type of the column cannot
hold all of them: an infinite date, or text in a number's column on SQLite."""

_DIGITS = re.compile(r"\((\d+), ?(\d+)\)")
_MOST_DIGITS = 38


class _Native(NamedTuple):
    """How the values of one kind get in, and how they get out again."""

    type: pa.DataType
    into: Callable[[Any], object] = lambda cell: cell
    out: Callable[[Any], Cell] = lambda value: value


_NATIVE: Mapping[CellKind, _Native] = {
    CellKind.BOOLEAN: _Native(pa.bool_()),
    CellKind.INTEGER: _Native(pa.int64()),
    CellKind.FLOAT: _Native(pa.float64()),
    CellKind.INSTANT: _Native(
        pa.timestamp("us", "UTC"), datetime.fromisoformat, datetime.isoformat
    ),
    CellKind.DATETIME: _Native(pa.timestamp("us"), datetime.fromisoformat, datetime.isoformat),
    CellKind.DATE: _Native(pa.date32(), date.fromisoformat, date.isoformat),
    CellKind.BYTES: _Native(pa.binary()),
    CellKind.TEXT: _Native(pa.string()),
}


class Parquet:
    """`bestbefore.ports.files.RowFormat` as Parquet: one row group, typed columns, zstd.

    What the file says about itself is in its schema's metadata, as JSON.
    """

    def encode(self, file: RowFile) -> bytes:
        fields: list[pa.Field] = []
        arrays: list[pa.Array] = []
        as_json: list[str] = []
        for position, column in enumerate(file.columns):
            cells = [row[position] for row in file.rows]
            array = _typed(column, cells)
            if array is None:
                as_json.append(column.name)
                array = pa.array([None if c is None else written(c) for c in cells], pa.string())
            fields.append(pa.field(column.name, array.type))
            arrays.append(array)
        about = {_ABOUT: _json(file.header()), _AS_JSON: _json(as_json)}
        table = pa.Table.from_arrays(arrays, schema=pa.schema(fields, about))
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", row_group_size=max(1, len(file.rows)))
        return bytes(sink.getvalue())

    def decode(self, body: bytes) -> RowFile:
        try:
            table = pq.read_table(pa.BufferReader(body))
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"it is no readable Parquet file ({error})") from error
        about: Mapping[bytes, bytes] = table.schema.metadata or {}
        try:
            header, as_json = json.loads(about[_ABOUT]), json.loads(about[_AS_JSON])
        except KeyError as error:
            raise ValueError("its schema is not about a file of rows") from error
        columns = columns_of(header)
        if table.column_names != [column.name for column in columns]:
            raise ValueError("it has other columns than its schema's metadata says")
        cells = [
            _cells(column, found.to_pylist(), as_json=column.name in as_json)
            for column, found in zip(columns, table.columns, strict=True)
        ]
        return row_file(header, list(zip(*cells, strict=True)))


def _typed(column: FileColumn, cells: Sequence[Cell]) -> pa.Array | None:
    """*cells* as an array of the column's own type; None where that would lose anything."""
    if (native := _native(column)) is None:
        return None
    try:
        values = [None if cell is None else native.into(cell) for cell in cells]
        array = pa.array(values, native.type)
        back = _cells(column, array.to_pylist(), as_json=False)
    except (ValueError, TypeError, ArithmeticError):
        return None
    # By what they are as JSON, as Python takes 1, 1.0 and True for the same.
    return array if written(tuple(back)) == written(tuple(cells)) else None


def _cells(column: FileColumn, values: Sequence[Any], *, as_json: bool) -> Sequence[Cell]:
    if as_json:
        return [None if value is None else cell_of(json.loads(value)) for value in values]
    if (native := _native(column)) is None:
        raise ValueError(f"its column {column.name} is of no type that was written")
    return [None if value is None else native.out(value) for value in values]


def _native(column: FileColumn) -> _Native | None:
    if column.kind is not CellKind.DECIMAL:
        return _NATIVE[column.kind]
    declared = _DIGITS.search(column.type)
    if declared is None or int(declared[1]) > _MOST_DIGITS:
        return None
    type_ = pa.decimal128(int(declared[1]), int(declared[2]))
    return _Native(type_, Decimal, lambda value: format(value, "f"))


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
