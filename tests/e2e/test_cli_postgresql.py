"""The command line with its state on PostgreSQL, and the way there."""

import gzip
import json
import signal
from pathlib import Path

import pytest
import sqlalchemy as sa

from bestbefore.adapters.state.database import NEWEST
from bestbefore.adapters.state.schema import metadata
from bestbefore.app.settings import load
from support.cli import Cli, fill
from support.docs import commands, configurations
from support.faults import FaultyS3
from support.forks import Forks, until
from support.proxy import Proxy

SLOT = "2026-06-01T02:00:00Z"
TABLES = [table.name for table in metadata.sorted_tables]


@pytest.fixture
def there(tmp_path: Path, forks: Forks, faulty: FaultyS3, empty_url: str) -> Cli:
    """The command line with its state in an empty schema."""
    (tmp_path / "there").mkdir()
    made = Cli(tmp_path / "there", forks, faulty.endpoint, state=empty_url)
    made.policy("exports", more={"attempts": {"permission": 1, "unknown": 1}})
    faulty.buckets.add("exports")
    return made


def test_from_plan_to_proof_with_a_dead_letter_on_the_way(there: Cli, faulty: FaultyS3) -> None:
    keys = fill(faulty, 30)
    faulty.denied.add(keys[3])

    assert there.json("plan", "exports", "--dry-run")["waiting"] == 30
    planned = there.json("plan", "exports", "--slot", SLOT)
    assert (planned["published"], planned["state"]) == (30, "open")
    assert there.json("plan", "exports", "--slot", SLOT)["repeated"]
    (policy,) = there.json("status")["policies"]
    assert (policy["backlog"], policy["dead"], policy["overdue"]) == (30, 0, 30)

    worked = there.json("work", "--drain", code=1)
    assert worked["outcomes"] == {"deleted": 29}
    assert worked["left"] == {"dead": 1}
    (letter,) = there.json("dlq", "list")
    assert letter["command"]["key"] == keys[3]
    faulty.denied.clear()
    assert there.json("dlq", "redrive", "--class", "permission")["redriven"] == 1
    assert there.json("work", "--drain")["outcomes"] == {"deleted": 1}

    assert there.json("verify", "exports")["overdue"] == 0
    assert there.json("runs", "show", planned["run_id"])["state"] == "drained"
    assert len(there("export").lines) == 30
    assert there.audit.problems() == []
    assert faulty.keys("exports") == set()


def test_a_worker_that_idles_for_long_is_woken_by_a_plan_elsewhere(
    there: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 3)
    there("status")
    with there.start("work") as worker:
        there("plan", "exports")
        until(lambda: faulty.keys("exports") == set(), what="the deletion")
        worker.kill(signal.SIGTERM)
        assert worker.wait() == 0, worker.said()


def test_the_page_about_postgresql_can_be_typed(
    tmp_path: Path, forks: Forks, faulty: FaultyS3, empty_url: str
) -> None:
    """Into a ledger that was moved there, as the last block says, from a file."""
    *everyday, move = commands("postgresql.md")
    assert [line[0] for line in everyday] == ["plan", "work", "status"]
    cli = Cli(tmp_path, forks, faulty.endpoint)
    cli.policy("weekly-digest-exports")
    fill(faulty, 5)
    cli("status")

    assert move[:3] == ["state", "move", "--to"]
    assert empty_url.partition("?")[0] in cli(*move[:3], empty_url).out

    cli.state = empty_url
    cli.write()
    for line in everyday:
        cli(*line)
    assert faulty.keys("exports") == set()


def test_the_configurations_on_the_page_are_valid(tmp_path: Path) -> None:
    for text in configurations("postgresql.md"):
        (tmp_path / "bestbefore.toml").write_text(text)
        assert load(tmp_path / "bestbefore.toml", {}).state.url.startswith("postgresql+psycopg://")


def test_an_address_where_nobody_listens_ends_at_once_without_its_password(cli: Cli) -> None:
    cli.state = "postgresql+psycopg://me:geheim@127.0.0.1:1/d"
    cli.write()

    said = cli("status", code=2).err

    assert said.startswith("bestbefore: state database postgresql+psycopg://me:***@127.0.0.1:1/d: ")
    assert "geheim" not in said
    assert said.count("\n") == 1


