"""What only MariaDB and MySQL do."""

from concurrent.futures import ThreadPoolExecutor, wait

import pytest
import sqlalchemy as sa

from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.table import reflect
from bestbefore.contracts.row_times import DAY, INSTANT, WALL, fill, old, source
from bestbefore.contracts.row_world import CUTOFF, NEW, OLD, RowWorld, table
from bestbefore.contracts.rows import BY_TIME, batches, between
from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Level
from bestbefore.domain.rows import Effect, TimestampKind, Walk
from bestbefore.ports.rows import TableRefused
from support.row_databases import RowDatabase

NOON = "2026-06-01T12:00:00+00:00"


@pytest.fixture(params=["mysql"])
def row_database(row_database: RowDatabase) -> RowDatabase:
    return row_database


@pytest.mark.parametrize("zone", ["+00:00", "-05:00", "+09:00"])
def test_the_zone_of_the_session_changes_nothing(
    row_database: RowDatabase, world: RowWorld, zone: str
) -> None:
    walls = ["2026-06-01 11:59:59", "2026-06-01 12:00:00", "2026-06-02 01:30:00"]
    url = sa.make_url(row_database.url).update_query_dict(
        {"init_command": f"SET time_zone = '{zone}'"}
    )
    with row_database.world(url.render_as_string(hide_password=False)) as zoned:
        for type_, kind in (
            (INSTANT["mysql"], TimestampKind.TIMESTAMPTZ),
            (WALL["mysql"], TimestampKind.NAIVE),
            ("VARCHAR(30)", TimestampKind.ISO_TEXT),
        ):
            world.run(f"CREATE TABLE events (id BIGINT PRIMARY KEY, at {type_})", BY_TIME)
            world.run(
                "SET time_zone = '+00:00'",
                *(f"INSERT INTO events VALUES ({n}, '{wall}')" for n, wall in enumerate(walls, 1)),  # noqa: S608
            )
            meant = source(
                timestamp_kind=kind,
                timestamp_zone="UTC" if kind is TimestampKind.NAIVE else None,
            )
            assert old(zoned, meant, NOON) == [1]
            world.run("DROP TABLE events")


def test_dates_that_there_are_not_say_nothing(world: RowWorld) -> None:
    for type_, zone in ((WALL["mysql"], "UTC"), (DAY["mysql"], None)):
        world.run(f"CREATE TABLE events (id BIGINT PRIMARY KEY, at {type_})")
        world.run(
            "SET sql_mode = ''",
            "INSERT INTO events VALUES (1, '0000-00-00'), (2, '2026-00-00'), (3, '2026-05-00'),"
            " (4, '2026-05-01'), (5, '0001-01-01'), (6, NULL)",
            "SET sql_mode = 'ALLOW_INVALID_DATES'",
            "INSERT INTO events VALUES (7, '2026-02-31')",
        )
        meant = source(timestamp_zone=zone)
        assert old(world, meant, NOON) == [4]
        facts = world.reader.describe(meant)
        assert world.reader.kept(meant, facts)["undated"] == 3
        world.run("DROP TABLE events")


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("BIGINT UNSIGNED", ["18446744073709551615", "9223372036854775808", "0", "10", "9"]),
        ("INT", ["-5", "10", "9"]),
        ("DECIMAL(30,10) UNSIGNED", ["1.5", "12345678901234567890.0000000001", "2"]),
        ("VARCHAR(20) CHARACTER SET latin1", ["ä", "b", "zz", "Z"]),
        ("VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", ["a", "A", "b", "ä"]),
        ("CHAR(36) CHARACTER SET ascii", ["00000000-0000", "ffff", "a"]),
        ("VARBINARY(20)", ["a", "A", "aa", "b"]),
        ("DATETIME(3)", ["2026-01-01 00:00:00.001", "2026-01-01", "1999-01-01"]),
        ("TIMESTAMP(6)", ["2026-01-01 00:00:00.000001", "2026-01-01"]),
        ("DATE", ["2026-01-01", "2025-12-31"]),
    ],
)
def test_keys_of_other_types(world: RowWorld, type_: str, values: list[str]) -> None:
    world.run(f"CREATE TABLE events (id {type_} NOT NULL PRIMARY KEY, at BIGINT)", BY_TIME)
    world.insert("events", *((value, OLD) for value in values))
    values = sorted({value.casefold() for value in values}) if "latin1" in type_ else values
    for walk in (Walk.TIMESTAMP, Walk.KEY):
        for size, most in ((1, 100), (2, 1), (100, 2)):
            count = sum(b.rows for b in batches(world, table(), size, most, walk))
            assert count == len(values)
        found = batches(world, table(), 1, walk=walk)
        assert between(world, table(), found[::-1]) == []
        assert between(world, table(), [found[0], *found[2:]]) == [found[1]]


