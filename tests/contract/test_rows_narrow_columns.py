"""Values that do not fit the column they are moved to, on every database."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from bestbefore.adapters import rows
from bestbefore.adapters.rows import SqlRowRestorer
from bestbefore.adapters.rows.dialect import Access
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.pressure import SqlPressure
from bestbefore.adapters.rows.scratch.places import place_for
from bestbefore.contracts.row_archiving import SOURCE, archived, refusal
from bestbefore.contracts.row_filing import FilingWorld, filed
from bestbefore.contracts.row_world import OLD, RowWorld
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.finding import Level
from support.row_databases import RowDatabase

Cases = Mapping[str, Sequence[tuple[str, ...]]]

STAMP = "bestbefore_operation_id CHAR(64)"


def lax(database: RowDatabase) -> str:
    """The database's URL, as if its server cut values silently, where one can."""
    if database.kind != "mysql":
        return database.url
    mode = sa.make_url(database.url).update_query_dict({"init_command": "SET sql_mode = ''"})
    return mode.render_as_string(hide_password=False)


@pytest.fixture
def world(row_database: RowDatabase) -> Iterator[RowWorld]:
    with row_database.world(lax(row_database)) as made:
        yield made


@pytest.fixture
def filing(world: RowWorld, row_database: RowDatabase) -> Iterator[FilingWorld]:
    restorer = SqlRowRestorer(lax(row_database))
    yield FilingWorld(world, world.deleter, restorer)  # type: ignore[arg-type]
    restorer.close()


def on_each(names: str, cases: Cases) -> pytest.MarkDecorator:
    """Run a test with each of *cases*, by their database."""
    params = [(kind, *case) for kind, found in cases.items() for case in found]
    return pytest.mark.parametrize(f"row_database, {names}", params, indirect=["row_database"])


def replaced(world: RowWorld, type_: str) -> None:
    """Make ``events`` anew, empty, with a column ``v`` of another type."""
    world.run("DROP TABLE events")
    world.run(f"CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT, v {type_})")


def tables(world: RowWorld, here: str, there: str) -> None:
    """Empty tables ``events`` and ``gone`` whose columns ``v`` have these types."""
    for name, type_, stamp in (("events", here, ""), ("gone", there, f", {STAMP}")):
        world.run(f"DROP TABLE IF EXISTS {name}")
        world.run(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, at BIGINT, v {type_}{stamp})")


LATIN, UTF8 = "CHARACTER SET latin1", "CHARACTER SET utf8mb4"

LOSSY: Cases = {
    "mysql": [
        (f"TEXT {LATIN}", f"TEXT {UTF8}", "é" * 65_535),
        (f"TINYTEXT {LATIN}", f"TINYTEXT {UTF8}", "é" * 255),
        (f"MEDIUMTEXT {LATIN}", f"MEDIUMTEXT {UTF8}", "é"),
        (f"VARCHAR(30000) {LATIN}", f"TEXT {UTF8}", "€" * 30_000),
        ("TEXT CHARACTER SET ucs2", f"TEXT {UTF8}", "€" * 30_000),
        ("TEXT CHARACTER SET sjis", f"TEXT {UTF8}", "ｱ" * 60_000),
        ("VARCHAR(30)", "VARCHAR(29)", "x" * 30),
        ("VARBINARY(30)", "VARBINARY(29)", "x" * 30),
        ("DECIMAL(10,4)", "DECIMAL(10,2)", "1.2345"),
        ("DATETIME(6)", "DATETIME(3)", "2026-01-01 00:00:00.123456"),
        ("TIME(6)", "TIME", "00:00:00.5"),
        ("DOUBLE", "DOUBLE(10,2)", "1.2345"),
        ("FLOAT", "DOUBLE(10,2)", "1.2345"),
        ("DOUBLE", "FLOAT", "0.1"),
        ("ENUM('a','b')", "ENUM('A','B')", "a"),
        ("ENUM('a','b')", "ENUM('a')", "b"),
        ("SET('a','b')", "SET('a','B')", "b"),
        ("BIT(9)", "BIT(8)", "1"),
    ],
    "postgresql": [
        ("VARCHAR(9)", "VARCHAR(5)", "a        "),
        ("TEXT", "CHAR(5)", "a "),
        ("NUMERIC(10,4)", "NUMERIC(10,2)", "1.2345"),
        ("NUMERIC", "NUMERIC(10,2)", "1.2345"),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", "2026-01-01 00:00:00.123456"),
        ("TIMESTAMPTZ", "TIMESTAMPTZ(0)", "2026-01-01 00:00:00.6+00"),
        ("DOUBLE PRECISION", "REAL", "0.1"),
        ("INTERVAL", "INTERVAL(0)", "1.5 seconds"),
        ("TIMESTAMP", "DATE", "2026-01-01 12:00:00"),
        ("DOUBLE PRECISION", "INTEGER", "1.5"),
    ],
    "sqlite": [
        ("TEXT", "INTEGER", "007"),
        ("TEXT", "DECIMAL(10,2)", "1.50"),
        ("", "NUMERIC", "1.0"),
    ],
}
"""Types of a column and of a narrower one, and a value that the latter would lose silently where
nothing but the database's own rules decided."""