def test_a_worker_waits_for_a_server_that_is_away_and_goes_on(
    there: Cli, faulty: FaultyS3, empty_url: str
) -> None:
    """Nothing is charged for it, and who is told to stop meanwhile stops."""
    url = sa.make_url(empty_url)
    with Proxy((str(url.host), url.port or 5432)) as proxy:
        through = Cli(there.folder, there.forks, faulty.endpoint)
        through.policies = there.policies
        through.state = url.set(host="127.0.0.1", port=proxy.port).render_as_string(False)
        through.write()
        with through.start("work") as worker:
            fill(faulty, 3)
            through("plan", "exports", "--slot", SLOT)
            until(lambda: faulty.keys("exports") == set(), what="the first deletion")
            proxy.go()
            until(lambda: "out of reach, waiting" in worker.said(), what="the worker to notice")
            assert "state database postgresql" in through("status", code=2).err
            proxy.come()
            fill(faulty, 4, prefix="exports/more-")
            through("plan", "exports", "--slot", "2026-06-02T02:00:00Z")
            until(lambda: faulty.keys("exports") == set(), what="the second deletion")
            until(
                lambda: through.json("runs", "list")[0]["state"] == "drained",
                what="the end of the run",
            )
            proxy.go()
            worker.kill(signal.SIGTERM)
            assert worker.wait(20) in (0, 2), worker.said()
            assert "Traceback" not in worker.said()
        there.write()
        assert there.audit.problems() == []
        assert there.audit.one("SELECT count(*) FROM failures") == 0
        proxy.come()


# -- moving ----------------------------------------------------------------------------------


def _lived(cli: Cli, faulty: FaultyS3) -> list[str]:
    """A ledger with something of everything; returns the keys that are still to go."""
    keys = fill(faulty, 12)
    faulty.denied.add(keys[0])
    cli("plan", "exports", "--slot", SLOT)
    cli("work", "--drain", code=1)
    cli("verify", "exports", code=1)
    cli("pause", "exports", "--reason", "look first")
    more = fill(faulty, 8, prefix="exports/more-\N{SYMBOL FOR NULL}-")
    cli.policy("parked", prefix="exports/more", prefix_is_literal=True, more={"max_deletes": 3})
    cli("plan", "parked", "--slot", SLOT, code=1)
    cli("plan", "exports", "--slot", "2026-06-02T02:00:00Z")
    return [keys[0], *more]


def test_a_ledger_moves_with_all_it_knows_and_work_goes_on_there(
    cli: Cli, faulty: FaultyS3, empty_url: str
) -> None:
    left = _lived(cli, faulty)
    before, exported, status = cli.audit.contents(), cli("export").out, cli.json("status")
    here = cli.audit

    moved = cli.json("state", "move", "--to", empty_url)

    assert moved["rows"] == {table: len(before[table]) for table in TABLES}
    assert moved["moved_to"].startswith("postgresql+psycopg://")
    again = cli.json("state", "move", "--to", empty_url)
    assert again == moved, "harmless to repeat"
    said = cli("work", "--drain", code=2).err
    assert "its contents moved to postgresql+psycopg://" in said
    assert "write that URL" in said
    assert {table: rows for table, rows in here.contents().items() if table not in (
        "pauses", "alembic_version")} == {table: rows for table, rows in before.items()
        if table not in ("pauses", "alembic_version")}, "the file stays as it is"  # fmt: skip

    there = Cli(cli.folder, cli.forks, faulty.endpoint, state=empty_url)
    there.stores, there.policies = cli.stores, cli.policies
    there.write()
    assert there("export").out == exported
    # As large as another database makes it, and else the same.
    other = there.json("status")
    assert other["state"]["operations"] == status["state"]["operations"]
    apart: dict[str, object] = {"policies": [], "state": {}}
    assert other | apart == status | apart
    assert there.audit.problems() == []
    there("resume", "exports")
    faulty.denied.clear()
    parked = next(run for run in there.json("runs", "list") if run["state"] == "parked")
    there("runs", "approve", parked["run_id"])
    assert there.json("dlq", "redrive", "--all")["redriven"] == 1
    there("work", "--drain")
    assert faulty.keys("exports") & set(left) == set()
    fill(faulty, 2, prefix="exports/new-")
    assert there.json("run", "exports", "--yes")["state"] == "drained", "new rows get new keys"
    assert there.audit.problems() == []


def test_a_process_that_had_the_old_file_open_deletes_nothing_from_it_any_more(
    cli: Cli, faulty: FaultyS3, empty_url: str
) -> None:
    cli("pause", "--reason", "moving")
    keys = fill(faulty, 5)
    with cli.start("work") as worker:
        cli("plan", "exports", "--slot", SLOT)
        cli("state", "move", "--to", empty_url)
        there = Cli(cli.folder, cli.forks, faulty.endpoint, state=empty_url)
        there.policies = cli.policies
        there.write()
        there("resume")
        asked = len(faulty.requests)
        assert there.json("work", "--drain")["completed"] == 5
        assert faulty.keys("exports") & set(keys) == set()
        assert len(faulty.requests) > asked
        worker.kill(signal.SIGTERM)
        assert worker.wait() == 0
        assert "worked on 0 commands" in worker.out.read_text()
    assert cli.audit.one("SELECT count(*) FROM operations WHERE state = 'completed'") == 0


