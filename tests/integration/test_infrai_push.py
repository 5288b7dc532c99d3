"""Infrai, or what stands in for it, pushes our own messages to a real `serve`: each scheme of
signature that was seen, and an effect that is recorded before it is answered."""

import json
from typing import Any

import pytest

from bestbefore.adapters.queues.infrai import connect, push_to
from bestbefore.ports.transport import Message
from support.cli import Cli
from support.faults import FaultyS3
from support.infrai import Infrai
from support.infrai_documents import VARIANTS
from support.infrai_queue import signed
from support.pushing import messages
from support.served import TRIGGER_SECRET, Served

OLD, NEW, FOREIGN = ("old-" * 10, "new-" * 10, "foreign-" * 5)
HEADERS = {
    1: 'hmac_header = "X-Infrai-Signature"',
    2: 'hmac_header = "x-infrai-signature"',
    3: 'hmac_header = "X-Infrai-Signature"\nhmac_timestamp_header = "X-Infrai-Timestamp"',
    4: 'hmac_header = "X-Signature"\nhmac_timestamp_header = "X-Timestamp"',
    5: 'hmac_header = "X-Webhook-Signature"',
}


def configure(site: Cli, scheme: int) -> None:
    site.extra = (
        f'[serve]\nhmac_secret = ["{NEW}", "{OLD}"]\n{HEADERS[scheme]}\n'
        f'trigger_secret = "{TRIGGER_SECRET}"\n'
    )
    site.write()


def publish(infrai: Infrai, said: list[dict[str, Any]]) -> None:
    broker = connect(infrai.settings("work"))
    out = [
        Message(one["operation_id"], json.dumps(one, separators=(",", ":")).encode())
        for one in said
    ]
    assert list(broker.transport.publish(out)) == [None] * len(out)
    broker.close()


@pytest.mark.parametrize("scheme", HEADERS)
def test_what_is_pushed_with_a_signature_is_executed_recorded_and_then_answered(
    cli: Cli, faulty: FaultyS3, infrai: Infrai, scheme: int
) -> None:
    configure(cli, scheme)
    infrai.queue("work")
    said = messages(cli, faulty, 3)
    publish(infrai, said)
    with Served(cli, "--no-work") as there:
        push_to(infrai.settings("work"), f"{there.url}/v1/push", OLD)

        assert infrai.queues.deliver("work", scheme) == [200] * 3

        assert faulty.keys("exports") == set()
        assert infrai.queues.queues["work"].messages == {}
        for one in said:
            operation = there.json(f"/v1/operations/{one['operation_id']}")
            assert operation["outcome"] == "deleted"


@pytest.mark.parametrize("kind", ["text", "short"])
@pytest.mark.parametrize("bare", [False, True])
def test_payloads_are_read_as_objects_and_as_texts_with_and_without_an_envelope(
    cli: Cli, faulty: FaultyS3, kind: str, bare: bool
) -> None:
    configure(cli, 1)
    with Infrai(VARIANTS[kind]) as infrai, Served(cli, "--no-work") as there:
        infrai.queue("work")
        publish(infrai, messages(cli, faulty, 1))
        push_to(infrai.settings("work"), f"{there.url}/v1/push", NEW)

        assert infrai.queues.deliver("work", 1, bare=bare) == [200]

        assert faulty.keys("exports") == set()


def test_what_is_not_signed_by_us_executes_nothing_and_becomes_a_dead_letter_of_theirs(
    cli: Cli, faulty: FaultyS3, infrai: Infrai
) -> None:
    configure(cli, 4)
    infrai.queue("work", max_retries=1)
    publish(infrai, messages(cli, faulty, 1))
    with Served(cli, "--no-work") as there:
        push_to(infrai.settings("work"), f"{there.url}/v1/push", FOREIGN)

        assert infrai.queues.deliver("work", 4) == [401]
        assert infrai.queues.deliver("work", 1) == [401]

    assert faulty.keys("exports") == {"exports/00000.json"}
    assert len(infrai.queues.queues["work-dead"].messages) == 1


@pytest.mark.parametrize("scheme", [3, 4])
def test_a_captured_push_is_refused_when_it_comes_again_or_late(
    cli: Cli, faulty: FaultyS3, infrai: Infrai, scheme: int
) -> None:
    configure(cli, scheme)
    (one,) = messages(cli, faulty, 1)
    body, at = json.dumps({"message_id": "m", "payload": one}).encode(), int(infrai.now())
    with Served(cli, "--no-work") as there:

        def push(when: int) -> int:
            headers = signed(body, NEW, scheme, when)
            return there.http.post("/v1/push", content=body, headers=headers).status_code

        assert push(at - 400) == 401
        assert push(at) == 200
        assert push(at) == 409
        assert push(at + 1) == 200  # delivered again, and signed again: done already


def test_a_duplicate_is_answered_as_done(cli: Cli, faulty: FaultyS3, infrai: Infrai) -> None:
    configure(cli, 1)
    infrai.queue("work")
    said = messages(cli, faulty, 1)
    publish(infrai, said)
    infrai.queues.publish({"queue": "work", "payload": said[0]})
    with Served(cli, "--no-work") as there:
        push_to(infrai.settings("work"), f"{there.url}/v1/push", NEW)

        assert infrai.queues.deliver("work", 1) == [200, 200]

    assert cli.audit.one("SELECT count(*) FROM operations WHERE outcome = 'deleted'") == 1
    assert cli.audit.problems() == []


def test_a_time_beside_a_standard_signature_is_refused_in_the_file(cli: Cli) -> None:
    cli.extra = f'[serve]\nhmac_secret = "{NEW}"\nhmac_timestamp_header = "x-timestamp"\n'
    cli.write()

    refused = cli("serve", code=2)

    assert "serve.hmac_timestamp_header" in refused.err
    assert "webhook-timestamp" in refused.err