@on_each("here, there, value", LOSSY)
def test_what_a_narrower_column_could_lose_is_refused_before_anything_moves(
    world: RowWorld, here: str, there: str, value: str
) -> None:
    """S-STORE-08."""
    tables(world, here, here)
    world.insert("events", (1, OLD, value))
    before = world.ask("SELECT v FROM events")
    what = world.task(SOURCE)
    world.run("DROP TABLE gone")
    world.run(f"CREATE TABLE gone (id BIGINT PRIMARY KEY, at BIGINT, v {there}, {STAMP})")

    said = refusal(world)

    assert "gone cannot take the rows of events" in said
    (found,) = [f for f in world.deleter.check(SOURCE) if f.level is Level.ERROR]
    assert "gone cannot take the rows" in found.message
    failure = world.fails(SOURCE, what)
    assert (failure.failure_class, failure.whole_source) == (FailureClass.MALFORMED, True)
    assert world.ask("SELECT v FROM events") == before
    if world.kind == "sqlite":
        return  # which cannot change the type of a column
    world.run(said.partition(" (ALTER")[2].join(("ALTER", "")).removesuffix(")").replace("`", '"'))
    world.drain(SOURCE)
    assert world.ask("SELECT v FROM gone") == before
    assert world.ids("events") == []


@pytest.mark.parametrize("row_database", ["mysql"], indirect=True)
class TestCharacterSets:
    """Only MariaDB and MySQL have several in one database."""

    @pytest.mark.parametrize(
        ("here", "there"),
        [
            (f"TEXT {LATIN}", f"MEDIUMTEXT {UTF8}"),
            (f"TINYTEXT {LATIN}", f"TEXT {UTF8}"),
            (f"MEDIUMTEXT {LATIN}", f"LONGTEXT {UTF8}"),
            (f"LONGTEXT {LATIN}", f"LONGTEXT {UTF8}"),
            (f"TEXT {LATIN}", f"TEXT {LATIN}"),
            ("TEXT CHARACTER SET utf8mb3", f"TEXT {UTF8}"),
            ("TEXT CHARACTER SET ascii", f"TEXT {UTF8}"),
            (f"VARCHAR(300) {LATIN}", f"VARCHAR(300) {UTF8}"),
            (f"VARCHAR(21845) {LATIN}", f"TEXT {UTF8}"),
        ],
    )
    def test_a_text_moves_to_one_with_room_for_its_bytes(
        self, world: RowWorld, here: str, there: str
    ) -> None:
        """S-STORE-08: what fits is not refused."""
        tables(world, here, there)
        text = "x" if "ascii" in here else "é" * 255
        world.insert("events", (1, OLD, text))
        world.drain(SOURCE)
        assert world.ask("SELECT v FROM gone") == [(text,)]

    def test_a_value_that_does_not_fit_at_the_time_is_not_cut(self, world: RowWorld) -> None:
        """S-STORE-08: the archive was made narrower while its shape was remembered."""
        tables(world, f"TEXT {LATIN}", f"MEDIUMTEXT {UTF8}")
        world.insert("events", (1, OLD, "a"), (2, OLD, "é" * 65_535))
        first, second = world.plan(SOURCE, 1)
        world.delete(SOURCE, first)
        world.run(f"ALTER TABLE gone MODIFY v TEXT {UTF8}")

        failure = world.fails(SOURCE, second)

        assert "too long" in failure.error
        assert world.ask("SELECT id, char_length(v) FROM events") == [(2, 65_535)]
        assert world.ids("gone") == [1]


