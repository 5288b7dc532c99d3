"""Input that is out to hurt: bytes that are no text, terminals that know no Unicode, pipes that
close, commands that run into each other."""

import os
import socket
import subprocess

import pytest

from support.cli import EXECUTABLE, Cli, check_output, fill, finish
from support.faults import FaultyS3, error
from support.forks import until

SLOT = "2026-06-01T02:00:00Z"
NO_TEXT = os.fsdecode(b"exports/\xff\xfe.json")


@pytest.mark.parametrize(
    "command",
    [
        ["explain", "exports", NO_TEXT],
        ["runs", "show", NO_TEXT],
        ["runs", "approve", NO_TEXT],
        ["runs", "list", "--policy", NO_TEXT],
        ["dlq", "show", NO_TEXT],
        ["dlq", "list", "--policy", NO_TEXT],
        ["dlq", "redrive", "--policy", NO_TEXT],
        ["dlq", "discard", "--all", "--reason", NO_TEXT],
        ["export", "--policy", NO_TEXT],
        ["export", "--run", NO_TEXT],
        ["plan", NO_TEXT],
        ["pause", "exports", "--reason", NO_TEXT],
        ["runs", "show", "\x1b[31mred\nline"],
        ["plan", "\x1b[31mred"],
        ["dlq", "show", "\x1b[31mred"],
        ["explain", "\x1b[31mred", "key"],
        ["status", "--config", "\x1b[31mred.toml"],
    ],
    ids=lambda command: " ".join(command[:2]).encode("ascii", "backslashreplace").decode(),
)
def test_an_argument_that_is_no_text_is_no_traceback(cli: Cli, command: list[str]) -> None:
    cli("status")
    cli(*command, code=None)


def test_a_correction_to_a_key_that_is_no_text_is_refused(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 1)
    faulty.denied.add("exports/")
    cli("run", "exports", code=1)
    (letter,) = cli.json("dlq", "list")
    wanted = ("dlq", "redrive", "--id", letter["operation_id"], "--set")
    assert "not valid Unicode" in cli(*wanted, f"key={NO_TEXT}", code=2).err


def test_what_a_store_says_cannot_play_tricks_on_a_terminal(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 2)
    bad = error(403, "AccessDenied", message="go away&#10;bestbefore: all is well&#9;&#x85;")
    faulty.fail("GetBucketVersioning", bad)
    said = cli("plan", "exports", code=2).err
    assert [line for line in said.splitlines() if line.startswith("bestbefore:")] == [
        line for line in said.splitlines() if "go away" in line
    ]
    cli("plan", "exports")
    gone = error(404, "NoSuchBucket", message="gone&#10;ERROR: forged&#9;")
    faulty.fail("DeleteObjects", gone, times=9, when=lambda _: True)
    reply = cli("work", "--drain", code=1)
    assert not any(line.startswith("ERROR: forged") for line in reply.err.splitlines())
    cli("status")
    cli("dlq", "list")
    cli("dlq", "show", cli.json("dlq", "list")[0]["operation_id"])


def test_a_slot_with_a_fraction_of_a_second_is_the_slot_of_its_second(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 2)
    first = cli.json("plan", "exports", "--slot", SLOT)
    again = cli.json("plan", "exports", "--slot", SLOT.replace("00Z", "00.5Z"))
    assert again["run_id"] == first["run_id"]
    assert again["repeated"]
    local = cli.json("plan", "exports", "--slot", "2026-06-01T04:00:00+02:00")
    assert local["run_id"] == first["run_id"]


def test_a_terminal_that_knows_few_characters_gets_escapes_for_the_others(
    cli: Cli, faulty: FaultyS3
) -> None:
    faulty.put("exports", "exports/größe-中.json")
    run_id = cli.json("plan", "exports")["run_id"]
    done = subprocess.run(
        [EXECUTABLE, "runs", "show", run_id],
        cwd=cli.folder,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"gr\xf6\xdfe-\\u4e2d" in done.stdout
    assert b"Traceback" not in done.stderr


def test_a_reader_that_closes_the_pipe_early_is_no_traceback(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 600)
    cli("plan", "exports")
    done = subprocess.run(
        ["/bin/sh", "-c", f"'{EXECUTABLE}' export | head -n 1"],
        cwd=cli.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_two_runs_at_once_are_one_run(cli: Cli, faulty: FaultyS3) -> None:
    """P5: two crontabs, one slot."""
    fill(faulty, 300)
    faulty.page_size = 20
    children = [cli.spawn("run", "exports", "--slot", SLOT, "--json") for _ in range(2)]
    replies = [finish(child) for child in children]
    for reply in replies:
        check_output(reply)
        assert reply.code == 0, reply
    documents = [reply.json for reply in replies]
    assert len({document["plan"]["run_id"] for document in documents}) == 1
    assert sum(document["work"]["completed"] for document in documents) == 300
    assert faulty.keys("exports") == set()
    assert cli.audit.one("SELECT count(*) FROM runs") == 1
    assert cli.audit.problems() == []


def test_a_store_nobody_answers_for_does_not_hold_up_another(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 30)
    with FaultyS3() as sick:
        cli.store("sick", sick.endpoint, ("key-id", "secret"))
        cli.policy("sick", store="sick", bucket="exports")
        fill(sick, 30)
        cli("plan", "sick")
        cli("plan", "exports")
    # The sick one is gone now; its port is nobody else's.
    with socket.socket() as port, cli.start("work"):
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port.bind(("127.0.0.1", int(sick.endpoint.rpartition(":")[2])))
        until(lambda: not faulty.keys("exports"), what="the healthy store")
        until(
            lambda: cli.audit.one("SELECT count(*) FROM operations WHERE state = 'completed'") == 30
        )
    assert cli.json("dlq", "list") == []


def test_a_worker_takes_up_what_is_planned_while_it_runs(cli: Cli, faulty: FaultyS3) -> None:
    with cli.start("work") as worker:
        fill(faulty, 5)
        cli("plan", "exports", "--slot", SLOT)
        until(lambda: not faulty.keys("exports"), what="the first plan")
        fill(faulty, 5, "exports/more-")
        cli("plan", "exports")
        until(lambda: not faulty.keys("exports"), what="the second plan")
        assert worker.running


def test_a_run_that_is_cancelled_while_a_planner_writes_it_stays_cancelled(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 60)
    faulty.page_size = 7
    with faulty.stall("ListObjectsV2"):
        child = cli.spawn("plan", "exports", "--slot", SLOT)
        (run,) = until(lambda: cli.json("runs", "list"), what="a run")
        assert run["state"] in ("planning", "open")
        cli("runs", "cancel", run["run_id"])
    reply = finish(child)
    check_output(reply)
    assert reply.code in (1, 2)
    assert cli.json("runs", "show", run["run_id"])["state"] == "cancelled"
    assert cli.json("work", "--drain")["completed"] == 0
    assert len(faulty.keys("exports")) == 60
    assert cli.audit.problems() == []
