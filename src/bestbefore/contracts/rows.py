"""What every reader of rows has to do: batches, gaps, keys and names. To run it over one::

class TestMyReader(RowReaderContract):
    @pytest.fixture
    def world(self) -> RowWorld: ...            # an empty database
    @pytest.fixture
    def statements(self) -> list[str]: ...      # what the reader sends from now on

How old a row is stands in `bestbefore.contracts.row_times`, which rows others keep in
`bestbefore.contracts.row_references`.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bestbefore.contracts.row_world import CUTOFF, NEW, OLD, RowWorld, table
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.rows import RowBatch, RowSource, Walk
from bestbefore.ports.objects import KeyRange, StoreError
from bestbefore.ports.rows import TableRefused

EVERYTHING = KeyRange(None, None)
EVENTS = "CREATE TABLE events (id BIGINT NOT NULL PRIMARY KEY, at BIGINT)"
BY_TIME = "CREATE INDEX events_at ON events (at)"
SOURCE = table()

BYTES = {"postgresql": "bytea", "mysql": "BINARY(16)", "sqlite": "BLOB"}
UUID = {"postgresql": "uuid", "mysql": "UUID", "sqlite": "VARCHAR(36)"}

KEYS: dict[str, tuple[str | dict[str, str], Sequence[Any]]] = {
    "bigint": (
        "BIGINT",
        [-(2**63), -1, 0, 1, 9007199254740992, 9007199254740993, 738529527931269425, 2**63 - 1],
    ),
    "text": (
        "VARCHAR(60)",
        ["", "k", "b", "a b", "it's", 'say "x"', "back\\slash", "[1,2]", "ß", "\N{PILE OF POO}",
         "new\nline", "%s %(x)s :y ?", "10", "9", "ö"],
    ),
    "uuid": (
        UUID,
        [f"{n:08x}-0000-4000-8000-{(n * 7919) % 1000:012x}" for n in (1, 2, 10, 0x80000000, 255)],
    ),
    "decimal": (
        {"postgresql": "numeric(20,4)", "mysql": "DECIMAL(20,4)", "sqlite": "INTEGER"},
        [-5, 0, 3, 1234567890123456],
    ),
    "date": (
        {"postgresql": "date", "mysql": "DATE", "sqlite": "DATE"},
        ["2026-01-01", "1999-12-31", "2026-01-02"],
    ),
    "bytes": (BYTES, ["00" * 16, "ff" * 16, "7f" * 16, "0a" * 16, "c0ffee" + "00" * 13]),
}  # fmt: skip
"""Types of keys, by database where they differ, and values of each that all can hold."""


class RowReaderContract:
    """Inherit, and give the fixtures above."""

    # -- batches

    @pytest.mark.parametrize("index", [False, True])
    def test_batches_cover_what_is_eligible_and_nothing_else(
        self, world: RowWorld, index: bool
    ) -> None:
        fill(world, {n: OLD if n % 3 else NEW for n in range(1, 21)} | {21: None}, index=index)
        found = batches(world, SOURCE, 4)
        assert [batch.rows for batch in found] == [4, 4, 4, 2]
        assert [ids(world, batch) for batch in found] == [
            [1, 2, 4, 5], [7, 8, 10, 11], [13, 14, 16, 17], [19, 20],
        ]  # fmt: skip
        assert {batch.walk for batch in found} == {Walk.TIMESTAMP if index else Walk.KEY}
        assert {batch.oldest for batch in found} == {CUTOFF - timedelta(days=1)}

    def test_the_ends_are_texts_and_the_oldest_row_is_known(self, world: RowWorld) -> None:
        fill(world, {5: OLD - 7, 6: OLD - 9, 7: OLD})
        (batch,) = batches(world, SOURCE)
        assert (batch.first, batch.last) == ('["5"]', '["7"]')
        assert batch.oldest == CUTOFF - timedelta(days=1, seconds=9)

    def test_an_empty_table_has_no_batches(self, world: RowWorld) -> None:
        world.run(EVENTS)
        facts = world.reader.describe(SOURCE)
        assert list(world.reader.gaps(SOURCE, facts, [])) == [EVERYTHING]
        found = world.reader.slice(SOURCE, facts, CUTOFF, EVERYTHING, 10, 10)
        assert (list(found.batches), found.rest, found.scanned) == ([], None, 0)

    def test_a_slice_says_how_far_it_looked(self, world: RowWorld) -> None:
        fill(world, dict.fromkeys(range(1, 8), NEW) | {8: OLD, 9: OLD, 10: NEW})
        facts = world.reader.describe(SOURCE)
        looked = []
        rest: KeyRange | None = EVERYTHING
        while rest is not None:
            found = world.reader.slice(SOURCE, facts, CUTOFF, rest, 5, 4)
            looked.append((found.scanned, [ids(world, b) for b in found.batches]))
            rest = found.rest
        assert looked == [(4, []), (4, [[8]]), (2, [[9]])]

    @pytest.mark.parametrize("size", [1, 2, 3, 7, 8])
    @pytest.mark.parametrize("index", [False, True])
    def test_equal_timestamps_across_an_edge(self, world: RowWorld, size: int, index: bool) -> None:
        """O-LIST-02."""
        fill(world, dict.fromkeys(range(1, 6), OLD) | {6: OLD + 1, 7: OLD + 1}, index=index)
        for most in (1, 2, 3, 50):
            found = batches(world, SOURCE, size, most)
            assert [id_ for batch in found for id_ in ids(world, batch)] == [*range(1, 8)]

    def test_rows_that_disappear_behind_a_plan_hide_no_others(self, world: RowWorld) -> None:
        """O-LIST-03."""
        fill(world, dict.fromkeys(range(1, 1001), OLD))
        facts = world.reader.describe(SOURCE)
        rest: KeyRange | None = EVERYTHING
        while rest is not None:
            found = world.reader.slice(SOURCE, facts, CUTOFF, rest, 100, 100)
            for batch in found.batches:
                gone = ", ".join(map(str, ids(world, batch)))
                world.run(f"DELETE FROM events WHERE id IN ({gone})")  # noqa: S608
            rest = found.rest
        assert world.ids("events") == []

    def test_big_holes_cost_nothing(self, world: RowWorld, statements: list[str]) -> None:
        """O-LIST-05."""
        wanted = [*range(1, 11), *range(1_000_001, 1_000_011)]
        fill(world, dict.fromkeys(wanted, OLD))
        facts = world.reader.describe(SOURCE)
        del statements[:]
        (gap,) = world.reader.gaps(SOURCE, facts, [])
        found = world.reader.slice(SOURCE, facts, CUTOFF, gap, 1_000, 50_000)
        assert found.rest is None
        assert [ids(world, batch) for batch in found.batches] == [wanted]
        assert len(statements) <= 10

    def test_a_random_table_is_cut_without_loss_whatever_the_sizes(self, world: RowWorld) -> None:
        chance = random.Random(4)  # noqa: S311
        rows: dict[int, int | None] = {
            id_: OLD - chance.randrange(3) for id_ in chance.sample(range(500), 120)
        }
        rows |= dict.fromkeys(chance.sample(range(500, 600), 30), NEW) | {601: None}
        fill(world, rows, index=True)
        old = {id_ for id_, at in rows.items() if at is not None and at < NEW}
        for walk in (Walk.TIMESTAMP, Walk.KEY):
            for _ in range(8):
                size, most = chance.randint(1, 40), chance.randint(1, 60)
                found = batches(world, SOURCE, size, most, walk)
                cut = [ids(world, batch) for batch in found]
                chosen = [id_ for part in cut for id_ in part]
                assert len(chosen) == len(set(chosen))
                assert set(chosen) == old
                assert [batch.rows for batch in found] == [len(part) for part in cut]

    # -- gaps

    @pytest.mark.parametrize("index", [False, True])
    def test_the_next_plan_cuts_only_what_lies_between(self, world: RowWorld, index: bool) -> None:
        fill(world, dict.fromkeys(range(10, 100, 10), OLD), index=index)
        taken = batches(world, SOURCE, 2)
        world.insert("events", (5, OLD), (11, OLD), (25, OLD), (45, OLD), (95, OLD), (96, NEW))
        found = between(world, SOURCE, taken)
        chosen = [id_ for batch in found for id_ in ids(world, batch)]
        # What came up within a batch goes with it.
        assert chosen == [5, 25, 45, 95]

    def test_gaps_are_in_order_whatever_the_order_of_what_is_taken(self, world: RowWorld) -> None:
        fill(world, dict.fromkeys([9, 10, 11, 99, 100, 101, 1000], OLD))
        taken = batches(world, SOURCE, 1)
        facts = world.reader.describe(SOURCE)
        ends = [(batch.first, batch.last) for batch in (*taken[::2][::-1], *taken[1::2])]
        gaps = world.reader.gaps(SOURCE, facts, ends)
        assert gaps[0] == KeyRange(None, '["9"]')
        assert gaps[-1] == KeyRange('["1000"]', None)
        world.insert("events", (98, OLD), (999, OLD))
        inner = world.reader.gaps(SOURCE, facts, ends)[1:-1]
        assert inner == [KeyRange('["11"]', '["99"]'), KeyRange('["101"]', '["1000"]')]

    def test_neighbours_leave_no_gap_to_look_into(self, world: RowWorld) -> None:
        fill(world, dict.fromkeys(range(1, 1001), OLD))
        taken = batches(world, SOURCE, 2)
        facts = world.reader.describe(SOURCE)
        gaps = world.reader.gaps(SOURCE, facts, [(b.first, b.last) for b in taken])
        assert gaps == [KeyRange(None, '["1"]'), KeyRange('["1000"]', None)]

    def test_nothing_is_planned_twice(self, world: RowWorld) -> None:
        fill(world, dict.fromkeys(range(1, 50), OLD), index=True)
        taken = batches(world, SOURCE, 7)
        assert between(world, SOURCE, taken) == []
        assert between(world, SOURCE, taken[:3] + taken[4:]) == [taken[3]]

    def test_a_stored_cursor_is_gone_on_with_elsewhere(self, world: RowWorld) -> None:
        fill(world, dict.fromkeys(range(1, 31), OLD), index=True)
        facts = world.reader.describe(SOURCE)
        first = world.reader.slice(SOURCE, facts, CUTOFF, EVERYTHING, 4, 10)
        assert first.rest is not None
        cursor = KeyRange(*json.loads(json.dumps(first.rest)))
        later = world.reader.describe(SOURCE, facts.walk)
        rest = world.reader.slice(SOURCE, later, CUTOFF, cursor, 4, 100)
        chosen = [id_ for b in (*first.batches, *rest.batches) for id_ in ids(world, b)]
        assert chosen == [*range(1, 31)]

    # -- keys

    @pytest.mark.parametrize("kind", KEYS)
    @pytest.mark.parametrize("index", [False, True])
    def test_keys_of_any_type_come_back_as_they_were(
        self, world: RowWorld, kind: str, index: bool
    ) -> None:
        type_, values = KEYS[kind]
        in_sql = type_ if isinstance(type_, str) else type_[world.kind]
        world.run(f"CREATE TABLE events (id {in_sql} NOT NULL PRIMARY KEY, at BIGINT)")
        if index:
            world.run(BY_TIME)
        for n, value in enumerate(values):
            world.run(
                f"INSERT INTO events VALUES ({_sql(world, kind, value)}, {OLD - n // 2})"  # noqa: S608
            )
        world.run(f"UPDATE events SET at = {NEW} WHERE id = {_sql(world, kind, values[1])}")  # noqa: S608
        expected = world.ids("events")
        for size, most in ((1, 100), (2, 3), (100, 2)):
            found = batches(world, SOURCE, size, most)
            counted = [len(ids(world, batch, kind=kind)) for batch in found]
            assert sum(counted) == len(values) - 1
            assert counted == [batch.rows for batch in found]
            chosen = {id_ for batch in found for id_ in ids(world, batch, kind=kind)}
            assert len(chosen) == len(values) - 1
            assert chosen < set(expected)
        taken = batches(world, SOURCE, 1)
        assert between(world, SOURCE, taken[::-1]) == []
        assert between(world, SOURCE, [taken[0], *taken[2:]]) == [taken[1]]

    def test_the_database_orders_keys_as_it_does(self, world: RowWorld) -> None:
        """Whatever its collation: a batch's ends enclose what its own comparison does."""
        world.run("CREATE TABLE events (id VARCHAR(20) NOT NULL PRIMARY KEY, at BIGINT)")
        world.insert(
            "events",
            *((text, OLD) for text in ["b", "B2", "a", "A1", "äx", "_", "-", "10", "9", "z", "Z3"]),
        )
        found = batches(world, SOURCE, 3)
        assert [id_ for batch in found for id_ in ids(world, batch, kind="text")] == world.ids(
            "events"
        )

    @pytest.mark.parametrize("index", [False, True])
    def test_composite_keys_of_mixed_types(self, world: RowWorld, index: bool) -> None:
        """O-PK-01."""
        world.run(
            "CREATE TABLE events (tenant VARCHAR(20) NOT NULL, id BIGINT NOT NULL, at BIGINT, "
            "PRIMARY KEY (tenant, id))"
        )
        if index:
            world.run(BY_TIME)
        rows = [("t1", 1, OLD), ("t1", 2, NEW), ("t2", 1, NEW), ("t2", 2, OLD), ("t3", 0, OLD)]
        world.insert("events", *rows, *(("t4", n, OLD - n % 2) for n in range(20)))
        for size, most in ((1, 100), (3, 5), (4, 100)):
            found = batches(world, SOURCE, size, most)
            chosen = [id_ for b in found for id_ in ids(world, b, ("tenant", "id"), "text")]
            assert len(chosen) == 23
            assert set(chosen) == {
                ("t1", 1), ("t2", 2), ("t3", 0), *(("t4", n) for n in range(20)),
            }  # fmt: skip
            assert between(world, SOURCE, found) == []

    def test_a_unique_index_can_stand_in_for_the_primary_key(self, world: RowWorld) -> None:
        world.run(
            "CREATE TABLE events (id BIGINT NOT NULL, a INT NOT NULL, b INT NOT NULL, at BIGINT)",
            "CREATE UNIQUE INDEX by_ab ON events (a, b)",
        )
        world.insert("events", (1, 2, 1, OLD), (2, 1, 2, OLD), (3, 1, 1, OLD), (4, 1, 3, NEW))
        source = table(key=("b", "a"))
        (batch,) = batches(world, source)
        assert (batch.first, batch.last) == ('["1","1"]', '["2","1"]')

    # -- names

    def test_names_are_found_exactly_and_quoted_wherever_they_go(self, world: RowWorld) -> None:
        """O-SCHEMA-01."""
        world.run(
            'CREATE TABLE "Order" ("Id" BIGINT NOT NULL PRIMARY KEY, "CreatedDate" BIGINT)',
            'CREATE TABLE "we""ird" ("group" BIGINT NOT NULL, "index" BIGINT NOT NULL, '
            '"time stamp" BIGINT, PRIMARY KEY ("group", "index"))',
        )
        world.insert('"Order"', (1, OLD), (2, NEW))
        world.insert('"we""ird"', (1, 1, OLD))
        if world.kind != "sqlite":  # where these are one table
            world.run('CREATE TABLE "order" (id BIGINT NOT NULL PRIMARY KEY, createddate BIGINT)')
            world.insert('"order"', (1, OLD), (2, OLD))
        for name in ("Order", '"Order"'):
            source = table(name, timestamp="CreatedDate")
            (batch,) = batches(world, source)
            assert batch.rows == 1
        (batch,) = batches(world, table('"we""ird"', timestamp="time stamp"))
        assert (batch.first, batch.rows) == ('["1","1"]', 1)

    def test_a_table_of_another_schema(self, world: RowWorld) -> None:
        if world.schema is None:
            pytest.skip("has no schemas")
        world.run(EVENTS, f"CREATE TABLE {world.schema}.events (id BIGINT PRIMARY KEY, at BIGINT)")
        world.insert(f"{world.schema}.events", (1, OLD))
        (batch,) = batches(world, table(f"{world.schema}.events"))
        assert batch.rows == 1
        assert batches(world, SOURCE) == []

    # -- refused

    def test_a_view_is_not_a_base_table(self, world: RowWorld) -> None:
        """O-SCHEMA-03."""
        world.run(EVENTS, "CREATE VIEW v_recent AS SELECT * FROM events")
        with pytest.raises(TableRefused, match="not a base table but a view"):
            world.reader.describe(table("v_recent"))

    def test_no_key_no_plan(self, world: RowWorld) -> None:
        """O-PK-02."""
        world.run("CREATE TABLE events (u VARCHAR(9), at BIGINT)")
        with pytest.raises(TableRefused, match="no primary key"):
            world.reader.describe(SOURCE)

    def test_columns_that_are_no_key_are_refused(self, world: RowWorld) -> None:
        world.run("CREATE TABLE events (id BIGINT NOT NULL PRIMARY KEY, n INT, at BIGINT)")
        with pytest.raises(TableRefused, match="no unique index over exactly"):
            world.reader.describe(table(key=("n",)))
        world.run("CREATE UNIQUE INDEX by_n ON events (n)")
        with pytest.raises(TableRefused, match=r"events.n may be NULL"):
            world.reader.describe(table(key=("n",)))
        with pytest.raises(TableRefused, match="its columns are: id, n, at"):
            world.reader.describe(table(key=("nn",)))

    def test_a_generated_key_is_refused(self, world: RowWorld) -> None:
        world.run(
            "CREATE TABLE events (id BIGINT NOT NULL PRIMARY KEY, at BIGINT, "
            "twice BIGINT GENERATED ALWAYS AS (id * 2) STORED)",
            "CREATE UNIQUE INDEX by_twice ON events (twice)",
        )
        with pytest.raises(TableRefused, match="generated"):
            world.reader.describe(table(key=("twice",)))

    def test_a_missing_table_stops_the_policy(self, world: RowWorld) -> None:
        def check(source: RowSource) -> object:
            return world.reader.check(source, CUTOFF)

        for ask in (world.reader.describe, world.reader.count, check):
            with pytest.raises(StoreError) as raised:
                ask(table("nothing"))
            assert raised.value.failure.failure_class is FailureClass.MALFORMED
            assert raised.value.failure.whole_source

    def test_a_name_that_is_none_is_refused(self, world: RowWorld) -> None:
        for name in ("", "a.b.c", '"open', "a.", ".a"):
            with pytest.raises(TableRefused, match=r"expected table or schema\.table"):
                world.reader.describe(table(name))

    def test_a_missing_timestamp_column_is_refused_with_those_there_are(
        self, world: RowWorld
    ) -> None:
        world.run(EVENTS)
        with pytest.raises(TableRefused, match="no column att; its columns are: id, at"):
            world.reader.describe(table(timestamp="att"))

    def test_a_full_scan_is_refused_with_the_index_that_is_missing(self, world: RowWorld) -> None:
        fill(world, {1: OLD, 2: NEW})
        careful = table(allow_full_scan=False)
        with pytest.raises(TableRefused, match=r"CREATE INDEX .*events_at.*allow_full_scan"):
            world.reader.describe(careful)
        assert world.reader.describe(SOURCE).walk is Walk.KEY
        world.run(BY_TIME)
        assert world.reader.describe(careful).walk is Walk.TIMESTAMP
        assert len(batches(world, careful)) == 1

    def test_a_walk_that_has_begun_is_gone_on_with(self, world: RowWorld) -> None:
        fill(world, {1: OLD, 2: OLD})
        world.run(BY_TIME)
        assert world.reader.describe(SOURCE).walk is Walk.TIMESTAMP
        by_key = world.reader.describe(SOURCE, Walk.KEY)
        assert by_key.walk is Walk.KEY
        world.run("DROP INDEX events_at" + (" ON events" if world.kind == "mysql" else ""))
        with pytest.raises(TableRefused, match="no such index any more"):
            world.reader.describe(SOURCE, Walk.TIMESTAMP)

    # -- the policy's own condition

    def test_where_narrows_what_goes(self, world: RowWorld) -> None:
        world.run("CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT, note VARCHAR(40))")
        notes = ["done", "it's; done", "100%", ":x", "(", None]
        world.insert("events", *((n, OLD, note) for n, note in enumerate(notes)))
        for where, chosen in (
            ("note = 'done'", [0]),
            ("note = 'it''s; done' OR note LIKE '%done'", [0, 1]),
            ("note LIKE '100%'", [2]),
            ("note = ':x' OR (note = '(')", [3, 4]),
            ("note IS NULL", [5]),
            ("id IN (SELECT id FROM events WHERE id < 2)", [0, 1]),
        ):
            (batch,) = batches(world, table(where=where))
            assert ids(world, batch, where=where) == chosen

    @pytest.mark.parametrize(
        "where",
        ["1 = 1) OR (1 = 1", "(id = 1", "id = 1; DELETE FROM events", "id = 1 -- all",
         "id /* */ = 1", "note = 'open", "", "   "],
    )  # fmt: skip
    def test_where_stays_one_condition(self, world: RowWorld, where: str) -> None:
        fill(world, {1: OLD})
        with pytest.raises(TableRefused, match="expected one condition"):
            world.reader.describe(table(where=where))

    def test_where_names_columns_that_there_are(self, world: RowWorld) -> None:
        fill(world, {1: OLD})
        quote = "`" if world.kind == "mysql" else '"'
        for column in ("statsu", f"{quote}statsu{quote}"):
            with pytest.raises(TableRefused, match=r"statsu.*are: id, at"):
                world.reader.describe(table(where=f"{column} = 'delivered'"))
        (batch,) = batches(world, table(where=f"{quote}id{quote} = 1"))
        assert batch.rows == 1

    def test_where_that_the_database_does_not_understand_is_refused(self, world: RowWorld) -> None:
        fill(world, {1: OLD})
        with pytest.raises(TableRefused, match="where"):
            world.reader.describe(table(where="id = = 1"))

    # -- counting and finding

    def test_what_stays_whatever_the_cutoff_is_counted_by_reason(self, world: RowWorld) -> None:
        far = OLD + 100 * 365 * 86400
        fill(world, {1: OLD, 2: NEW, 3: None, 4: None, 5: far, 6: far, 7: far})
        facts = world.reader.describe(SOURCE)
        assert world.reader.kept(SOURCE, facts) == {"undated": 2, "future": 3}
        narrow = table(where="id <> 3 AND id <> 5")
        facts = world.reader.describe(narrow)
        assert world.reader.kept(narrow, facts) == {"undated": 1, "future": 2}
        assert world.reader.count(narrow) == 7

    def test_a_row_says_why_it_stays_or_goes(self, world: RowWorld) -> None:
        far = OLD + 100 * 365 * 86400
        fill(world, {1: OLD, 2: NEW, 3: None, 4: far, 5: OLD})
        source = table(where="id <> 5")
        facts = world.reader.describe(source)

        def why(key: str) -> tuple[Any, ...] | None:
            seen = world.reader.find(source, facts, CUTOFF, key)
            return None if seen is None else tuple(seen[:-1])  # no partition

        assert why("1") == (str(OLD), True, True, False, False, None, ())
        assert why('["1"]') == why("1")
        assert why("2") == (str(NEW), False, True, False, False, None, ())
        assert why("3") == (None, False, True, True, False, None, ())
        assert why("4") == (str(far), False, True, False, True, None, ())
        assert why("5") == (str(OLD), True, False, False, False, None, ())
        assert [why(key) for key in ("6", "x", "", "1.5", "[1]", '["1","2"]', "9" * 30)] == [
            None, None, None, None, why("1"), None, None,
        ]  # fmt: skip

    @pytest.mark.parametrize("index", [False, True], ids=["by key", "by time"])
    def test_the_batch_of_a_row_is_the_one_it_lies_in(
        self, world: RowWorld, *, index: bool
    ) -> None:
        fill(world, {n: OLD - 60 * n for n in range(1, 8)}, index=index)
        facts = world.reader.describe(SOURCE)
        found = batches(world, SOURCE, 3)
        ends = [(batch.first, batch.last) for batch in found]

        def places(*taken: tuple[str, str]) -> list[int | None]:
            return [
                world.reader.batch_of(SOURCE, facts, str(n), taken) for n in [*range(1, 8), 9, "x"]
            ]

        by_key = [0, 0, 0, 1, 1, 1, 2, None, None]
        by_time = [2, 1, 1, 1, 0, 0, 0, None, None]
        assert places(*ends) == (by_time if index else by_key)
        assert places() == 9 * [None]
        far = 250 * [(ends[0][0], ends[0][0])]
        assert world.reader.batch_of(SOURCE, facts, "4", [*far, ends[1]]) == 250

    # -- what a plan trusts

    def test_the_place_names_the_table_and_no_secret(self, world: RowWorld) -> None:
        fill(world, {1: OLD})
        world.run("CREATE TABLE others (id BIGINT PRIMARY KEY, at BIGINT)")
        place = world.reader.describe(SOURCE).place
        assert place.startswith(f"{world.kind}://")
        assert place.endswith(".events")
        assert place != world.reader.describe(table("others")).place

    def test_the_shape_changes_with_columns_types_key_and_walk(self, world: RowWorld) -> None:
        world.run("CREATE TABLE events (id BIGINT PRIMARY KEY, n INT NOT NULL, at BIGINT)")
        world.run("CREATE UNIQUE INDEX by_n ON events (n)")
        shapes = [world.reader.describe(SOURCE).shape]
        assert world.reader.describe(SOURCE).shape == shapes[0]
        shapes.append(world.reader.describe(table(key=("n",))).shape)
        world.run(BY_TIME)
        shapes.append(world.reader.describe(SOURCE).shape)
        world.run("ALTER TABLE events ADD COLUMN more INT")
        shapes.append(world.reader.describe(SOURCE).shape)
        assert len(set(shapes)) == len(shapes)
        assert all(len(shape) == 16 and int(shape, 16) >= 0 for shape in shapes)

    def test_a_table_that_is_not_the_one_described_is_refused(self, world: RowWorld) -> None:
        fill(world, {1: OLD})
        facts = replace(world.reader.describe(SOURCE), shape="0" * 16)
        with pytest.raises(TableRefused, match="plan again"):
            world.reader.slice(SOURCE, facts, CUTOFF, EVERYTHING, 1, 1)

    def test_looking_never_writes(self, world: RowWorld, statements: list[str]) -> None:
        fill(world, dict.fromkeys(range(1, 9), OLD), index=True)
        facts = world.reader.describe(SOURCE)
        found = batches(world, SOURCE, 2)
        world.reader.gaps(SOURCE, facts, [(batch.first, batch.last) for batch in found])
        world.reader.kept(SOURCE, facts)
        world.reader.count(SOURCE)
        world.reader.find(SOURCE, facts, CUTOFF, "1")
        world.reader.check(SOURCE, CUTOFF)
        begin = ("SELECT", "EXPLAIN", "SHOW", "WITH", "BEGIN", "SET LOCAL")
        assert [sent for sent in statements if not sent.strip().upper().startswith(begin)] == []


