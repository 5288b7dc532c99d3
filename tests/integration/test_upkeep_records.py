"""Completion records of row batches go with what the ledger knows of these, and never before.

The ledger is SQLite, the databases are real ones, and every command is a process.
"""

import signal
import sqlite3
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from support.cli_shop import NOW, CliShop
from support.forks import Forks
from support.harness import SharedClock, open_world

KEEP = '[state]\nkeep = "400d"\n'
NOWHERE = "postgresql+psycopg://cleaner:geheim@127.0.0.1:1/shop"
HOURS = [(NOW - timedelta(hours=n)).strftime("%Y-%m-%dT%H:00:00Z") for n in (3, 2, 1)]
YEARS = timedelta(days=500)


def age(folder: Path, operations: set[str]) -> None:
    """Make *operations* 500 days older in the ledger of *folder*, and upkeep due."""
    micros = YEARS // timedelta(microseconds=1)
    with sqlite3.connect(folder / "bestbefore.db") as opened:
        opened.executemany(
            "UPDATE operations SET completed_at = completed_at - ? WHERE operation_id = ?",
            [(micros, bytes.fromhex(id_)) for id_ in operations],
        )
        opened.execute("UPDATE upkeep SET finished_at = finished_at - ?", [micros])
    opened.close()


def records(shop: CliShop) -> set[str]:
    """The operations that the database knows to be completed."""
    found = shop.database.ask("SELECT operation_id FROM bestbefore_completed_batches")
    return {id_ for (id_,) in found}


def known(shop: CliShop) -> set[str]:
    """The operations that the ledger knows."""
    return {line["operation_id"] for line in shop("export").lines}


def test_records_go_with_the_ledgers_and_the_database_does_not_look_restored(
    shop: CliShop,
) -> None:
    shop.orders()
    shop.write(more=KEEP)
    shop.refuse(7)
    shop("run", "stale", "--slot", HOURS[0], code=1)  # order 7 stays and is a dead letter
    (dead,) = shop.json("dlq", "list")
    old = records(shop)
    assert dead["operation_id"] not in old
    shop.insert("orders", *((n, NOW - timedelta(days=80)) for n in range(100, 120)))
    shop("run", "stale", "--slot", HOURS[1], code=1)
    young = records(shop) - old
    assert len(young) == 2
    age(shop.folder, old)

    shop("work", "--drain", code=1)

    assert records(shop) == young
    assert known(shop) - split(shop) == young | {dead["operation_id"]}
    again = shop.json("run", "stale", "--slot", HOURS[2], code=1)
    assert again["plan"]["reason"] is None
    shop.allow()
    shop("dlq", "redrive", "--all")
    assert shop.json("work", "--drain")["rows"] == {"deleted": 1}
    assert records(shop) == young | {dead["operation_id"]}


def split(shop: CliShop) -> set[str]:
    """Batches that went on as smaller ones: they have no record."""
    return {line["operation_id"] for line in shop("export").lines if line["outcome"] == "split"}


@pytest.fixture
def aged(small_shop: CliShop) -> CliShop:
    """A shop whose three batches completed 500 days ago, on a clock that the test turns."""
    small_shop.orders()
    small_shop.write(more=KEEP)
    small_shop("run", "stale")
    assert known(small_shop) == records(small_shop) != set()
    with sqlite3.connect(small_shop.folder / "bestbefore.db") as opened:
        opened.execute("UPDATE upkeep SET finished_at = 0")
    opened.close()
    SharedClock(small_shop.folder / "clock").step(YEARS)
    return small_shop


@pytest.fixture
def keep_up(aged: CliShop, forks: Forks) -> Callable[[timedelta], str]:
    """Do upkeep in a process of its own after so long; returns what it said."""

    def keep_up(after: timedelta = timedelta(0)) -> str:
        SharedClock(aged.folder / "clock").step(after)
        process = forks.start("support.harness:upkeep", [], cwd=aged.folder)
        assert process.wait() == 0, process.said()
        return process.said()

    return keep_up


def test_a_kill_between_the_ledger_and_the_database_leaves_no_record_behind(
    aged: CliShop, forks: Forks, keep_up: Callable[..., str]
) -> None:
    killed = forks.start("support.harness:upkeep", ["forgetting"], cwd=aged.folder)
    assert killed.wait() == -signal.SIGKILL, killed.said()
    assert known(aged) == set()
    assert len(records(aged)) == 3

    keep_up(timedelta(minutes=6))  # its lease

    assert records(aged) == set()


def test_a_database_that_does_not_answer_is_waited_for_but_not_for_ever(
    aged: CliShop, keep_up: Callable[..., str]
) -> None:
    url = aged.database.url
    aged.write(url=NOWHERE, more=KEEP)

    keep_up()

    state = aged.json("status")["state"]["upkeep"]
    assert "policies.stale: completion records of pruned batches stay" in state["error"]
    assert "geheim" not in state["error"]
    assert (state["running"], known(aged)) == (True, set())
    aged.write(url=url, more=KEEP)
    keep_up(timedelta(hours=1))
    assert records(aged) == set()
    state = aged.json("status")["state"]["upkeep"]
    assert (state["running"], state["error"]) == (False, None)


def test_after_a_day_the_ledger_goes_on_without_a_database_that_does_not_answer(
    aged: CliShop, keep_up: Callable[..., str]
) -> None:
    aged.write(url=NOWHERE, more=KEEP)
    keep_up()
    assert aged.json("status")["state"]["upkeep"]["running"]

    keep_up(timedelta(days=1))

    state = aged.json("status")["state"]["upkeep"]
    assert (state["running"], state["error"]) == (False, None)
    assert len(records(aged)) == 3


@pytest.mark.parametrize("why", ["policy", "table"])
def test_records_that_nobody_can_find_any_more_stop_nothing(
    aged: CliShop, keep_up: Callable[..., str], why: str
) -> None:
    if why == "table":
        aged.database.run("DROP TABLE orders")
    else:
        file = aged.folder / "bestbefore.toml"
        file.write_text(file.read_text().replace("policies.stale", "policies.renamed"))

    keep_up()

    assert known(aged) == set()
    assert len(records(aged)) == 3
    assert not aged.json("status")["state"]["upkeep"]["running"]


def test_who_looks_while_batches_are_pruned_and_forgotten_sees_no_restored_database(
    aged: CliShop, keep_up: Callable[..., str]
) -> None:
    system = open_world(aged.folder)
    policy = system.policy("stale")
    looks: list[int] = []

    def ended() -> Sequence[bytes]:
        found = system.records.completed_batches("stale", 100)
        if not looks:
            keep_up()
        looks.append(len(found))
        return found

    try:
        doubt = system.survey(policy).doubt(policy, ended)
    finally:
        system.close()

    assert doubt is None
    assert looks == [3, 0]
    assert records(aged) == set()
