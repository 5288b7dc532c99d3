"""What every deleter of rows that go into files has to do, and whoever brings rows back, run like
`bestbefore.contracts.row_deleting.RowDeleterContract` with a fixture ``filing`` of type
`FilingWorld`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bestbefore.contracts.row_archiving import EVENTS, GONE, STAMPED, archived
from bestbefore.contracts.row_world import ME, NEW, OLD, RowWorld, table
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.row_file import CellKind, RowFile
from bestbefore.domain.rows import Divided, Effect, FileArchive, RowSource, TableArchive
from bestbefore.ports.rows import Returned, RowFiler, RowRestorer, RowTask, TableRefused

FILES = FileArchive("cold", "archive", "rows/", "jsonl")


def filed(name: str = "events", **more: Any) -> RowSource:
    """A source whose rows go into files."""
    return table(name, archive=FILES, **more)


SOURCE = filed()


@dataclass(frozen=True, slots=True)
class FilingWorld:
    """`RowWorld` and its other sides. ``through`` writes every file and reads it again."""

    rows: RowWorld
    filer: RowFiler
    restorer: RowRestorer
    through: Callable[[RowFile], RowFile] = lambda file: file

    def read(self, source: RowSource, what: RowTask) -> RowFile:
        found = self.filer.read(source, what)
        assert isinstance(found, RowFile), found
        return self.through(found)

    def delete(self, source: RowSource, what: RowTask, file: RowFile) -> Effect:
        end = self.filer.delete_filed(source, what, ME, file.digest)
        assert isinstance(end, Effect), end
        return end

    def back(self, source: RowSource, file: RowFile, *, dry_run: bool = False) -> Returned:
        end = self.restorer.from_file(source, file, dry_run=dry_run)
        assert isinstance(end, Returned), end
        return end

    def move_back(
        self, source: RowSource, what: RowTask, archived: int, *, dry_run: bool = False
    ) -> Returned:
        end = self.restorer.from_table(
            source, what.operation_id, what.batch, archived, dry_run=dry_run
        )
        assert isinstance(end, Returned), end
        return end


TYPES = {
    "postgresql": {
        "a": ("smallint", "-32768"),
        "b": ("bigint", "9007199254740993"),
        "c": ("numeric(30,4)", "12345678901234567890.1230"),
        "d": ("numeric", "'NaN', 1e-20"),
        "e": ("real", "'0.1', 'Infinity', 16777217"),
        "f": ("double precision", "'-0', 5e-324, 'NaN', 0.1"),
        "g": ("text", "'', 'größe', E'a\\nb\\t\\\\ \\u2028', 'null'"),
        "h": ("char(4)", "'a'"),
        "i": ("varchar(9)", "'a  '"),
        "j": ("bytea", "'\\x00ff', ''"),
        "k": ("boolean", "true, false"),
        "l": ("date", "'2026-02-28', '-infinity', '0044-03-15 BC'"),
        "m": ("time with time zone", "'23:59:60+05:30'"),
        "n": ("timestamp", "'2026-01-01 00:00:00.000001', 'infinity'"),
        "o": ("timestamptz", "'2026-07-01 02:30:00+02', '12026-01-01 00:00:00+00'"),
        "p": ("timestamptz(0)", "'2026-07-01 02:30:00+02'"),
        "q": ("interval", "'1 mon -2 days 03:04:05.6', '1 year'"),
        "r": ("uuid", "'0f0e0d0c-0b0a-0908-0706-050403020100'"),
        "s": ("json", '\'{"a": 1.0, "a": 2,  "b": 9007199254740993}\''),
        "t": ("jsonb", "'[1.10, null, \"\\u00fc\"]', 'null'"),
        "u": ("integer[]", "'{1,NULL,3}', '{}', '[0:1]={1,2}'"),
        "v": ("text[]", "ARRAY['a,b', '\"', 'NULL', NULL]"),
        "w": ("int4range", "'[1,5)', 'empty'"),
        "x": ("inet", "'2001:db8::1/64'"),
        "y": ("bit(5)", "B'10101'"),
        "z": ("money", "'12.30'"),
        "zz": ("oid", "4294967295"),
    },
    "mysql": {
        "a": ("tinyint(1)", "-128"),
        "b": ("bigint unsigned", "18446744073709551615"),
        "c": ("decimal(30,4)", "12345678901234567890.1230"),
        "e": ("float", "0.1, 16777217, 123456.789"),
        "f": ("double", "5e-324, 0.1, 1.7976931348623157e308"),
        "g": ("longtext", "'', 'größe \\n\\\\ %', '\U0001f600'"),
        "h": ("char(4)", "'a'"),
        "i": ("varchar(9) CHARACTER SET latin1", "'ü  '"),
        "j": ("varbinary(9)", "x'00ff', ''"),
        "jj": ("binary(16)", "x'000102030405060708090a0b0c0d0eff'"),
        "l": ("date", "'2026-02-28', '0000-00-00', '2026-00-00'"),
        "m": ("time(6)", "'-838:59:59', '23:59:59.000001'"),
        "n": ("datetime(6)", "'2026-01-01 00:00:00.000001', '0000-00-00'"),
        "o": ("timestamp(3) NULL", "'2026-07-01 02:30:00.120', '2026-07-01 02:30:00'"),
        "p": ("year", "2026"),
        "s": ("json", '\'{"a": 1.0, "b": 9007199254740993}\''),
        "u": ("enum('a','b c')", "'b c'"),
        "v": ("set('a','b')", "'a,b', ''"),
        "y": ("bit(12)", "b'101010101010'"),
        "z": ("point", "ST_GeomFromText('POINT(1.5 -2)')"),
    },
    "sqlite": {
        "a": ("INTEGER", "9223372036854775807, 'text', 1.5, x'00'"),
        "b": ("TEXT", "'', 'größe', x'ff', 'a'"),
        "c": ("DECIMAL(9,2)", "'1.10', 1.10, 7"),
        "f": ("REAL", "1, 0.1, 9e999, -9e999, 5e-324"),
        "g": ("BLOB", "x'00ff', 'text', 1"),
        "h": ("", "1, '1', 1.0, x'31'"),
        "n": ("DATETIME", "'2026-01-01T00:00:00Z', 1767225600"),
        "o": ("BOOLEAN", "TRUE, 0"),
    },
}
"""Types with values for them, as each database writes both."""


class RowFilerContract:
    """Inherit, and give a ``filing`` fixture."""

    def test_a_file_has_exactly_the_planned_rows_in_walk_order(self, filing: FilingWorld) -> None:
        world = filing.rows
        world.run(EVENTS)
        world.insert("events", (3, OLD, 1), (1, OLD, 0), (2, OLD, 2), (4, NEW, 0), (5, None, 0))
        what = world.task(SOURCE)

        file = filing.read(SOURCE, what)

        assert file.rows == [(1, OLD, 0), (2, OLD, 2), (3, OLD, 1)]
        assert [column.name for column in file.columns] == ["id", "at", "hold"]
        assert {column.kind for column in file.columns} == {CellKind.INTEGER}
        assert (file.operation_id, file.policy, file.policy_version) == what[:3]
        assert file.table.endswith("events")
        assert len(world.ids("events")) == 5
        assert filing.read(SOURCE, what).digest == file.digest

    def test_rows_go_once_they_are_in_a_file(self, filing: FilingWorld) -> None:
        world = filing.rows
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0), (2, OLD, 0), (3, NEW, 0))
        what = world.task(SOURCE)
        effect = filing.delete(SOURCE, what, filing.read(SOURCE, what))
        assert (effect.outcome, effect.rows, effect.archived) == (Outcome.ARCHIVED, 2, 2)
        assert world.ids("events") == [3]

    def test_rows_that_are_in_no_file_do_not_go(self, filing: FilingWorld) -> None:
        world = filing.rows
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0))
        assert "in a file before" in world.fails(SOURCE, world.task(SOURCE)).error
        assert world.ids("events") == [1]

    def test_a_second_delivery_reads_nothing_and_deletes_nothing(self, filing: FilingWorld) -> None:
        world = filing.rows
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0))
        what = world.task(SOURCE)
        file = filing.read(SOURCE, what)
        filing.delete(SOURCE, what, file)
        world.insert("events", (1, OLD, 7))

        for again in (filing.filer.read(SOURCE, what), filing.delete(SOURCE, what, file)):
            assert isinstance(again, Effect)
            assert (again.replayed, again.archived) == (True, 1)
        assert world.ids("events") == [1]

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE events SET hold = 9 WHERE id = 2",
            "UPDATE events SET at = NEW WHERE id = 2",
            "DELETE FROM events WHERE id = 2",
            "INSERT INTO events (id, at) VALUES (3, OLD)",
            "DELETE FROM events WHERE id = 2; INSERT INTO events (id, at) VALUES (3, OLD)",
        ],
    )
    def test_rows_that_are_not_those_of_the_file_any_more_stay(
        self, filing: FilingWorld, change: str
    ) -> None:
        world = filing.rows
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0), (2, OLD, 0), (4, OLD, 0))
        world.insert("events", (9, OLD, 0))
        what = world.task(SOURCE)
        what = what._replace(batch=replace(what.batch, rows=9))
        file = filing.read(SOURCE, what)
        world.run(*change.replace("NEW", str(NEW)).replace("OLD", str(OLD)).split("; "))
        before = world.ask("SELECT * FROM events ORDER BY id")

        end = filing.filer.delete_filed(SOURCE, what, ME, file.digest)

        assert isinstance(end, Failure)
        assert end.failure_class is FailureClass.TRANSIENT
        assert "changed after they were written" in end.error
        assert world.ask("SELECT * FROM events ORDER BY id") == before
        file = filing.read(SOURCE, what)
        assert filing.delete(SOURCE, what, file).archived == len(file.rows)
        assert world.ask("SELECT * FROM events WHERE id < 9 AND at < 0") == []

    def test_what_of_a_batch_is_old_no_more_is_in_no_file(self, filing: FilingWorld) -> None:
        world = filing.rows
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0), (2, OLD, 0))
        what = world.task(SOURCE)
        world.run(f"UPDATE events SET at = {NEW}")  # noqa: S608
        file = filing.read(SOURCE, what)
        assert file.rows == []
        assert filing.delete(SOURCE, what, file).outcome is Outcome.ABSENT

    def test_a_batch_that_grew_is_divided_before_anything_is_written(
        self, filing: FilingWorld
    ) -> None:
        world = filing.rows
        world.run(EVENTS)
        world.insert("events", (10, OLD, 0), (20, OLD, 0))
        what = world.task(SOURCE)
        world.insert("events", (11, OLD, 0), (12, OLD, 0))
        divided = filing.filer.read(SOURCE, what)
        assert isinstance(divided, Divided)
        assert [part.rows for part in divided.parts] == [2]

    def test_a_table_that_changed_is_not_read(self, filing: FilingWorld) -> None:
        world = filing.rows
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0))
        what = world.task(SOURCE)
        world.run("ALTER TABLE events ADD COLUMN colour INT")
        end = filing.filer.read(SOURCE, what)
        assert isinstance(end, Effect)
        assert end.outcome is Outcome.PROTECTED

    def test_what_goes_along_is_in_the_file_and_what_is_generated_is_not(
        self, filing: FilingWorld
    ) -> None:
        world = filing.rows
        world.run(
            "CREATE TABLE job (id INT PRIMARY KEY, at BIGINT, parent INT, "
            "twice INT GENERATED ALWAYS AS (id * 2) STORED, "
            "FOREIGN KEY (parent) REFERENCES job (id))"
        )
        for row in (f"1, {OLD}, NULL", f"2, {OLD}, 1", f"3, {OLD}, 1"):
            world.run(f"INSERT INTO job (id, at, parent) VALUES ({row})")  # noqa: S608
        source = filed("job")
        first, second, third = world.plan(source, 1)
        file = filing.read(source, first)
        assert file.rows == [(1, OLD, None), (2, OLD, 1), (3, OLD, 1)]
        effect = filing.delete(source, first, file)
        assert (effect.rows, effect.archived, effect.dependents) == (3, 3, {})
        assert world.ids("job") == []
        for what in (second, third):
            assert filing.delete(source, what, filing.read(source, what)).rows == 0
        assert filing.back(source, file).restored == 3
        assert world.ask("SELECT id, twice FROM job ORDER BY id") == [(1, 2), (2, 4), (3, 6)]

    def test_files_need_a_record_beside_the_data(self, filing: FilingWorld) -> None:
        filing.rows.run(EVENTS)
        with pytest.raises(TableRefused, match="completion"):
            filing.rows.reader.describe(filed(ledger_only=True))

    # -- and back

    def test_every_value_comes_back_exactly(self, filing: FilingWorld) -> None:
        world = filing.rows
        types = TYPES[world.kind]
        columns = ", ".join(f"{name} {type_}" for name, (type_, _) in types.items())
        for name in ("events", "control"):
            world.run(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, at BIGINT, {columns})")
        world.run(f"INSERT INTO events (id, at) VALUES (0, {OLD})")  # noqa: S608
        number = 1
        for name, (_, values) in types.items():
            for value in _split(values):
                world.run(
                    f"INSERT INTO events (id, at, {name}) VALUES ({number}, {OLD}, {value})"  # noqa: S608
                )
                number += 1
        world.run("INSERT INTO control SELECT * FROM events")
        what = world.task(SOURCE)
        file = filing.read(SOURCE, what)
        assert filing.delete(SOURCE, what, file).archived == number
        assert world.ids("events") == []

        assert filing.back(SOURCE, file) == Returned(number)

        assert filing.back(SOURCE, file) == Returned(0, there=number)
        assert _unlike(world, types) == []
        what = what._replace(operation_id=bytes(32))
        assert filing.read(SOURCE, what).digest == file.digest

    def test_a_dry_run_brings_nothing_back(self, filing: FilingWorld) -> None:
        world = filing.rows
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0), (2, OLD, 0))
        what = world.task(SOURCE)
        file = filing.read(SOURCE, what)
        filing.delete(SOURCE, what, file)
        assert filing.back(SOURCE, file, dry_run=True) == Returned(2)
        assert world.ids("events") == []

    @pytest.mark.parametrize("dry_run", [True, False])
    def test_what_is_in_the_table_is_left_alone(
        self, filing: FilingWorld, *, dry_run: bool
    ) -> None:
        world = filing.rows
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0), (2, OLD, 0), (3, OLD, 0))
        what = world.task(SOURCE)
        file = filing.read(SOURCE, what)
        filing.delete(SOURCE, what, file)
        world.insert("events", (1, OLD, 0), (2, NEW, 5))

        back = filing.back(SOURCE, file, dry_run=dry_run)

        assert (back.restored, back.there, back.left) == (1, 1, 1)
        assert back.why is not None
        assert world.ask("SELECT * FROM events WHERE id < 3 ORDER BY id") == [
            (1, OLD, 0), (2, NEW, 5),
        ]  # fmt: skip
        assert world.ids("events") == ([1, 2] if dry_run else [1, 2, 3])

    def test_a_row_that_something_else_keeps_out_does_not_keep_out_the_others(
        self, filing: FilingWorld
    ) -> None:
        world = filing.rows
        world.run("CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT, name VARCHAR(9) UNIQUE)")
        world.insert("events", *((n, OLD, f"n{n}") for n in range(7)))
        what = world.task(SOURCE)
        file = filing.read(SOURCE, what)
        filing.delete(SOURCE, what, file)
        world.insert("events", (99, NEW, "n4"))
        back = filing.back(SOURCE, file)
        assert (back.restored, back.there, back.left) == (6, 0, 1)
        assert "does not take these rows" in str(back.why)
        assert world.ids("events") == [0, 1, 2, 3, 5, 6, 99]

    def test_a_table_that_lost_a_column_takes_nothing_back(self, filing: FilingWorld) -> None:
        world = filing.rows
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0))
        what = world.task(SOURCE)
        file = filing.read(SOURCE, what)
        filing.delete(SOURCE, what, file)
        world.run("ALTER TABLE events DROP COLUMN hold")
        end = filing.restorer.from_file(SOURCE, file, dry_run=False)
        assert isinstance(end, Failure)
        assert "no column hold any more" in end.error
        world.run("ALTER TABLE events ADD COLUMN hold INT DEFAULT 4", "ALTER TABLE events "
                  "ADD COLUMN more INT DEFAULT 5")  # fmt: skip
        assert filing.back(SOURCE, file).restored == 1
        assert world.ask("SELECT id, hold, more FROM events") == [(1, 0, 5)]

    def test_what_would_not_fit_any_more_is_not_cut(self, filing: FilingWorld) -> None:
        world = filing.rows
        if world.kind == "sqlite":
            pytest.skip("a length is no limit here")
        world.run("CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT, name VARCHAR(9))")
        world.insert("events", (1, OLD, "123456789"), (2, OLD, "1"))
        what = world.task(SOURCE)
        file = filing.read(SOURCE, what)
        filing.delete(SOURCE, what, file)
        world.run("DROP TABLE events")
        world.run("CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT, name VARCHAR(5))")
        back = filing.back(SOURCE, file)
        assert (back.restored, back.left) == (1, 1)
        assert world.ids("events") == [2]

    # -- from a table

    @pytest.mark.parametrize("archive", [GONE, STAMPED])
    def test_a_batch_moves_back(self, filing: FilingWorld, archive: str) -> None:
        world, source = filing.rows, archived()
        world.run(EVENTS, archive)
        world.insert("events", *((n, OLD, n) for n in range(1, 5)), (9, NEW, 0))
        before = world.ask("SELECT * FROM events ORDER BY id")
        first, second = world.plan(source, 2)
        for what in (first, second):
            world.delete(source, what)

        assert filing.move_back(source, first, 2, dry_run=True) == Returned(2)
        assert (world.ids("events"), world.ids("gone")) == ([9], [1, 2, 3, 4])
        assert filing.move_back(source, first, 2) == Returned(2)
        assert (world.ids("events"), world.ids("gone")) == ([1, 2, 9], [3, 4])
        assert filing.move_back(source, first, 2) == Returned(0, missing=2)
        assert filing.move_back(source, second, 2) == Returned(2)
        assert world.ask("SELECT * FROM events ORDER BY id") == before
        assert world.ids("gone") == []

    @pytest.mark.parametrize("dry_run", [True, False])
    def test_what_has_the_key_of_an_archived_row_is_left_alone(
        self, filing: FilingWorld, *, dry_run: bool
    ) -> None:
        world, source = filing.rows, archived()
        world.run(EVENTS, STAMPED)
        world.insert("events", (1, OLD, 0), (2, OLD, 0), (3, OLD, 0))
        what = world.task(source)
        world.delete(source, what)
        world.insert("events", (2, NEW, 5))

        back = filing.move_back(source, what, 3, dry_run=dry_run)

        assert (back.restored, back.left, back.missing) == (2, 1, 0)
        assert "left alone" in str(back.why)
        assert world.ask("SELECT * FROM events WHERE id = 2") == [(2, NEW, 5)]
        assert world.ids("gone") == ([1, 2, 3] if dry_run else [2])
        if not dry_run:
            world.run("DELETE FROM events WHERE id = 2")
            assert filing.move_back(source, what, 3) == Returned(1, missing=2)

    def test_a_row_that_has_no_place_any_more_stays_in_the_archive(
        self, filing: FilingWorld
    ) -> None:
        world, source = filing.rows, archived()
        world.run(EVENTS.replace("hold INT", "hold INT UNIQUE"), STAMPED)
        world.insert("events", *((n, OLD, n) for n in range(5)))
        what = world.task(source)
        world.delete(source, what)
        world.insert("events", (9, NEW, 3))
        back = filing.move_back(source, what, 5)
        assert (back.restored, back.left) == (4, 1)
        assert "does not take these rows" in str(back.why)
        assert (world.ids("events"), world.ids("gone")) == ([0, 1, 2, 4, 9], [3])

    def test_rows_that_cannot_be_told_from_others_are_not_moved(self, filing: FilingWorld) -> None:
        world, source = filing.rows, archived()
        world.run(EVENTS, GONE)
        world.insert("events", (1, OLD, 0), (9, OLD, 0))
        what = world.task(source)
        world.delete(source, what)
        world.insert("gone", (5, OLD, 0))

        end = filing.restorer.from_table(source, what.operation_id, what.batch, 2, dry_run=False)

        assert isinstance(end, Failure)
        assert end.failure_class is FailureClass.MALFORMED
        assert "3 rows are between" in end.error
        assert "bestbefore_operation_id" in end.error
        assert (world.ids("events"), world.ids("gone")) == ([], [1, 5, 9])

    def test_numbers_come_back_as_they_were(self, filing: FilingWorld) -> None:
        world = filing.rows
        number = {
            "postgresql": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
            "mysql": "BIGINT AUTO_INCREMENT PRIMARY KEY",
        }.get(world.kind, "INTEGER PRIMARY KEY AUTOINCREMENT")
        world.run(EVENTS.replace("BIGINT PRIMARY KEY", number), STAMPED)
        world.run(f"INSERT INTO events (at) VALUES ({OLD})")  # noqa: S608
        world.run("UPDATE events SET id = 0" if world.kind != "postgresql" else "SELECT 1")
        before = world.ids("events")
        source = replace(SOURCE, archive=TableArchive("gone"))
        for one in (SOURCE, source):
            what = world.task(one)
            what = what._replace(operation_id=bytes([one is source] * 32))
            if one is source:
                world.delete(one, what)
                assert filing.move_back(one, what, 1).restored == 1
            else:
                file = filing.read(one, what)
                filing.delete(one, what, file)
                assert filing.back(one, file).restored == 1
            assert world.ids("events") == before


def _split(values: str) -> list[str]:
    """*values* at the commas that are in no quotes and no brackets."""
    found, depth, quoted, start = [], 0, False, 0
    for place, letter in enumerate(values):
        if letter == "'":
            quoted = not quoted
        elif not quoted:
            depth += (letter in "([") - (letter in ")]")
            if letter == "," and not depth:
                found.append(values[start:place])
                start = place + 1
    return [*found, values[start:]]


def _unlike(world: RowWorld, types: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Rows of ``events`` that are not the same in ``control``, as the database compares them."""
    if world.kind == "postgresql":
        return world.ask(
            "SELECT id, one::text, two::text FROM events one FULL JOIN control two USING (id) "
            "WHERE one::text IS DISTINCT FROM two::text"
        )
    if world.kind == "sqlite":
        same = " AND ".join(f"e.{n} IS c.{n} AND typeof(e.{n}) = typeof(c.{n})" for n in types)
    else:
        same = " AND ".join(f"HEX(e.{n}) <=> HEX(c.{n}) AND e.{n} <=> c.{n}" for n in types)
    return world.ask(
        f"SELECT e.* FROM control c LEFT JOIN events e ON e.id = c.id WHERE NOT ({same})"  # noqa: S608
    )