def test_a_ledger_somebody_works_on_does_not_move(
    cli: Cli, faulty: FaultyS3, forks: Forks, empty_url: str
) -> None:
    fill(faulty, 3)
    cli("plan", "exports", "--slot", SLOT)
    with cli.audit.writing() as connection:
        connection.execute("COMMIT")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "UPDATE operations SET state = 'pending', token = 1, due_at = 9e15 WHERE id = 1"
        )
        connection.execute("COMMIT")
        connection.execute("BEGIN")
    before = cli.audit.contents()

    said = cli("state", "move", "--to", empty_url, code=2).err

    assert "1 commands are in the hands of workers" in said
    assert "stop every process" in said
    assert cli.audit.contents() == before


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("sqlite:///other.db", "a ledger moves from SQLite to PostgreSQL"),
        ("postgresql://me:geheim@h/d", "expected postgresql+psycopg://…"),
        ("postgresql+psycopg://me:geheim@h", "expected the name of a database"),
        ("postgresql+psycopg://me:geheim@127.0.0.1:1/d", "me:***@127.0.0.1:1/d"),
        ("nonsense", 'found "nonsense"'),
    ],
)
def test_a_target_that_cannot_be_is_refused_and_nothing_changes(
    cli: Cli, to: str, expected: str
) -> None:
    cli("status")
    before = cli.audit.contents()

    said = cli("state", "move", "--to", to, code=2).err

    assert expected in said
    assert "geheim" not in said
    assert cli.audit.contents() == before


def test_there_has_to_be_a_ledger_and_it_has_to_be_a_file(cli: Cli, empty_url: str) -> None:
    (cli.folder / "bestbefore.db").unlink()
    assert "there is no ledger at" in cli("state", "move", "--to", empty_url, code=2).err
    assert not (cli.folder / "bestbefore.db").exists()
    cli.state = empty_url
    cli.write()
    assert "is no SQLite file" in cli("state", "move", "--to", empty_url, code=2).err


@pytest.mark.parametrize(
    ("instant", "source_works"),
    [
        (("_copy", "operations"), True),  # in the middle of the copy
        (("_pause",), True),  # the copy is committed, the file is not marked
        (("_set_version", NEWEST), False),  # the file is marked, the copy is not open
    ],
    ids=["copying", "copied", "marked"],
)
def test_a_move_that_is_killed_leaves_one_ledger_and_can_be_repeated(
    cli: Cli,
    faulty: FaultyS3,
    empty_url: str,
    instant: tuple[str, ...],
    source_works: bool,
) -> None:
    _lived(cli, faulty)
    before, exported = cli.audit.contents(), cli("export").out
    child = cli.forks.start("support.harness:dying_move", [empty_url, *instant], cwd=cli.folder)
    assert child.wait() == -signal.SIGKILL, child.said()

    there = Cli(cli.folder, cli.forks, faulty.endpoint, state=empty_url)
    there.policies = cli.policies
    there.write()
    if instant[0] == "_copy":
        assert there.json("runs", "list") == [], "the target is empty"
    else:
        assert "repeat `bestbefore state move`" in there("status", code=2).err
    cli.write()
    if source_works:
        assert cli("export").out == exported
    else:
        assert "moved to" in cli("export", code=2).err

    moved = cli.json("state", "move", "--to", empty_url)

    assert moved["rows"] == {table: len(before[table]) for table in TABLES}
    there.write()
    assert there("export").out == exported


def test_what_an_unfinished_move_of_another_ledger_left_is_not_thrown_away(
    cli: Cli, faulty: FaultyS3, forks: Forks, tmp_path: Path, empty_url: str
) -> None:
    _lived(cli, faulty)
    child = cli.forks.start("support.harness:dying_move", [empty_url, "_pause"], cwd=cli.folder)
    assert child.wait() == -signal.SIGKILL, child.said()
    (tmp_path / "other").mkdir()
    other = Cli(tmp_path / "other", forks, faulty.endpoint)
    other.policy("exports")
    other("plan", "exports", "--slot", SLOT)

    said = other("state", "move", "--to", empty_url, code=2).err

    assert "a move into it was not finished" in said
    assert cli.json("state", "move", "--to", empty_url)["rows"]["runs"] == 3


def test_what_is_old_goes_to_a_folder_beside_the_configuration(
    there: Cli, faulty: FaultyS3, empty_url: str
) -> None:
    keys = fill(faulty, 12)
    faulty.denied.add(keys[3])
    there("run", "exports", code=1)
    engine = sa.create_engine(empty_url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE operations SET completed_at = completed_at - 43200000000000")
        )
    before = [line for line in there("export").lines if line["key"] != keys[3]]
    file = there.folder / "bestbefore.toml"
    file.write_text(file.read_text().replace("[state]\n", '[state]\nkeep = "400d"\n'))

    there("work", "--drain", code=1)

    (evidence,) = (there.folder / "bestbefore-evidence").rglob("operations-*.jsonl.gz")
    with gzip.open(evidence, "rt") as lines:
        assert [json.loads(line) for line in lines] == before
    assert [line["state"] for line in there("export").lines] == ["dead"]
    state = there.json("status")["state"]
    assert (state["operations"], state["pruned"]) == (1, 11)
    assert state["bytes"] > 0
    assert there.audit.problems() == []
