"""Rows on their way back from a file."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.archiving import alteration
from bestbefore.adapters.rows.archiving.alteration import is_unaltered
from bestbefore.adapters.rows.cells import cells_of
from bestbefore.adapters.rows.filling import given
from bestbefore.adapters.rows.keys import chosen, pieces
from bestbefore.adapters.rows.savepoints import tried
from bestbefore.adapters.rows.table import Target
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.row_file import Row, RowFile, written
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import Returned, TableRefused

_AT_ONCE = 500
_OCCUPIED = "another row has the key of one in the file, and was left alone"


class Unfiling:
    """The rows of *file*, and the table that they are from. Raises TableRefused where that has
    other columns now."""

    def __init__(self, connection: sa.Connection, target: Target, file: RowFile) -> None:
        self._connection = connection
        self._target = target
        self._file = file
        self._cells = cells_of(connection)
        self._columns = [_column(target, column.name) for column in file.columns]
        names = [column.name for column in file.columns]
        if lacking := [column.name for column in target.key if column.name not in names]:
            raise TableRefused(f"the file has no column {lacking[0]}, which is in the key now")
        self._key = [names.index(column.name) for column in target.key]
        here = {said.name: column for said, column in zip(file.columns, self._columns, strict=True)}
        types = {said.name: said.type for said in file.columns}
        self._doubtful = alteration.doubtful(connection, here, types)

    def run(self, *, dry_run: bool) -> Returned:
        """Insert what is not there. Raises StoreError and what the database raises."""
        restored = there = left = 0
        why: str | None = None
        for rows in pieces(self._file.rows, _AT_ONCE):
            found = self._found(rows)
            absent = []
            for row in rows:
                same = found.get(self._name(row))
                if same is None:
                    absent.append(row)
                elif written(same) == written(row):
                    there += 1
                else:
                    left, why = left + 1, _OCCUPIED
            if dry_run:
                restored += len(absent)
                continue
            end = tried(self._connection, str(self._target.table), absent, self._put)
            restored, left, why = restored + end.done, left + end.left, end.why or why
        return Returned(restored, there, left, why=why)

    def _found(self, rows: Sequence[Row]) -> dict[str, Row]:
        """What of *rows*, by key, is in the table now."""
        columns = [self._target.table.c[self._columns[place].name] for place in self._key]
        keys = [tuple(self._value(row, place) for place in self._key) for row in rows]
        wanted = [
            self._cells.read(self._target.table.c[column.name], column) for column in self._columns
        ]
        readers = list(map(self._cells.reader, self._columns))
        found: dict[str, Row] = {}
        for condition in chosen(self._connection, columns, keys):
            for values in self._connection.execute(sa.select(*wanted).where(condition)):
                row = tuple(
                    value if reader is None or value is None else reader(value)
                    for value, reader in zip(values, readers, strict=True)
                )
                found[self._name(row)] = row
        return found

    def _put(self, rows: Sequence[Row]) -> None:
        columns = [self._target.table.c[column.name] for column in self._columns]
        values = [[self._value(row, place) for place in range(len(columns))] for row in rows]
        if given(self._connection, self._target.table, columns, values) != len(rows):
            said = f"{self._target.table}: not all rows of the file came there, so none did; look"
            raise StoreError(
                Failure(FailureClass.MALFORMED, f"{said} at its triggers and its row security")
            )
        if self._doubtful:
            self._refuse_altered(rows)

    def _refuse_altered(self, rows: Sequence[Row]) -> None:
        """Raise Altered unless *rows* are in the table as they are in the file."""
        there = self._found(rows)
        for row in rows:
            now = there.get(self._name(row))
            if now is None or not all(
                column.name not in self._doubtful or is_unaltered(cell, column.kind, new)
                for column, cell, new in zip(self._file.columns, row, now, strict=True)
            ):
                alteration.refuse(self._doubtful)

    def _name(self, row: Row) -> str:
        return written(tuple(row[place] for place in self._key))

    def _value(self, row: Row, place: int) -> Any:
        return self._cells.value(row[place], self._columns[place])


def _column(target: Target, name: str) -> Any:
    column = target.columns.get(name)
    if column is None or column.generated:
        raise TableRefused(f"it has no column {name} any more that could take the file's values")
    return column
