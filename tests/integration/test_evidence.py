"""Evidence: who, when, why and what happened, per run and per operation, in either format."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bestbefore.adapters.files.evidence import EvidenceParquet
from bestbefore.domain.failure import Attempts, FailureClass
from bestbefore.read.evidence import About, columns, evidence
from support.shops import Shop
from support.worlds import World, failing, policy


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two runs of one policy, with a dead letter that a person discarded, and another policy."""
    impatient = Attempts(permission=1)
    with World(tmp_path, policy(attempts=impatient), policy("other", prefix="other/")) as world:
        stubborn, *_ = world.fill(3)
        world.store.refuse = failing(FailureClass.PERMISSION, stubborn)
        world.plan()
        world.work()
        (letter,) = world.dead()
        now = world.clock.now()
        world.system.dead_letters.discard([letter.row], "under a contract", "anna@ops", now)
        world.put("other/a.json")
        world.plan("other")
        world.system.controls.pause("other", "audit", None, "ben@ops", now)
        yield world


def documents(world: World | Shop, about: About, **which: Any) -> list[Mapping[str, Any]]:
    narrowed = {"policy": None, "run_id": None} | which
    return list(evidence(about, world.system.records, **narrowed))


def test_a_run_says_who_began_it_by_which_rule_and_what_came_of_it(world: World) -> None:
    run, other = documents(world, About.RUNS)

    assert (run["policy"], other["policy"]) == ("exports", "other")
    assert run["created_by"] == world.system.person
    assert run["rule"]["objects.prefix"] == "exports/"
    assert run["rule"]["older_than"] == "30d"
    assert run["outcomes"] == {"deleted": 2, "discarded": 1}
    assert documents(world, About.RUNS, run_id=run["run_id"]) == [run]


def test_what_people_decided_is_told_in_order(world: World) -> None:
    events = documents(world, About.EVENTS)

    assert [(e["by"], e["action"], e["detail"]) for e in events] == [
        ("anna@ops", "discarded", "under a contract"),
        ("ben@ops", "pause", "audit"),
    ]
    assert documents(world, About.EVENTS, policy="other") == events[1:]


@pytest.mark.parametrize("about", list(About))
def test_a_parquet_file_holds_what_the_lines_do(world: World, tmp_path: Path, about: About) -> None:
    lines = documents(world, about)
    file = tmp_path / "evidence.parquet"

    assert EvidenceParquet().write(file, columns(about), lines) == len(lines) > 0

    table = pq.read_table(file)
    assert set(table.column_names) == set(lines[0])
    for row, line in zip(table.to_pylist(), lines, strict=True):
        assert {name: _as_in_a_line(row[name], line[name]) for name in row} == line
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("about", [About.OPERATIONS, About.RUNS])
def test_rows_fit_into_the_same_columns(tmp_path: Path, about: About) -> None:
    with Shop(tmp_path) as shop:
        shop.fill(25)
        shop.plan()
        shop.work()
        lines = documents(shop, about)
    file = tmp_path / "evidence.parquet"

    EvidenceParquet().write(file, columns(about), lines)

    rows = pq.read_table(file).to_pylist()
    assert [{n: _as_in_a_line(r[n], line[n]) for n in r} for r, line in
            zip(rows, lines, strict=True)] == lines  # fmt: skip


def test_a_large_file_is_written_group_by_group(tmp_path: Path) -> None:
    """So that memory does not grow with the ledger."""
    event = {"event": 1, "at": "2026-07-01T00:00:00Z", "by": "a", "action": "pause",
             "policy": None, "run_id": None, "operation_id": None, "detail": "\udcff"}  # fmt: skip
    file = tmp_path / "evidence.parquet"

    EvidenceParquet().write(file, columns(About.EVENTS), (event for _ in range(25_000)))

    whole = pq.ParquetFile(file)
    assert (whole.metadata.num_rows, whole.num_row_groups) == (25_000, 3)
    assert whole.read_row_group(2)["detail"][0].as_py() == r"\udcff"


def test_a_file_that_does_not_become_whole_is_not_there(tmp_path: Path) -> None:
    def breaking() -> Iterator[Mapping[str, Any]]:
        yield {}

    file = tmp_path / "evidence.parquet"
    with pytest.raises(KeyError):
        EvidenceParquet().write(file, columns(About.EVENTS), breaking())

    assert list(tmp_path.iterdir()) == []


def _as_in_a_line(value: Any, line: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.loads(value) if isinstance(line, dict | list) else value
