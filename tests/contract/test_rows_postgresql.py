"""What only PostgreSQL does."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest
import sqlalchemy as sa

from bestbefore.adapters import rows
from bestbefore.adapters.rows.engine import Database
from bestbefore.contracts.row_times import DAY, INSTANT, NEW_YORK, WALL, fill, old, source
from bestbefore.contracts.row_world import OLD, RowWorld, table
from bestbefore.contracts.rows import BY_TIME, batches, between
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.rows import TimestampKind, Walk
from bestbefore.ports.objects import KeyRange, StoreError
from bestbefore.ports.rows import TableRefused
from support.row_databases import RowDatabase

NOON = "2026-06-01T12:00:00+00:00"


@pytest.fixture(params=["postgresql"])
def row_database(row_database: RowDatabase) -> RowDatabase:
    return row_database


@contextmanager
def given(row_database: RowDatabase, world: RowWorld, *settings: str) -> Iterator[RowWorld]:
    """The same tables, by a role with other defaults."""
    (schema,) = world.ask("SELECT current_schema()")[0]
    options = " ".join(f"-c {setting}" for setting in (f"search_path={schema}", *settings))
    url = sa.make_url(row_database.url).set(query={"options": options})
    with row_database.world(url.render_as_string(hide_password=False)) as found:
        yield found


@pytest.mark.parametrize("zone", ["UTC", NEW_YORK, "Asia/Tokyo"])
@pytest.mark.parametrize("style", ["ISO, MDY", "SQL, DMY"])
def test_the_zone_and_the_style_of_the_role_change_nothing(
    row_database: RowDatabase, world: RowWorld, zone: str, style: str
) -> None:
    instants = ["2026-06-01 11:59:59+00", "2026-06-01 12:00:00+00", "2026-06-02 01:30:00+00"]
    walls = ["2026-06-01 11:59:59", "2026-06-01 12:00:00", "2026-06-02 01:30:00"]
    days = ["2026-05-31", "2026-06-01", "2026-06-02"]
    defaults = (f"timezone={zone}", f"datestyle={style.replace(' ', '')}")
    with given(row_database, world, *defaults) as zoned:
        for type_, values, kind in (
            (INSTANT["postgresql"], instants, TimestampKind.TIMESTAMPTZ),
            (WALL["postgresql"], walls, TimestampKind.NAIVE),
            (DAY["postgresql"], days, TimestampKind.DATE),
            ("text", walls, TimestampKind.ISO_TEXT),
        ):
            fill(world, type_, values, index=True)
            meant = source(
                timestamp_kind=kind,
                timestamp_zone="UTC" if kind is TimestampKind.NAIVE else None,
            )
            assert old(zoned, meant, NOON) == [1]
            assert [b.first for b in batches(zoned, meant, 1)] == [
                b.first for b in batches(world, meant, 1)
            ]
            world.run("DROP TABLE events")


def test_infinity_and_antiquity_say_nothing(world: RowWorld) -> None:
    for type_ in (INSTANT["postgresql"], WALL["postgresql"], DAY["postgresql"]):
        fill(world, type_, ["-infinity", "infinity", "0044-03-15 BC", "0001-01-01", "2026-01-01"])
        meant = source(timestamp_zone="UTC") if type_ == "timestamp" else source()
        assert old(world, meant, NOON) == [5]
        facts = world.reader.describe(meant)
        assert world.reader.kept(meant, facts) == {"undated": 3, "future": 1}
        world.run("DROP TABLE events")


def test_what_is_no_base_table_is_refused(world: RowWorld) -> None:
    world.run(
        "CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT)",
        "CREATE MATERIALIZED VIEW seen AS SELECT * FROM events",
    )
    with pytest.raises(TableRefused, match="a materialized view"):
        world.reader.describe(table("seen"))


def test_names_are_folded_where_nothing_is_called_so(world: RowWorld) -> None:
    world.run("CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT)")
    assert batches(world, table("Events", timestamp="AT")) == []
    with pytest.raises(StoreError, match='no table "Events"'):
        world.reader.describe(table('"Events"'))
    with pytest.raises(TableRefused, match='no column "AT"'):
        world.reader.describe(table(timestamp='"AT"'))


def test_mixed_case_schemas_and_their_twins(world: RowWorld) -> None:
    """O-SCHEMA-01."""
    database: Database = world.reader._database  # type: ignore[attr-defined]
    (schema,) = world.ask("SELECT current_schema()")[0]
    mixed, twin = f"{schema}_Case", f"{schema}_case"
    world.run(
        f'CREATE SCHEMA "{mixed}"', f"CREATE SCHEMA {twin}",
        f'CREATE TABLE "{mixed}"."Order" ("Id" BIGINT PRIMARY KEY, "CreatedDate" BIGINT)',
        f"CREATE TABLE {twin}.order_ (id BIGINT PRIMARY KEY, createddate BIGINT)",
        f'ALTER TABLE {twin}.order_ RENAME TO "order"',
    )  # fmt: skip
    try:
        world.insert(f'"{mixed}"."Order"', (1, OLD), (2, OLD * 2))
        world.insert(f'{twin}."order"', (1, OLD), (2, OLD))
        for name, column, count in (
            (f"{mixed}.Order", "CreatedDate", 1),
            (f'"{mixed}"."Order"', '"CreatedDate"', 1),
            (f"{twin}.order", "createddate", 2),
        ):
            assert batches(world, table(name, timestamp=column))[0].rows == count
        with pytest.raises(StoreError):
            world.reader.describe(table(f'"{mixed}"."order"', timestamp="createddate"))
    finally:
        world.run(f'DROP SCHEMA "{mixed}" CASCADE', f"DROP SCHEMA {twin} CASCADE")
    assert database is not None


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ('text COLLATE "C"', ["b", "A", "a", "B", "ä", "_"]),
        ("char(5)", ["b", "A", "a ", "B", "ä", "_"]),
        ("numeric", ["1.50", "-3", "1e30", "NaN", "0.000001"]),
        ("double precision", ["0.1", "1e300", "-5", "Infinity", "3.3333333333333335"]),
        ("timestamptz", ["2026-01-01 00:00:00.000001+00", "2026-01-01", "infinity"]),
        ("inet", ["10.0.0.1", "9.0.0.1", "10.0.0.0/8"]),
        ("interval", ["1 day", "25:00:00", "-1 mon"]),
        ("boolean", ["true", "false"]),
        ("mood", ["sad", "ok", "fine"]),
        ("code", ["z", "Y", "x"]),
        ("int[]", ["{2,1}", "{10}", "{}"]),
    ],
)
def test_keys_of_other_types(world: RowWorld, type_: str, values: list[str]) -> None:
    world.run("CREATE TYPE mood AS ENUM ('sad', 'ok', 'fine')", "CREATE DOMAIN code AS varchar(9)")
    world.run(f"CREATE TABLE events (id {type_} PRIMARY KEY, at BIGINT)", BY_TIME)
    world.insert("events", *((value, OLD) for value in values))
    for walk in (Walk.TIMESTAMP, Walk.KEY):
        for size, most in ((1, 100), (2, 1), (100, 2)):
            assert sum(b.rows for b in batches(world, table(), size, most, walk)) == len(values)
        found = batches(world, table(), 1, walk=walk)
        assert between(world, table(), found[::-1]) == []
        assert between(world, table(), [found[0], *found[2:]]) == [found[1]]


def test_a_partitioned_table_is_gone_through_like_any_other(world: RowWorld) -> None:
    world.run(
        "CREATE TABLE events (id BIGINT, at BIGINT, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        f"CREATE TABLE events_old PARTITION OF events FOR VALUES FROM (0) TO ({OLD})",
        "CREATE TABLE events_rest PARTITION OF events DEFAULT",
        BY_TIME,
    )
    world.insert("events", *((n, OLD - 10 + n) for n in range(20)))
    careful = table(allow_full_scan=False)
    assert sum(batch.rows for batch in batches(world, careful, 3, 4)) == 20


@pytest.mark.parametrize(
    "index",
    [
        "CREATE INDEX ON events USING hash (at)",
        "CREATE INDEX ON events (at) WHERE id > 5",
        "CREATE INDEX ON events ((at::text))",
        "CREATE INDEX ON events (id, at)",
    ],
)
def test_an_index_that_does_not_help_is_none(world: RowWorld, index: str) -> None:
    fill(world, INSTANT["postgresql"], ["2026-01-01"])
    index = index.replace("at::text", "at AT TIME ZONE 'UTC'")
    world.run(index)
    with pytest.raises(TableRefused, match="no index begins with at"):
        world.reader.describe(source(allow_full_scan=False))


def test_an_index_that_is_ordered_otherwise_is_noticed(world: RowWorld) -> None:
    fill(world, "text", ["2026-01-01T00:00:00Z"])
    world.run('CREATE INDEX ON events (at COLLATE "C" text_pattern_ops)')
    with pytest.raises(TableRefused, match="does not use it"):
        world.reader.describe(source(allow_full_scan=False))


def test_where_may_use_what_the_database_understands(world: RowWorld) -> None:
    world.run("CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT, doc jsonb)")
    world.insert("events", (1, OLD, '{"a": "x", "tags": ["t"]}'), (2, OLD, "{}"))
    for where in (
        "doc->>'a' = 'x'", "doc @> '{\"a\": \"x\"}'::jsonb", "doc ? 'a'",
        "(doc->'tags') ?| array['t']", "id % 2 = 1", "doc::text LIKE '%x%'",
        "id = ANY (array[1, 3])", "doc #>> '{a}' = E'x'",
    ):  # fmt: skip
        assert [batch.first for batch in batches(world, table(where=where))] == ['["1"]']
    for where in ("id = $1", "id = 1 OR $$x$$ = 'x'", r"id = 1 OR E'it\'s' = 'x'"):
        with pytest.raises(TableRefused, match="expected one condition"):
            world.reader.describe(table(where=where))


def test_where_means_the_same_whatever_a_backslash_is_by_default(
    row_database: RowDatabase, world: RowWorld
) -> None:
    world.run("CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT, name TEXT)", BY_TIME)
    world.insert("events", (1, OLD, "tmp_a"), (2, OLD, "tmpXa"))
    meant = table(where=r"name LIKE 'tmp\_%'")
    with given(row_database, world, "standard_conforming_strings=off") as other:
        assert other.delete(meant, other.task(meant)).rows == 1
    assert world.ids("events") == [2]


def test_foreign_keys_hold_in_a_session_that_is_like_a_replicas(
    row_database: RowDatabase, world: RowWorld
) -> None:
    world.run(
        "CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT)",
        BY_TIME,
        "CREATE TABLE notes (id INT PRIMARY KEY, event BIGINT"
        " REFERENCES events (id) ON DELETE SET NULL)",
    )
    world.insert("events", (1, OLD))
    world.insert("notes", (1, 1))
    with given(row_database, world, "session_replication_role=replica") as other:
        source = table(dependents=None)
        assert other.delete(source, other.task(source)).rows == 1
    assert world.ask("SELECT id, event FROM notes") == [(1, None)]


def test_a_role_that_is_made_read_only_deletes_nothing(
    row_database: RowDatabase, world: RowWorld
) -> None:
    """So is a database frozen by people who do not know of us."""
    world.run("CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT)", BY_TIME)
    world.insert("events", (1, OLD))
    with given(row_database, world, "default_transaction_read_only=on") as frozen:
        failure = frozen.deleter.delete(table(), frozen.task(table()), "me")
    assert isinstance(failure, Failure), failure
    assert failure.failure_class is FailureClass.CREDENTIALS  # which waits for days, for a person
    assert world.ids("events") == [1]


def test_the_place_is_where_the_driver_went_not_only_what_the_url_says(
    row_database: RowDatabase, world: RowWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world, INSTANT["postgresql"], ["2026-01-01"], index=True)
    url = sa.make_url(row_database.url)
    places = []
    for host in (str(url.host), "localhost"):
        monkeypatch.setenv("PGHOST", host)
        monkeypatch.setenv("PGPORT", str(url.port or 5432))
        silent = sa.URL.create(
            url.drivername, url.username, url.password, database=url.database, query=url.query
        ).render_as_string(hide_password=False)
        with row_database.world(silent) as found:
            places.append(found.reader.describe(source()).place)
    assert [f"//{url.host}:" in places[0], "//localhost:" in places[1]] == [True, True]


def test_the_reader_cannot_write_and_waits_for_nobody_long(world: RowWorld) -> None:
    fill(world, INSTANT["postgresql"], ["2026-01-01"], index=True)
    database: Database = world.reader._database  # type: ignore[attr-defined]
    for transaction in (database.reading, database.counting):
        with pytest.raises(sa.exc.InternalError, match="read-only"), transaction() as connection:
            connection.exec_driver_sql("DELETE FROM events")
    with database.reading() as connection:
        said = [
            connection.exec_driver_sql(f"SHOW {name}").scalar_one()
            for name in ("timezone", "lock_timeout", "statement_timeout", "transaction_isolation")
        ]
    assert said == ["UTC", "2s", "30s", "repeatable read"]
    facts = world.reader.describe(source())
    locked = world.holding("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
    with locked, pytest.raises(StoreError) as raised:
        world.reader.kept(source(), facts)
    assert raised.value.failure.failure_class is FailureClass.TRANSIENT


def test_a_pooler_that_changes_the_session_with_every_transaction_changes_nothing(
    pooled_url: str,
) -> None:
    reader, _ = rows.connect(pooled_url)
    with closing(psycopg.connect(pooled_url.replace("+psycopg", ""), autocommit=True)) as driver:
        driver.execute("CREATE TABLE events (id BIGINT PRIMARY KEY, at timestamptz)")
        driver.execute("CREATE INDEX ON events (at)")
        driver.execute(
            "INSERT INTO events SELECT n, timestamptz '2026-01-01' + n * interval '1 min' "
            "FROM generate_series(1, 100) n"
        )
    facts = reader.describe(source())
    rest: KeyRange | None = KeyRange(None, None)
    found = 0
    while rest is not None:
        cut = reader.slice(source(), facts, facts.now, rest, 3, 7)
        found += sum(batch.rows for batch in cut.batches)
        rest = cut.rest
    assert found == 100
    reader._database.dispose()


@pytest.fixture(autouse=True)
def _no_leftovers(world: RowWorld) -> Iterator[None]:
    yield
    world.run("DROP TABLE IF EXISTS events CASCADE")