@pytest.mark.parametrize("row_database", ["mysql"], indirect=True)
@pytest.mark.parametrize("mode", ["", "TRADITIONAL", "ALLOW_INVALID_DATES", "ANSI_QUOTES"])
def test_every_connection_is_strict_whatever_the_server_sets(
    row_database: RowDatabase, mode: str
) -> None:
    """S-STORE-08: reading, counting, deleting, restoring, measuring, trying out."""
    url = sa.make_url(row_database.url).update_query_dict(
        {"init_command": f"SET sql_mode='{mode}'"}
    )
    text = url.render_as_string(hide_password=False)
    reader, _ = rows.connect(text)
    restorer, pressure = SqlRowRestorer(text), SqlPressure(text)
    data: list[Database] = [reader._database, restorer._database]  # type: ignore[attr-defined]
    transactions: list[Callable[[], Any]] = [
        *(how for each in data for how in (each.reading, each.counting, each.writing, each.alone)),
        pressure._engine.connect,
        place_for(row_database.url).engine().connect,
        data[0].dialect.engine(url, Access(read_only=False, lock=1, statement=1)).connect,
    ]
    for begin in transactions:
        with begin() as connection:
            modes = set(connection.exec_driver_sql("SELECT @@sql_mode").scalar_one().split(","))
        assert {"STRICT_ALL_TABLES", "STRICT_TRANS_TABLES", "NO_AUTO_VALUE_ON_ZERO"} <= modes
        assert not {"NO_ZERO_DATE", "NO_ZERO_IN_DATE"} & modes
    for each in (reader, restorer, pressure):
        each.close()


@pytest.mark.parametrize("row_database", ["mysql"], indirect=True)
def test_rows_keep_their_zero_dates_although_every_connection_is_strict(world: RowWorld) -> None:
    tables(world, "DATE", "DATE")
    world.run("SET sql_mode = ''", f"INSERT INTO events VALUES (1, {OLD}, '0000-00-00')")  # noqa: S608
    world.run("SET sql_mode = ''", f"INSERT INTO events VALUES (2, {OLD}, '2026-00-00')")  # noqa: S608
    world.drain(SOURCE)
    assert world.ask("SELECT CAST(v AS CHAR) FROM gone ORDER BY id") == [
        ("0000-00-00",), ("2026-00-00",),
    ]  # fmt: skip


ALTERED: Cases = {
    "mysql": [
        ("DECIMAL(10,4)", "DECIMAL(8,2)", "1.2345", "1.2300"),
        ("DATETIME(6)", "DATETIME", "2026-01-01 00:00:00.6", "2026-01-01 00:00:01"),
        ("DOUBLE", "FLOAT", "0.1", "0.5"),
        ("DOUBLE", "DOUBLE(10,2)", "1.2345", "1.25"),
        ("VARCHAR(9)", "CHAR(9)", "a ", "a"),
        ("ENUM('a','b')", "ENUM('A','b')", "a", "b"),
    ],
    "postgresql": [
        ("NUMERIC(10,4)", "NUMERIC(8,2)", "1.2345", "1.2300"),
        ("TIMESTAMP(6)", "TIMESTAMP(0)", "2026-01-01 00:00:00.6", "2026-01-01 00:00:01"),
        ("TIMESTAMPTZ", "TIMESTAMPTZ(0)", "2026-01-01 00:00:00.6+00", "2026-01-01 00:00:01+00"),
        ("DOUBLE PRECISION", "REAL", "0.123456789", "0.5"),
        ("TEXT", "VARCHAR(2)", "a   ", "a "),
    ],
    "sqlite": [
        ("", "INTEGER", "007", "seven"),
        ("", "NUMERIC", "1.0", "1,0"),
    ],
}
"""Types of a column and of what became of it while rows were archived, and a value each that would
be altered and that would not."""


IN_THE_ARCHIVE = {
    kind: [case for case in cases if "ENUM" not in case[1]] for kind, cases in ALTERED.items()
}
"""Without those whose archive could not take rows of the table as it is now, and is refused."""


@on_each("was, now, lost, kept", IN_THE_ARCHIVE)
def test_what_a_column_would_alter_by_now_stays_in_the_archive(
    filing: FilingWorld, was: str, now: str, lost: str, kept: str
) -> None:
    """S-STORE-08, on the way back: a database rounds and trims without an error."""
    world = filing.rows
    tables(world, was, was)
    world.insert("events", (1, OLD, lost), (2, OLD, kept), (3, OLD, None))
    what = world.task(SOURCE)
    world.delete(SOURCE, what)
    before = world.ask("SELECT v FROM gone ORDER BY id")
    replaced(world, now)

    back = filing.move_back(SOURCE, what, 3)

    assert (back.restored, back.left) == (2, 1)
    assert "would not come back as it was archived: v is" in str(back.why)
    assert (world.ids("events"), world.ids("gone")) == ([2, 3], [1])
    assert world.ask("SELECT v FROM gone") == before[:1]