@pytest.mark.parametrize("type_", ["ENUM('b', 'a')", "DOUBLE", "BIT(8)"])
def test_keys_that_are_not_compared_as_they_are_written_are_refused(
    world: RowWorld, type_: str
) -> None:
    world.run(f"CREATE TABLE events (id {type_} NOT NULL PRIMARY KEY, at BIGINT)")
    with pytest.raises(TableRefused, match="cannot be in the key"):
        world.reader.describe(table())


def test_an_index_over_the_beginning_of_a_column_is_no_key(world: RowWorld) -> None:
    world.run("CREATE TABLE events (id TEXT NOT NULL, at BIGINT, UNIQUE (id(20)))")
    with pytest.raises(TableRefused, match="no unique index over exactly"):
        world.reader.describe(table(key=("id",)))


def test_odd_texts_fail_no_delete_in_strict_mode(world: RowWorld) -> None:
    """There, what is a warning in a SELECT is an error in a DELETE."""
    odd = ["", "garbage", "2026-13-45T99:99:99Z", "2026-01-01T00:00:00+5", "9999-12-31T23:59-05:00"]
    fill(world, "VARCHAR(60)", [*odd, "2026-01-01T00:00:00.1234567+05:30", "2026-01-01"])
    database: Database = world.reader._database  # type: ignore[attr-defined]
    with database.writing() as connection:
        assert "STRICT" in connection.exec_driver_sql("SELECT @@sql_mode").scalar_one()
        target = reflect(connection, source())
        gone = connection.execute(sa.delete(target.table).where(target.eligible(CUTOFF)))
        assert gone.rowcount == 2


def test_a_text_that_looks_like_a_column_is_refused(world: RowWorld) -> None:
    fill(world, "VARCHAR(60)", ["2026-01-01"])
    with pytest.raises(TableRefused, match="write `id`"):
        world.reader.describe(source(where='"id" = 1'))
    for where in ("id = 1 # all", r"at = 'it\'s'", r'at = "\""'):
        with pytest.raises(TableRefused, match="expected one condition"):
            world.reader.describe(source(where=where))


def test_the_reader_cannot_write(world: RowWorld) -> None:
    fill(world, "VARCHAR(60)", ["2026-01-01"])
    database: Database = world.reader._database  # type: ignore[attr-defined]
    for transaction in (database.reading, database.counting):
        with pytest.raises(sa.exc.DBAPIError, match="READ ONLY"), transaction() as connection:
            connection.exec_driver_sql("DELETE FROM events")
    with database.reading() as connection:
        said = connection.exec_driver_sql(
            "SELECT @@time_zone, @@innodb_lock_wait_timeout, @@lock_wait_timeout, "
            "@@max_statement_time, @@tx_isolation"
        ).one()
    assert tuple(said) == ("+00:00", 2, 2, 30, "REPEATABLE-READ")


@pytest.mark.parametrize(
    "setting",
    [
        "sql_select_limit = 2",
        "foreign_key_checks = 0",
        "sql_safe_updates = 1",
        "sql_mode = 'ORACLE'",
        "sql_mode = 'TRADITIONAL'",
        "sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
        "sql_mode = 'EMPTY_STRING_IS_NULL'",
    ],
)
def test_what_the_server_sets_for_all_sessions_changes_nothing(
    row_database: RowDatabase, world: RowWorld, setting: str
) -> None:
    url = sa.make_url(row_database.url).update_query_dict({"init_command": f"SET {setting}"})
    world.run(
        "CREATE TABLE events (id CHAR(10) NOT NULL PRIMARY KEY, at BIGINT)",
        BY_TIME,
        "CREATE TABLE notes (id INT PRIMARY KEY, event CHAR(10), FOREIGN KEY (event)"
        " REFERENCES events (id) ON DELETE SET NULL)",
    )
    world.insert("events", *((f"{n:03}", OLD) for n in range(20)))
    world.insert("notes", (1, "003"), (2, "019"))
    source = table(dependents=None)
    with row_database.world(url.render_as_string(hide_password=False)) as given:
        assert batches(given, source, 7) == batches(world, source, 7)
        facts = given.reader.describe(source)
        assert given.reader.kept(source, facts) == world.reader.kept(source, facts)
        assert [f for f in given.deleter.check(source) if f.level is not Level.INFO] == []
        end = given.deleter.delete(source, given.task(source), "me")
    assert isinstance(end, Effect), end
    assert end.rows == 20
    assert world.ids("events") == []
    assert world.ask("SELECT id, event FROM notes ORDER BY id") == [(1, None), (2, None)]


