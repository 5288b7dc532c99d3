"""BullMQ's own clients for Node and ours on one queue: either reads what the other wrote."""

import json
import os
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bestbefore.adapters.queues.bullmq.transport import job_id
from bestbefore.contracts.transport import message, receive
from bestbefore.ports.transport import Message
from support.bull import Bull
from support.node import NoNode, installed

AT_ONCE = timedelta(0)
MINUTE = timedelta(minutes=1)
_PEER = Path(__file__).parents[1] / "node" / "bullmq" / "peer.js"

Node = Callable[..., list[dict[str, Any]]]


@pytest.fixture(params=["bullmq", "bullmq5"], ids=["bullmq 6", "bullmq 5"])
def node(request: pytest.FixtureRequest, bull: Bull) -> Node:
    """Runs a Node client on the queue of `bull`, and returns what it said."""
    try:
        modules = installed("bullmq") / "node_modules"
    except NoNode as absent:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(absent))

    def run(action: str, **options: object) -> list[dict[str, Any]]:
        where = bull.settings
        given = {"url": where.url, "queue": where.queue, "prefix": where.prefix, **options}
        done = subprocess.run(
            ["node", str(_PEER), request.param, action, json.dumps(given)],
            env=os.environ | {"NODE_PATH": str(modules)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def test_a_job_that_node_adds_is_received(bull: Bull, node: Node) -> None:
    transport = bull.connect().transport
    data = {"v": 1, "key": "exports/größe.json", "n": [1, None, True]}

    (added,) = node("add", jobs=[{"name": "anything", "data": data}])

    (got,) = receive(transport, 1)
    assert json.loads(got.body) == data
    transport.ack([got])
    assert bull.state(added["id"]) == "unknown"


def test_a_job_of_any_json_is_received_as_it_is(bull: Bull, node: Node) -> None:
    """O-MSG-01"""
    transport = bull.connect().transport

    node("add", jobs=[{"name": "odd", "data": data} for data in ("hello", 17, None, ["a"])])

    got = receive(transport, 4, ack=True)
    assert sorted(delivery.body for delivery in got) == [b'"hello"', b"17", b'["a"]', b"null"]


def test_what_is_published_is_worked_on_by_node(bull: Bull, node: Node) -> None:
    transport = bull.connect().transport
    sent = message("a")

    for _ in range(2):  # done by Node it is gone, so it can be published again
        assert list(transport.publish([sent])) == [None]
        (worked,) = node("work", count=1)

        assert worked["id"] == job_id(sent.operation_id)
        assert worked["data"] == json.loads(sent.body)
        assert bull.state(worked["id"]) == "unknown"

    assert transport.receive(1, MINUTE, AT_ONCE) == []


def test_what_is_given_back_reaches_node_as_if_it_had_not_been_tried(
    bull: Bull, node: Node
) -> None:
    """O-LEASE-04"""
    transport = bull.connect().transport
    transport.publish([message("a")])

    for _ in range(3):
        transport.release(receive(transport, 1))

    (worked,) = node("work", count=1)
    assert worked["attempts"] == 0


def test_what_fails_in_node_is_a_dead_letter_until_it_is_published_again(
    bull: Bull, node: Node
) -> None:
    """P10"""
    broker = bull.connect()
    sent = message("a")
    broker.transport.publish([sent])
    node("work", count=1, fail="not my business")
    assert broker.dead_letters is not None

    (dead,) = broker.dead_letters.receive(10, MINUTE, AT_ONCE)
    assert dead.body == sent.body

    assert list(broker.transport.publish([sent])) == [None]
    broker.dead_letters.ack([dead])  # too late: it is no dead letter any more
    assert [got.body for got in receive(broker.transport, 1)] == [sent.body]


def test_the_ids_of_our_jobs_are_ids_to_node(bull: Bull, node: Node) -> None:
    digest = "0123456789" * 6 + "0123"
    assert list(bull.connect().transport.publish([Message(digest, b"{}")])) == [None]
    ours = job_id(digest)

    said = node(
        "add",
        jobs=[
            {"name": "command", "data": {}, "opts": {"jobId": wanted}}
            for wanted in ("17", f"op:{digest}", ours, f"{ours}-2")
        ],
    )

    assert ["error" in one for one in said] == [True, True, False, False]
    assert said[2:] == [{"id": ours}, {"id": f"{ours}-2"}]


def test_check_tells_what_other_clients_run(bull: Bull, node: Node) -> None:
    node("add", jobs=[{"name": "anything", "data": {}}])

    (peers,) = [one for one in bull.connect().findings() if one.code == "bullmq-peers"]

    assert "another client is bullmq:" in peers.message
    assert peers.level == "info"
