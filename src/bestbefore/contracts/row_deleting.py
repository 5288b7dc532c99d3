"""What every deleter of rows has to do, for outside adapters too.

Inherit `RowDeleterContract` in a test module, and give it a fixture called ``world`` of type
`bestbefore.contracts.row_world.RowWorld`.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from bestbefore.contracts.row_world import CUTOFF, ME, NEW, OLD, RowWorld, table, task
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Level
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Divided, Effect
from bestbefore.ports.objects import StoreError

EVENTS = "CREATE TABLE events (id BIGINT PRIMARY KEY, at BIGINT, hold INT NOT NULL DEFAULT 0)"
SOURCE = table()


class RowDeleterContract:
    """Inherit, and give a ``world`` fixture of type `RowWorld`."""

    def test_exactly_the_planned_rows_go(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.insert("events", *((n, OLD, 0) for n in range(1, 6)), (6, NEW, 0), (7, None, 0))

        first, second, third = world.plan(SOURCE, 2)
        effect = world.delete(SOURCE, first)

        assert (effect.outcome, effect.rows, effect.blocked) == (Outcome.DELETED, 2, 0)
        assert effect.seconds > 0
        assert world.ids("events") == [3, 4, 5, 6, 7]
        assert [world.delete(SOURCE, what).rows for what in (third, second)] == [1, 2]
        assert world.ids("events") == [6, 7]

    def test_a_second_delivery_changes_nothing_and_tells_the_same(self, world: RowWorld) -> None:
        world.run(EVENTS, "CREATE TABLE notes (id INT PRIMARY KEY, event BIGINT, "
                  "FOREIGN KEY (event) REFERENCES events (id))")  # fmt: skip
        world.insert("events", (1, OLD, 0), (2, OLD, 0), (9, NEW, 0))
        world.insert("notes", (1, 1), (2, 9))
        source = table(dependents=None)
        what = world.task(source)
        first = world.delete(source, what)
        world.insert("events", (1, OLD, 0))

        again = world.delete(source, what)

        assert again.replayed
        assert not first.replayed
        assert (again.outcome, again.rows, again.dependents) == (
            first.outcome, first.rows, first.dependents,
        )  # fmt: skip
        assert sum(first.dependents.values()) == 1
        assert world.ids("events") == [1, 9]

    def test_of_two_at_once_one_deletes_and_the_other_repeats_its_answer(
        self, world: RowWorld
    ) -> None:
        world.run(EVENTS)
        world.insert("events", *((n, OLD, 0) for n in range(50)))
        what = world.task(SOURCE)
        together = threading.Barrier(2)

        def deliver(_: int) -> Effect | Divided | Failure:
            together.wait(10)
            while True:  # who waited too long for the other one is to try again
                end = world.deleter.delete(SOURCE, what, ME)
                if not isinstance(end, Failure) or end.failure_class is not FailureClass.TRANSIENT:
                    return end

        with ThreadPoolExecutor(2) as pool:
            ends = list(pool.map(deliver, range(2)))

        assert all(isinstance(end, Effect) and end.rows == 50 for end in ends), ends
        assert sorted(end.replayed for end in ends if isinstance(end, Effect)) == [False, True]
        assert world.ids("events") == []

    def test_a_row_that_was_touched_stays_and_is_no_error(self, world: RowWorld) -> None:
        """O-RACE-03."""
        world.run(EVENTS)
        world.insert("events", (7, OLD, 0), (8, OLD, 0), (9, OLD, 0))
        source = table(where="hold = 0")
        what = world.task(source)
        world.run(f"UPDATE events SET at = {NEW} WHERE id = 7")  # noqa: S608
        world.run("UPDATE events SET hold = 1 WHERE id = 8")

        effect = world.delete(source, what)

        assert (effect.outcome, effect.rows, effect.blocked) == (Outcome.DELETED, 1, 0)
        assert world.ids("events") == [7, 8]

    def test_nothing_left_is_absent(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0))
        what = world.task(SOURCE)
        world.run("DELETE FROM events")

        assert world.delete(SOURCE, what).outcome is Outcome.ABSENT
        assert world.delete(SOURCE, what).replayed

    def test_of_a_batch_that_grew_no_more_is_removed_than_was_planned(
        self, world: RowWorld
    ) -> None:
        """P8: rows that came in between are counted by the next plan."""
        world.run(EVENTS)
        world.insert("events", (10, OLD, 0), (20, OLD, 0))
        what = world.task(SOURCE)
        world.insert("events", *((n, OLD, 0) for n in range(11, 16)), (16, NEW, 0))

        divided = world.divides(SOURCE, what)

        assert len(world.ids("events")) == 8
        assert [part.rows for part in divided.parts] == [2]
        assert {part.walk for part in divided.parts} == {what.batch.walk}
        assert divided.parts[0].oldest == CUTOFF - timedelta(days=1)
        (part,) = divided.parts
        assert world.delete(SOURCE, task(SOURCE, part)).rows == 2
        assert len(world.ids("events")) == 6
        assert sum(world.delete(SOURCE, later).rows for later in world.plan(SOURCE)) == 5
        assert world.ids("events") == [16]

    def test_halves_are_cut_from_what_is_there_now(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.insert("events", *((n, OLD, 0) for n in range(7)))
        what = world.task(SOURCE)
        world.run("DELETE FROM events WHERE id IN (1, 2)")

        halves = world.deleter.divide(SOURCE, what)

        assert isinstance(halves, Divided), halves
        assert [part.rows for part in halves.parts] == [3, 2]
        assert len(world.ids("events")) == 5
        assert [world.delete(SOURCE, task(SOURCE, part)).rows for part in halves.parts] == [3, 2]

    def test_what_holds_one_row_or_none_has_no_halves(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0))
        what = world.task(SOURCE)
        halves = world.deleter.divide(SOURCE, what)
        assert isinstance(halves, Divided)
        assert len(halves.parts) == 1
        world.run("DELETE FROM events")
        halves = world.deleter.divide(SOURCE, what)
        assert isinstance(halves, Divided)
        assert halves.parts == ()

    def test_another_cutoff_is_another_batch(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0))
        what = world.task(SOURCE)
        earlier = what._replace(operation_id=bytes(32), cutoff=CUTOFF - timedelta(days=30))

        assert world.delete(SOURCE, earlier).outcome is Outcome.ABSENT
        assert world.ids("events") == [1]

    # -- another table than was planned for

    def test_a_table_that_changed_is_not_touched(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0), (2, OLD, 0))
        first, second = world.plan(SOURCE, 1)
        world.run("ALTER TABLE events ADD COLUMN colour INT")

        effect = world.delete(SOURCE, first)

        assert (effect.outcome, effect.rows) == (Outcome.PROTECTED, 0)
        assert world.ids("events") == [1, 2]
        replanned = world.plan(SOURCE, 1)
        assert [world.delete(SOURCE, what).rows for what in replanned] == [1, 1]
        assert world.delete(SOURCE, second).outcome is Outcome.PROTECTED

    def test_a_column_that_vanished_since_the_last_batch_is_noticed(self, world: RowWorld) -> None:
        world.run(EVENTS, "CREATE INDEX by_time ON events (at)")
        world.insert("events", (1, OLD, 0), (2, OLD, 0))
        first, second = world.plan(SOURCE, 1)
        assert world.delete(SOURCE, first).rows == 1
        world.run("ALTER TABLE events RENAME COLUMN at TO since")

        failure = world.fails(SOURCE, second)

        assert failure.failure_class is FailureClass.MALFORMED
        assert failure.whole_source
        assert world.ids("events") == [2]

    def test_a_missing_table_stops_the_policy(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0), (2, OLD, 0))
        first, second = world.plan(SOURCE, 1)
        assert world.delete(SOURCE, first).rows == 1
        world.run("DROP TABLE events")

        failure = world.fails(SOURCE, second)

        assert failure.failure_class is FailureClass.MALFORMED
        assert failure.whole_source
        assert "events" in failure.error

    # -- names and keys

    def test_names_that_need_quotes_reach_their_table_and_no_twin(self, world: RowWorld) -> None:
        """O-SCHEMA-01."""
        odd = '"we""ird ""; DROP"'
        world.run(f'CREATE TABLE {odd} ("group" INT PRIMARY KEY, "index" INT, "timestamp" BIGINT)')
        world.insert(odd, (1, 1, OLD), (2, 1, NEW))
        index = "`index`" if world.kind == "mysql" else '"index"'
        source = table(
            odd,
            timestamp='"timestamp"',
            where=f"{index} = 1",
        )
        assert world.delete(source, world.task(source)).rows == 1
        assert world.ids(odd, '"group"') == [2]

    def test_a_schema_is_part_of_the_name(self, world: RowWorld) -> None:
        """O-SCHEMA-01."""
        if world.schema is None:
            pytest.skip("no schemas here")
        mine = f'"{world.schema}"."Order"'
        for name in ('"Order"', mine):
            world.run(f'CREATE TABLE {name} ("Id" INT PRIMARY KEY, "Created" BIGINT)')
            world.insert(name, (1, OLD), (2, NEW))
        source = table(mine, timestamp='"Created"')

        assert world.delete(source, world.task(source)).rows == 1

        assert world.ids(mine, '"Id"') == [2]
        assert world.ids('"Order"', '"Id"') == [1, 2]
        records = f'"{world.schema}".bestbefore_completed_batches'
        assert world.ask(f"SELECT count(*) FROM {records}") == [(1,)]  # noqa: S608

    @pytest.mark.parametrize("how", ["", "WITHOUT ROWID"])
    def test_of_a_composite_key_every_part_counts(self, world: RowWorld, how: str) -> None:
        """O-PK-01."""
        if how and world.kind != "sqlite":
            pytest.skip("SQLite's own")
        world.run(
            "CREATE TABLE tenants (tenant VARCHAR(9), id INT, at BIGINT, "
            f"PRIMARY KEY (tenant, id)) {how}"
        )
        world.insert("tenants", ("t1", 1, OLD), ("t1", 2, NEW), ("t2", 1, NEW), ("t3", 9, OLD))
        source = table("tenants")
        assert [effect.rows for effect in world.drain(source, 1)] == [1, 1]
        assert world.ask("SELECT tenant, id FROM tenants ORDER BY 1, 2") == [("t1", 2), ("t2", 1)]

    def test_ids_above_2_to_the_53_are_exact(self, world: RowWorld) -> None:
        """O-PK-03."""
        old = [9007199254740993, 738529527931269425]
        new = [9007199254740992, 738529527931269376]
        world.run(EVENTS)
        world.insert("events", *((n, OLD, 0) for n in old), *((n, NEW, 0) for n in new))
        assert sum(effect.rows for effect in world.drain(SOURCE, 1)) == 2
        assert world.ids("events") == new

    @pytest.mark.parametrize("type_", ["VARCHAR(40)", "UUID"])
    def test_keys_that_are_no_numbers(self, world: RowWorld, type_: str) -> None:
        if type_ == "UUID" and world.kind == "sqlite":
            pytest.skip("SQLite has no such type")
        keys = [f"{n:08x}-0000-4000-8000-{n * 7919 % 997:012x}" for n in range(20)]
        world.run(f"CREATE TABLE events (id {type_} PRIMARY KEY, at BIGINT)")
        world.insert("events", *((key, OLD if n % 2 else NEW) for n, key in enumerate(keys)))
        assert sum(effect.rows for effect in world.drain(SOURCE, 3)) == 10
        assert {str(key) for key in world.ids("events")} == set(keys[::2])

    # -- what keeps rows

    def test_a_row_that_a_trigger_keeps_is_counted_and_the_others_go(self, world: RowWorld) -> None:
        """O-SCHEMA-02."""
        world.run(EVENTS)
        world.keep_on_hold()
        world.insert("events", (1, OLD, 1), (2, OLD, 0), (3, OLD, 0))

        effect = world.delete(SOURCE, world.task(SOURCE, 3))

        assert (effect.outcome, effect.rows, effect.blocked) == (Outcome.DELETED, 2, 1)
        assert world.ids("events") == [1]
        kept = world.delete(SOURCE, world.task(SOURCE))
        assert (kept.outcome, kept.rows, kept.blocked) == (Outcome.PROTECTED, 0, 1)
        world.run("UPDATE events SET hold = 0")
        assert world.delete(SOURCE, world.task(SOURCE)).rows == 1

    def test_a_trigger_that_writes_does_not_change_the_count(self, world: RowWorld) -> None:
        """O-SCHEMA-02."""
        world.run(EVENTS, "CREATE TABLE log (id BIGINT)")
        world.log_twice()
        world.insert("events", (1, OLD, 0), (2, OLD, 0))
        assert world.delete(SOURCE, world.task(SOURCE)).rows == 2
        assert len(world.ids("log")) == 4

    def test_a_trigger_that_refuses_is_a_failure_that_quotes_it(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.refuse_on_hold()
        world.insert("events", (1, OLD, 1), (2, OLD, 0))

        failure = world.fails(SOURCE, world.task(SOURCE))

        assert failure.failure_class is FailureClass.DEPENDENCY
        assert "on hold, says the shop" in failure.error
        assert world.ids("events") == [1, 2]

    # -- other transactions

    def test_a_locked_row_is_waited_for_only_so_long(self, world: RowWorld) -> None:
        """O-DBF-01."""
        if world.kind == "sqlite":
            pytest.skip("SQLite locks files")
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0), (2, OLD, 0))
        what = world.task(SOURCE)
        with world.holding("UPDATE events SET hold = 0 WHERE id = 2"):
            failure = world.fails(SOURCE, what)
        assert failure.failure_class is FailureClass.TRANSIENT
        assert failure.too_big
        assert world.ids("events") == [1, 2]
        assert world.delete(SOURCE, what).rows == 2

    def test_others_write_between_two_batches(self, world: RowWorld) -> None:
        """O-DBF-02."""
        world.run(EVENTS)
        world.insert("events", *((n, OLD, 0) for n in range(6)))
        for what in world.plan(SOURCE, 2):
            world.delete(SOURCE, what)
            world.run("UPDATE events SET hold = 1")
            world.insert("events", (100 + world.ids("events")[-1], NEW, 0))

    # -- the record

    def test_the_record_tells_what_went_and_who_did_it(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0), (2, OLD, 0))
        what = world.task(SOURCE)
        world.delete(SOURCE, what)
        (record,) = world.ask(
            'SELECT operation_id, policy, policy_version, "rows", dependents, archived, blocked, '
            "completed_by FROM bestbefore_completed_batches WHERE completed_at IS NOT NULL"
        )
        assert record == (what.operation_id.hex(), "stale", "v1", 2, "{}", 0, 0, ME)

    def test_records_that_are_to_be_forgotten_go_and_no_others(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.insert("events", *((n, OLD, 0) for n in range(4)))
        nothing = table("events", ledger_only=True)
        tasks = world.plan(SOURCE, 1)
        ids = [what.operation_id for what in tasks]
        assert world.deleter.forget(SOURCE, ids) is None, "there is no table of records yet"
        for what in tasks[:3]:
            world.delete(SOURCE, what)

        for source in (nothing, SOURCE, SOURCE):
            assert world.deleter.forget(source, [ids[0], ids[2], bytes(32)]) is None

            lacking = world.reader.lacking(SOURCE, ids)
            assert set(lacking) == ({ids[3]} if source is nothing else {ids[0], ids[2], ids[3]})
        assert world.delete(SOURCE, tasks[1]).replayed
        assert world.delete(SOURCE, tasks[0]).outcome is Outcome.ABSENT

    def test_records_whose_table_is_gone_or_none_are_not_forgotten(self, world: RowWorld) -> None:
        world.run(EVENTS, "CREATE VIEW recent AS SELECT * FROM events")
        for name in ("recent", "elsewhere"):
            failure = world.deleter.forget(table(name), [bytes(32)])
            assert isinstance(failure, Failure), name
            assert failure.failure_class is FailureClass.MALFORMED
            assert name in failure.error

    def test_without_a_record_a_repeat_deletes_nothing_more(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0), (2, NEW, 0))
        source = table(ledger_only=True)
        what = world.task(source)
        assert world.delete(source, what).rows == 1
        again = world.delete(source, what)
        assert (again.outcome, again.rows, again.replayed) == (Outcome.ABSENT, 0, False)
        with pytest.raises(Exception, match="bestbefore_completed_batches"):
            world.ask("SELECT * FROM bestbefore_completed_batches")

    def test_a_dropped_table_of_records_is_made_again(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.insert("events", (1, OLD, 0), (2, OLD, 0))
        first, second = world.plan(SOURCE, 1)
        world.delete(SOURCE, first)
        world.run("DROP TABLE bestbefore_completed_batches")
        assert world.delete(SOURCE, second).rows == 1

    # -- what a check says

    def test_a_check_tells_what_is_in_the_way_and_changes_nothing(self, world: RowWorld) -> None:
        world.run(EVENTS)
        world.refuse_on_hold()

        found = {finding.code: finding for finding in world.deleter.check(SOURCE)}

        assert {code: finding.level for code, finding in found.items()} == {
            "delete-allowed": Level.INFO,
            "completion-table": Level.INFO,
        }
        assert "will be created" in found["completion-table"].message
        (told,) = (f for f in world.reader.check(SOURCE, CUTOFF) if f.code == "delete-triggers")
        assert told.level is Level.WARNING
        assert "no_hold" in told.message
        with pytest.raises(Exception, match="bestbefore_completed_batches"):
            world.ask("SELECT * FROM bestbefore_completed_batches")

    def test_a_check_of_a_table_that_is_no_table_says_so(self, world: RowWorld) -> None:
        world.run(EVENTS, "CREATE VIEW recent AS SELECT * FROM events")
        (finding,) = world.deleter.check(table("recent"))
        assert (finding.code, finding.level) == ("table-refused", Level.ERROR)
        with pytest.raises(StoreError, match="there is no table elsewhere"):
            world.deleter.check(table("elsewhere"))