def test_a_table_whose_name_differs_in_case_is_another_one(world: RowWorld) -> None:
    if world.ask("SELECT @@lower_case_table_names") != [(0,)]:
        pytest.skip("this server does not tell such names apart")
    world.run(
        "CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT)",
        BY_TIME,
        "CREATE TABLE Events (code BIGINT PRIMARY KEY)",
        "CREATE TABLE kids (id INT PRIMARY KEY, event BIGINT,"
        " FOREIGN KEY (event) REFERENCES Events (code))",
        "CREATE TABLE Kids (id INT PRIMARY KEY, event BIGINT, CONSTRAINT of_events"
        " FOREIGN KEY (event) REFERENCES events (id))",
    )
    world.insert("events", (1, OLD), (2, OLD))
    world.insert("Events", (1,), (2,))
    world.insert("kids", (1, 1), (2, 2))
    world.insert("Kids", (1, 1))

    source = table(dependents=None)
    end = world.deleter.delete(source, world.task(source), "me")

    assert isinstance(end, Effect), end
    assert (end.rows, sum(end.dependents.values())) == (2, 1)
    assert world.ids("kids") == [1, 2]
    assert world.ids("Kids") == []


@pytest.mark.parametrize("how", ["", "ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_a_foreign_key_to_columns_that_several_rows_share_takes_nothing_along(
    world: RowWorld, how: str
) -> None:
    """S-REACH-07."""
    world.run(
        "CREATE TABLE hdr (id INT PRIMARY KEY, order_no INT, at BIGINT, KEY (order_no))",
        "CREATE TABLE line (id INT PRIMARY KEY, order_no INT, "
        f"FOREIGN KEY (order_no) REFERENCES hdr (order_no) {how})",
    )
    world.insert("hdr", (1, 77, OLD), (2, 77, NEW), (3, 78, OLD))
    world.insert("line", (1, 77), (2, 77))
    for dependents in (None, ("line",)):
        with pytest.raises(TableRefused, match=r"line refers to \(order_no\), which several rows"):
            world.reader.describe(table("hdr", dependents=dependents))
    assert [end.rows for end in world.drain(table("hdr"))] == [1]
    assert (world.ids("hdr"), world.ids("line")) == ([1, 2], [1, 2])
    assert world.ask("SELECT DISTINCT order_no FROM line") == [(77,)]


@pytest.mark.parametrize("how", ["ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_a_reference_by_another_key_that_comes_during_the_work_keeps_its_row(
    world: RowWorld, how: str
) -> None:
    """S-REACH-02, S-REACH-03: InnoDB locks the entries of the indexes that were read only."""
    world.run(
        "CREATE TABLE events (id INT PRIMARY KEY, at BIGINT, word VARCHAR(20) UNIQUE, KEY (at))",
        "CREATE TABLE notes (id INT PRIMARY KEY, word VARCHAR(20), "
        f"FOREIGN KEY (word) REFERENCES events (word) {how})",
    )
    world.insert("events", (1, OLD, "one"))
    world.insert("notes", (1, None))
    source = table()
    what = world.task(source)
    with ThreadPoolExecutor(1) as pool:
        with world.holding("UPDATE notes SET word = 'one'") as other:
            delivered = pool.submit(world.deleter.delete, source, what, "me")
            wait([delivered], 0.5)  # it does, for the other session's lock
            other.commit()
        end = delivered.result()
    assert isinstance(end, Failure) or (isinstance(end, Effect) and end.rows == 0), end
    assert world.ids("events") == [1]
    assert world.ask("SELECT word FROM notes") == [("one",)]
