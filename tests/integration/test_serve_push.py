"""`POST /v1/push` by a real process: what the ledger holds is executed, and nothing else."""

import json
from datetime import datetime
from typing import Any

import pytest

from bestbefore.domain.command import ObjectCommand
from bestbefore.domain.message import read
from support.cli import Cli
from support.faults import FaultyS3, error
from support.pushing import SLOT, change, messages
from support.served import Served, signed

FUTURE = 4_000_000_000_000_000


def test_a_pushed_command_is_executed_once_and_answered_when_that_is_recorded(
    site: Cli, faulty: FaultyS3
) -> None:
    first, second, *_ = messages(site, faulty, 3)
    with Served(site, "--no-work") as there:
        done = there.post("/v1/push", json=first)
        assert done.status_code == 200, done.text
        assert done.json() == {
            "operation_id": first["operation_id"], "state": "completed", "outcome": "deleted",
        }  # fmt: skip
        assert first["key"] not in faulty.keys("exports")
        operation = there.json(f"/v1/operations/{first['operation_id']}")
        assert operation["outcome"] == "deleted"

        again = there.post("/v1/push", json=first)
        assert (again.status_code, again.json()) == (200, done.json())
        body = json.dumps(second).encode()
        by_signature = there.http.post("/v1/push", content=body, headers=signed(body, "m1"))
        assert by_signature.status_code == 200
        assert len(faulty.keys("exports")) == 1  # what nobody pushed
    assert site.audit.problems() == []


def test_o_guard_03_what_is_not_exactly_what_the_ledger_holds_executes_nothing(
    site: Cli, faulty: FaultyS3
) -> None:
    (message,) = messages(site, faulty, 1)
    faulty.put("exports", "exports/other.json", b"x")
    unknown = message | {"policy_version": "v2"}
    with Served(site, "--no-work") as there:
        for changed, status in [
            (message | {"key": "exports/other.json"}, 422),
            (message | {"action": "archive"}, 422),
            (message | {"kind": "rows"}, 422),
            (message | {"operation_id": "0" * 64}, 422),
            (message | {"mode": "permanent"}, 422),
            (unknown, 422),
        ]:
            answer = there.post("/v1/push", json=changed)
            assert (answer.status_code, changed) == (status, changed), answer.text
        for raw in (b"", b"[]", b"{", b"\xff", b"[" * 5_000, b"x" * 70_000):
            answer = there.post("/v1/push", content=raw)
            assert answer.status_code in (413, 422), raw[:10]
        assert len(faulty.keys("exports")) == 2
        assert [r for r in faulty.requests if r.operation.startswith("Delete")] == []
    assert site.audit.one("SELECT state FROM operations") == "pending"


def test_a_command_of_an_operation_the_ledger_never_had_is_not_found(
    cli: Cli, faulty: FaultyS3
) -> None:
    example = {
        "v": 1, "kind": "object", "policy": "exports", "policy_version": "v1", "slot": SLOT,
        "action": "delete", "bucket": "exports", "key": "exports/never.json", "etag": "e",
        "last_modified": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    faulty.put("exports", "exports/never.json", b"x")
    command = _with_id(example)
    assert read(json.dumps(command).encode()).operation_id == command["operation_id"]
    with Served(cli, "--no-work") as there:
        assert there.post("/v1/push", json=command).status_code == 404
        assert len(faulty.keys("exports")) == 1


def _with_id(fields: dict[str, Any]) -> dict[str, Any]:
    command = ObjectCommand(
        fields["policy"],
        fields["policy_version"],
        datetime.fromisoformat(fields["slot"]),
        fields["action"],
        fields["bucket"],
        fields["key"],
        fields["etag"],
        datetime.fromisoformat(fields["last_modified"]),
    )
    return fields | {"operation_id": command.operation_id}


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"due_at": FUTURE, "token": 7}, 409),  # in a worker's hands
        ({"due_at": FUTURE}, 503),  # a retry, or held
        ({"state": "waiting", "due_at": None}, 503),  # not released
    ],
)
def test_what_may_not_be_done_now_says_when_to_push_it_again(
    cli: Cli, faulty: FaultyS3, values: dict[str, Any], status: int
) -> None:
    (message,) = messages(cli, faulty, 1)
    change(cli, **values)
    with Served(cli, "--no-work") as there:
        answer = there.post("/v1/push", json=message)
        assert answer.status_code == status
        assert int(answer.headers["retry-after"]) >= 1
        assert len(faulty.keys("exports")) == 1


def test_a_paused_policy_and_a_failing_store_leave_it_to_be_pushed_again(
    cli: Cli, faulty: FaultyS3
) -> None:
    (message,) = messages(cli, faulty, 1)
    with Served(cli, "--no-work") as there:
        assert there.post("/v1/pauses", json={"reason": "audit"}).status_code == 201
        assert there.post("/v1/push", json=message).status_code == 503
        assert there.ask("DELETE", "/v1/pauses").json()["resumed"]
        assert len(faulty.keys("exports")) == 1

        faulty.fail("DeleteObjects", error(503, "ServiceUnavailable"))
        faulty.fail("DeleteObject", error(503, "ServiceUnavailable"))
        answer = there.post("/v1/push", json=message)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        operation = there.json(f"/v1/operations/{message['operation_id']}")
        assert operation["state"] == "pending"
        assert len(operation["attempts"]) == 1


def test_a_dead_letter_is_left_to_a_person_who_redrives_it(site: Cli, faulty: FaultyS3) -> None:
    (message,) = messages(site, faulty, 1)
    faulty.denied.add(message["key"])
    name = message["operation_id"]
    with Served(site, "--no-work") as there:
        assert there.post("/v1/push", json=message).status_code == 409
        (letter,) = there.json("/v1/dead-letters")["dead_letters"]
        assert letter["failure_class"] == "permission"
        assert there.json(f"/v1/dead-letters/{name}")["history"]
        assert there.post("/v1/push", json=message).status_code == 409

        faulty.denied.clear()
        which = {"ids": [name]}
        dry = there.post("/v1/dead-letters/redrive", json=which | {"dry_run": True}).json()
        assert (dry["redriven"], dry["would_redrive"]) == (0, 1)
        assert there.post("/v1/dead-letters/redrive", json=which).json()["redriven"] == 1
        assert there.post("/v1/push", json=message).status_code == 200
        assert there.json("/v1/dead-letters")["dead_letters"] == []
    assert site.audit.problems() == []
