"""Upkeep: what is old is exported and then pruned, whatever happens in between.

The stores are in memory or served by the fault server, the ledger is real SQLite, and where
somebody is killed it is a real process.
"""

import gzip
import json
import os
import signal
import sqlite3
import threading
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bestbefore.app import reporting
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.retention import Age
from bestbefore.ports.ledger import DeadFilter
from bestbefore.ports.records import OperationFilter
from bestbefore.read.operations import evidence_document
from support.audit import Audit
from support.cli import Cli, fill
from support.faults import FaultyS3
from support.forks import Forks
from support.harness import SharedClock
from support.worlds import World, failing, policy

KEEP = Age(0, 400 * 86_400)
YEARS = timedelta(days=800)


def lines(folder: Path, kind: str = "operations") -> list[dict[str, Any]]:
    """Every line of evidence in *folder*, in the order of its files."""
    found: list[dict[str, Any]] = []
    for file in sorted(folder.rglob(f"{kind}-*.jsonl.gz")):
        with gzip.open(file, "rt") as opened:
            found += map(json.loads, opened)
    return found


def exported(world: World) -> list[dict[str, Any]]:
    """What `bestbefore export` writes."""
    records = world.system.records
    return [
        evidence_document(operation, records.attempts(operation.row))
        for operation in records.operations(OperationFilter())
    ]