# -- short words


def fill(world: RowWorld, rows: Mapping[int, int | None], *, index: bool = False) -> None:
    """The table of events with *rows*, times by id."""
    world.run(EVENTS, *([BY_TIME] if index else []))
    for some in _pieces(list(rows.items())):
        world.insert("events", *some)


def batches(
    world: RowWorld, source: RowSource, size: int = 100, most: int = 10_000,
    walk: Walk | None = None,
) -> list[RowBatch]:  # fmt: skip
    """Every batch of *source*, from slices of *most* rows."""
    return list(_cut(world, source, [], size, most, walk))


def between(world: RowWorld, source: RowSource, taken: Sequence[RowBatch]) -> list[RowBatch]:
    """Every batch of what lies between *taken*."""
    return list(_cut(world, source, taken, 100, 10_000, taken[0].walk))


def ids(
    world: RowWorld, batch: RowBatch, key: Sequence[str] = ("id",), kind: str = "bigint",
    where: str = "1 = 1",
) -> list[Any]:  # fmt: skip
    """Keys of the rows that are old between the ends of *batch*, in plain SQL of our own."""
    columns = ["at", *key] if batch.walk is Walk.TIMESTAMP else [*key]
    ends = [
        [
            text if column == "at" else _sql(world, kind, text)
            for column, text in zip(columns, json.loads(end), strict=True)
        ]
        for end in (batch.first, batch.last)
    ]
    old = f"at < {int(CUTOFF.timestamp())}"
    conditions = [old, where, _beyond(columns, ends[0], ">"), _beyond(columns, ends[1], "<")]
    names = ", ".join(key)
    found = world.ask(
        f"SELECT {names} FROM events WHERE ({') AND ('.join(conditions)}) ORDER BY {names}"  # noqa: S608
    )
    return [row[0] if len(key) == 1 else row for row in found]


