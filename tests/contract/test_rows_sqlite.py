"""What only SQLite does: files, values of any type in any column, and times as text."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Access
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.errors import failure_of
from bestbefore.adapters.rows.reading import SqlRowReader
from bestbefore.adapters.rows.sqlite import Sqlite
from bestbefore.contracts.row_times import fill, old, source
from bestbefore.contracts.row_world import OLD, RowWorld, table
from bestbefore.contracts.rows import BY_TIME, batches, between
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.rows import TimestampKind
from bestbefore.ports.objects import StoreError
from bestbefore.ports.rows import TableRefused

NOON = "2026-06-01T12:00:00+00:00"


@pytest.fixture(params=["sqlite"])
def row_database(row_database: object) -> object:
    return row_database


def test_a_missing_file_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    file = tmp_path / "no such #.db"
    reader = SqlRowReader(Database(f"sqlite:///{file}"))
    with pytest.raises(StoreError) as raised:
        reader.describe(table())
    assert raised.value.failure.failure_class is FailureClass.MALFORMED
    assert raised.value.failure.whole_source
    assert not file.exists()


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_file_is_read_whatever_its_journal_and_its_name(tmp_path: Path, journal: str) -> None:
    file = tmp_path / "a b#.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, at BIGINT)")
        connection.execute("INSERT INTO events VALUES (1, 1700000000)")
        connection.commit()
    database = Database(f"sqlite:///{file}")
    facts = SqlRowReader(database).describe(table())
    assert facts.place == f"sqlite://{file}/main.events"
    with closing(sqlite3.connect(file)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert SqlRowReader(database).count(table()) == 1
    database.dispose()


def test_the_reader_cannot_write(world: RowWorld) -> None:
    fill(world, "TEXT", ["2026-01-01"])
    database: Database = world.reader._database  # type: ignore[attr-defined]
    for transaction in (database.reading, database.counting):
        with pytest.raises(sa.exc.OperationalError, match="readonly"), transaction() as connection:
            connection.exec_driver_sql("DELETE FROM events")


def test_a_statement_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    file = tmp_path / "rows.db"
    sqlite3.connect(file).close()
    engine = Sqlite().engine(sa.make_url(f"sqlite:///{file}"), Access(True, 1, 0))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with engine.connect() as connection, pytest.raises(sa.exc.OperationalError) as raised:
        connection.exec_driver_sql(endless)
    failure = failure_of(raised.value, "events")
    assert (failure.failure_class, failure.too_big) == (FailureClass.TRANSIENT, True)
    engine.dispose()


def test_tables_without_a_rowid(world: RowWorld) -> None:
    """O-PK-01."""
    world.run(
        "CREATE TABLE events (tenant TEXT, id INTEGER, at BIGINT, PRIMARY KEY (tenant, id)) "
        "WITHOUT ROWID"
    )
    world.insert("events", ("t1", 1, OLD), ("t1", 2, OLD * 2), ("t2", 1, OLD * 2))
    (batch,) = batches(world, table())
    assert (batch.first, batch.rows) == ('["t1","1"]', 1)
    assert between(world, table(), [batch]) == []


def test_rows_without_a_key_are_never_chosen(world: RowWorld) -> None:
    """SQLite allows NULL in a primary key that is not the rowid, any number of times."""
    world.run("CREATE TABLE events (id TEXT PRIMARY KEY, at BIGINT)")
    world.insert("events", (None, OLD), ("a", OLD), (None, OLD), ("b", OLD))
    world.run("INSERT INTO events VALUES (x'00', 5)")
    for most in (1, 2, 100):
        assert [batch.first for batch in batches(world, table(), 1, most)] == ['["a"]', '["b"]']


def test_texts_among_integer_keys_stay(world: RowWorld) -> None:
    world.run("CREATE TABLE events (id INT PRIMARY KEY, at BIGINT)")
    world.run("INSERT INTO events VALUES (1, 5), ('x', 5), (2.5, 5), (3, 5)")
    assert [batch.first for batch in batches(world, table(), 1)] == ['["1"]', '["3"]']


def test_a_column_of_any_type_keeps_integers_and_texts_apart(world: RowWorld) -> None:
    world.run("CREATE TABLE events (id NUMERIC PRIMARY KEY, at BIGINT)")
    world.run("INSERT INTO events VALUES (10, 5), ('9', 5), ('a9', 5), ('-', 5), (1e3, 5)")
    found = batches(world, table(), 1)
    assert [batch.first for batch in found] == ['["9"]', '["10"]', '["1000"]', '["-"]', '["a9"]']
    assert between(world, table(), found[::-1]) == []


@pytest.mark.parametrize("type_", ["REAL", "DOUBLE", ""])
def test_keys_that_are_not_what_they_are_written_as_are_refused(
    world: RowWorld, type_: str
) -> None:
    world.run(f"CREATE TABLE events (id {type_} PRIMARY KEY, at BIGINT)")
    with pytest.raises(TableRefused, match="cannot be in the key"):
        world.reader.describe(table())


def test_keys_are_ordered_by_the_collation_of_their_column(world: RowWorld) -> None:
    world.run("CREATE TABLE events (id TEXT COLLATE NOCASE PRIMARY KEY, at BIGINT)")
    world.insert("events", *((key, OLD) for key in ("b", "A", "C", "d")))
    found = batches(world, table(), 1)
    assert [batch.first for batch in found] == ['["A"]', '["b"]', '["C"]', '["d"]']
    assert between(world, table(), found[::-1]) == []


def test_a_virtual_table_is_not_a_base_table(world: RowWorld) -> None:
    world.run("CREATE VIRTUAL TABLE found USING fts5(words)")
    with pytest.raises(TableRefused, match="a virtual table"):
        world.reader.describe(table("found"))


# -- times


def test_a_datetime_column_is_what_its_values_are(world: RowWorld) -> None:
    fill(world, "DATETIME", ["2026-06-01 11:00:00", "2026-06-01 13:00:00"])
    assert world.reader.describe(source()).kind is TimestampKind.ISO_TEXT
    assert old(world, source(), NOON) == [1]
    world.run("DELETE FROM events", "INSERT INTO events VALUES (1, 1700000000)")
    with pytest.raises(TableRefused, match='timestamp_kind = "epoch_s"'):
        world.reader.describe(source())
    assert old(world, source(timestamp_kind=TimestampKind.EPOCH_S), NOON) == [1]
    with pytest.raises(TableRefused, match="an integer"):
        world.reader.describe(source(timestamp_kind=TimestampKind.ISO_TEXT))


def test_values_of_several_types_are_not_guessed(world: RowWorld) -> None:
    fill(world, "DATETIME", ["2026-06-01 11:00:00", 1700000000])
    with pytest.raises(TableRefused, match="of another type"):
        world.reader.describe(source())
    sure = source(timestamp_kind=TimestampKind.ISO_TEXT)
    assert old(world, sure, NOON) == [1]
    assert world.reader.kept(sure, world.reader.describe(sure))["undated"] == 1


def test_an_integer_column_is_never_compared_with_text(world: RowWorld) -> None:
    """O-TSCOL-02: SQLite takes every integer for smaller than every text."""
    fill(world, "INTEGER", [1700000000, 1893456000])
    for kind in (TimestampKind.ISO_TEXT, TimestampKind.NAIVE, TimestampKind.DATE):
        with pytest.raises(TableRefused, match="an integer"):
            world.reader.describe(source(timestamp_kind=kind, timestamp_zone="UTC"))


def test_texts_in_an_integer_column_are_undated(world: RowWorld) -> None:
    fill(world, "INTEGER", [1700000000, "soon"])
    seconds = source(timestamp_kind=TimestampKind.EPOCH_S)
    assert old(world, seconds, NOON) == [1]
    facts = world.reader.describe(seconds)
    seen = world.reader.find(seconds, facts, datetime.now(UTC), "2")
    assert seen is not None
    assert seen.undated


def test_a_wall_time_with_an_offset_is_no_wall_time(world: RowWorld) -> None:
    fill(
        world, "TEXT", ["2026-06-01 11:00:00", "2026-06-01T11:00:00Z", "2026-06-01T01:00:00-02:00"]
    )
    wall = source(timestamp_kind=TimestampKind.NAIVE, timestamp_zone="UTC")
    assert old(world, wall, NOON) == [1]


def test_a_file_whose_readers_block_its_writers_is_told_of(world: RowWorld) -> None:
    world.run("CREATE TABLE events (id INTEGER PRIMARY KEY, at BIGINT)", BY_TIME)

    def told() -> list[str]:
        notes = world.reader.describe(table()).notes
        return [note.remedy for note in notes if note.code == "readers-block-writers"]

    world.run("PRAGMA journal_mode = DELETE")
    (remedy,) = told()
    assert "journal_mode = WAL" in remedy
    world.run("PRAGMA journal_mode = WAL")
    assert told() == []


@pytest.mark.parametrize("how", ["", "ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_foreign_keys_are_followed_as_sqlite_compares_them(world: RowWorld, how: str) -> None:
    """S-STORE-09: with the parent's collation, and converted to the parent's type."""
    world.run(
        "CREATE TABLE parents (id INTEGER PRIMARY KEY, at BIGINT, name TEXT COLLATE NOCASE UNIQUE)",
        f"CREATE TABLE c (id INTEGER PRIMARY KEY, name TEXT REFERENCES parents (name) {how})",
        f"CREATE TABLE d (id INTEGER PRIMARY KEY, parent TEXT REFERENCES parents (id) {how})",
    )
    world.insert("parents", (1, OLD, "one"), (2, OLD, "two"), (3, OLD, "three"))
    world.insert("c", (1, "ONE"))
    world.insert("d", (1, "02"))
    none, every = (table("parents", dependents=dependents) for dependents in ((), None))
    assert [end.rows for end in world.drain(none)] == [1]
    assert world.ids("parents") == [1, 2]
    (what,) = world.plan(every)
    took = {one.table: one.removed + one.changed for one in what.batch.dependents}
    assert took == {"main.c": 1, "main.d": 1}
    effect = world.delete(every, what)
    assert (dict(effect.dependents) or dict(effect.changed)) == took
    assert effect.rows == 2
