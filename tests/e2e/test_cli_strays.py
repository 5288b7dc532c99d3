"""Messages that execute nothing, as a person meets them on the command line."""

import json
from base64 import b64decode
from hashlib import sha256
from typing import Any

import pytest

from bestbefore.contracts.strays import FOREIGN
from support.cli import Cli, fill
from support.faults import FaultyS3
from support.strays import absorb

SLOT = "2026-06-01T02:00:00Z"
NEWER = json.dumps({"v": 99, "kind": "object"}).encode()
OLDER = json.dumps({"kind": "object"}).encode()
BODIES = (*FOREIGN, NEWER, OLDER)


@pytest.fixture
def dead(cli: Cli, faulty: FaultyS3) -> dict[str, Any]:
    """One dead letter of an operation, beside which strays stand."""
    cli.policy("exports", more={"attempts": {"permission": 1}})
    fill(faulty, 1)
    faulty.denied.add("exports/")
    cli("run", "exports", "--slot", SLOT, code=1)
    faulty.denied.clear()
    (letter,) = cli.json("dlq", "list")
    return dict(letter)


def test_a_stray_is_listed_beside_dead_letters_with_the_same_fields(
    cli: Cli, dead: dict[str, Any]
) -> None:
    absorb(cli, *BODIES)
    absorb(cli, FOREIGN[0])

    first, *strays = cli.json("dlq", "list")

    assert first == dead
    by_id = {one["operation_id"]: one for one in strays}
    assert by_id.keys() == {sha256(body).hexdigest() for body in BODIES}
    assert all(one.keys() == dead.keys() for one in strays)
    hello = by_id[sha256(b"hello").hexdigest()]
    assert (hello["policy"], hello["run_id"], hello["owner"]) == (None, None, None)
    assert (hello["command"], hello["failure_class"], hello["attempts"]) == (
        "hello", "malformed", 2,
    )  # fmt: skip
    assert by_id[sha256(b"\xff\xfe\x00").hexdigest()]["command"] == "\\xff\\xfe\0"
    assert "unsupported version 99" in by_id[sha256(NEWER).hexdigest()]["error"]
    assert "expected the version" in by_id[sha256(OLDER).hexdigest()]["error"]
    assert cli.json("dlq", "list", "--limit", "1") == [dead]
    assert len(cli.json("dlq", "list", "--limit", "3")) == 3
    assert cli.json("dlq", "list", "--policy", "exports") == [dead]
    assert len(cli.json("dlq", "list", "--class", "malformed")) == len(BODIES)
    text = cli("dlq", "list").out
    assert "hello" in text
    assert "\\xff\\xfe\\x00" in text


def test_a_stray_is_shown_with_all_its_bytes(cli: Cli, dead: dict[str, Any]) -> None:
    long = b"\xff" * 20_000
    absorb(cli, b"hello", long)

    shown = cli.json("dlq", "show", sha256(long).hexdigest()[:16])

    assert (shown["size"], len(b64decode(shown["body_base64"]))) == (20_000, 16 * 1024)
    assert "20,000 bytes" in shown["command"]
    text = cli("dlq", "show", sha256(b"hello").hexdigest()).out
    assert "executes nothing" in text
    assert "cannot be redriven" in text
    assert "hello" in text


def test_a_redrive_counts_strays_as_refused_and_says_why(
    cli: Cli, faulty: FaultyS3, dead: dict[str, Any]
) -> None:
    """O-DLQ-02: what has no operation stays, with an error."""
    absorb(cli, *FOREIGN)
    name = sha256(b"hello").hexdigest()
    one = cli.json("dlq", "redrive", "--id", name[:20])
    assert (one["redriven"], one["refused"], one["strays"]) == (0, 1, 1)
    assert "no operation is behind" in cli("dlq", "redrive", "--id", name).out
    assert "no operation" in cli("dlq", "redrive", "--id", name, "--set", "key=x", code=2).err
    dry = cli.json("dlq", "redrive", "--all", "--dry-run")
    assert (dry["would_redrive"], dry["refused"], dry["strays"]) == (1, 4, 4)
    superseded = cli.json("dlq", "redrive", "--superseded")
    assert (superseded["redriven"], superseded["refused"]) == (0, 0)

    done = cli.json("dlq", "redrive", "--all")

    assert (done["redriven"], done["refused"], done["strays"]) == (1, 4, 4)
    assert cli.json("work", "--drain")["outcomes"] == {"deleted": 1}
    assert len(cli.json("dlq", "list")) == 4
    assert faulty.keys("exports") == set()


def test_strays_are_discarded_one_by_one_or_together_and_written_down(
    cli: Cli, dead: dict[str, Any]
) -> None:
    absorb(cli, *BODIES)
    name = sha256(b"hello").hexdigest()

    assert cli.json("dlq", "discard", "--id", name, "--reason", "a test of ours") == {
        "discarded": 1, "would_discard": 0,
    }  # fmt: skip
    dry = cli.json("dlq", "discard", "--class", "malformed", "--reason", "x", "--dry-run")
    assert dry == {"discarded": 0, "would_discard": 5}
    assert cli.json("dlq", "discard", "--all", "--reason", "x")["discarded"] == 6
    assert cli.json("dlq", "list") == []
    events = cli.audit.rows("SELECT detail FROM events WHERE action = 'message discarded'")
    assert len(events) == 6
    assert any("a test of ours" in event["detail"] for event in events)


def test_status_says_that_strays_wait(cli: Cli, dead: dict[str, Any]) -> None:
    assert cli.json("status")["strays"] == 0
    absorb(cli, b"hello")
    assert cli.json("status")["strays"] == 1
    assert "1 messages execute nothing" in cli("status").out


def test_a_stray_is_no_operation_of_any_run(cli: Cli, dead: dict[str, Any]) -> None:
    """P11"""
    absorb(cli, *BODIES)
    assert cli.audit.problems() == []
    assert cli.json("runs", "list")[0]["counts"]["dead"] == 1
