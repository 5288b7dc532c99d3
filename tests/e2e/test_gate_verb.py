"""What `gate` does around its scenarios, with scenarios of our own: see `support.gate_plays`."""

import json
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.cli import Cli, Reply, check_output, finish
from support.forks import Child, Forks, until
from support.gate_plays import WAITING

Gate = Callable[..., Reply]


@pytest.fixture
def files(tmp_path: Path, forks: Forks) -> Cli:
    """The command line over a folder, with real files under the policy's prefix."""
    made = Cli(tmp_path, forks, "http://127.0.0.1:9")
    made.stores["s"] = {"kind": "directory", "root": "data"}
    made.policy("exports")
    real = tmp_path / "data" / "exports" / "exports"
    real.mkdir(parents=True)
    (real / "real.json").write_text("real")
    return made


@pytest.fixture
def gate(files: Cli) -> Gate:
    """`gate` with the scenarios that ``plays`` names."""

    def run(*arguments: str, plays: str = "holds", code: int = 0) -> Reply:
        reply = finish(spawn(files, *arguments, plays=plays))
        check_output(reply, arguments)
        assert reply.code == code, reply
        return reply

    return run


def spawn(cli: Cli, *arguments: str, plays: str) -> Child:
    target, line = "support.gate_plays:program", ("gate", *arguments)
    return cli.forks.start(target, line, cwd=cli.folder, env={"GATE_PLAYS": plays})


def waiting(cli: Cli, *arguments: str, plays: str = "holds waits holds") -> Child:
    """A gate in the middle of its second scenario."""
    child = spawn(cli, *arguments, plays=plays)
    until(lambda: (cli.folder / WAITING).exists() or not child.running, what="the second scenario")
    return child


def left(cli: Cli) -> set[str]:
    """The files that are in the store and beside the ledger; a folder store keeps its folders."""
    found = (path for path in cli.folder.rglob("*") if path.is_file())
    return {path.name for path in found if "gate" in str(path.relative_to(cli.folder))}


def findings(cli: Cli) -> dict[str, str]:
    found = cli.json("check")["findings"]
    return {one["code"]: one["message"] for one in found if one["code"].startswith("gate-")}


@pytest.mark.parametrize(
    ("plays", "code", "counts"),
    [
        ("holds", 0, (1, 0, 0)),
        ("holds cannot", 0, (1, 0, 1)),
        ("holds breaks cannot", 1, (1, 1, 1)),
        ("cannot", 1, (0, 0, 1)),
    ],
)
def test_the_exit_status_says_whether_something_holds_and_nothing_fails(
    gate: Gate, files: Cli, plays: str, code: int, counts: tuple[int, int, int]
) -> None:
    found = gate("--json", plays=plays, code=code).json

    assert (found["passed"], found["failed"], found["not_applicable"]) == counts
    assert [one["name"] for one in found["promises"]] == plays.split()
    assert not found["stopped"]
    assert left(files) == set()


def test_what_failed_is_told_with_what_was_found(gate: Gate) -> None:
    said = gate(plays="holds breaks cannot", code=1).out

    assert "failed: answers <b>now</b>: expected 42, found 41" in said
    assert "everything was tried" in said
    assert "bestbefore gate --only breaks" in said
    assert "not applicable: this setup has no questions" in said
    assert "the gate did not pass: 1 passed, 1 failed, 1 not applicable" in said


def test_a_scenario_is_chosen_by_its_name_or_by_its_promise(gate: Gate) -> None:
    for only in (("--only", "holds"), ("--only", "P1"), ("--only", "P1", "--only", "holds")):
        found = gate("--json", *only, plays="holds breaks").json
        assert [one["name"] for one in found["promises"]] == ["holds"]
        assert found["only"] == list(only[1::2])
    assert "there is no scenario held" in gate("--only", "held", code=2).err
    assert gate("--list", "--json", plays="holds breaks").json == [
        {"name": name, "promise": promise, "title": f"It {name}", "needs": "objects"}
        for name, promise in (("holds", "P1"), ("breaks", "P2"))
    ]


