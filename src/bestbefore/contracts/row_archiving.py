"""What every deleter of rows has to do for rows that go to another table, run like
`bestbefore.contracts.row_deleting.RowDeleterContract`."""

from decimal import Decimal
from typing import Any

import pytest

from bestbefore.contracts.row_world import NEW, OLD, RowWorld, table
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.finding import Level
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import RowSource, TableArchive
from bestbefore.ports.rows import TableRefused

EVENTS = "CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT, hold INT NOT NULL DEFAULT 0)"
GONE = "CREATE TABLE gone (id BIGINT PRIMARY KEY, at BIGINT, hold INT NOT NULL)"
STAMPED = GONE.replace("hold INT NOT NULL", "hold INT, bestbefore_operation_id CHAR(64)")


def archived(name: str = "events", to: str = "gone", **more: Any) -> RowSource:
    """A source whose rows go to a table called *to*."""
    return table(name, archive=TableArchive(to), **more)


SOURCE = archived()


def refusal(world: RowWorld, source: RowSource = SOURCE) -> str:
    """Why a plan of *source* is refused."""
    with pytest.raises(TableRefused) as caught:
        world.reader.describe(source)
    return str(caught.value)


class RowArchiveTableContract:
    """Inherit, and give a ``world`` fixture of type `RowWorld`."""

    @pytest.mark.parametrize("archive", [GONE, STAMPED])
    def test_exactly_the_planned_rows_move(self, world: RowWorld, archive: str) -> None:
        world.run(EVENTS, archive)
        world.insert("events", *((n, OLD, n % 3) for n in range(1, 6)), (6, NEW, 0), (7, None, 0))

        first, second, third = world.plan(SOURCE, 2)
        effect = world.delete(SOURCE, first)

        assert (effect.outcome, effect.rows, effect.archived) == (Outcome.ARCHIVED, 2, 2)
        assert (effect.blocked, effect.dependents) == (0, {})
        assert effect.seconds > 0
        assert (world.ids("events"), world.ids("gone")) == ([3, 4, 5, 6, 7], [1, 2])
        assert [world.delete(SOURCE, what).archived for what in (third, second)] == [1, 2]
        assert world.ids("events") == [6, 7]
        assert world.ask("SELECT id, at, hold FROM gone ORDER BY id") == [
            (n, OLD, n % 3) for n in range(1, 6)
        ]

    def test_each_row_is_stamped_with_its_operation(self, world: RowWorld) -> None:
        world.run(EVENTS, STAMPED)
        world.insert("events", (1, OLD, 0), (2, OLD, 0), (3, OLD, 0))
        first, second = world.plan(SOURCE, 2)
        world.delete(SOURCE, first)
        world.delete(SOURCE, second)
        found = world.ask("SELECT bestbefore_operation_id FROM gone ORDER BY id")
        assert [id_ for (id_,) in found] == [
            what.operation_id.hex() for what in (first, first, second)
        ]

    def test_a_second_delivery_moves_nothing_and_tells_the_same(self, world: RowWorld) -> None:
        world.run(EVENTS, GONE)
        world.insert("events", (1, OLD, 0), (2, OLD, 0))
        what = world.task(SOURCE)
        first = world.delete(SOURCE, what)
        world.insert("events", (1, OLD, 5))

        again = world.delete(SOURCE, what)

        assert again.replayed
        assert (again.outcome, again.rows, again.archived) == (
            first.outcome, first.rows, first.archived,
        )  # fmt: skip
        assert (world.ids("events"), world.ids("gone")) == ([1], [1, 2])

    def test_a_row_that_was_touched_stays_and_is_archived_nowhere(self, world: RowWorld) -> None:
        world.run(EVENTS, GONE)
        world.insert("events", (7, OLD, 0), (8, OLD, 0), (9, OLD, 0))
        source = archived(where="hold = 0")
        what = world.task(source)
        world.run(f"UPDATE events SET at = {NEW} WHERE id = 7")  # noqa: S608
        world.run("UPDATE events SET hold = 1 WHERE id = 8")

        effect = world.delete(source, what)

        assert (effect.rows, effect.archived) == (1, 1)
        assert (world.ids("events"), world.ids("gone")) == ([7, 8], [9])

    def test_nothing_left_is_absent(self, world: RowWorld) -> None:
        world.run(EVENTS, GONE)
        world.insert("events", (1, OLD, 0))
        what = world.task(SOURCE)
        world.run("DELETE FROM events")
        assert world.delete(SOURCE, what).outcome is Outcome.ABSENT

    def test_of_a_batch_that_grew_no_more_moves_than_was_planned(self, world: RowWorld) -> None:
        world.run(EVENTS, GONE)
        world.insert("events", (10, OLD, 0), (20, OLD, 0))
        what = world.task(SOURCE)
        world.insert("events", *((n, OLD, 0) for n in range(11, 16)))

        divided = world.divides(SOURCE, what)

        assert world.ids("gone") == []
        assert [part.rows for part in divided.parts] == [2]
        assert sum(effect.archived for effect in world.drain(SOURCE)) == 7
        assert world.ids("gone") == [10, 11, 12, 13, 14, 15, 20]

    def test_values_arrive_as_they_are(self, world: RowWorld) -> None:
        columns = (
            "id BIGINT PRIMARY KEY, at BIGINT, price DECIMAL(20, 4), name VARCHAR(30), day DATE"
        )
        world.run(f"CREATE TABLE events ({columns})", f"CREATE TABLE gone ({columns})")
        world.insert(
            "events", (2**53 + 1, OLD, "1234567890123456.7890", "größe '\"%", "2026-01-31")
        )
        world.insert("events", (-1, OLD, None, "", None))
        before = world.ask("SELECT * FROM events ORDER BY id")
        assert Decimal(str(before[1][2])) > 10**15
        world.drain(SOURCE)
        assert world.ask("SELECT * FROM gone ORDER BY id") == before

    # -- what does not arrive

    def test_what_the_archive_holds_already_stops_the_batch(self, world: RowWorld) -> None:
        world.run(EVENTS, GONE)
        world.insert("events", (1, OLD, 0), (2, OLD, 0))
        world.insert("gone", (2, OLD, 9))
        what = world.task(SOURCE)

        failure = world.fails(SOURCE, what)

        assert failure.failure_class is FailureClass.MALFORMED
        assert "gone does not take these rows" in failure.error
        assert not failure.whole_source
        assert world.ids("events") == [1, 2]
        assert world.ask("SELECT * FROM gone") == [(2, OLD, 9)]
        world.run("DELETE FROM gone")
        assert world.delete(SOURCE, what).archived == 2

    def test_what_the_archive_does_not_allow_stops_the_batch(self, world: RowWorld) -> None:
        world.run(EVENTS, GONE.replace("hold INT NOT NULL", "hold INT NOT NULL CHECK (hold < 5)"))
        world.insert("events", (1, OLD, 0), (2, OLD, 7))
        failure = world.fails(SOURCE, world.task(SOURCE))
        assert failure.failure_class is FailureClass.MALFORMED
        assert (world.ids("events"), world.ids("gone")) == ([1, 2], [])

    def test_rows_that_vanish_on_their_way_stop_the_batch(self, world: RowWorld) -> None:
        world.run(EVENTS, GONE)
        world.insert("events", (1, OLD, 0), (2, OLD, 1), (3, OLD, 0))
        match world.kind:
            case "sqlite":
                world.run(
                    "CREATE TRIGGER lossy BEFORE INSERT ON gone WHEN NEW.hold = 1 "
                    "BEGIN SELECT RAISE(IGNORE); END"
                )
            case "postgresql":
                world.run(
                    "CREATE FUNCTION lossy() RETURNS trigger LANGUAGE plpgsql AS "
                    "'BEGIN RETURN CASE WHEN NEW.hold = 1 THEN NULL ELSE NEW END; END'",
                    "CREATE TRIGGER lossy BEFORE INSERT ON gone FOR EACH ROW "
                    "EXECUTE FUNCTION lossy()",
                )
            case _:
                pytest.skip("triggers cannot do that here")

        failure = world.fails(SOURCE, world.task(SOURCE))

        assert failure.failure_class is FailureClass.MALFORMED
        assert "of 3 rows to archive 2 came there" in failure.error
        assert (world.ids("events"), world.ids("gone")) == ([1, 2, 3], [])

    def test_what_a_trigger_keeps_is_not_archived(self, world: RowWorld) -> None:
        world.run(EVENTS, GONE)
        world.insert("events", *((n, OLD, int(n == 2)) for n in range(1, 5)))
        world.keep_on_hold()
        ends = world.drain(SOURCE)
        assert (world.ids("events"), world.ids("gone")) == ([2], [1, 3, 4])
        assert sum(end.archived for end in ends) == 3
        assert [end.outcome for end in ends if end.blocked] == [Outcome.PROTECTED]

    # -- rows that refer to rows

    def test_dependents_that_nobody_gave_up_are_not_lost(self, world: RowWorld) -> None:
        world.run(EVENTS, GONE, "CREATE TABLE notes (id INT PRIMARY KEY, event BIGINT, "
                  "FOREIGN KEY (event) REFERENCES events (id) ON DELETE CASCADE)")  # fmt: skip
        world.insert("events", (1, OLD, 0), (2, OLD, 0))
        world.insert("notes", (1, 1))

        with pytest.raises(TableRefused, match=r"notes.*without being archived"):
            world.reader.describe(archived(dependents=None))

        listed = archived(dependents=("notes",))
        kept = archived(dependents=())
        assert [effect.archived for effect in world.drain(kept)] == [1]
        assert (world.ids("events"), world.ids("notes")) == ([1], [1])
        facts = world.reader.describe(listed)
        assert "archived nowhere" in " ".join(note.message for note in facts.notes)
        (effect,) = world.drain(listed)
        assert (effect.archived, sum(effect.dependents.values())) == (1, 1)
        assert (world.ids("events"), world.ids("notes"), world.ids("gone")) == ([], [], [1, 2])

    def test_references_that_are_only_emptied_are_no_loss(self, world: RowWorld) -> None:
        world.run(EVENTS, GONE, "CREATE TABLE notes (id INT PRIMARY KEY, event BIGINT, "
                  "FOREIGN KEY (event) REFERENCES events (id) ON DELETE SET NULL)")  # fmt: skip
        world.insert("events", (1, OLD, 0))
        world.insert("notes", (1, 1))
        assert world.drain(SOURCE) == []
        world.drain(archived(dependents=None))
        assert world.ask("SELECT * FROM notes") == [(1, None)]
        assert world.ids("gone") == [1]

    def test_rows_of_the_same_table_that_go_along_are_archived_too(self, world: RowWorld) -> None:
        columns = "id INT PRIMARY KEY, at BIGINT, parent INT"
        own = "FOREIGN KEY (parent) REFERENCES job (id)"
        world.run(f"CREATE TABLE job ({columns}, {own})", f"CREATE TABLE gone ({columns})")
        world.insert("job", (1, OLD, None), (2, OLD, 1), (3, OLD, 1), (4, NEW, None))
        source = archived("job")

        ends = world.drain(source, 1)

        assert sum(end.archived for end in ends) == sum(end.rows for end in ends) == 3
        assert all(end.dependents == {} for end in ends)
        assert (world.ids("job"), world.ids("gone")) == ([4], [1, 2, 3])

    # -- an archive that does not fit

    def test_a_missing_archive_is_refused_with_the_statement_that_creates_it(
        self, world: RowWorld
    ) -> None:
        world.run(
            'CREATE TABLE events (id INTEGER PRIMARY KEY, at BIGINT NOT NULL, "Na me" VARCHAR(9), '
            "price DECIMAL(9, 2))"
        )
        world.insert("events", (1, OLD, "a", "1.50"))
        said = refusal(world)
        assert "no table gone to archive to" in said
        world.run(said[said.index("CREATE TABLE") :].replace("`", '"'))
        (effect,) = world.drain(SOURCE)
        assert effect.archived == 1
        assert world.ids("gone") == [1]
        (stamp,) = world.ids("gone", "bestbefore_operation_id")
        assert len(stamp) == 64

    @pytest.mark.parametrize(
        ("columns", "found"),
        [
            ("id BIGINT PRIMARY KEY, at BIGINT", "lacks name"),
            ("id BIGINT PRIMARY KEY, at BIGINT, name VARCHAR(5)", "name is"),
            ("id BIGINT PRIMARY KEY, at BIGINT, name VARCHAR(10) NOT NULL", "may not be NULL"),
            ("id BIGINT PRIMARY KEY, at BIGINT NOT NULL, name VARCHAR(10)", "at may not be NULL"),
            ("id INT PRIMARY KEY, at BIGINT, name VARCHAR(10)", "id is"),
            ("id BIGINT PRIMARY KEY, at BIGINT, name VARCHAR(10), more INT NOT NULL", "more may"),
            ("id BIGINT PRIMARY KEY, at BIGINT, name VARCHAR(10), bestbefore_operation_id CHAR(9)",
             "bestbefore_operation_id is"),
        ],
    )  # fmt: skip
    def test_an_archive_that_might_lose_something_is_refused_before_anything_moves(
        self, world: RowWorld, columns: str, found: str
    ) -> None:
        if world.kind == "sqlite" and found.endswith(" is"):
            pytest.skip("a length is no limit here")
        world.run("CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT, name VARCHAR(10))")
        world.run("CREATE TABLE gone (id BIGINT PRIMARY KEY, at BIGINT, name VARCHAR(10))")
        world.insert("events", (1, OLD, "a"))
        what = world.task(SOURCE)
        world.run("DROP TABLE gone", f"CREATE TABLE gone ({columns})")

        said = refusal(world)
        assert "gone cannot take the rows of events" in said
        assert found in said
        failure = world.fails(SOURCE, what)
        assert (failure.failure_class, failure.whole_source) == (FailureClass.MALFORMED, True)
        assert (world.ids("events"), world.ids("gone")) == ([1], [])

        if "more" in columns:
            return
        statements = said.partition(" (")[2].removesuffix(")")
        if world.kind != "sqlite" or "lacks" in found:
            world.run(statements.replace("`", '"'))
            world.drain(SOURCE)
            assert (world.ids("events"), world.ids("gone")) == ([], [1])

    def test_an_archive_may_have_more_than_the_table(self, world: RowWorld) -> None:
        world.run(EVENTS, "CREATE TABLE gone (moved TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, "
                  "hold BIGINT, at BIGINT, id BIGINT, note VARCHAR(9))")  # fmt: skip
        world.insert("events", (1, OLD, 4))
        world.drain(SOURCE)
        assert world.ask("SELECT id, at, hold, note FROM gone") == [(1, OLD, 4, None)]
        assert world.ids("gone", "moved")[0]

    @pytest.mark.parametrize(
        "there",
        ["", ", double_at BIGINT", ", double_at BIGINT GENERATED ALWAYS AS (at * 2) STORED"],
    )
    def test_generated_columns_need_no_place_in_the_archive(
        self, world: RowWorld, there: str
    ) -> None:
        generated = "double_at BIGINT GENERATED ALWAYS AS (at * 2) STORED"
        world.run(
            f"CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT, {generated})",
            f"CREATE TABLE gone (id BIGINT PRIMARY KEY, at BIGINT{there})",
        )
        world.run(f"INSERT INTO events (id, at) VALUES (1, {OLD})")  # noqa: S608
        world.drain(SOURCE)
        if there:
            assert world.ask("SELECT id, double_at FROM gone") == [(1, 2 * OLD)]
        assert world.ids("gone") == [1]

    def test_a_generated_column_cannot_take_a_value(self, world: RowWorld) -> None:
        world.run(EVENTS, "CREATE TABLE gone (id BIGINT PRIMARY KEY, at BIGINT, "
                  "hold INT GENERATED ALWAYS AS (1) STORED)")  # fmt: skip
        assert "hold is generated" in refusal(world)

    def test_numbers_that_the_archive_would_count_itself_are_taken_along(
        self, world: RowWorld
    ) -> None:
        match world.kind:
            case "postgresql":
                number = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
            case "mysql":
                number = "BIGINT AUTO_INCREMENT PRIMARY KEY"
            case _:
                number = "INTEGER PRIMARY KEY AUTOINCREMENT"
        world.run(EVENTS, GONE.replace("BIGINT PRIMARY KEY", number))
        world.insert("events", (0, OLD, 0), (7, OLD, 0))
        world.drain(SOURCE)
        assert world.ids("gone") == [0, 7]

    def test_the_archive_is_another_table_and_not_a_view(self, world: RowWorld) -> None:
        world.run(EVENTS, "CREATE VIEW gone AS SELECT * FROM events")
        assert "not a base table but a view" in refusal(world)
        assert "own table" in refusal(world, archived(to="events"))

    def test_an_archive_without_transactions_is_refused(self, world: RowWorld) -> None:
        if world.kind != "mysql":
            pytest.skip("all tables have transactions here")
        world.run(EVENTS, GONE + " ENGINE = MyISAM")
        assert "the engine MyISAM, which cannot take a batch back" in refusal(world)

    def test_the_archive_may_be_in_another_schema_under_an_odd_name(self, world: RowWorld) -> None:
        if world.schema is None:
            pytest.skip("there are no other schemas")
        name = f'"{world.schema}"."Old ""Ev""ents"'
        world.run(EVENTS, GONE.replace("gone", name).replace("hold", '"Group"'))
        world.run('ALTER TABLE events RENAME COLUMN hold TO "Group"')
        world.insert("events", (1, OLD, 3))
        world.drain(archived(to=name))
        assert world.ask(f'SELECT id, "Group" FROM {name}') == [(1, 3)]  # noqa: S608

    # -- checks

    def test_a_check_names_the_archive_and_writes_nothing(self, world: RowWorld) -> None:
        world.run(EVENTS, STAMPED)
        world.insert("events", (1, OLD, 0))
        (finding,) = [f for f in world.deleter.check(SOURCE) if f.code.startswith("archive")]
        assert (finding.code, finding.level) == ("archive-reached", Level.INFO)
        assert (world.ids("events"), world.ids("gone")) == ([1], [])

    def test_a_check_says_what_does_not_fit(self, world: RowWorld) -> None:
        world.run(EVENTS, "CREATE TABLE gone (id BIGINT PRIMARY KEY)")
        (finding,) = [f for f in world.deleter.check(SOURCE) if f.level is Level.ERROR]
        assert "lacks at" in finding.message
        assert "lacks hold" in finding.message
