"""Rows are chosen by their keys, however many there are."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from bestbefore.adapters.rows.keys import chosen, deleted

TABLE = sa.table("t", sa.column("a"), sa.column("b"))
ROWS = [(n, f"{n % 7}") for n in range(25_000)]


@pytest.fixture
def connection() -> Iterator[sa.Connection]:
    engine = sa.create_engine("sqlite://")
    with engine.connect() as made:
        made.exec_driver_sql("CREATE TABLE t (a, b, PRIMARY KEY (a, b))")
        made.exec_driver_sql("INSERT INTO t VALUES (?, ?)", ROWS)
        yield made
    engine.dispose()


def test_every_key_is_found_once_whatever_fits_one_statement(connection: sa.Connection) -> None:
    keys = [row for row in ROWS if row[0] % 3]
    conditions = list(chosen(connection, [TABLE.c.a, TABLE.c.b], keys))
    assert len(conditions) > 1
    assert sum(deleted(connection, TABLE, condition) for condition in conditions) == len(keys)
    left = connection.execute(sa.select(TABLE.c.a).order_by(TABLE.c.a)).scalars().all()
    assert left == list(range(0, 25_000, 3))


def test_one_column_chooses_all_rows_that_have_one_of_its_values(
    connection: sa.Connection,
) -> None:
    values = [(n,) for n in range(0, 25_000, 2)]
    conditions = list(chosen(connection, [TABLE.c.a], values))
    assert [deleted(connection, TABLE, condition) for condition in conditions] == [10_000, 2_500]


def test_a_key_with_a_null_chooses_nothing(connection: sa.Connection) -> None:
    assert list(chosen(connection, [TABLE.c.a, TABLE.c.b], [(None, "1"), (1, None)])) == []
    assert list(chosen(connection, [TABLE.c.a], [])) == []
