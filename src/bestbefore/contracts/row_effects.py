"""What every reader and deleter of rows has to do about effects beside the selected rows, run like
`RowDeleterContract`: each is counted with its batch, or does not happen."""

from dataclasses import replace

import pytest

from bestbefore.contracts.row_dependents import (
    CHANGES,
    EVERY,
    PARENTS,
    changed,
    child,
    counted,
    plain,
    skip_defaults,
)
from bestbefore.contracts.row_world import CUTOFF, ME, NEW, OLD, RowWorld, table, task
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import MOST_DEPENDENTS, Divided, Effect, Governed, RowSource
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import RowTask

NONE = table("parents")
AUTO = table("parents", dependents=None)
NAMED = table("parents", dependents=("c",))


class RowEffectsContract:
    """Inherit, and give a ``world`` fixture of type `RowWorld`."""

    # -- without `dependents`

    @pytest.mark.parametrize("how", EVERY)
    def test_a_row_that_another_table_refers_to_stays_unless_that_table_is_named(
        self, world: RowWorld, how: str
    ) -> None:
        """S-REACH-01, S-REACH-02, S-REACH-03."""
        skip_defaults(world, how)
        world.run(PARENTS, child("c", "parents", "c_p", how))
        world.insert("parents", (0, NEW), (1, OLD), (2, OLD), (3, NEW))
        world.insert("c", (1, 1), (2, None))
        facts = world.reader.describe(NONE)
        found = world.reader.slice(NONE, facts, CUTOFF, KeyRange(None, None), 10, 100)
        assert [n for _, n in found.referenced.items()] == [1]
        assert "c" in next(iter(found.referenced))

        ends = world.drain(NONE)

        assert [(end.rows, end.dependents, end.changed) for end in ends] == [(1, {}, {})]
        assert world.ids("parents") == [0, 1, 3]
        assert world.ask("SELECT id, parent FROM c ORDER BY id") == [(1, 1), (2, None)]

    @pytest.mark.parametrize("how", EVERY)
    def test_a_reference_that_comes_at_the_last_moment_keeps_its_row(
        self, world: RowWorld, how: str
    ) -> None:
        skip_defaults(world, how)
        world.run(PARENTS, child("c", "parents", "c_p", how))
        world.insert("parents", (0, NEW), (1, OLD), (2, OLD))
        what = world.task(NONE)
        world.insert("c", (1, 2))
        assert world.delete(NONE, what).rows == 1
        assert world.ids("parents") == [0, 2]
        assert world.ask("SELECT id, parent FROM c") == [(1, 2)]

    @pytest.mark.parametrize("how", EVERY)
    def test_a_young_row_of_the_same_table_keeps_what_it_refers_to(
        self, world: RowWorld, how: str
    ) -> None:
        """S-REACH-02: a self-reference is no licence to empty it."""
        skip_defaults(world, how)
        _family(
            world, how, (1, OLD, None), (2, OLD, None), (3, NEW, 2), (4, OLD, None), (5, OLD, 4)
        )
        ends = world.drain(table("job"))
        assert sum(end.rows + sum(end.dependents.values()) for end in ends) == 3
        assert world.ask("SELECT id, parent FROM job WHERE id > 0 ORDER BY id") == [
            (2, None), (3, 2),
        ]  # fmt: skip

    @pytest.mark.parametrize("how", CHANGES)
    def test_a_young_row_of_the_same_table_loses_its_reference_only_where_all_may(
        self, world: RowWorld, how: str
    ) -> None:
        """S-REACH-02."""
        skip_defaults(world, how)
        _family(world, how, (1, OLD, None), (2, NEW, 1), (3, OLD, 1))
        source = table("job", dependents=None)
        planned = {name for what in world.plan(source, 1) for name in counted(what).items()}
        assert planned == {("job", (0, 1))}
        ends = world.drain(source, 1)
        assert sum(end.rows for end in ends) == 2
        assert [changed(end) for end in ends if end.changed] == [{"job": 1}]
        after = None if "NULL" in how else 0
        assert world.ask("SELECT id, parent FROM job WHERE id > 0") == [(2, after)]

    # -- counted with the batch

    def test_each_batch_says_how_many_rows_of_which_table_it_takes(self, world: RowWorld) -> None:
        """S-REACH-01."""
        world.run(
            PARENTS,
            "CREATE TABLE c (id INT PRIMARY KEY, parent INT, at BIGINT, "
            "FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE)",
            child("g", "c", "g_c"),
            child("e", "parents", "e_p", "ON DELETE SET NULL"),
        )
        world.insert("parents", *((n, OLD) for n in range(1, 5)), (5, NEW))
        world.insert("c", *((n, n % 5 + 1, NEW if n % 2 else OLD) for n in range(20)))
        world.insert("g", *((n, n % 20) for n in range(40)))
        world.insert("e", *((n, n % 5 + 1) for n in range(10)))

        plan = world.plan(AUTO, 2)

        assert [counted(what) for what in plan] == 2 * [{"c": (8, 0), "g": (16, 0), "e": (0, 4)}]
        younger = {one.table.rpartition(".")[2]: one.younger for one in plan[0].batch.dependents}
        assert {name.strip('"'): n for name, n in younger.items()} == {"c": 4, "g": None, "e": None}
        for what in plan:
            effect = world.delete(AUTO, what)
            assert (plain(effect), changed(effect)) == ({"c": 8, "g": 16}, {"e": 4})
        assert len(world.ids("c")) == 4
        assert len(world.ids("g")) == 8
        assert world.ask("SELECT count(*) FROM e WHERE parent IS NULL") == [(8,)]

    def test_a_row_that_two_foreign_keys_lead_to_counts_twice_at_most(
        self, world: RowWorld
    ) -> None:
        world.run(
            PARENTS,
            "CREATE TABLE c (id INT PRIMARY KEY, x INT, y INT, "
            "FOREIGN KEY (x) REFERENCES parents (id) ON DELETE CASCADE, "
            "FOREIGN KEY (y) REFERENCES parents (id) ON DELETE SET NULL)",
        )
        world.insert("parents", (1, OLD), (2, OLD), (3, NEW))
        world.insert("c", (1, 1, 2), (2, 3, 1), (3, 3, 3))
        what = world.task(AUTO)
        assert counted(what) == {"c": (1, 2)}
        effect = world.delete(AUTO, what)
        assert (plain(effect), changed(effect)) == ({"c": 1}, {"c": 1})
        assert world.ask("SELECT id, x, y FROM c ORDER BY id") == [(2, 3, None), (3, 3, 3)]

    def test_what_refers_to_rows_that_are_removed_along_is_counted(self, world: RowWorld) -> None:
        _family(world, "", (1, OLD, None), (2, OLD, 1), (3, OLD, 2))
        world.run(child("c", "job", "c_j"))
        world.insert("c", (1, 1), (2, 2), (3, 3))
        source = table("job", dependents=None)
        plan = world.plan(source, 1)
        assert [counted(what) for what in plan] == [
            {"job": (2, 0), "c": (3, 0)}, {"job": (1, 0), "c": (2, 0)}, {"c": (1, 0)},
        ]  # fmt: skip
        assert plain(world.delete(source, plan[0])) == {"job": 2, "c": 3}

    def test_a_table_that_points_back_to_its_newest_row_can_be_cleaned_up(
        self, world: RowWorld
    ) -> None:
        """As in posts.last_comment, which is set to NULL when the comment is removed."""
        back = "REFERENCES c (id) ON DELETE SET NULL"
        parents = "CREATE TABLE parents (id INT PRIMARY KEY, at BIGINT, last INT{})"
        comments = child("c", "parents", "c_p", "ON DELETE CASCADE")
        if world.kind == "sqlite":
            world.run(parents.format(f" {back}"), comments)
        else:
            add = f"ALTER TABLE parents ADD FOREIGN KEY (last) {back}"
            world.run(parents.format(""), comments, add)
        world.insert("parents", (1, OLD, None), (2, OLD, None), (3, NEW, None))
        world.insert("c", (1, 1), (2, 2), (3, 3))
        world.run(
            "UPDATE parents SET last = id WHERE id < 3", "UPDATE parents SET last = 2 WHERE id = 3"
        )
        assert sum(end.rows for end in world.drain(NONE)) == 0
        assert [(end.rows, plain(end)) for end in world.drain(NAMED)] == [(1, {"c": 1})]
        what = world.task(AUTO)
        assert counted(what) == {"c": (1, 0), "parents": (0, 1)}
        effect = world.delete(AUTO, what)
        assert (effect.rows, plain(effect), changed(effect)) == (1, {"c": 1}, {"parents": 1})
        assert world.ask("SELECT id, last FROM parents") == [(3, None)]

    # -- kept to

    @pytest.mark.parametrize("how", [*EVERY])
    def test_a_batch_that_finds_more_than_was_counted_does_no_more_than_was_counted(
        self, world: RowWorld, how: str
    ) -> None:
        skip_defaults(world, how)
        world.run(PARENTS, child("c", "parents", "c_p", how))
        world.insert("parents", (0, NEW), *((n, OLD) for n in range(1, 9)))
        world.insert("c", *((n, n) for n in range(1, 9)))
        what = world.task(NAMED)
        world.insert("c", (100, 5), (101, 5))

        ends = _work(world, NAMED, what)

        assert [end.outcome for end in ends].count(Outcome.CHANGED) >= 1
        touched = sum(sum(end.dependents.values()) + sum(end.changed.values()) for end in ends)
        assert 0 < touched <= 8
        assert sum(end.rows for end in ends) == 8 - len(world.ids("parents")) + 1
        left = len(world.ids("parents")) - 1
        assert sum(later.rows for later in world.drain(NAMED)) == left
        assert world.ids("parents") == [0]

    def test_a_single_row_with_more_than_was_counted_stays_as_it_is(self, world: RowWorld) -> None:
        world.run(PARENTS, child("c", "parents", "c_p", "ON DELETE CASCADE"))
        world.insert("parents", (1, OLD))
        what = world.task(NAMED)
        world.insert("c", (1, 1))
        effect = world.delete(NAMED, what)
        assert (effect.outcome, effect.rows, effect.dependents) == (Outcome.CHANGED, 0, {})
        assert (world.ids("parents"), world.ids("c")) == ([1], [1])

    def test_a_batch_that_was_planned_without_counts_takes_nothing_along(
        self, world: RowWorld
    ) -> None:
        """As those of a ledger of 0.1 were."""
        world.run(PARENTS, child("c", "parents", "c_p"))
        world.insert("parents", (1, OLD), (2, OLD))
        world.insert("c", (1, 1))
        what = world.task(AUTO)
        what = what._replace(batch=replace(what.batch, dependents=()))
        ends = _work(world, AUTO, what)
        assert sorted((end.outcome, end.rows) for end in ends) == [
            (Outcome.CHANGED, 0), (Outcome.DELETED, 1),
        ]  # fmt: skip
        assert (world.ids("parents"), world.ids("c")) == ([1], [1])

    def test_a_batch_is_cut_where_more_than_ten_thousand_rows_would_go_with_it(
        self, world: RowWorld
    ) -> None:
        world.run(PARENTS, child("c", "parents", "c_p"), "CREATE INDEX by_parent ON c (parent)")
        world.insert("parents", *((n, OLD) for n in range(1, 11)))
        each = MOST_DEPENDENTS // 4
        for parent in range(1, 11):
            first = parent * 100_000
            world.insert("c", *((first + n, parent) for n in range(each)))
        plan = world.plan(AUTO, 10)
        sizes = [sum(one.removed for one in what.batch.dependents) for what in plan]
        assert sum(what.batch.rows for what in plan) == 10
        assert sum(sizes) == 10 * each
        assert max(sizes) <= MOST_DEPENDENTS
        assert [plain(world.delete(AUTO, what))["c"] for what in plan] == sizes

    def test_a_single_row_with_more_than_ten_thousand_is_a_batch_of_its_own(
        self, world: RowWorld
    ) -> None:
        """S-REACH-01: it is for a person to decide, see `domain.run.park_reason`."""
        world.run(PARENTS, child("c", "parents", "c_p"), "CREATE INDEX by_parent ON c (parent)")
        world.insert("parents", (1, OLD), (2, OLD), (3, OLD))
        for start in range(0, 12_000, 4_000):
            world.insert("c", *((start + n, 2) for n in range(4_000)))
        plan = world.plan(AUTO, 10)
        most = [(what.batch.rows, counted(what).get("c", (0, 0))[0]) for what in plan]
        assert (1, 12_000) in most
        assert sum(rows for rows, _ in most) == 3

    def test_rows_without_a_key_count_each(self, world: RowWorld) -> None:
        world.run(
            PARENTS,
            "CREATE TABLE c (parent INT, code INT UNIQUE, "
            "FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE)",
            "CREATE TABLE g (code INT, FOREIGN KEY (code) REFERENCES c (code))",
            "CREATE TABLE e (parent INT, "
            "FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE SET NULL)",
        )
        world.insert("parents", (1, OLD), (2, NEW))
        world.insert("c", (1, None), (1, None), (1, 7), (2, None))
        world.insert("g", (7,), (7,))
        world.insert("e", (1,), (1,), (1,), (2,))
        what = world.task(AUTO)
        assert counted(what) == {"c": (3, 0), "g": (2, 0), "e": (0, 3)}
        effect = world.delete(AUTO, what)
        assert (plain(effect), changed(effect)) == ({"c": 3, "g": 2}, {"e": 3})
        assert world.ask("SELECT count(*) FROM c") == [(1,)]

    def test_small_and_large_keys_are_followed_in_one_statement(self, world: RowWorld) -> None:
        world.run(
            "CREATE TABLE parents (id BIGINT PRIMARY KEY, at BIGINT, a BIGINT, b BIGINT, "
            "UNIQUE (a, b))",
            "CREATE TABLE c (id INT PRIMARY KEY, parent BIGINT, "
            "FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE)",
            "CREATE TABLE d (id INT PRIMARY KEY, a BIGINT, b BIGINT, "
            "FOREIGN KEY (a, b) REFERENCES parents (a, b))",
        )
        ids = (0, 2**53 + 1, -(2**40), 7)
        world.insert("parents", *((id_, OLD, id_, -id_) for id_ in ids))
        world.insert("c", *enumerate(ids))
        world.insert("d", *((n, id_, -id_) for n, id_ in enumerate(ids)))
        effect = world.delete(AUTO, world.task(AUTO))
        assert (effect.rows, plain(effect)) == (4, {"c": 4, "d": 4})

    def test_a_second_delivery_tells_what_the_first_one_changed(self, world: RowWorld) -> None:
        world.run(
            PARENTS,
            child("c", "parents", "c_p", "ON DELETE CASCADE"),
            child("e", "parents", "e_p", "ON DELETE SET NULL"),
        )
        world.insert("parents", (1, OLD))
        world.insert("c", (1, 1))
        world.insert("e", (1, 1), (2, 1))
        what = world.task(AUTO)
        first, again = world.delete(AUTO, what), world.delete(AUTO, what)
        assert again.replayed
        assert (again.dependents, again.changed) == (first.dependents, first.changed)
        assert (plain(again), changed(again)) == ({"c": 1}, {"e": 2})

    # -- tables with a policy of their own

    @pytest.mark.parametrize("dependents", [None, ("c",)])
    def test_a_table_with_a_policy_of_its_own_loses_only_what_that_would_remove_now(
        self, world: RowWorld, dependents: tuple[str, ...] | None
    ) -> None:
        world.run(
            PARENTS,
            "CREATE TABLE c (id INT PRIMARY KEY, parent INT, made BIGINT, state VARCHAR(9), "
            "FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE)",
        )
        world.insert("parents", *((n, OLD) for n in range(1, 6)))
        world.insert(
            "c", (1, 1, OLD, "done"), (2, 2, NEW, "done"), (3, 3, OLD, "open"), (4, 4, None, "done")
        )
        theirs = table("c", timestamp="made", where="state = 'done'")
        own = Governed("c", theirs, CUTOFF)
        source = table("parents", dependents=dependents, governed=(own,))
        (what,) = world.plan(source)
        assert counted(what) == {"c": (1, 0)}
        assert [one.younger for one in what.batch.dependents] == [0]
        effect = world.delete(source, what)
        assert (effect.rows, plain(effect)) == (2, {"c": 1})
        assert (world.ids("parents"), world.ids("c")) == ([2, 3, 4], [2, 3, 4])
        idle = table("parents", dependents=dependents, governed=(Governed("c"),))
        world.insert("c", (5, 2, OLD, "done"))
        world.run("DELETE FROM c WHERE id = 2")
        assert world.plan(idle) == []
        assert sum(end.rows for end in world.drain(source)) == 1

    def test_what_keeps_a_row_under_its_own_policy_keeps_what_it_refers_to(
        self, world: RowWorld
    ) -> None:
        world.run(
            PARENTS,
            "CREATE TABLE c (id INT PRIMARY KEY, parent INT, at BIGINT, "
            "FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE)",
            child("g", "c", "g_c", "ON DELETE CASCADE"),
        )
        world.insert("parents", (1, OLD), (2, OLD))
        world.insert("c", (1, 1, OLD), (2, 2, OLD))
        world.insert("g", (1, 2))
        own = Governed("c", table("c"), CUTOFF)
        source = table("parents", dependents=None, governed=(own,))
        assert [(end.rows, plain(end)) for end in world.drain(source)] == [(1, {"c": 1})]
        assert (world.ids("parents"), world.ids("c"), world.ids("g")) == ([2], [2], [1])

    def test_a_row_that_its_own_policy_keeps_and_that_comes_at_the_last_moment_stays(
        self, world: RowWorld
    ) -> None:
        world.run(
            PARENTS,
            "CREATE TABLE c (id INT PRIMARY KEY, parent INT, at BIGINT, "
            "FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE)",
        )
        world.insert("parents", (1, OLD))
        world.insert("c", (1, 1, OLD))
        own = Governed("c", table("c"), CUTOFF)
        source = table("parents", dependents=None, governed=(own,))
        what = world.task(source)
        world.run(f"UPDATE c SET at = {NEW}")  # noqa: S608
        effect = world.delete(source, what)
        assert (effect.rows, effect.dependents) == (0, {})
        assert (world.ids("parents"), world.ids("c")) == ([1], [1])

    # -- explained and shown

    def test_a_row_says_what_would_be_removed_and_changed_with_it(self, world: RowWorld) -> None:
        world.run(
            PARENTS,
            child("c", "parents", "c_p", "ON DELETE CASCADE"),
            child("e", "parents", "e_p", "ON DELETE SET NULL"),
        )
        world.insert("parents", (1, OLD), (2, OLD))
        world.insert("c", (1, 1), (2, 1), (3, 2))
        world.insert("e", (1, 1))
        seen = world.reader.find(AUTO, world.reader.describe(AUTO), CUTOFF, "1")
        assert seen is not None
        assert sorted((one.removed, one.changed) for one in seen.dependents) == [(0, 1), (2, 0)]

    def test_the_statement_of_a_batch_is_shown_with_its_bounds(self, world: RowWorld) -> None:
        """S-REACH-09."""
        world.run(PARENTS, child("c", "parents", "c_p"))
        world.insert("parents", *((n, OLD) for n in range(7, 17)))
        source = table("parents", dependents=None, where="id <> 9 AND '%' = '%'")
        facts = world.reader.describe(source)
        shown = world.reader.show(source, facts, CUTOFF, world.task(source).batch)
        assert shown.statement.startswith("DELETE FROM")
        assert "id <> 9 AND '%' = '%'" in shown.statement
        for bound in ("'7'", "'16'") if world.kind != "sqlite" else ("7", "16"):
            assert bound in shown.statement
        world.ask(shown.statement.replace("DELETE FROM", "SELECT count(*) FROM", 1))
        assert shown.triggers == []

    def test_what_the_database_runs_by_itself_is_named(self, world: RowWorld) -> None:
        world.run(
            PARENTS,
            child("c", "parents", "c_p"),
            child("e", "parents", "e_p", "ON DELETE SET NULL"),
        )
        for name, event in (("parents", "DELETE"), ("c", "DELETE"), ("e", "UPDATE")):
            _trigger(world, f"told_{name}", name, event)
        world.insert("parents", (1, OLD))
        facts = world.reader.describe(AUTO)
        shown = world.reader.show(AUTO, facts, CUTOFF, world.task(AUTO).batch)
        assert [said.rpartition(": ")[2] for said in shown.triggers] == [
            "told_parents", "told_c", "told_e",
        ]  # fmt: skip
        only = world.reader.show(NONE, facts, CUTOFF, world.task(NONE).batch)
        assert [said.rpartition(": ")[2] for said in only.triggers] == ["told_parents"]
        found = [f for f in world.reader.check(AUTO, CUTOFF) if f.code == "delete-triggers"]
        assert len(found) == 1
        assert all(name in found[0].message for name in ("told_parents", "told_c", "told_e"))

    def test_check_says_which_tables_keep_how_many_rows_and_what_to_write(
        self, world: RowWorld
    ) -> None:
        world.run(PARENTS, child("c", "parents", "c_p"))
        world.insert("parents", (1, OLD), (2, OLD), (3, OLD))
        world.insert("c", (1, 1), (2, 2))
        (told,) = (f for f in world.reader.check(NONE, CUTOFF) if f.code == "rows-referenced")
        assert "2 old ones stay" in told.message
        assert "dependents = " in told.remedy


