"""The gate's small table in partitions, with a view of one of them. PostgreSQL only."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import sqlalchemy as sa

_MOST = 3


def made_again(connection: sa.Connection, table: sa.Table, ends: Sequence[int]) -> None:
    """Make *table* again, empty, with a partition between each two of *ends*, values of its column
    ``written_at``, and a view of the first one."""
    removed(connection, table)
    run = connection.exec_driver_sql
    run(
        f"CREATE TABLE {table.name} (id bigint NOT NULL, written_at bigint NOT NULL, note "
        "varchar(200) NOT NULL, PRIMARY KEY (written_at, id)) PARTITION BY RANGE (written_at)"
    )
    for name, (since, until) in zip(_names(table), pairwise(ends), strict=False):
        run(
            f"CREATE TABLE {name} PARTITION OF {table.name} "
            f"FOR VALUES FROM ({int(since)}) TO ({int(until)})"
        )
    run(f"CREATE VIEW {_view(table)} AS TABLE {next(_names(table))}")


def removed(connection: sa.Connection, table: sa.Table) -> None:
    """Drop *table* and what `made_again` made, detached or not."""
    connection.exec_driver_sql(f"DROP VIEW IF EXISTS {_view(table)}")
    for name in (table.name, *_names(table)):
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")


def left(connection: sa.Connection, table: sa.Table) -> Sequence[str]:
    """The names of the partitions that are there, as parts of *table* or not."""
    there = sa.inspect(connection)
    return [name for name in _names(table) if there.has_table(name)]


def _names(table: sa.Table) -> Iterator[str]:
    return (f"{table.name}_{n}" for n in range(1, _MOST + 1))


def _view(table: sa.Table) -> str:
    return f"{table.name}_view"
