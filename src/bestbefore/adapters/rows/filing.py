"""The rows of a batch with all their values, as a file has them."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.cells import cells_of
from bestbefore.adapters.rows.dependents import Node
from bestbefore.adapters.rows.keys import Key, chosen
from bestbefore.adapters.rows.table import Target
from bestbefore.domain.row_file import FileColumn, Row, RowFile, written
from bestbefore.ports.rows import RowTask


class Filing:
    """Rows of *target*, read with their values. Generated columns are left out: they come again
    by themselves."""

    def __init__(self, connection: sa.Connection, target: Target, node: Node) -> None:
        self._connection = connection
        self._target = target
        self._node = node
        self._cells = cells_of(connection)
        self._columns = [column for column in target.columns.values() if not column.generated]
        readers = enumerate(map(self._cells.reader, self._columns))
        self._readers = [(place, reader) for place, reader in readers if reader is not None]

    def pick(
        self, condition: sa.ColumnElement[bool], limit: int, *, lock: bool
    ) -> tuple[list[Key], list[Row]]:
        """Rows for which *condition* holds, in walk order: their `Node.columns`, and their values.

        One statement reads both, so that they belong together.
        """
        keys = self._node.columns
        rows = sa.select(*keys, *self._values()).where(condition)
        rows = rows.order_by(*self._target.along).limit(limit)
        if lock:
            rows = rows.with_for_update()
        found = [tuple(row) for row in self._connection.execute(rows)]
        return [row[: len(keys)] for row in found], [self._row(row[len(keys) :]) for row in found]

    def file(
        self,
        task: RowTask,
        keys: Sequence[Key],
        rows: Sequence[Row],
        layers: Sequence[Sequence[Key]],
    ) -> RowFile:
        """The file of *task*: what `pick` gave, and behind it the rows that go along: those of
        *layers* that are not among *keys*."""
        picked = set(keys)
        along = [key for layer in layers for key in layer if key not in picked]
        return RowFile(
            task.operation_id,
            task.policy,
            task.policy_version,
            str(self._target.table),
            tuple(
                FileColumn(column.name, self._cells.kind(column), column.type)
                for column in self._columns
            ),
            [*rows, *self._fetch(along)],
        )

    def _fetch(self, keys: Sequence[Key]) -> list[Row]:
        """The values of rows with these `Node.columns`, in an order that depends on them only."""
        identity = self._node.identity
        found: list[Row] = []
        for condition in chosen(self._connection, identity, self._node.project(keys, identity)):
            rows = sa.select(*self._values()).where(condition)
            found += [self._row(tuple(row)) for row in self._connection.execute(rows)]
        return sorted(found, key=written)

    def _values(self) -> list[sa.ColumnElement[Any]]:
        return [
            self._cells.read(self._target.table.c[column.name], column) for column in self._columns
        ]

    def _row(self, values: Sequence[Any]) -> Row:
        row = list(values)
        for place, reader in self._readers:
            if row[place] is not None:
                row[place] = reader(row[place])
        return tuple(row)