def test_reports_are_written_whole_and_refused_before_anything_is_played(
    gate: Gate, files: Cli
) -> None:
    gate("--junit", "gate.xml", "--html", "gate.html", plays="breaks holds", code=1)

    suites = ElementTree.parse(files.folder / "gate.xml").getroot()  # noqa: S314  (our own)
    assert (suites.get("tests"), suites.get("failures")) == ("2", "1")
    page = (files.folder / "gate.html").read_text()
    assert "answers &lt;b&gt;now&lt;/b&gt;" in page
    assert {path.name for path in files.folder.glob("*gate*")} == {"gate.xml", "gate.html"}
    said = gate("--html", "nowhere/gate.html", plays="waits", code=2).err
    assert "nowhere/gate.html cannot be written" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_gate_that_is_stopped_removes_what_it_made_and_says_so(files: Cli, number: int) -> None:
    child = waiting(files, "--json", "--junit", "gate.xml")
    assert left(files) >= {"one.json", "bestbefore.bestbefore_gate.db"}

    child.kill(number)
    reply = finish(child, within=20)

    check_output(reply)
    assert reply.code == 1
    assert (reply.json["stopped"], reply.json["not_played"], reply.json["passed"]) == (True, 2, 1)
    assert left(files) == {"gate.xml"}
    assert 'failures="1"' in (files.folder / "gate.xml").read_text()
    assert "gate-never-passed" in findings(files), "it is no result"
    assert (files.folder / "data" / "exports" / "exports" / "real.json").read_text() == "real"


def test_what_a_killed_gate_left_is_named_removed_on_request_and_then_it_passes(
    gate: Gate, files: Cli
) -> None:
    child = waiting(files)
    child.kill()
    child.wait()

    said = gate(code=2).err
    for place in ("bestbefore.bestbefore_gate.db", "s/exports/bestbefore-gate/"):
        assert place in said
    assert "bestbefore gate --clean" in said
    assert len(gate("--clean", "--json").json["removed"]) == 2
    assert left(files) == set()
    assert gate("--clean", "--json").json == {"removed": []}
    gate()
    assert (files.folder / "data" / "exports" / "exports" / "real.json").read_text() == "real"


def test_check_knows_how_the_last_whole_gate_ended(gate: Gate, files: Cli) -> None:
    assert "gate-never-passed" in findings(files)
    gate("--only", "holds", plays="holds breaks")
    assert "gate-never-passed" in findings(files), "a part of it proves little"

    gate(plays="holds cannot")
    assert ": 1 scenarios passed, 1 not applicable" in findings(files)["gate-passed"]
    gate(plays="holds breaks", code=1)
    assert "it last passed at 20" in findings(files)["gate-failed"]
    files.policy("others", bucket="others")
    (files.folder / "data" / "others").mkdir()
    assert "gate-never-passed" in findings(files), "there is another bucket now"
    del files.policies["others"]
    files.write()
    gate()
    assert set(findings(files)) == {"gate-passed"}


def test_the_document_names_places_and_versions_and_no_secret(gate: Gate, files: Cli) -> None:
    files.store("s3", "http://127.0.0.1:9", ("key-id", "geheim"))

    found = gate("--json").json

    about = found["environment"]
    assert about["state"]["place"].endswith("/bestbefore.db")
    assert about["state"]["server"].startswith("SQLite 3.")
    assert about["stores"]["s"]["buckets"] == ["exports"]
    assert "store-listed" in {finding["code"] for finding in found["findings"]}
    assert "geheim" not in json.dumps(found)


def test_of_a_database_nothing_stays_but_what_was_there(tmp_path: Path, forks: Forks) -> None:
    cli = Cli(tmp_path, forks, "http://127.0.0.1:9")
    del cli.stores["s"]
    cli.extra = '[databases.shop]\nurl = "sqlite:///shop.db"\n'
    cli.write()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")

        assert cli.json("gate", "--only", "duplicate-delivery")["passed"] == 1

        tables = shop.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        assert {name for (name,) in tables} == {"orders", "bestbefore_completed_batches"}
        assert shop.execute("SELECT * FROM bestbefore_completed_batches").fetchall() == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--grant-command", "true"), "expected both, or neither"),
        (("--denied", "nobody"), "there is no store or database nobody"),
        (("--denied", "s"), "expected another of the same place"),
        (
            ("--denied", "s", "--grant-command", "true", "--revoke-command", "true"),
            "but not both",
        ),
    ],
)
def test_rights_that_cannot_be_flipped_are_refused(
    gate: Gate, given: tuple[str, ...], said: str
) -> None:
    assert said in gate(*given, code=2).err
