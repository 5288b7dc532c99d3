"""Evidence as one Parquet file, through pyarrow (an extra)."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bestbefore.ports.evidence import EvidenceColumn, Kind

_GROUP = 10_000
"""Documents in a row group: some megabytes, and all that is in memory at a time."""

_TYPES: Mapping[Kind, tuple[pa.DataType, Callable[[Any], object]]] = {
    # What is no Unicode, such as a name on a disk that an error quotes, is escaped.
    Kind.TEXT: (pa.string(), lambda text: text.encode("utf-8", "backslashreplace").decode()),
    Kind.NUMBER: (pa.int64(), int),
    Kind.FLAG: (pa.bool_(), bool),
    Kind.INSTANT: (pa.timestamp("s", "UTC"), datetime.fromisoformat),
    Kind.JSON: (pa.string(), json.dumps),
}


class EvidenceParquet:
    """`bestbefore.ports.evidence.EvidenceFile` as Parquet; what is nested is JSON text."""

    def write(
        self,
        path: Path,
        columns: Sequence[EvidenceColumn],
        documents: Iterable[Mapping[str, Any]],
    ) -> int:
        schema = pa.schema([pa.field(name, _TYPES[kind][0]) for name, kind in columns])
        part = path.with_name(path.name + ".part")
        written = 0
        try:
            with pq.ParquetWriter(part, schema, compression="zstd") as file:
                for group in _groups(documents):
                    arrays = [_array(column, group) for column in columns]
                    file.write_table(pa.Table.from_arrays(arrays, schema=schema))
                    written += len(group)
            with part.open("rb") as whole:
                os.fsync(whole.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return written


def _array(column: EvidenceColumn, documents: Sequence[Mapping[str, Any]]) -> pa.Array:
    type_, into = _TYPES[column.kind]
    values = [document[column.name] for document in documents]
    return pa.array([None if value is None else into(value) for value in values], type_)


def _groups(documents: Iterable[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    rest = iter(documents)
    while group := list(islice(rest, _GROUP)):
        yield group
