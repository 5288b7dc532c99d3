"""INSERT of rows with the very values that they have elsewhere, even where a table would count by
itself."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import ClauseElement, Executable

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.objects import StoreError


class _Fill(Executable, ClauseElement):
    """SQLAlchemy's own INSERT cannot say that identities are given, not generated.

    ``rows`` is a query, or None for values that come with the execution.
    """

    inherit_cache = False

    def __init__(
        self, table: sa.Table, columns: Sequence[sa.Column[Any]], rows: sa.Select[Any] | None
    ) -> None:
        self.table = table
        self.columns = columns
        self.rows = rows


@compiles(_Fill)
def _compiled(fill: _Fill, compiler: SQLCompiler, **how: Any) -> str:
    table = compiler.preparer.format_table(fill.table)
    columns = ", ".join(compiler.preparer.quote(column.name) for column in fill.columns)
    given = " OVERRIDING SYSTEM VALUE" if compiler.dialect.name == "postgresql" else ""
    if fill.rows is not None:
        rows = compiler.process(fill.rows, **how)
    else:
        values: list[sa.BindParameter[Any]] = [
            sa.bindparam(_name(n)) for n, _ in enumerate(fill.columns)
        ]
        rows = f"VALUES ({', '.join(compiler.process(value, **how) for value in values)})"
    return f"INSERT INTO {table} ({columns}){given} {rows}"


def filled(
    connection: sa.Connection,
    table: sa.Table,
    columns: Sequence[sa.Column[Any]],
    rows: sa.Select[Any],
) -> int:
    """Insert *rows* into *columns* of *table*; returns how many came there."""
    return _came(connection, _Fill(table, columns, rows), None)


def given(
    connection: sa.Connection,
    table: sa.Table,
    columns: Sequence[sa.Column[Any]],
    rows: Sequence[Sequence[Any]],
) -> int:
    """Insert *rows*, one value for each of *columns*, which the driver takes as they are."""
    values = [{_name(n): value for n, value in enumerate(row)} for row in rows]
    return _came(connection, _Fill(table, columns, None), values)


def _came(connection: sa.Connection, fill: _Fill, values: Sequence[dict[str, Any]] | None) -> int:
    kept = {"preserve_rowcount": True}
    came = connection.execute(fill, values, execution_options=kept).rowcount
    if came < 0:
        said = f"{fill.table}: the driver does not say how many rows came there"
        raise StoreError(Failure(FailureClass.UNKNOWN, said))
    return came


def _name(number: int) -> str:
    return f"v{number}"
