"""What every reader of rows has to do where rows refer to each other, run like `RowReaderContract`.

Whatever else refers to it, a row that something younger needs stays, and its neighbours go.
"""

from dataclasses import replace

import pytest

from bestbefore.contracts.row_world import CUTOFF, NEW, OLD, RowWorld, table
from bestbefore.contracts.rows import batches, fill
from bestbefore.domain.finding import Level
from bestbefore.domain.rows import Governed, RowSource
from bestbefore.ports.objects import KeyRange, StoreError
from bestbefore.ports.rows import TableRefused

SOURCE = table(dependents=None)
NOTES = (
    "CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY, event BIGINT, at BIGINT, "
    "FOREIGN KEY (event) REFERENCES events (id){on_delete})"
)
FILES = (
    "CREATE TABLE files (id BIGINT NOT NULL PRIMARY KEY, note BIGINT, "
    "FOREIGN KEY (note) REFERENCES notes (id))"
)
JOBS = (
    "CREATE TABLE events (id BIGINT NOT NULL PRIMARY KEY, parent BIGINT, at BIGINT, "
    "FOREIGN KEY (parent) REFERENCES events (id))"
)


class RowReferencesContract:
    """Inherit, and give a ``world`` fixture of type `RowWorld`."""

    def test_an_old_row_stays_while_a_table_with_a_policy_of_its_own_needs_it(
        self, world: RowWorld
    ) -> None:
        """O-FK-01, O-LIST-04."""
        fill(world, {1: OLD, 2: OLD, 3: OLD, 4: NEW})
        world.run(NOTES.format(on_delete=""))
        world.insert("notes", (1, 1, NEW), (2, None, NEW), (3, 4, OLD))
        governed = replace(SOURCE, governed=tuple(map(Governed, ("notes", "nothing"))))
        assert go(world, governed) == [2, 3]
        facts = world.reader.describe(governed)
        found = world.reader.slice(governed, facts, CUTOFF, KeyRange(None, None), 10, 100)
        assert sum(found.referenced.values()) == 1
        seen = world.reader.find(governed, facts, CUTOFF, "1")
        assert seen is not None
        assert seen.old
        assert seen.referenced is not None
        assert seen.referenced.endswith("notes")
        world.run("DELETE FROM notes WHERE id = 1")
        assert go(world, governed) == [1, 2, 3]

    @pytest.mark.parametrize("on_delete", ["", " ON DELETE CASCADE", " ON DELETE RESTRICT"])
    def test_dependents_are_removed_if_all_or_theirs_are_named_and_others_keep(
        self, world: RowWorld, on_delete: str
    ) -> None:
        fill(world, {1: OLD, 2: OLD})
        world.run(NOTES.format(on_delete=on_delete))
        world.insert("notes", (1, 1, NEW))
        assert go(world, SOURCE) == [1, 2]
        assert go(world, replace(SOURCE, dependents=("notes",))) == [1, 2]
        assert go(world, replace(SOURCE, dependents=())) == [2]
        with pytest.raises(StoreError, match="no table nothing"):
            world.reader.describe(replace(SOURCE, dependents=("nothing",)))
        world.run("CREATE TABLE strangers (id BIGINT NOT NULL PRIMARY KEY)")
        with pytest.raises(TableRefused, match="strangers, under `dependents`, has no foreign key"):
            world.reader.describe(replace(SOURCE, dependents=("notes", "strangers")))

    def test_a_reference_that_would_be_set_to_null_keeps_its_row(self, world: RowWorld) -> None:
        """S-REACH-02."""
        fill(world, {1: OLD, 2: OLD})
        world.run(NOTES.format(on_delete=" ON DELETE SET NULL"))
        world.insert("notes", (1, 1, NEW))
        assert go(world, replace(SOURCE, governed=(Governed("notes"),))) == [1, 2]
        assert go(world, replace(SOURCE, dependents=())) == [2]
        assert go(world, replace(SOURCE, dependents=("notes",))) == [1, 2]

    def test_a_null_that_refers_to_nothing_hides_no_others(self, world: RowWorld) -> None:
        """O-FK-03."""
        fill(world, {1: OLD, 2: OLD, 3: OLD})
        world.run(NOTES.format(on_delete=""))
        world.insert("notes", (1, 1, NEW), (2, None, NEW))
        assert go(world, replace(SOURCE, dependents=())) == [2, 3]

    def test_what_keeps_a_dependent_keeps_the_row(self, world: RowWorld) -> None:
        fill(world, {1: OLD, 2: OLD, 3: OLD})
        world.run(NOTES.format(on_delete=""), FILES)
        world.insert("notes", (11, 1, OLD), (12, 2, OLD), (13, 2, OLD))
        world.insert("files", (101, 12))
        assert go(world, SOURCE) == [1, 2, 3]
        assert go(world, replace(SOURCE, governed=(Governed("files"),))) == [1, 3]
        assert go(world, replace(SOURCE, dependents=("notes",))) == [1, 3]
        assert go(world, replace(SOURCE, dependents=("notes", "files"))) == [1, 2, 3]
        with pytest.raises(TableRefused, match="files, under `dependents`"):
            world.reader.describe(replace(SOURCE, dependents=("files",)))

    def test_a_reference_from_another_schema_counts(self, world: RowWorld) -> None:
        if world.schema is None:
            pytest.skip("has no schemas")
        fill(world, {1: OLD, 2: OLD})
        home = world.ask(
            "SELECT database()" if world.kind == "mysql" else "SELECT current_schema()"
        )
        notes = NOTES.format(on_delete="").replace("events", f"{home[0][0]}.events")
        world.run(notes.replace("TABLE notes", f"TABLE {world.schema}.notes"))
        world.insert(f"{world.schema}.notes", (1, 1, NEW))
        assert go(world, SOURCE) == [1, 2]
        assert go(world, replace(SOURCE, governed=(Governed(f"{world.schema}.notes"),))) == [2]
        assert go(world, replace(SOURCE, dependents=())) == [2]

    def test_composite_references(self, world: RowWorld) -> None:
        world.run(
            "CREATE TABLE events (tenant VARCHAR(9) NOT NULL, id BIGINT NOT NULL, at BIGINT, "
            "PRIMARY KEY (tenant, id))",
            "CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY, t VARCHAR(9), e BIGINT, "
            "FOREIGN KEY (t, e) REFERENCES events (tenant, id))",
        )
        world.insert("events", ("a", 1, OLD), ("a", 2, OLD), ("b", 1, OLD))
        world.insert("notes", (1, "a", 1), (2, None, None))
        ends = {batch.first for batch in batches(world, replace(SOURCE, dependents=()), 1)}
        assert ends == {'["a","2"]', '["b","1"]'}

    def test_tables_that_refer_to_each_other_in_a_circle_are_refused(self, world: RowWorld) -> None:
        world.run("CREATE TABLE events (id BIGINT NOT NULL PRIMARY KEY, note BIGINT, at BIGINT)")
        world.run(NOTES.format(on_delete=""))
        if world.kind == "sqlite":
            pytest.skip("adds no foreign keys to a table")
        world.run("ALTER TABLE events ADD FOREIGN KEY (note) REFERENCES notes (id)")
        with pytest.raises(TableRefused, match="in a circle"):
            world.reader.describe(SOURCE)

    # -- rows of the same table

    def test_old_rows_of_one_family_go_together(self, world: RowWorld) -> None:
        """O-FK-02."""
        world.run(JOBS)
        world.insert("events", (1, None, OLD), (2, 1, OLD), (3, 1, OLD))
        for size in (1, 2, 3):
            assert sum(batch.rows for batch in batches(world, SOURCE, size)) == 3

    def test_a_row_stays_while_anything_below_it_does(self, world: RowWorld) -> None:
        world.run(JOBS)
        world.insert(
            "events", (1, None, OLD), (2, 1, OLD), (3, 2, OLD), (4, 3, NEW), (5, 1, OLD),
            (6, None, OLD), (7, 7, OLD), (8, None, NEW), (9, 8, OLD), (10, 9, None),
        )  # fmt: skip
        itself = [7] if world.kind != "mysql" else []  # InnoDB has a row keep itself
        assert go(world, SOURCE) == [5, 6, *itself]
        seen = world.reader.find(SOURCE, world.reader.describe(SOURCE), CUTOFF, "1")
        assert seen is not None
        assert seen.referenced is not None
        assert seen.referenced.endswith("events")
        narrow = replace(SOURCE, where="id <> 5")
        assert go(world, narrow) == [6, *itself]

    def test_a_long_line_of_old_rows_goes_from_its_end_if_not_at_once(
        self, world: RowWorld
    ) -> None:
        world.run(JOBS)
        world.insert("events", (1, None, OLD), *((n, n - 1, OLD) for n in range(2, 40)))
        while world.ids("events"):
            gone = go(world, SOURCE)
            assert gone == world.ids("events")[-len(gone) :] != []
            for id_ in reversed(gone):
                world.run(f"DELETE FROM events WHERE id = {id_}")  # noqa: S608

    def test_what_keeps_a_row_below_keeps_those_above(self, world: RowWorld) -> None:
        world.run(JOBS, NOTES.format(on_delete=""))
        world.insert("events", (1, None, OLD), (2, 1, OLD), (3, None, OLD))
        world.insert("notes", (1, 2, NEW))
        assert go(world, replace(SOURCE, governed=(Governed("notes"),))) == [3]

    # -- check

    def test_check_names_the_index_that_a_foreign_key_lacks(self, world: RowWorld) -> None:
        fill(world, {1: OLD})
        world.run(NOTES.format(on_delete=""), FILES)
        found = {finding.code: finding for finding in world.reader.check(SOURCE, CUTOFF)}
        if world.kind == "mysql":  # which has one for each
            assert "foreign-key-unindexed" not in found
            return
        missing = [
            f for f in world.reader.check(SOURCE, CUTOFF) if f.code == "foreign-key-unindexed"
        ]
        assert {finding.level for finding in missing} == {Level.WARNING}
        assert len(missing) == 2
        world.run(*(finding.remedy for finding in missing))
        assert not any(
            f.code == "foreign-key-unindexed" for f in world.reader.check(SOURCE, CUTOFF)
        )


def go(world: RowWorld, source: RowSource) -> list[int]:
    """Ids of the rows that would go."""
    facts = world.reader.describe(source)
    found = world.reader.slice(source, facts, CUTOFF, KeyRange(None, None), 1, 1000)
    return sorted(int(batch.first.strip('[]"')) for batch in found.batches)