@on_each("was, now, lost, kept", ALTERED)
def test_what_a_column_would_alter_by_now_stays_in_its_file(
    filing: FilingWorld, was: str, now: str, lost: str, kept: str
) -> None:
    """S-STORE-08, on the way back from a file."""
    world, source = filing.rows, filed()
    tables(world, was, was)
    world.insert("events", (1, OLD, lost), (2, OLD, kept), (3, OLD, None))
    what = world.task(source)
    file = filing.read(source, what)
    filing.delete(source, what, file)
    replaced(world, now)

    back = filing.back(source, file)

    assert (back.restored, back.left) == (2, 1)
    assert "would not come back as it was archived: v is" in str(back.why)
    assert world.ids("events") == [2, 3]


def test_a_key_that_would_be_rounded_on_its_way_back_stays(filing: FilingWorld) -> None:
    """S-STORE-08: the row is looked for under the key that it had."""
    world = filing.rows
    if world.kind == "sqlite":
        pytest.skip("no type rounds a key here")
    for name, type_, stamp in (("events", "9,4", ""), ("gone", "12,4", f", {STAMP}")):
        world.run(f"CREATE TABLE {name} (id DECIMAL({type_}) PRIMARY KEY, at BIGINT{stamp})")
    world.insert("events", ("1.1234", OLD), ("2", OLD))
    what = world.task(SOURCE)
    world.delete(SOURCE, what)
    world.run("DROP TABLE events", "CREATE TABLE events (id DECIMAL(9,2) PRIMARY KEY, at BIGINT)")
    back = filing.move_back(SOURCE, what, 2)
    assert (back.restored, back.left) == (1, 1)
    assert world.ask("SELECT id FROM events") == [(2,)]


WIDER: Cases = {
    "mysql": [
        ("INT", "BIGINT", "7"), ("INT", "DECIMAL(20,2)", "7"), ("DATE", "DATETIME", "2026-01-01"),
        ("DATETIME", "TIMESTAMP(6) NULL", "2026-01-01 00:00:00"), ("FLOAT", "DOUBLE", "0.1"),
        (f"VARCHAR(9) {LATIN}", f"TEXT {UTF8}", "é"), ("DECIMAL(9,2)", "VARCHAR(20)", "1.50"),
    ],
    "postgresql": [
        ("INTEGER", "BIGINT", "7"), ("INTEGER", "NUMERIC(20,2)", "7"),
        ("DATE", "TIMESTAMP", "2026-01-01"), ("REAL", "DOUBLE PRECISION", "0.1"),
        ("TIMESTAMP", "TIMESTAMPTZ", "2026-01-01 00:00:00"), ("CHAR(4)", "TEXT", "a"),
    ],
    "sqlite": [("INTEGER", "", "7"), ("TEXT", "BLOB", "a"), ("REAL", "INTEGER", "1.5")],
}  # fmt: skip


@on_each("was, now, value", WIDER)
def test_a_column_of_another_type_takes_back_what_it_does_not_alter(
    filing: FilingWorld, was: str, now: str, value: str
) -> None:
    world, source = filing.rows, filed()
    tables(world, was, was)
    world.insert("events", (1, OLD, value))
    what = world.task(source)
    file = filing.read(source, what)
    filing.delete(source, what, file)
    replaced(world, now)
    assert filing.back(source, file).restored == 1


WIDE_ARCHIVES: Cases = {
    "mysql": [
        ("INT", "BIGINT", "7"), ("DECIMAL(9,2)", "DECIMAL(20,4)", "1.50"),
        ("FLOAT", "DOUBLE", "0.1"), (f"CHAR(9) {LATIN}", f"LONGTEXT {UTF8}", "é"),
        ("DATETIME", "DATETIME(6)", "2026-01-01 00:00:00"),
    ],
    "postgresql": [
        ("INTEGER", "BIGINT", "7"), ("NUMERIC(9,2)", "NUMERIC", "1.50"),
        ("REAL", "DOUBLE PRECISION", "0.1"), ("CHAR(9)", "TEXT", "a"),
        ("TIMESTAMP(0)", "TIMESTAMP", "2026-01-01 00:00:00"),
    ],
    "sqlite": [("INTEGER", "", "7"), ("TEXT", "BLOB", "007"), ("REAL", "", "1")],
}  # fmt: skip


@on_each("here, there, value", WIDE_ARCHIVES)
def test_a_wide_archive_gives_back_what_was_moved_there(
    filing: FilingWorld, here: str, there: str, value: str
) -> None:
    world = filing.rows
    tables(world, here, there)
    world.insert("events", (1, OLD, value))
    before = world.ask("SELECT v FROM events")
    what = world.task(archived())
    world.delete(SOURCE, what)
    assert filing.move_back(SOURCE, what, 1).restored == 1
    assert world.ask("SELECT v FROM events") == before
