"""What every deleter of rows has to do about rows that refer to each other, run like
`RowDeleterContract`."""

from typing import Any

import pytest

from bestbefore.contracts.row_world import NEW, OLD, RowWorld, table
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Effect, Governed
from bestbefore.ports.rows import RowTask

CHANGES = ["ON DELETE SET NULL", "ON DELETE SET DEFAULT"]
EVERY = ["", "ON DELETE CASCADE", "ON DELETE RESTRICT", *CHANGES]
PARENTS = "CREATE TABLE parents (id INT PRIMARY KEY, at BIGINT)"
SOURCE = table("parents", dependents=None)
JOBS = table("job", dependents=None)


class RowDependentsContract:
    """Inherit, and give a ``world`` fixture of type `RowWorld`."""

    # -- rows that nobody gave up

    @pytest.mark.parametrize("how", ["", "ON DELETE CASCADE", "ON DELETE RESTRICT"])
    @pytest.mark.parametrize("more", [{}, {"dependents": None, "governed": (Governed("c"),)}])
    def test_a_row_that_others_refer_to_stays_with_them_and_its_neighbours_go(
        self, world: RowWorld, how: str, more: dict[str, Any]
    ) -> None:
        """O-FK-01."""
        world.run(PARENTS, child("c", "parents", "c_p", how))
        world.insert("parents", (1, OLD), (2, OLD), (3, OLD))
        source = table("parents", **more)
        what = world.task(source)
        world.insert("c", (1, 2))

        effect = world.delete(source, what)

        assert (effect.rows, effect.blocked, effect.dependents) == (2, 0, {})
        assert world.ids("c") == [1]
        assert world.ids("parents") == [2]
        world.run("DELETE FROM c")
        assert [world.delete(source, later).rows for later in world.plan(source)] == [1]

    def test_a_constraint_that_is_checked_at_the_commit_is_no_different(
        self, world: RowWorld
    ) -> None:
        if world.kind == "mysql":
            pytest.skip("no deferred constraints here")
        world.run(PARENTS, child("c", "parents", "later", "DEFERRABLE INITIALLY DEFERRED"))
        world.insert("parents", (1, OLD), (2, OLD))
        insert = "INSERT INTO c VALUES (1, OLD.id)"  # which refers to what has just gone
        end = f"BEGIN {insert}; END"
        if world.kind == "postgresql":
            world.run(
                "CREATE FUNCTION note_it() RETURNS trigger LANGUAGE plpgsql AS "
                f"'BEGIN {insert}; RETURN OLD; END'"
            )
            end = "EXECUTE FUNCTION note_it()"
        world.run(f"CREATE TRIGGER note_it AFTER DELETE ON parents FOR EACH ROW {end}")
        what = world.plan(SOURCE, 1)[0]

        failure = world.fails(SOURCE, what)

        assert failure.failure_class is FailureClass.DEPENDENCY
        if world.kind == "postgresql":  # SQLite names none
            assert "later" in failure.error
        assert world.ids("parents") == [1, 2]
        world.run("DROP TRIGGER note_it" + (" ON parents" if world.kind == "postgresql" else ""))
        effect = world.delete(SOURCE, what)
        assert (effect.rows, effect.replayed) == (1, False)

    # -- rows that go as well

    @pytest.mark.parametrize("how", ["", "ON DELETE CASCADE", "ON DELETE RESTRICT"])
    def test_rows_that_refer_to_a_batch_go_first_over_any_number_of_steps(
        self, world: RowWorld, how: str
    ) -> None:
        world.run(
            PARENTS,
            child("c", "parents", "c_p", how),
            child("g", "c", "g_c", how),
            child("h", "g", "h_g", how),
        )
        world.insert("parents", (1, OLD), (2, OLD), (3, NEW))
        world.insert("c", (1, 1), (2, 1), (3, 2), (4, 3))
        world.insert("g", *((n, n % 4 + 1) for n in range(8)))
        world.insert("h", *((n, n % 8) for n in range(16)))

        effect = world.delete(SOURCE, world.task(SOURCE))

        assert effect.rows == 2
        assert plain(effect) == {"c": 3, "g": 6, "h": 12}
        assert world.ids("c") == [4]
        assert world.ids("g") == [3, 7]
        assert world.ids("h") == [3, 7, 11, 15]

    def test_only_the_tables_that_are_listed_go(self, world: RowWorld) -> None:
        world.run(PARENTS, child("c", "parents", "c_p"), child("d", "parents", "d_p"))
        world.insert("parents", (1, OLD), (2, OLD))
        world.insert("c", (1, 1))
        world.insert("d", (1, 2))
        source = table("parents", dependents=("c",))
        assert [plain(end) for end in world.drain(source)] == [{"c": 1}]
        assert world.ids("parents") == [2]
        assert world.ids("d") == [1]

    def test_a_composite_foreign_key_takes_no_neighbours(self, world: RowWorld) -> None:
        world.run(
            "CREATE TABLE parents (a INT, b INT, at BIGINT, PRIMARY KEY (a, b))",
            "CREATE TABLE c (id INT PRIMARY KEY, x INT, y INT, "
            "FOREIGN KEY (x, y) REFERENCES parents (a, b))",
        )
        world.insert("parents", (1, 1, OLD), (1, 2, NEW), (2, 1, NEW), (2, 2, OLD))
        world.insert("c", (1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 2, 2), (5, None, 1), (6, 1, None))
        assert plain(world.delete(SOURCE, world.task(SOURCE))) == {"c": 2}
        assert world.ids("c") == [2, 3, 5, 6]

    def test_a_foreign_key_to_another_column_than_the_key(self, world: RowWorld) -> None:
        world.run(
            "CREATE TABLE parents (id INT PRIMARY KEY, at BIGINT, code VARCHAR(9) UNIQUE)",
            "CREATE TABLE c (id INT PRIMARY KEY, code VARCHAR(9) REFERENCES parents (code), "
            "FOREIGN KEY (code) REFERENCES parents (code))",
        )
        world.insert("parents", (1, OLD, "one"), (2, NEW, "two"), (3, OLD, None))
        world.insert("c", (1, "one"), (2, "two"), (3, None))
        assert plain(world.delete(SOURCE, world.task(SOURCE))) == {"c": 1}
        assert world.ids("c") == [2, 3]

    def test_rows_of_another_schema_go_too(self, world: RowWorld) -> None:
        if world.schema is None:
            pytest.skip("no schemas here")
        child = f'"{world.schema}"."Child"'
        world.run(PARENTS)
        here = "database()" if world.kind == "mysql" else "current_schema()"
        ((home,),) = world.ask(f"SELECT {here}")
        world.run(
            f'CREATE TABLE {child} (id INT PRIMARY KEY, parent INT, '
            f'FOREIGN KEY (parent) REFERENCES "{home}".parents (id))'
        )  # fmt: skip
        world.insert("parents", (1, OLD))
        world.insert(child, (1, 1))
        assert list(world.delete(SOURCE, world.task(SOURCE)).dependents.values()) == [1]
        assert world.ids(child) == []

    def test_a_table_that_refers_twice_is_counted_once_per_row(self, world: RowWorld) -> None:
        world.run(
            PARENTS,
            "CREATE TABLE c (id INT PRIMARY KEY, x INT, y INT, "
            "FOREIGN KEY (x) REFERENCES parents (id), FOREIGN KEY (y) REFERENCES parents (id))",
        )
        world.insert("parents", (1, OLD), (2, OLD), (3, NEW))
        world.insert("c", (1, 1, 2), (2, 3, 1), (3, 3, 3), (4, 1, 1))
        assert plain(world.delete(SOURCE, world.task(SOURCE))) == {"c": 3}
        assert world.ids("c") == [3]

    @pytest.mark.parametrize("how", CHANGES)
    def test_rows_that_lose_their_reference_are_counted_like_those_that_are_removed(
        self, world: RowWorld, how: str
    ) -> None:
        """S-REACH-02."""
        skip_defaults(world, how)
        world.run(PARENTS, child("c", "parents", "c_p", how))
        world.insert("parents", (0, NEW), (1, OLD), (2, OLD))
        world.insert("c", (1, 1), (2, 1), (3, 0))
        what = world.task(SOURCE)
        assert counted(what) == {"c": (0, 2)}
        effect = world.delete(SOURCE, what)
        assert (effect.rows, plain(effect), changed(effect)) == (2, {}, {"c": 2})
        after = None if "NULL" in how else 0
        assert world.ask("SELECT id, parent FROM c ORDER BY id") == [(1, after), (2, after), (3, 0)]

    def test_tables_that_refer_to_each_other_in_a_circle_are_refused(self, world: RowWorld) -> None:
        parents = "CREATE TABLE parents (id INT PRIMARY KEY, at BIGINT, best INT{})"
        world.run(parents.format(""), child("c", "parents", "c_p"))
        world.insert("parents", (1, OLD, None))
        what = world.task(SOURCE)
        if world.kind == "sqlite":  # which cannot add a constraint
            circle = parents.format(" REFERENCES c (id)")
            world.run("DROP TABLE c", "DROP TABLE parents", circle, child("c", "parents", "c_p"))
            world.insert("parents", (1, OLD, None))
        else:
            world.run("ALTER TABLE parents ADD FOREIGN KEY (best) REFERENCES c (id)")

        failure = world.fails(SOURCE, what)

        assert failure.failure_class is FailureClass.MALFORMED
        assert failure.whole_source
        assert "circle" in failure.error
        assert world.ids("parents") == [1]

    def test_a_trigger_that_touches_the_parent_does_not_save_it(self, world: RowWorld) -> None:
        """Counting children in their parent is what such triggers are for."""
        world.run(PARENTS, child("c", "parents", "c_p"))
        update = f"UPDATE parents SET at = {NEW} WHERE id = OLD.parent"  # noqa: S608
        if world.kind == "postgresql":
            world.run(
                f"CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS "
                f"'BEGIN {update}; RETURN OLD; END'",
                "CREATE TRIGGER touch AFTER DELETE ON c FOR EACH ROW EXECUTE FUNCTION touch()",
            )
        else:
            world.run(f"CREATE TRIGGER touch AFTER DELETE ON c FOR EACH ROW BEGIN {update}; END")
        world.insert("parents", (1, OLD), (2, OLD))
        world.insert("c", (1, 1))

        effect = world.delete(SOURCE, world.task(SOURCE))

        assert (effect.rows, plain(effect)) == (2, {"c": 1})

    def test_a_condition_about_the_dependents_holds_for_the_batch_as_it_was(
        self, world: RowWorld
    ) -> None:
        world.run(PARENTS, child("c", "parents", "c_p"))
        world.insert("parents", (1, OLD), (2, OLD))
        world.insert("c", (1, 1))
        source = table("parents", dependents=None, where="id IN (SELECT parent FROM c)")
        assert world.delete(source, world.task(source)).rows == 1
        assert world.ids("parents") == [2]

    def test_what_refers_to_a_row_that_a_trigger_keeps_stays_as_well(self, world: RowWorld) -> None:
        world.run(
            "CREATE TABLE events (id INT PRIMARY KEY, at BIGINT, hold INT)",
            child("c", "events", "c_e"),
        )
        world.keep_on_hold()
        world.insert("events", (1, OLD, 0), (2, OLD, 1), (3, OLD, 0))
        world.insert("c", (1, 1), (2, 2), (3, 3))
        source = table("events", dependents=None)

        ends = world.drain(source)

        assert sorted((end.outcome, end.rows, end.blocked) for end in ends) == sorted(
            [(Outcome.DELETED, 1, 0), (Outcome.PROTECTED, 0, 1), (Outcome.DELETED, 1, 0)]
        )
        assert world.ids("events") == [2]
        assert world.ids("c") == [2]

    # -- rows that refer to rows of their own table

    @pytest.mark.parametrize("size", [1, 2])
    @pytest.mark.parametrize("how", ["", "ON DELETE CASCADE", "ON DELETE RESTRICT"])
    def test_a_row_and_those_that_refer_to_it_go_in_one_run(
        self, world: RowWorld, size: int, how: str
    ) -> None:
        """O-FK-02."""
        _jobs(world, (1, None), (2, 1), (3, 1), how=how)

        ends = world.drain(JOBS, size)

        assert world.ids("job") == []
        counts = [(end.rows, plain(end).get("job", 0)) for end in ends]
        assert counts == ([(1, 2), (0, 0), (0, 0)] if size == 1 else [(2, 1), (0, 0)])
        assert {end.outcome for end in ends} == {Outcome.DELETED, Outcome.ABSENT}

    def test_a_chain_goes_in_whatever_order_its_rows_are_walked(self, world: RowWorld) -> None:
        itself = 6 if world.kind != "mysql" else None  # InnoDB has a row keep itself
        _jobs(world, (1, 5), (2, 1), (3, 2), (4, None), (5, 4), (6, itself))
        assert sum(end.rows + plain(end).get("job", 0) for end in world.drain(JOBS, 3)) == 6
        assert world.ids("job") == []

    @pytest.mark.parametrize("how", ["", "ON DELETE CASCADE"])
    def test_a_row_that_a_younger_one_refers_to_stays(self, world: RowWorld, how: str) -> None:
        _jobs(world, (1, None), (2, None), (3, 2), how=how)
        what = world.task(JOBS)
        world.run(f"INSERT INTO job VALUES (4, {NEW}, 3)")  # noqa: S608

        effect = world.delete(JOBS, what)

        assert (effect.rows, effect.blocked) == (1, 0)
        assert world.ids("job") == [2, 3, 4]

    def test_what_refers_to_a_row_that_goes_along_goes_as_well(self, world: RowWorld) -> None:
        _jobs(world, (1, None), (2, 1))
        world.run(child("c", "job", "c_j"))
        world.insert("c", (1, 1), (2, 2))
        first, _ = world.plan(JOBS, 1)
        assert plain(world.delete(JOBS, first)) == {"c": 2, "job": 1}

    def test_a_dependent_that_others_of_its_table_refer_to(self, world: RowWorld) -> None:
        world.run(
            PARENTS,
            "CREATE TABLE c (id INT PRIMARY KEY, parent INT, answers INT, "
            "FOREIGN KEY (parent) REFERENCES parents (id), "
            "FOREIGN KEY (answers) REFERENCES c (id))",
        )
        world.insert("parents", (1, OLD), (2, NEW))
        world.insert("c", (1, 1, None), (2, 1, 1), (3, 2, 2), (4, 2, None))
        assert plain(world.delete(SOURCE, world.task(SOURCE))) == {"c": 3}
        assert world.ids("c") == [4]