def _beyond(columns: Sequence[str], end: Sequence[str], sign: str) -> str:
    """Rows from *end* on, it among them."""
    column, value = columns[0], end[0]
    if len(columns) == 1:
        return f"{column} {sign}= {value}"
    rest = _beyond(columns[1:], end[1:], sign)
    return f"{column} {sign} {value} OR ({column} = {value} AND ({rest}))"


def _cut(
    world: RowWorld, source: RowSource, taken: Sequence[RowBatch], size: int, most: int,
    walk: Walk | None,
) -> Iterator[RowBatch]:  # fmt: skip
    facts = world.reader.describe(source, walk)
    ends = [(batch.first, batch.last) for batch in taken]
    for gap in world.reader.gaps(source, facts, ends):
        rest: KeyRange | None = gap
        while rest is not None:
            found = world.reader.slice(source, facts, CUTOFF, rest, size, most)
            assert found.scanned <= most
            assert found.rest is None or found.rest != rest
            yield from found.batches
            rest = found.rest


def _sql(world: RowWorld, kind: str, value: Any) -> str:
    """A literal for a key of *kind*."""
    match kind, world.kind:
        case (("bigint" | "decimal"), _):
            return str(value)
        case "bytes", "postgresql":
            return f"'\\x{str(value).removeprefix(chr(92) + 'x')}'"
        case "bytes", _:
            return f"x'{value}'"
        case _, "mysql":
            return "'" + str(value).replace("\\", "\\\\").replace("'", "''") + "'"
        case _:
            return "'" + str(value).replace("'", "''") + "'"


def _pieces(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), 500):
        yield rows[start : start + 500]
