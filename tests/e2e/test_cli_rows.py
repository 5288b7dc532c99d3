"""Policies about rows from the command line: what each verb answers, on every kind of database."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.cli_shop import NOW, OLD, SLOT, YOUNG, CliShop


def test_a_plan_counts_batches_and_rows_and_work_says_what_became_of_them(shop: CliShop) -> None:
    shop.orders()

    preview = shop.json("plan", "stale", "--slot", SLOT, "--dry-run")
    plan = shop.json("plan", "stale", "--slot", SLOT)
    again = shop.json("plan", "stale", "--slot", SLOT)
    overdue = shop.json("verify", "stale", code=1)
    before = shop.left()
    work = shop.json("work", "--drain")
    shown = shop.json("runs", "show", plan["run_id"])
    text = shop("runs", "show", plan["run_id"]).out

    assert (preview["unit"], preview["waiting"], preview["rows_eligible"]) == ("batch", 3, 25)
    assert (plan["published"], plan["created_batches"], plan["rows_eligible"]) == (3, 3, 25)
    assert (plan["state"], plan["complete"], plan["repeated"]) == ("open", True, False)
    assert (again["repeated"], again["already_pending"], again["created_batches"]) == (True, 3, 0)
    assert (overdue["overdue"], overdue["unit"], len(overdue["sample"])) == (25, "row", 3)
    assert len(before) == 30
    assert work["outcomes"] == {"deleted": 3}
    assert (work["rows"], work["dependents"], work["freed_bytes"]) == ({"deleted": 25}, {}, 0)
    assert shop.left() == ["26", "27", "28", "29", "30"]
    assert (shown["state"], shown["unit"], shown["counts"]["rows"]) == ("drained", "batch", 25)
    assert (shown["rows"], shown["dependents"]) == ({"deleted": 25}, {})
    assert "planned 3 batches of 25 rows" in text
    assert "outcomes: 3 deleted; 25 rows deleted" in text
    assert "freed" not in text
    assert shop.json("verify", "stale")["overdue"] == 0


def test_evidence_says_which_rows_went_with_each_batch(small_shop: CliShop) -> None:
    small_shop.orders()
    small_shop("run", "stale")

    lines = small_shop("export").lines

    assert [line["batch"]["rows"] for line in lines] == [10, 10, 5]
    assert [line["effect"]["rows"] for line in lines] == 2 * [{"deleted": 10}] + [{"deleted": 5}]
    assert [line["batch"][end][-1] for line in lines for end in ("first", "last")] == [
        "1", "10", "11", "20", "21", "25",
    ]  # fmt: skip
    assert {line["bucket"] for line in lines} == {"orders"}
    assert {line["size"] for line in lines} == {line["freed_bytes"] for line in lines} == {None}


def test_a_run_is_one_line_for_a_crontab_and_says_rows_and_batches(small_shop: CliShop) -> None:
    small_shop.orders()

    first = small_shop("run", "stale", "--slot", SLOT).out
    again = small_shop.json("run", "stale", "--slot", SLOT)

    assert "scanned              25 rows, 25 in scope" in first
    assert "eligible              3 batches of 25 rows" in first
    assert "worked on 3 commands: 3 deleted\n  25 rows deleted\n" in first
    assert (again["plan"]["repeated"], again["work"]["rows"], again["state"]) == (
        True, {}, "drained",
    )  # fmt: skip
    (shown,) = small_shop.json("status")["policies"]
    assert (shown["policy"], shown["batch_size"]) == ("stale", 10)
    assert "stale plans batches of 10 rows\n" in small_shop("status").out


def test_more_rows_than_the_cap_park_the_run(small_shop: CliShop) -> None:
    small_shop.orders()
    small_shop.write(policy="max_deletes = 24")

    parked = small_shop.json("run", "stale", code=1)["plan"]

    assert parked["reason"] == "25 rows selected, max_deletes is 24"
    small_shop("runs", "approve", parked["run_id"])
    assert small_shop.json("work", "--drain")["rows"] == {"deleted": 25}


def test_rows_go_with_those_they_refer_to_and_are_counted_by_table(shop: CliShop) -> None:
    shop.orders()
    shop.lines(3, 3, 14, 28)
    shop.write(dependents="auto")

    document = shop.json("run", "stale")

    (counted,) = document["work"]["dependents"].items()
    assert counted[0].endswith("order_lines")
    assert counted[1] == 3
    text = shop("runs", "show", document["plan"]["run_id"]).out
    assert f"with them 3 of {counted[0]}" in text
    assert shop.left("order_lines") == ["4"]


def test_a_row_that_nobody_may_delete_is_a_dead_letter_of_its_own(shop: CliShop) -> None:
    shop.orders()
    shop.refuse(7)

    document = shop.json("run", "stale", code=1)

    assert document["work"]["dead"] == 1
    assert document["work"]["rows"] == {"deleted": 24}
    assert shop.left()[0] == "7"
    (letter,) = shop.json("dlq", "list")
    command = letter["command"]
    assert letter["failure_class"] == "dependency"
    assert (command["kind"], command["table"], command["rows"]) == ("rows", "orders", 1)
    assert command["first"][-1] == command["last"][-1] == "7"
    assert command["operation_id"] == letter["operation_id"]
    assert "says the shop" in shop("dlq", "list").out
    shown = shop("dlq", "show", letter["operation_id"]).out
    assert "delete 1 rows of orders [" in shown
    assert "what of them is older than" in shown
    explained = shop("explain", "stale", "7").out
    assert "7 goes" in explained
    assert f"run {letter['run_id']} planned it" in explained
    assert "says the shop" in explained
    refused = shop("dlq", "redrive", "--id", letter["operation_id"], "--set", "key=8", code=2)
    assert "row batch cannot be corrected" in refused.err
    shop.allow()
    assert shop.json("dlq", "redrive", "--all")["redriven"] == 1
    assert shop.json("work", "--drain")["rows"] == {"deleted": 1}
    assert shop.json("verify", "stale")["overdue"] == 0


def test_evidence_links_a_batch_to_what_it_was_split_into(small_shop: CliShop) -> None:
    small_shop.orders(4)
    small_shop.refuse(2)
    small_shop("run", "stale", code=1)

    lines = {line["operation_id"]: line for line in small_shop("export").lines}

    whole, *parts = lines.values()
    assert (whole["outcome"], whole["parent"], whole["effect"]) == ("split", None, None)
    assert "says the shop" in whole["reason"]
    assert {lines[part["parent"]]["outcome"] for part in parts} == {"split"}
    done = [part for part in parts if part["outcome"] == "deleted"]
    assert sum(part["effect"]["rows"]["deleted"] for part in done) == 3


def test_explain_tells_why_a_row_stays_and_where_it_is_planned(shop: CliShop) -> None:
    shop.write(where="id <> 3")
    shop.orders()
    shop.lines(6)
    shop.write(where="id <> 3", dependents="none")
    ahead = NOW + timedelta(days=9)
    shop.database.run(
        "UPDATE orders SET placed_at = NULL WHERE id = 4",
        f"UPDATE orders SET placed_at = '{ahead}' WHERE id = 5",  # noqa: S608
    )

    def reasons(key: str) -> str:
        document = shop.json("explain", "stale", key)
        assert not document["eligible"]
        return " ".join(document["reasons"])

    assert "not before the cutoff" in reasons("30")
    assert "where does not hold for it: id <> 3" in reasons("3")
    assert "no date" in reasons("4")
    assert "lies in the future" in reasons("5")
    assert "order_lines refers to it" in reasons("6")
    assert "there is no such row in orders" in reasons("4711")
    assert "1 goes:\n" in shop("explain", "stale", "1").out
    run = shop.json("plan", "stale")["run_id"]
    batched = shop.json("explain", "stale", "17")
    assert batched["eligible"]
    assert f"run {run} planned it" in batched["reasons"][-1]
    shop("hold", "add", "--policy", "stale", "--reason", "audit")
    assert "under hold" in reasons("1")


def test_a_hold_on_a_policy_keeps_all_of_its_rows(small_shop: CliShop) -> None:
    small_shop.orders()

    added = small_shop.json("hold", "add", "--policy", "stale", "--reason", "audit")
    held = small_shop.json("plan", "stale", "--slot", SLOT)
    small_shop("hold", "remove", added["hold_id"])

    assert added["policies"] == ["stale"]
    assert (held["eligible"], held["protected"]) == (0, {"hold": 25})
    assert small_shop.json("plan", "stale", "--dry-run")["protected"] == {}


def test_a_hold_that_comes_after_the_plan_holds_too(small_shop: CliShop) -> None:
    small_shop.orders()
    small_shop("plan", "stale")
    small_shop("hold", "add", "--policy", "stale", "--reason", "audit")

    work = small_shop.json("work", "--drain")

    assert (work["outcomes"], work["protected"]) == ({"protected": 3}, {"hold": 3})
    assert len(small_shop.left()) == 30


def test_check_says_what_it_found_and_deletes_nothing(shop: CliShop) -> None:
    shop.orders()

    document = shop.json("check")

    codes = [finding["code"] for finding in document["findings"]]
    assert document["ok"]
    assert "table-read" in codes
    assert "timestamp-kind" in codes
    assert len(codes) == len(set(codes))
    assert len(shop.left()) == 30


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"table": "ordres"}, "ordres"),
        ({"timestamp": "palced_at"}, "palced_at"),
        ({"key": ["di"]}, "di"),
        ({"where": "statsu = 1"}, "statsu"),
        ({"where": "id = 1 -- or so"}, "comment"),
    ],
)
def test_a_misspelt_name_is_found_by_check_and_refused_by_plan(
    small_shop: CliShop, rows: dict[str, Any], words: str
) -> None:
    small_shop.orders()
    small_shop.write(**rows)

    document = small_shop.json("check", code=1)
    refused = small_shop("plan", "stale", code=2)

    (error,) = [finding for finding in document["findings"] if finding["level"] == "error"]
    assert words in error["message"]
    assert words in refused.err


UNREACHABLE = [
    "postgresql+psycopg://cleaner:geheim@127.0.0.1:1/shop",
    "mysql+pymysql://cleaner:geheim@127.0.0.1:1/shop",
    "sqlite:////nowhere/at/all/shop.db",
]


@pytest.mark.parametrize("url", UNREACHABLE, ids=lambda url: url.partition(":")[0])
def test_a_database_that_is_out_of_reach_is_a_finding_and_shows_no_password(
    small_shop: CliShop, url: str
) -> None:
    small_shop.write(url=url)

    said = small_shop("check", code=1)
    plan = small_shop("plan", "stale", code=2)

    assert "database-" in said.out
    assert "databases.shop" in said.out
    assert "geheim" not in said.out + said.err + plan.err


def test_a_key_of_two_columns_is_a_list_of_texts(small_shop: CliShop) -> None:
    """O-PK-01, O-PK-03"""
    small_shop.database.run(
        "CREATE TABLE orders (tenant TEXT NOT NULL, id BIGINT NOT NULL, placed_at TIMESTAMP, "
        "PRIMARY KEY (tenant, id))",
        "CREATE INDEX by_date ON orders (placed_at, tenant, id)",
    )
    small_shop.insert("orders", ("t1", 9007199254740993, OLD), ("t1", 9007199254740992, YOUNG))

    assert small_shop.json("explain", "stale", '["t1", "9007199254740993"]')["eligible"]
    assert not small_shop.json("explain", "stale", '["t1", "9007199254740992"]')["eligible"]
    assert small_shop.json("run", "stale")["work"]["rows"] == {"deleted": 1}
    assert small_shop.left() == ["9007199254740992"]


def test_a_restored_database_parks_the_next_run_until_a_person_has_looked(shop: CliShop) -> None:
    shop.orders()
    hours = [(NOW - timedelta(hours=n)).strftime("%Y-%m-%dT%H:00:00Z") for n in (3, 2, 1)]
    shop.json("run", "stale", "--slot", hours[0])
    shop.database.run("DROP TABLE bestbefore_completed_batches", "DROP TABLE orders")
    shop.orders()

    parked = shop.json("run", "stale", "--slot", hours[1], code=1)
    assert (parked["state"], parked["plan"]["waiting"]) == ("parked", 3)
    assert "was it restored?" in parked["plan"]["reason"]
    assert len(shop.left()) == 30

    shop("runs", "approve", parked["plan"]["run_id"])
    shop.json("work", "--drain")
    assert len(shop.left()) == 5
    assert shop.json("run", "stale", "--slot", hours[2])["state"] == "drained"


def test_check_asks_what_the_throttle_asks(small_shop: CliShop) -> None:
    small_shop.orders()

    def throttles(throttle: str) -> list[tuple[str, str]]:
        small_shop.write(database=f"throttle = {{ {throttle} }}")
        document = small_shop.json("check")
        assert document["ok"]
        return [
            (finding["code"], finding["message"])
            for finding in document["findings"]
            if finding["code"].startswith("throttle")
        ]

    ((code, _),) = throttles('sql = "SELECT 0"')
    assert code == "throttle-clear"
    ((code, message),) = throttles('sql = "SELECT 3"')
    assert code == "throttle-strain"
    assert "sql: it gives 3" in message
    ((_, message),) = throttles('http = "http://127.0.0.1:1/check?token=geheim"')
    assert "gives no answer" in message
    assert "geheim" not in message


def test_rows_that_are_archived_are_counted_as_that(shop: CliShop) -> None:
    shop.orders()
    shop.database.run(
        f"CREATE TABLE old_orders (id BIGINT PRIMARY KEY, placed_at {shop.instant} NULL, "
        "bestbefore_operation_id CHAR(64))"
    )
    shop.write(policy='action = "archive"', more='[policies.stale.archive]\ntable = "old_orders"\n')

    check = shop.json("check")
    document = shop.json("run", "stale")

    assert check["ok"], check
    assert document["work"]["rows"] == {"archived": 25}
    assert document["work"]["outcomes"] == {"archived": 3}
    assert len(shop.left("old_orders")) == 25
    assert len(shop.left()) == 5
    assert "25 rows archived" in shop("runs", "show", document["plan"]["run_id"]).out


def test_an_archive_without_a_column_is_found_before_any_row_moves(small_shop: CliShop) -> None:
    small_shop.orders()
    small_shop.database.run("CREATE TABLE old_orders (id BIGINT PRIMARY KEY)")
    small_shop.write(
        policy='action = "archive"', more='[policies.stale.archive]\ntable = "old_orders"\n'
    )

    document = small_shop.json("check", code=1)
    refused = small_shop("plan", "stale", code=2)

    (error,) = [finding for finding in document["findings"] if finding["level"] == "error"]
    assert "placed_at" in error["message"]
    assert "placed_at" in refused.err
    assert len(small_shop.left()) == 30


def test_hours_and_pressure_that_hold_work_back_are_shown(small_shop: CliShop) -> None:
    """Nothing is lost and nothing has failed: the drain ends, and says what it was that kept it."""
    small_shop.orders()
    hour = (datetime.now(UTC) + timedelta(hours=6)).strftime("%H")
    small_shop.write(database=f'window = "{hour}:00-{hour}:59"')

    work = small_shop.json("run", "stale", code=1)["work"]

    assert (work["received"], work["left"]) == (0, {"window": 3})
    (throttle,) = small_shop.json("status")["throttles"]
    assert throttle["connection"] == "shop"
    assert throttle["reason"] == f"window: {hour}:00-{hour}:59 in UTC"
    said = small_shop("status").out
    assert f"work on shop waits until {throttle['until']}: window: " in said

    small_shop.write()
    assert small_shop.json("work", "--drain")["rows"] == {"deleted": 25}
    assert small_shop.json("status")["throttles"] == []


def test_a_version_that_said_nothing_of_dependents_is_refused_until_a_word_is_said(
    small_shop: CliShop,
) -> None:
    """Design, "From 0.1": a null in the recorded rule is what "auto" still writes."""
    small_shop.orders()
    small_shop.write(dependents="auto", policy="max_deletes = 1")
    parked = small_shop.json("plan", "stale", "--slot", SLOT, code=1)
    later = (NOW + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    small_shop.write()
    refusal = (
        "policies.stale: `dependents` is `none` by default since 0.2: raise the version, or write "
        '`dependents = "auto"` under the old one'
    )

    for words in (["status"], ["run", "stale"], ["plan", "stale"], ["work", "--drain"], ["serve"]):
        assert small_shop(*words, code=2).err == f"bestbefore: {refusal}\n"
    preview = small_shop("run", "stale", "--slot", later, "--dry-run", code=1)
    assert f"warning: {refusal}\n" in preview.err
    assert "eligible" in preview.out
    assert len(small_shop.left()) == 30

    small_shop.write(dependents="auto")
    shown = small_shop.json("runs", "show", parked["run_id"])
    assert (shown["state"], shown["table"].rpartition(".")[2]) == ("parked", "orders")
    small_shop.write(version="v2")
    assert small_shop.json("run", "stale", "--yes")["work"]["rows"] == {"deleted": 25}
    assert small_shop.json("runs", "show", parked["run_id"])["state"] == "cancelled"
