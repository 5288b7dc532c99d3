"""The gate's table in a user's database, and what it leaves there."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from bestbefore.adapters.rows.catalog import partition_tree
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.scratch.small import SmallTable
from bestbefore.adapters.rows.seams import Seams
from bestbefore.app.system import open_system
from bestbefore.gate.run import Gate, GateRefused, chosen
from bestbefore.ports.objects import StoreError
from bestbefore.ports.scratch import ScratchReference, ScratchRow
from support.gates import Gates, failures
from support.row_databases import RowDatabase

NOW = datetime(2026, 7, 1, tzinfo=UTC)
ROWS = [ScratchRow(number, NOW + timedelta(milliseconds=number), "old") for number in range(1, 6)]


@pytest.fixture
def table(row_database: RowDatabase) -> Iterator[SmallTable]:
    table = SmallTable(row_database.url, "d")
    table.create()
    table.insert(ROWS)
    yield table
    table.remove()
    table.close()


def test_rows_come_and_go_as_an_application_has_them(table: SmallTable) -> None:
    touched = ScratchRow(2, NOW, "touched")
    table.update(touched)
    table.delete([1, 4])

    assert table.rows() == [touched, ROWS[2], ROWS[4]]


def test_a_locked_row_is_nobody_else_s_and_the_others_are_free_where_it_says_so(
    table: SmallTable, row_database: RowDatabase
) -> None:
    other = SmallTable(row_database.url, "d")
    try:
        if not table.locks_rows:
            assert row_database.kind == "sqlite"
            return
        with table.locked(3):
            other.update(ROWS[0]._replace(note="touched"))
            with pytest.raises(StoreError, match=r"[Ll]ock"):
                other.update(ROWS[2]._replace(note="touched"))
        other.update(ROWS[2]._replace(note="touched"))
    finally:
        other.close()

    assert [row.note for row in table.rows()] == ["touched", "old", "touched", "old", "old"]


def test_rows_of_the_tables_beside_it_are_removed_and_changed_with_the_rows_they_refer_to(
    table: SmallTable,
) -> None:
    for beside in (table.cascade, table.set_null):
        beside.create()
        beside.insert([ScratchReference(1, 4), ScratchReference(2, 5)], NOW)
    table.delete([4])

    assert table.cascade.rows() == [ScratchReference(2, 5)]
    assert table.set_null.rows() == [ScratchReference(1, None), ScratchReference(2, 5)]


def test_no_row_of_another_table_is_removed_or_changed_beyond_what_was_shown(
    gates: Gates, row_database: RowDatabase
) -> None:
    """S-REACH-01, S-REACH-02, S-REACH-03: the gate tries it on every database."""
    gates.rows(row_database.url)
    (verdict,) = gates.play("dependents-beyond-cap")

    assert verdict.ok, verdict.reason


def test_a_table_that_a_killed_gate_left_beside_its_own_is_named_and_removed(
    gates: Gates, row_database: RowDatabase
) -> None:
    left = SmallTable(row_database.url, "d")
    left.create()
    left.cascade.create()
    gates.rows(row_database.url)
    gates.write()
    try:
        system = open_system(gates.path, {})
        with pytest.raises(GateRefused, match="shop/bestbefore_gate; shop/bestbefore_gate_cascade"):
            Gate(system).play(chosen(["dependents-beyond-cap"]), lambda: False)
        cleaned = Gate(system).clean()
        system.close()

        assert cleaned == ["shop/bestbefore_gate", "shop/bestbefore_gate_cascade"]
        assert not left.exists()
        assert not left.cascade.exists()
    finally:
        left.remove()
        left.close()


def test_a_database_that_cannot_be_used_is_named_as_the_configuration_does(tmp_path: Path) -> None:
    table = SmallTable(f"sqlite:///{tmp_path / 'nothing.db'}", "shop")
    with pytest.raises(StoreError, match=r"databases\.shop, scratch table bestbefore_gate: unable"):
        table.exists()
    table.close()


def test_the_gate_leaves_neither_its_table_nor_a_record_of_its_batches(
    row_database: RowDatabase, tmp_path: Path
) -> None:
    row_database.run("CREATE TABLE visits (id INTEGER PRIMARY KEY, seen_at BIGINT NOT NULL)")
    config = tmp_path / "bestbefore.toml"
    config.write_text(
        f"""
        [state]
        url = "sqlite:///{tmp_path / "state.db"}"
        [databases.shop]
        url = "{row_database.url}"
        [policies.visits]
        version = "v1"
        older_than = "30d"
        [policies.visits.rows]
        database = "shop"
        table = "visits"
        timestamp = "seen_at"
        """
    )
    system = open_system(config, {})
    try:
        (verdict,) = Gate(system).play(chosen(["replayed-batches"]), lambda: False)
        left = Gate(system).clean()
    finally:
        system.close()

    assert verdict.ok, verdict.reason
    assert left == []
    assert row_database.ask("SELECT count(*) FROM bestbefore_completed_batches") == [(0,)]


def test_the_moment_before_a_commit_is_that_of_the_thread_that_deleted(tmp_path: Path) -> None:
    """A worker's loop commits to the ledger while a thread of it is about to commit rows."""
    seen: list[str] = []
    database = Database(f"sqlite:///{tmp_path / 'rows.db'}")
    (tmp_path / "rows.db").touch()
    ledger = sa.create_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
    seams = Seams()
    seams.before_commit_of_delete = lambda: seen.append(threading.current_thread().name)

    def commit() -> None:
        with ledger.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE a (id INTEGER)")

    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE visits (id INTEGER)")
        connection.exec_driver_sql("INSERT INTO visits VALUES (1)")
    with suppress(ZeroDivisionError), database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM visits")
        raise ZeroDivisionError
    with database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM visits")
        other = threading.Thread(target=commit, name="loop")
        other.start()
        other.join()
        assert seen == []
    database.dispose()
    ledger.dispose()

    assert seen == [threading.current_thread().name]


@pytest.mark.parametrize("row_database", ["postgresql"], indirect=True)
def test_a_partition_with_a_view_on_it_is_played_and_a_product_that_does_not_look_is_caught(
    gates: Gates, row_database: RowDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-PART-01."""
    gates.rows(row_database.url)
    (played,) = gates.play("partition-with-view")
    assert (played.ok, played.reason) == (True, None)
    monkeypatch.setattr(partition_tree, "of_partitions", lambda *_, **__: {})
    assert "batches planned" in (failures(gates.play("partition-with-view")).popitem()[1] or "")


def test_a_database_without_partitions_cannot_show_what_becomes_of_them(
    gates: Gates, tmp_path: Path
) -> None:
    gates.rows(f"sqlite:///{tmp_path / 'shop.db'}")
    sqlite3.connect(tmp_path / "shop.db").close()
    (played,) = gates.play("partition-with-view")
    assert played.ok is None


@pytest.mark.parametrize("row_database", ["postgresql"], indirect=True)
def test_partitions_that_a_killed_gate_left_are_seen_and_removed(
    table: SmallTable, row_database: RowDatabase
) -> None:
    table.partition([NOW + timedelta(days=day) for day in range(4)])
    row_database.run(
        "ALTER TABLE bestbefore_gate DETACH PARTITION bestbefore_gate_2",
        "DROP TABLE bestbefore_gate CASCADE",
    )
    assert (table.exists(), table.partitions()) == (True, ["bestbefore_gate_2"])
    table.remove()
    assert not table.exists()
