"""Partitions that are removed as a whole, from the command line to what `verify` proves."""

import json
from datetime import timedelta

import pytest

from support.cli_shop import NOW, OLD, SLOT, YOUNG, CliShop

pytestmark = pytest.mark.parametrize("row_database", ["postgresql"], indirect=True)

_BORDER = NOW - timedelta(days=60)


@pytest.fixture
def parted(shop: CliShop) -> CliShop:
    """Orders of which a partition with 25 is old as a whole; 5 in another one are young."""
    shop.write(timestamp="placed_at", timestamp_kind="naive")
    shop.database.run(
        "CREATE TABLE orders (id BIGINT, placed_at TIMESTAMP, PRIMARY KEY (placed_at, id))"
        " PARTITION BY RANGE (placed_at)",
        "CREATE TABLE orders_old PARTITION OF orders"
        f" FOR VALUES FROM ('2020-01-01') TO ('{_BORDER}')",
        "CREATE TABLE orders_new PARTITION OF orders"
        f" FOR VALUES FROM ('{_BORDER}') TO ('2100-01-01')",
    )
    shop.insert("orders", *((n, OLD if n <= 25 else YOUNG) for n in range(1, 31)))
    return shop


def _tables(shop: CliShop) -> list[str]:
    return [
        name
        for (name,) in shop.database.ask(
            "SELECT relname FROM pg_class JOIN pg_inherits ON inhrelid = oid"
            " WHERE inhparent = 'orders'::regclass ORDER BY 1"
        )
    ]


def test_a_view_on_an_old_partition_has_its_rows_removed_and_check_says_why(
    parted: CliShop,
) -> None:
    """S-PART-01."""
    parted.database.run("CREATE VIEW r AS TABLE orders_old")
    parted.write(timestamp="placed_at", timestamp_kind="naive", partitions="drop")
    error = parted("plan", "stale", "--dry-run", code=2).err
    assert "orders_old" in error
    assert ".r depends on it" in error
    assert not parted.json("check", code=1)["ok"]
    parted.write(timestamp="placed_at", timestamp_kind="naive")
    said = {one["code"]: one for one in parted.json("check")["findings"]}
    assert "orders_old" in said["partition-kept-whole"]["message"]
    assert said["partition-kept-whole"]["remedy"].startswith("DROP VIEW")

    work = parted.json("run", "stale")["work"]

    assert work["outcomes"] == {"deleted": 3}
    assert work["rows"] == {"deleted": 25}
    assert (_tables(parted), len(parted.left())) == (["orders_new", "orders_old"], 5)
    assert parted.json("verify", "stale")["overdue"] == 0


def test_explain_names_the_partition_that_is_removed_with_a_row_and_what_planned_it(
    parted: CliShop,
) -> None:
    key = json.dumps([str(OLD), "1"])

    def reasons() -> str:
        document = parted.json("explain", "stale", key)
        assert document["eligible"]
        return " ".join(document["reasons"])

    assert "orders_old, which is removed as a whole" in reasons()
    run = parted.json("plan", "stale", "--slot", SLOT)["run_id"]
    assert f"run {run} planned it" in reasons()
    young = parted.json("explain", "stale", json.dumps([str(YOUNG), "30"]))
    assert "as a whole" not in " ".join(young["reasons"])
    parted.database.run("CREATE VIEW r AS TABLE orders_old")
    assert "as a whole" not in reasons().partition("it is in the batch")[0]


def test_a_trigger_on_the_partition_alone_runs_for_every_row(parted: CliShop) -> None:
    """S-PART-02."""
    parted.database.run(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN RAISE EXCEPTION ''says the shop''; END'",
        "CREATE TRIGGER no BEFORE DELETE ON orders_old FOR EACH ROW EXECUTE FUNCTION no()",
    )
    work = parted.json("run", "stale", code=1)["work"]
    assert work["outcomes"].get("deleted", 0) == 0
    assert work["dead"] > 0
    assert (_tables(parted), len(parted.left())) == (["orders_new", "orders_old"], 30)
    assert parted.json("verify", "stale", code=1)["overdue"] == 25


def test_a_partition_that_grew_is_a_dead_letter_with_both_numbers_and_a_redrive_accepts_them(
    parted: CliShop,
) -> None:
    """S-PART-01."""
    plan = parted.json("plan", "stale", "--slot", SLOT)
    assert plan["rows_eligible"] == 25
    parted.insert("orders", (31, OLD))

    work = parted.json("work", "--drain", code=1)

    assert work["dead"] == 1
    (letter,) = parted.json("dlq", "list")
    assert "planned 25 rows, found 26" in letter["error"]
    assert "planned 25 rows, found 26" in parted("dlq", "show", letter["operation_id"]).out
    assert _tables(parted) == ["orders_new", "orders_old"]
    assert parted.json("verify", "stale", code=1)["overdue"] == 26
    assert parted.json("dlq", "redrive", "--all")["redriven"] == 1
    shown = parted.json("runs", "show", plan["run_id"])
    assert shown["counts"]["rows"] == 26
    assert parted.json("work", "--drain")["rows"] == {"deleted": 26}
    assert _tables(parted) == ["orders_new"]
    assert parted.json("verify", "stale")["overdue"] == 0


def test_a_redrive_accepts_no_more_rows_than_it_showed(parted: CliShop) -> None:
    parted("plan", "stale", "--slot", SLOT)
    parted.insert("orders", (31, OLD))
    parted("work", "--drain", code=1)
    parted.insert("orders", (32, OLD), (33, OLD))
    parted("dlq", "redrive", "--all")
    parted("work", "--drain", code=1)
    (letter,) = parted.json("dlq", "list")
    assert "planned 26 rows, found 28" in letter["error"]
    assert len(parted.left()) == 33


def test_a_partition_that_was_taken_out_and_not_ended_is_overdue_until_it_is_gone(
    parted: CliShop,
) -> None:
    """S-PART-01."""
    run = parted.json("plan", "stale", "--slot", SLOT)["run_id"]
    ((parent, oid),) = parted.database.ask(
        "SELECT 'orders'::regclass::oid::text, 'orders_old'::regclass::oid::text"
    )
    # As a worker leaves it that dies after the detachment.
    mark = f"bestbefore {'0' * 64} of {parent} from '2020-01-01' to '{_BORDER}'"
    parted.database.run(
        f"COMMENT ON TABLE orders_old IS $${mark}$$",
        "ALTER TABLE orders DETACH PARTITION orders_old",
    )
    proof = parted.json("verify", "stale", code=1)
    assert (proof["overdue"], proof["oldest_overdue"]) == (25, "2020-01-01T00:00:00Z")
    assert "orders_old" in proof["sample"][0]
    assert oid in proof["sample"][0]
    explained = parted.json("explain", "stale", json.dumps([str(OLD), "1"]))["reasons"]
    assert "orders_old, which was taken out" in explained[1]
    assert parted.json("runs", "show", run)["counts"]["planned"] == 1
    parted.database.run("DROP TABLE orders_old")
    assert parted.json("verify", "stale")["overdue"] == 0
