"""Upkeep as a user has it: nothing to type, `status` shows it, `export` says where the rest is."""

import gzip
import json
import signal
import sqlite3
from datetime import timedelta
from typing import Any

import pytest

from support.cli import Cli, fill
from support.docs import commands, configurations
from support.faults import FaultyS3
from support.forks import until

PAGE = "upkeep.md"
LONG_AGO = timedelta(days=500) // timedelta(microseconds=1)


@pytest.fixture
def evidence(cli: Cli, faulty: FaultyS3) -> list[dict[str, Any]]:
    """Ten operations that completed 500 days ago and one dead letter; what `export` says of the
    ten."""
    cli.extra = configurations(PAGE)[0]
    cli.write()
    keys = fill(faulty, 11)
    faulty.refuse(keys[5], "AccessDenied")
    cli("run", "exports", code=1)
    with sqlite3.connect(cli.folder / "bestbefore.db") as opened:
        opened.execute("UPDATE operations SET completed_at = completed_at - ?", [LONG_AGO])
        opened.execute("UPDATE runs SET created_at = created_at - ?", [LONG_AGO])
        opened.execute("UPDATE upkeep SET finished_at = finished_at - ?", [LONG_AGO])
    opened.close()
    return [line for line in cli("export").lines if line["key"] != keys[5]]


def lines(cli: Cli) -> list[dict[str, Any]]:
    files = sorted((cli.folder / "bestbefore-evidence").rglob("operations-*.jsonl.gz"))
    return [json.loads(line) for file in files for line in gzip.open(file, "rt")]


def test_what_the_page_says_to_type_shows_a_ledger_that_was_pruned(
    cli: Cli, evidence: list[dict[str, Any]]
) -> None:
    state = cli.json("status")["state"]
    assert (state["operations"], state["prunable"], state["pruned"]) == (11, 10, 0)
    assert state["evidence"] is None

    drain, status, runs, export = commands(PAGE)
    worked = cli(*drain, code=1)  # there is a dead letter
    looked = cli(*status)
    listed = cli(*runs)
    shown = cli(*export)

    assert worked.out.startswith("worked on 0 commands")
    assert lines(cli) == evidence
    assert [line["state"] for line in shown.lines] == ["dead"]
    folder = str(cli.folder / "bestbefore-evidence")
    assert f"evidence of 10 operations that completed longer ago than [state] keep is in {folder}" \
        in shown.err  # fmt: skip
    assert "it keeps 400d, 0 operations are older; upkeep finished" in looked.out
    assert "10 operations exported" in looked.out
    assert "holds 1 operations" in looked.out
    assert " 11 " in listed.out, "the run still says what it planned"
    (run,) = cli.json(*runs)
    assert "10 of the completed are only in exported" in cli("runs", "show", run["run_id"]).out
    state = cli.json("status")["state"]
    assert state["evidence"] == folder
    assert (state["operations"], state["prunable"], state["pruned"]) == (1, 0, 10)
    assert (state["keep"], state["upkeep"]["running"], state["upkeep"]["error"]) == (
        "400d", False, None)  # fmt: skip
    assert state["bytes"] > 0


def test_explain_says_where_older_evidence_is(
    cli: Cli, faulty: FaultyS3, evidence: list[dict[str, Any]]
) -> None:
    cli("work", "--drain", code=1)

    document = cli.json("explain", "exports", evidence[0]["key"])

    assert document["reasons"][-1].endswith(f"is in {cli.folder / 'bestbefore-evidence'}")


def test_a_worker_that_waits_for_work_does_it_and_goes_on_working(
    cli: Cli, faulty: FaultyS3, evidence: list[dict[str, Any]]
) -> None:
    with cli.start("work") as worker:
        until(lambda: cli.json("status")["state"]["pruned"] == 10, what="upkeep")
        fill(faulty, 3, prefix="exports/more-")
        cli("plan", "exports")
        until(lambda: cli.json("status")["policies"][0]["backlog"] == 0, what="more work")
        worker.kill(signal.SIGTERM)
        assert worker.wait() == 0, worker.said()

    assert lines(cli) == evidence


def test_a_folder_that_cannot_be_written_is_said_and_costs_no_evidence(
    cli: Cli, evidence: list[dict[str, Any]]
) -> None:
    (cli.folder / "bestbefore-evidence").write_text("in the way")

    worked = cli("work", "--drain", code=1)

    assert "upkeep" in worked.err
    assert "bestbefore-evidence" in worked.err
    assert len(cli("export").lines) == 11
    assert "upkeep failed at" in cli("status").out


@pytest.mark.parametrize("keep", ["6d", "30", 30, "m"])
def test_a_keep_that_is_too_short_or_unclear_is_refused(cli: Cli, keep: str | int) -> None:
    cli.extra = f"[state]\nkeep = {json.dumps(keep)}\n"
    cli.write()

    refused = cli("status", code=2)

    assert "state.keep" in refused.err