def child(name: str, of: str, constraint: str, how: str = "") -> str:
    """A table of rows that refer to *of*."""
    default = " DEFAULT 0" if "DEFAULT" in how else ""
    return (
        f"CREATE TABLE {name} (id INT PRIMARY KEY, parent INT{default}, "
        f"CONSTRAINT {constraint} FOREIGN KEY (parent) REFERENCES {of} (id) {how})"
    )


def _jobs(world: RowWorld, *rows: tuple[int, int | None], how: str = "") -> None:
    """Old rows, each with the one it refers to."""
    world.run(
        "CREATE TABLE job (id INT PRIMARY KEY, at BIGINT, parent INT, "
        f"FOREIGN KEY (parent) REFERENCES job (id) {how})"
    )
    world.insert("job", *((id_, OLD, None) for id_, _ in rows))
    for id_, parent in rows:
        if parent is not None:
            world.run(f"UPDATE job SET parent = {parent} WHERE id = {id_}")  # noqa: S608


def plain(effect: Effect) -> dict[str, int]:
    """Counts by table, without its schema."""
    return {name.rpartition(".")[2].strip('"'): n for name, n in effect.dependents.items()}


def changed(effect: Effect) -> dict[str, int]:
    """Changed rows by table, without its schema."""
    return {name.rpartition(".")[2].strip('"'): n for name, n in effect.changed.items()}


def counted(what: RowTask) -> dict[str, tuple[int, int]]:
    """What a batch may remove and change, by table, without its schema."""
    return {
        one.table.rpartition(".")[2].strip('"'): (one.removed, one.changed)
        for one in what.batch.dependents
    }


def skip_defaults(world: RowWorld, how: str) -> None:
    if world.kind == "mysql" and "DEFAULT" in how:
        pytest.skip("InnoDB knows no SET DEFAULT")
