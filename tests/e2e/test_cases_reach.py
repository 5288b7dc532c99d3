"""What is removed beside the selected rows, from the command line, on every kind of database."""

import re
from collections.abc import Sequence
from datetime import timedelta

import pytest

from support.cli_shop import NOW, OLD, SLOT, YOUNG, CliShop

INVOICES = 20_000


def test_one_old_order_takes_no_young_invoices_with_it(shop: CliShop) -> None:
    """S-REACH-01: without the key, under caps far below the number of invoices."""
    _orders_with_invoices(shop)
    shop.write(policy="max_deletes = 5\nfirst_run_limit = 10")

    preview = shop.json("plan", "stale", "--slot", SLOT, "--dry-run")
    text = shop("plan", "stale", "--slot", SLOT, "--dry-run").out
    ended = shop.json("run", "stale", "--slot", SLOT)

    assert (preview["rows_eligible"], preview["protected"]["referenced"]) == (0, 1)
    assert list(preview["referenced"].values()) == [1]
    assert re.search(r'dependents = \["[a-z0-9_]+\.invoices"\]', text)
    assert (ended["state"], ended["work"]["rows"], ended["work"]["dependents"]) == (
        "drained", {}, {},
    )  # fmt: skip
    assert shop.left() == ["1", "2", "3"]
    assert len(shop.left("invoices")) == INVOICES
    assert "a row of" in shop("explain", "stale", "1").out


def test_invoices_that_are_named_are_shown_counted_and_capped(shop: CliShop) -> None:
    """S-REACH-01: the run parks until somebody approves just that."""
    _orders_with_invoices(shop)
    shop.write(policy="max_deletes = 5\nfirst_run_limit = 10", dependents=["invoices"])

    preview = shop.json("plan", "stale", "--slot", SLOT, "--dry-run", code=1)
    parked = shop.json("run", "stale", "--slot", SLOT, code=1)["plan"]
    shown = shop.json("runs", "show", parked["run_id"])
    said = shop("runs", "show", parked["run_id"]).out

    for document in (preview, parked, shown):
        ((table, removed, changed),) = [
            (one["table"], one["removed"], one["changed"]) for one in document["planned_dependents"]
        ]
        assert table.endswith("invoices")
        assert (removed, changed) == (INVOICES, 0)
    assert "20,000" in parked["reason"]
    assert parked["state"] == "parked"
    assert re.search(r"20,000 rows of \S*invoices", said)
    assert f"{INVOICES:,} rows of" in shop("explain", "stale", "1").out
    assert len(shop.left("invoices")) == INVOICES

    shop("runs", "approve", parked["run_id"])
    worked = shop.json("work", "--drain")
    assert list(worked["dependents"].values()) == [INVOICES]
    assert shop.left() == ["2", "3"]
    assert shop.left("invoices") == []
    assert shop.json("verify", "stale")["overdue"] == 0


def test_what_came_after_the_plan_is_left_to_the_next_run(shop: CliShop) -> None:
    shop.orders(4, young=0)
    shop.lines(1, 2, 3, 4)
    shop.write(dependents=["order_lines"])
    shop.json("plan", "stale", "--slot", SLOT, "--yes")
    shop.insert("order_lines", (100, 2))

    worked = shop.json("work", "--drain")

    assert worked["outcomes"].get("changed", 0) >= 1
    assert sum(worked["dependents"].values()) <= 4
    later = shop.json("run", "stale", "--yes", "--slot", _later())
    assert later["state"] == "drained"
    assert (shop.left(), shop.left("order_lines")) == ([], [])


@pytest.mark.parametrize("how", ["CASCADE", "SET NULL", "RESTRICT"])
def test_a_child_with_a_policy_of_its_own_keeps_what_that_keeps(shop: CliShop, how: str) -> None:
    shop.orders(3, young=0)
    _child(shop, "notes", how)
    shop.insert("notes", (1, 1, OLD), (2, 2, YOUNG))
    own = (
        '[policies.notes]\nversion = "v1"\nowner = "shop"\nolder_than = "30d"\naction = "delete"\n'
        '[policies.notes.rows]\ndatabase = "shop"\ntable = "notes"\ntimestamp = "made_at"\n'
        'timestamp_zone = "UTC"\nallow_full_scan = true\n'
    )
    shop.write(dependents=["notes"], more=own)

    shop("pause", "notes", "--reason", "looking")
    paused = shop.json("run", "stale", "--slot", SLOT)
    if how != "SET NULL":
        assert (paused["work"]["rows"], shop.left()) == ({"deleted": 1}, ["1", "2"])
        shop("resume", "notes")
        again = shop.json("run", "stale", "--slot", _later())
        assert list(again["work"]["dependents"].values()) == [1]
        assert (shop.left(), shop.left("notes")) == (["2"], ["2"])
        assert "refers to it and stays" in shop("explain", "stale", "2").out
    else:
        assert list(paused["work"]["dependents_changed"].values()) == [2]
        assert shop.left("notes") == ["1", "2"]


@pytest.mark.parametrize("written", ["", "none"])
def test_the_steps_of_the_page_change_no_row_of_any_child(shop: CliShop, written: str) -> None:
    """S-REACH-02, S-REACH-03: RESTRICT, CASCADE and SET NULL beside each other."""
    shop.orders(30, young=5)
    before = {}
    for number, how in enumerate(("RESTRICT", "CASCADE", "SET NULL"), 1):
        table = f"child_{number}"
        _child(shop, table, how)
        shop.insert(table, (1, number, YOUNG), (2, number, OLD), (3, 31, YOUNG))
        before[table] = _rows(shop, table)
    shop.write(**({"dependents": written} if written else {}))

    checked = shop("check").out
    shop("plan", "stale", "--dry-run")
    ended = shop.json("run", "stale", "--slot", SLOT)
    shop("verify", "stale")

    assert ended["work"]["rows"] == {"deleted": 27}
    assert ended["work"]["dependents"] == ended["work"]["dependents_changed"] == {}
    assert shop.left()[:3] == ["1", "2", "3"]
    assert {table: _rows(shop, table) for table in before} == before
    for table in before:
        assert table in checked


def test_a_row_without_a_foreign_key_to_it_is_planned_page_by_page_as_ever(shop: CliShop) -> None:
    shop.orders()
    plan = shop.json("plan", "stale", "--slot", SLOT)
    assert (plan["planned_dependents"], plan["referenced"]) == ([], {})
    assert plan["published"] == 3


def _orders_with_invoices(shop: CliShop) -> None:
    shop.orders(1, young=2)
    shop.database.run(
        "CREATE TABLE invoices (id BIGINT PRIMARY KEY, order_id BIGINT NOT NULL, "
        f"made_at {shop.instant} NULL, "
        "FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE RESTRICT)",
        "CREATE INDEX invoices_by_order ON invoices (order_id)",
    )
    for start in range(0, INVOICES, 2_000):
        shop.insert("invoices", *((start + n, 1, YOUNG) for n in range(2_000)))


def _child(shop: CliShop, name: str, how: str) -> None:
    shop.database.run(
        f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, order_id BIGINT NULL, "
        f"made_at {shop.instant} NULL, "
        f"FOREIGN KEY (order_id) REFERENCES orders (id) ON DELETE {how})",
        f"CREATE INDEX {name}_by_order ON {name} (order_id)",
    )


def _rows(shop: CliShop, table: str) -> Sequence[tuple[object, ...]]:
    return shop.database.ask(f"SELECT id, order_id FROM {table} ORDER BY id")  # noqa: S608


def _later() -> str:
    """A slot after `SLOT` that is due by now."""
    return (NOW + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
