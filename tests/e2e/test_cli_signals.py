"""SIGTERM and Ctrl-C: what is in hand is finished, the rest given back, and nobody sees a
traceback."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from support.cli import Cli, check_output, fill, finish
from support.faults import Answer, FaultyS3, Request
from support.forks import until

SLOT = "2026-06-01T02:00:00Z"


@contextmanager
def held(
    server: FaultyS3, operation: str, bucket: str = "exports"
) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Keep the answer to the next *operation* until the second event is set, or the end."""
    come, release = threading.Event(), threading.Event()

    def hold(truth: Answer) -> Answer:
        come.set()
        release.wait(60)
        return truth

    def chosen(request: Request) -> bool:
        names = (request.key, *request.keys)
        probe = any(".bestbefore-probe-" in name for name in names)
        return request.bucket == bucket and not probe

    server.fail(operation, hold, after_effect=True, when=chosen)
    try:
        yield come, release
    finally:
        release.set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupted_plan_keeps_its_cursor_and_the_next_one_goes_on(
    cli: Cli, faulty: FaultyS3, number: int
) -> None:
    faulty.page_size = 7
    keys = fill(faulty, 60)
    with held(faulty, "ListObjectsV2") as (come, release):
        child = cli.spawn("plan", "exports", "--slot", SLOT, "--json")
        assert come.wait(30)
        child.kill(number)
        release.set()
        reply = finish(child)
    check_output(reply)
    assert reply.code == 1
    document = reply.json
    assert not document["complete"]
    again = cli.json("plan", "exports", "--slot", SLOT)
    assert again["run_id"] == document["run_id"]
    assert again["complete"]
    assert cli.audit.one("SELECT planned FROM runs") == len(keys)
    assert cli.audit.one("SELECT already_pending FROM runs") == 0
    assert cli.json("work", "--drain")["completed"] == len(keys)


def test_a_worker_that_is_interrupted_finishes_the_batch_in_hand(
    cli: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 4)
    cli("plan", "exports", "--slot", SLOT)
    with held(faulty, "DeleteObjects") as (come, release):
        child = cli.spawn("work", "--json")
        assert come.wait(30)
        child.kill(signal.SIGINT)
        release.set()
        reply = finish(child)
    check_output(reply)
    assert reply.code == 0
    assert reply.json["outcomes"] == {"deleted": 4}
    assert cli.json("runs", "list")[0]["state"] == "drained"


def test_an_interrupted_run_says_that_it_is_incomplete_and_goes_on_later(
    cli: Cli, faulty: FaultyS3
) -> None:
    faulty.page_size = 7
    fill(faulty, 60)
    with held(faulty, "ListObjectsV2") as (come, release):
        child = cli.spawn("run", "exports", "--slot", SLOT, "--json")
        assert come.wait(30)
        child.kill(signal.SIGINT)
        release.set()
        reply = finish(child)
    check_output(reply)
    assert reply.code in (1, 2)
    again = cli.json("run", "exports", "--slot", SLOT)
    assert again["state"] == "drained"
    assert faulty.keys("exports") == set()
    assert cli.audit.problems() == []


def test_an_interrupted_verification_is_no_proof(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 4)
    cli("run", "exports", "--slot", SLOT)
    verified = cli.json("status")["policies"][0]["verified"]
    faulty.page_size = 2
    fill(faulty, 9)
    with held(faulty, "ListObjectsV2") as (come, release):
        child = cli.spawn("verify", "exports")
        assert come.wait(30)
        child.kill(signal.SIGINT)
        release.set()
        reply = finish(child)
    check_output(reply)
    assert reply.code == 1
    assert "stopped before the end" in reply.err
    assert cli.json("status")["policies"][0]["verified"] == verified


@pytest.mark.parametrize("verb", ["plan", "run", "check", "explain"])
def test_an_interrupt_before_anything_was_read_is_no_traceback(
    cli: Cli, faulty: FaultyS3, verb: str
) -> None:
    arguments = {"check": [], "explain": ["exports", "a"]}.get(verb, ["exports"])
    with faulty.stall("GetBucketVersioning"), faulty.stall("HeadObject"):
        child = cli.spawn(verb, *arguments)
        until(lambda: faulty.requests, what="the first request")
        child.kill(signal.SIGINT)
    reply = finish(child)
    check_output(reply, verb)
    assert reply.code in (1, 2), reply


def test_a_second_interrupt_insists(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 2)
    cli("plan", "exports", "--slot", SLOT)
    with held(faulty, "DeleteObjects") as (come, _):
        child = cli.spawn("work")
        assert come.wait(30)
        # Two signals sent at once can arrive as one, so: until it has had enough.
        until(lambda: child.kill(signal.SIGINT) or not child.running, 10, "an end")
    assert child.wait() == 128 + signal.SIGINT
    check_output(finish(child))


def test_sigterm_gives_back_what_hangs_without_charging_it_o_lease_04(
    cli: Cli, faulty: FaultyS3
) -> None:
    """O-LEASE-04: three commands in flight, one ends in time and two hang; no new ones are taken,
    the two are anybody's at once and uncharged, and the process ends within its grace."""
    for name in ("first", "second", "third"):
        cli.policy(name, bucket=name)
        fill(faulty, 1, bucket=name)
    del cli.policies["exports"]
    cli.write()
    for name in cli.policies:
        cli("plan", name, "--slot", SLOT)
    grace = 2.0
    with (
        held(faulty, "DeleteObjects", "first") as (first, release),
        held(faulty, "DeleteObjects", "second") as (second, _),
        held(faulty, "DeleteObjects", "third") as (third, _),
    ):
        worker = cli.forks.start("support.harness:worker", ["8", f"grace={grace}"], cwd=cli.folder)
        for come in (first, second, third):
            assert come.wait(30)
        received = cli.audit.one("SELECT count(*) FROM operations WHERE token IS NOT NULL")
        assert received == 3
        began = time.monotonic()
        worker.kill(signal.SIGTERM)
        release.set()
        assert worker.wait() == 0, worker.said()
        took = timedelta(seconds=time.monotonic() - began)
        check_output(finish(worker))
        assert worker.out.read_text() == "1 0 2\n"
        assert took < timedelta(seconds=grace + 20)  # not until they are answered
        rows = cli.audit.rows(
            "SELECT state, deliveries, token, failure_class, budget FROM operations "
            "WHERE state <> 'completed'"
        )
        assert [tuple(row) for row in rows] == [("pending", 0, None, None, None)] * 2
        # A second worker gets them at once, and finds that the deletes did arrive.
        work = cli.json("work", "--drain")
    assert work["received"] == 2
    assert work["outcomes"] == {"absent": 2}
    assert cli.json("dlq", "list") == []
    assert cli.audit.problems() == []