def _work(world: RowWorld, source: RowSource, what: RowTask) -> list[Effect]:
    """Everything that becomes of one batch."""
    end = world.deleter.delete(source, what, ME)
    if isinstance(end, Divided):
        parts = [task(source, part, what.cutoff) for part in end.parts]
        return [effect for part in parts for effect in _work(world, source, part)]
    assert isinstance(end, Effect), end
    return [end]


def _family(world: RowWorld, how: str, *rows: tuple[int, int, int | None]) -> None:
    """Rows of one table, each with its time and the row that it refers to; 0 is the default."""
    default = " DEFAULT 0" if "DEFAULT" in how else ""
    world.run(
        f"CREATE TABLE job (id INT PRIMARY KEY, at BIGINT, parent INT{default}, "
        f"FOREIGN KEY (parent) REFERENCES job (id) {how})"
    )
    world.insert("job", (0, NEW, None), *((id_, at, None) for id_, at, _ in rows))
    for id_, _, parent in rows:
        if parent is not None:
            world.run(f"UPDATE job SET parent = {parent} WHERE id = {id_}")  # noqa: S608


def _trigger(world: RowWorld, name: str, on: str, event: str) -> None:
    body = "BEGIN SELECT 1; END"
    if world.kind == "postgresql":
        world.run(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
        )
        body = f"EXECUTE FUNCTION {name}()"
    elif world.kind == "mysql":
        body = "SET @told = 1"
    world.run(f"CREATE TRIGGER {name} AFTER {event} ON {on} FOR EACH ROW {body}")