def keep_up(world: World) -> None:
    world.system.upkeep.run(lambda: False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where evidence goes, beside the state database and named after it."""
    return tmp_path / "state-evidence"


def test_the_lines_are_those_that_export_wrote_before(tmp_path: Path, folder: Path) -> None:
    with World(tmp_path, policy(), keep=KEEP) as world:
        keys = world.fill(25)
        world.store.refuse = failing(FailureClass.PERMISSION, keys[3])
        run = world.plan()
        world.work()
        before = exported(world)
        stored = world.run(run)
        world.clock.step(YEARS)

        keep_up(world)

        left = [operation.key for operation in world.operations()]
        assert left == [keys[3]], "what is dead stays"
        assert Audit(tmp_path / "state.db").problems() == []
        assert lines(folder) == [line for line in before if line["key"] != keys[3]]
        after = world.run(run)
        assert (after.planned, after.completed, after.dead) == (25, 24, 1)
        assert (after.pruned, stored.pruned) == (24, 0)
        assert world.outcomes(run) == {"deleted": 24}
        assert world.dead()[0].attempts == 3
        world.assert_reconciled()


def test_a_retried_operation_takes_its_attempts_along(tmp_path: Path, folder: Path) -> None:
    with World(tmp_path, policy(), keep=KEEP) as world:
        (key,) = world.fill(1)
        world.clock.stride = timedelta(seconds=30)
        world.store.refuse = failing(FailureClass.PERMISSION)
        world.plan()
        world.work()
        world.store.refuse = lambda _: None
        world.redrive()
        world.work()
        (before,) = exported(world)
        world.clock.step(YEARS)

        keep_up(world)

        (line,) = lines(folder)
        assert line == before
        assert [attempt["failure_class"] for attempt in line["attempts"]] == ["permission"] * 3
        assert (line["key"], line["redriven"], line["outcome"]) == (key, 1, "deleted")
        with sqlite3.connect(tmp_path / "state.db") as opened:
            assert opened.execute("SELECT count(*) FROM failures").fetchone() == (0,)


def test_what_people_decided_goes_with_what_they_decided_about(
    tmp_path: Path, folder: Path
) -> None:
    with World(tmp_path, policy(), keep=KEEP) as world:
        world.system.controls.pause("exports", "incident 42", None, "ann", world.clock.now())
        world.clock.step(YEARS)
        world.system.controls.resume_work("exports", "bob", world.clock.now())

        keep_up(world)

        (event,) = lines(folder, "events")
        assert (event["action"], event["by"], event["policy"], event["detail"]) == (
            "pause", "ann", "exports", "incident 42")  # fmt: skip
        assert [event.action for event in world.system.records.events(9)] == ["resume"]


def test_without_keep_nothing_ever_goes(tmp_path: Path, folder: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(3)
        world.plan()
        world.work()
        world.clock.step(10 * YEARS)

        keep_up(world)

        assert len(world.operations()) == 3
        assert not folder.exists()


def test_a_pass_is_made_once_a_day(tmp_path: Path, folder: Path) -> None:
    with World(tmp_path, policy(), keep=KEEP) as world:
        world.fill(1)
        world.plan()
        world.work()
        keep_up(world)
        assert not folder.exists(), "nothing is old yet"
        world.clock.step(timedelta(days=401))
        keep_up(world)
        (file,) = folder.rglob("*.gz")
        world.fill(1, prefix="exports/more-")
        world.plan()
        world.work()
        world.clock.step(timedelta(hours=23))

        keep_up(world)

        assert list(folder.rglob("*.gz")) == [file]
        assert file.parent.name == f"{world.clock.now() - timedelta(hours=23):%Y-%m-%d}"


def test_a_worker_with_nothing_to_do_does_upkeep(tmp_path: Path, folder: Path) -> None:
    with World(tmp_path, policy(), keep=KEEP) as world:
        world.fill(3)
        world.plan()
        world.work()
        world.clock.step(YEARS)
        rounds = iter(range(50))

        world.work(drain=False, stopping=lambda: next(rounds, None) is None)

        assert len(lines(folder)) == 3
        assert world.operations() == []


def test_a_disk_that_is_full_keeps_everything_and_says_so(tmp_path: Path, folder: Path) -> None:
    with World(tmp_path, policy(), keep=KEEP) as world:
        world.fill(3)
        world.plan()
        world.work()
        world.clock.step(YEARS)
        folder.write_text("a file where a folder should be")

        keep_up(world)

        assert len(world.operations()) == 3
        upkeep = reporting.state(world.system)["upkeep"]
        assert str(folder) in upkeep["error"]
        assert upkeep["failed_at"] is not None
        folder.unlink()
        keep_up(world)
        assert len(world.operations()) == 3, "it is not tried again at once"
        world.clock.step(timedelta(hours=1))
        keep_up(world)
        assert world.operations() == []
        assert reporting.state(world.system)["upkeep"]["error"] is None


def test_a_file_that_cannot_be_read_back_prunes_nothing(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with World(tmp_path, policy(), keep=KEEP) as world:
        world.fill(50)
        world.plan()
        world.work()
        world.clock.step(YEARS)
        rename = Path.rename

        def cut_off(self: Path, target: Path) -> Path:
            os.truncate(self, self.stat().st_size - 20)
            return rename(self, target)

        monkeypatch.setattr(Path, "rename", cut_off)

        keep_up(world)

        assert len(world.operations()) == 50
        assert "cannot be read back" in reporting.state(world.system)["upkeep"]["error"]


def test_a_hundred_thousand_go_in_bounded_transactions(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with World(tmp_path, policy(), keep=KEEP) as world:
        world.fill(1)
        run = world.plan()
        world.work()
        with sqlite3.connect(tmp_path / "state.db") as opened:
            columns = [row[1] for row in opened.execute("PRAGMA table_info(operations)")][2:]
            names = ", ".join(columns)
            opened.execute(
                f"INSERT INTO operations (operation_id, {names}) "  # noqa: S608
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99999) "
                f"SELECT randomblob(32), {names} FROM n, operations"
            )
            opened.execute("UPDATE runs SET planned = 100000, completed = 100000")
            opened.execute("UPDATE run_tallies SET n = 100000, bytes = 10000000")
        opened.close()
        world.clock.step(YEARS)
        turns: list[int] = []
        pruned: list[int] = []
        ended = threading.Event()
        ledger = world.system.upkeep_ledger
        prune = ledger.prune_operations

        def counted(*given: Any) -> int:
            pruned.append(prune(*given))
            return pruned[-1]

        monkeypatch.setattr(ledger, "prune_operations", counted)

        def write_beside() -> None:
            """Another process's recording: does it get its turn in between?"""
            with World(tmp_path, policy()) as other:
                while not ended.wait(0.01):
                    other.system.controls.trip("s", "made up", other.clock.now())
                    turns.append(len(pruned))

        beside = threading.Thread(target=write_beside)
        beside.start()
        try:
            keep_up(world)
        finally:
            ended.set()
            beside.join(60)

        assert world.operations() == []
        assert world.run(run).pruned == 100_000
        found = lines(folder)
        assert len({line["operation_id"] for line in found}) == len(found) == 100_000
        assert len(list(folder.rglob("*.gz"))) == 10
        assert max(pruned) == 500
        assert sum(pruned) == 100_000
        assert len(set(turns)) > 10, "others write in between, again and again"
        world.assert_reconciled()


@pytest.fixture
def aged(cli: Cli, faulty: FaultyS3) -> list[dict[str, Any]]:
    """The lines of ten operations that completed 500 days ago; one more is dead."""
    cli.extra = '[state]\nkeep = "400d"\n'
    cli.write()
    keys = fill(faulty, 11)
    faulty.refuse(keys[5], "AccessDenied")
    cli("run", "exports", code=1)
    before = cli("export").lines
    with sqlite3.connect(cli.folder / "bestbefore.db") as opened:
        # The pass of that first day is over; the next one is due.
        opened.execute("UPDATE upkeep SET finished_at = 0")
    opened.close()
    SharedClock(cli.folder / "clock").step(timedelta(days=500))
    return [line for line in before if line["key"] != keys[5]]


@pytest.mark.parametrize("seam", ["exporting", "exported", "pruning", "pruned"])
def test_a_kill_at_any_seam_loses_nothing_and_exports_nothing_twice(
    cli: Cli, forks: Forks, aged: list[dict[str, Any]], seam: str
) -> None:
    evidence = cli.folder / "bestbefore-evidence"
    killed = forks.start("support.harness:upkeep", [seam], cwd=cli.folder)
    assert killed.wait() == -signal.SIGKILL, killed.said()

    def known() -> Counter[str]:
        kept = Counter(line["operation_id"] for line in cli("export").lines)
        kept.update({line["operation_id"]: 1 for line in lines(evidence)})
        return kept

    assert known().keys() >= {line["operation_id"] for line in aged}, "evidence was lost"
    SharedClock(cli.folder / "clock").step(timedelta(minutes=6))  # its lease
    goes_on = forks.start("support.harness:upkeep", [], cwd=cli.folder)
    assert goes_on.wait() == 0, goes_on.said()

    assert sorted(lines(evidence), key=lambda line: line["key"]) == aged
    assert not list(evidence.rglob("*.part"))
    (left,) = cli("export").lines
    assert left["state"] == "dead"
    assert cli.json("status")["state"]["operations"] == 1
    (listed,) = cli.json("runs", "list")
    assert (listed["counts"]["planned"], listed["counts"]["pruned"]) == (11, 10)


def test_dead_letters_can_still_be_redriven_after_everything_around_them_went(
    tmp_path: Path, folder: Path
) -> None:
    with World(tmp_path, policy(), keep=KEEP) as world:
        keys = world.fill(20)
        world.store.refuse = failing(FailureClass.MALFORMED, keys[7])
        run = world.plan()
        world.work()
        world.clock.step(YEARS)
        keep_up(world)
        assert len(lines(folder)) == 19
        world.store.refuse = lambda _: None

        (letter,) = world.system.dead_letters.dead(DeadFilter())
        assert world.redrive().redriven == 1
        world.work()

        assert letter.key == keys[7]
        assert world.outcomes(run) == {"deleted": 20}
        assert world.run(run).state == "drained"
        world.assert_reconciled()
