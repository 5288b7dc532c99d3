"""How Infrai is called, against a stand-in: retries, refusals, discovery, and drift from it."""

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from bestbefore.adapters.infrai import Drift, InfraiClient, InfraiError, InfraiSettings, Shape, Use
from bestbefore.adapters.queues.infrai.uses import ACK, CONSUME, CREATE, LIST, PUBLISH, STATS
from bestbefore.domain.failure import FailureClass
from support.clock import NOW, ManualClock
from support.infrai import KEY, Infrai, Reply, no_credit, page, refusal, throttled

VALUES: dict[str, Any] = {"queue": "work", "object": {"a": 1}, "text": '{"a":1}'}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client(infrai: Infrai, clock: ManualClock) -> Iterator[InfraiClient]:
    infrai.queue("work")
    made = InfraiClient(InfraiSettings(KEY, infrai.base_url), clock, spread=lambda: 0.5)
    yield made
    made.close()


def failed(client: InfraiClient, use: Use = PUBLISH, **more: Any) -> InfraiError:
    """What a call fails with."""
    with pytest.raises(InfraiError) as caught:
        client.call(use, VALUES, **more)
    return caught.value


# -- keys, discovery, the envelope -------------------------------------------------------------


def test_discovery_is_asked_once_and_without_a_key_and_the_call_with_it(
    client: InfraiClient, infrai: Infrai
) -> None:
    for number in range(3):
        client.call(PUBLISH, VALUES, key=f"k{number}")

    (discovery,) = infrai.asked("discovery/queue.publish")
    assert "authorization" not in discovery.headers
    assert [one.headers["authorization"] for one in infrai.asked("queue.publish")] == [
        f"Bearer {KEY}"
    ] * 3


def test_a_key_goes_along_only_where_discovery_says_so(
    client: InfraiClient, infrai: Infrai
) -> None:
    infrai.documents["queue.publish"]["idempotent"] = False

    client.call(PUBLISH, VALUES, key="k")

    (asked,) = infrai.asked("queue.publish")
    assert "idempotency-key" not in asked.headers


def test_the_same_key_for_something_else_is_surfaced(client: InfraiClient) -> None:
    client.call(PUBLISH, VALUES, key="k")

    error = None
    try:
        client.call(PUBLISH, VALUES | {"object": {"a": 2}}, key="k")
    except InfraiError as caught:
        error = caught

    assert error is not None
    assert (error.status, error.code) == (409, "IDEMPOTENCY_CONFLICT")


def test_an_answer_without_an_envelope_is_read_all_the_same(
    client: InfraiClient, infrai: Infrai
) -> None:
    infrai.answer("queue.list", Reply(200, b'[{"name": "work"}]'))
    assert client.call(LIST, {}) == [{"name": "work"}]
    infrai.answer("queue.list", Reply(200, b'{"items": []}'))
    assert client.call(LIST, {}) == {"items": []}
    infrai.answer("queue.list", Reply(204, b""))
    assert client.call(LIST, {}) is None


def test_a_success_that_says_it_is_none_is_none(client: InfraiClient, infrai: Infrai) -> None:
    body = {"ok": False, "data": None, "error": {"code": "ODD", "message": "no"}}
    infrai.answer("queue.list", Reply(200, json.dumps(body).encode()))

    with pytest.raises(InfraiError, match="status 200 ODD: no"):
        client.call(LIST, {})


# -- retries -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ("120", 120, 132),
        (format_datetime(NOW + timedelta(minutes=2), usegmt=True), 120, 132),
        ("0", 0, 0),
        ("-5", 1, 2),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 1, 2),
        ("soon", 1, 2),
        (None, 1, 2),
        ("9999999999", 900, 990),
    ],
)
def test_o_retry_01_and_02_retry_after_is_believed_in_both_forms_and_capped(
    client: InfraiClient,
    infrai: Infrai,
    clock: ManualClock,
    said: str | None,
    least: float,
    most: float,
) -> None:
    infrai.answer("queue.publish", throttled(said))

    client.call(PUBLISH, VALUES, key="k")

    (waited,) = clock.slept
    assert least <= waited <= most


def test_who_is_always_throttled_gives_up_after_five_tries(
    client: InfraiClient, infrai: Infrai, clock: ManualClock
) -> None:
    infrai.answer("queue.publish", throttled(), times=9)

    error = failed(client, key="k")

    assert error.failure.failure_class is FailureClass.THROTTLED
    assert "5 tries" in str(error)
    assert [one.key for one in infrai.asked("queue.publish")] == ["k"] * 5
    assert len(clock.slept) == 4


def test_discovery_is_throttled_too(
    client: InfraiClient, infrai: Infrai, clock: ManualClock
) -> None:
    infrai.answer("discovery/queue.publish", throttled("7"))

    client.call(PUBLISH, VALUES, key="k")

    assert 7 <= clock.slept[0] < 9


def test_a_page_with_status_429_is_waited_for_as_well(
    client: InfraiClient, infrai: Infrai, clock: ManualClock
) -> None:
    gateway = page(429)
    infrai.answer("queue.publish", gateway._replace(headers={"Retry-After": "3"}))

    client.call(PUBLISH, VALUES)

    assert 3 <= clock.slept[0] < 5


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "INVALID_ARGUMENT", FailureClass.UNKNOWN),
        (401, "UNAUTHORIZED", FailureClass.CREDENTIALS),
        (403, "FORBIDDEN", FailureClass.PERMISSION),
        (404, "NOT_FOUND", FailureClass.UNKNOWN),
        (409, "CONFLICT", FailureClass.UNKNOWN),
        (422, "UNPROCESSABLE", FailureClass.UNKNOWN),
    ],
)
def test_any_other_refusal_is_surfaced_at_once_with_status_code_and_message(
    client: InfraiClient, infrai: Infrai, status: int, code: str, kind: FailureClass
) -> None:
    infrai.answer("queue.publish", refusal(status, code, "the queue field is odd", "look there"))

    error = failed(client, key="k")

    assert (error.status, error.code, error.failure.failure_class) == (status, code, kind)
    for part in (str(status), code, "the queue field is odd", "look there", "queue.publish"):
        assert part in str(error)
    assert len(infrai.asked("queue.publish")) == 1


def test_a_used_up_balance_is_named_with_the_remedy(client: InfraiClient, infrai: Infrai) -> None:
    infrai.answer("queue.publish", no_credit())
    infrai.answer("queue.publish", refusal(400, "INSUFFICIENT_CREDIT", "no"))

    for _ in range(2):
        error = failed(client, key="k")
        assert error.failure.failure_class is FailureClass.CREDENTIALS
        assert "INSUFFICIENT_CREDIT" in str(error)
        assert "/v1/account/topup" in str(error)


@pytest.mark.parametrize("reply", [page(502), Reply(500, b'{"ok": false}'), None, Reply(200, b"")])
def test_what_may_have_been_done_is_tried_again_only_where_that_does_no_harm(
    client: InfraiClient, infrai: Infrai, reply: Reply | None
) -> None:
    infrai.answer("queue.publish", reply, after_effect=True)
    client.call(PUBLISH, VALUES, key="k")
    assert [one.key for one in infrai.asked("queue.publish")] == ["k", "k"]
    assert len(infrai.queues.queues["work"].messages) == 1

    infrai.answer("queue.list", reply)
    assert client.call(LIST, {})

    infrai.answer("queue.publish", reply)
    assert failed(client).failure.failure_class is FailureClass.TRANSIENT
    assert len(infrai.asked("queue.publish")) == 3


def test_a_page_in_the_place_of_json_says_what_it_was(client: InfraiClient, infrai: Infrai) -> None:
    infrai.answer("queue.publish", page(200))

    said = str(failed(client))

    assert "status 200 with text/html instead of JSON" in said


# -- secrets -----------------------------------------------------------------------------------


def test_the_key_is_never_shown(
    client: InfraiClient, infrai: Infrai, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    infrai.keys.clear()

    error = failed(client, key="k")

    assert "the key [key] is not known" in str(error)
    assert KEY not in repr(InfraiSettings(KEY)) + repr(error) + caplog.text
    for key in ("", "two\nlines", "größe", "a b"):
        with pytest.raises(ValueError, match="key") as caught:
            InfraiSettings(key)
        assert not key or key not in str(caught.value)


def test_a_validation_error_does_not_repeat_the_value(client: InfraiClient, infrai: Infrai) -> None:
    infrai.documents["queue.publish"]["params"]["properties"]["queue"]["maxLength"] = 2

    error = failed(client)

    assert "maxLength (2) is not met by queue" in str(error)
    assert "'work'" not in str(error)


# -- drift -------------------------------------------------------------------------------------


def _without(document: dict[str, Any], field: str) -> None:
    params = document["params"]
    del params["properties"][field]
    params["required"] = [name for name in params["required"] if name != field]


def _set(**values: Any) -> Any:
    return lambda document: document.update(values)


DRIFTS: dict[str, tuple[Use, Any, str]] = {
    "method": (PUBLISH, _set(method="PUT"), "expected the method POST, found PUT"),
    "unknown method": (PUBLISH, _set(method="PUBLISH"), "the method 'PUBLISH'"),
    "no method": (PUBLISH, lambda d: d.pop("method"), "the method None"),
    "a place in the path": (
        PUBLISH, _set(path="/v1/{project}/queue/publish"), "{project} in /v1/{project}",
    ),
    "another host": (PUBLISH, _set(path="https://evil.example.com/v1"), "the path"),
    "another host, relative": (PUBLISH, _set(path="//evil.example.com/v1"), "the path"),
    "no path": (PUBLISH, lambda d: d.pop("path"), "the path None"),
    "another document": (PUBLISH, _set(id="queue.create"), "the document of queue.create"),
    "a field is gone": (
        PUBLISH, lambda d: _without(d, "payload"), "expected a request such as {queue, payload}",
    ),
    "another field is required": (
        PUBLISH,
        lambda d: d["params"].update(
            required=["queue", "payload", "region"],
            properties=d["params"]["properties"] | {"region": {"type": "string"}},
        ),
        "(required: payload, queue, region)",
    ),
    "another type": (
        PUBLISH,
        lambda d: d["params"]["properties"].update(payload={"type": "array"}),
        "expected a request such as {queue, payload}",
    ),
    "no schema at all": (PUBLISH, _set(params={}), "found no field"),
    "a schema that is none": (
        PUBLISH, _set(params={"type": "no such type"}), "params that are no JSON Schema",
    ),
    "a list for a schema": (PUBLISH, _set(params=["queue"]), "params that are no JSON Schema"),
    "a reference elsewhere": (
        PUBLISH,
        lambda d: d["params"].update(allOf=[{"$ref": "http://127.0.0.1:9/schema.json"}]),
        "a reference that leads out of its schema",
    ),
    "not available": (PUBLISH, _set(available=False), "available: false"),
    "a lease cannot be asked for": (
        CONSUME, lambda d: _without(d, "visibility_timeout"), "expected a request such as",
    ),
    "a message is named in another way": (
        ACK,
        lambda d: d["params"].update(
            properties={"ticket": {"type": "string"}}, required=["ticket"]
        ),
        "found ticket (required: ticket)",
    ),
    "a read that writes": (STATS, _set(method="POST"), "expected the method GET, found POST"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DRIFTS)
def test_drift_names_the_capability_what_was_expected_and_what_is_there_and_sends_nothing(
    client: InfraiClient, infrai: Infrai, kind: str
) -> None:
    use, change, text = DRIFTS[kind]
    change(infrai.documents[use.name])
    values = VALUES | {"number": 1, "visibility": 60, "message_id": "m"}

    with pytest.raises(Drift) as caught:
        client.call(use, values, key="k")

    drift = caught.value
    assert drift.capability == use.name
    assert text in str(drift)
    assert str(drift).startswith(f"{use.name}: expected ")
    assert drift.remedy in str(drift)
    assert [one for one in infrai.requests if one.headers.get("authorization")] == []


def test_a_capability_that_is_not_there_is_drift(client: InfraiClient, infrai: Infrai) -> None:
    del infrai.documents["queue.publish"]

    assert isinstance(failed(client), Drift)


def test_what_describes_nothing_is_drift(client: InfraiClient, infrai: Infrai) -> None:
    infrai.answer("discovery/queue.publish", Reply(200, b"[1, 2]"))

    error = failed(client)

    assert isinstance(error, Drift)
    assert "no JSON object" in str(error)


def test_what_was_not_available_is_asked_for_again(client: InfraiClient, infrai: Infrai) -> None:
    infrai.documents["queue.publish"]["available"] = False
    failed(client)
    infrai.documents["queue.publish"]["available"] = True

    assert client.call(PUBLISH, VALUES, key="k")


def test_a_path_that_has_moved_is_followed(client: InfraiClient, infrai: Infrai) -> None:
    infrai.documents["queue.publish"]["path"] = "/v2/queues/{queue}/messages"

    client.call(PUBLISH, VALUES, key="k")

    assert len(infrai.queues.queues["work"].messages) == 1


def test_a_schema_may_be_in_parts_and_have_references_of_its_own(
    client: InfraiClient, infrai: Infrai
) -> None:
    params = infrai.documents["queue.publish"]["params"]
    fields = params["properties"]
    infrai.documents["queue.publish"]["params"] = {
        "$defs": {
            "name": {"type": "string"},
            "more": {"properties": {"payload": fields["payload"]}},
        },
        "properties": {"queue": {"$ref": "#/$defs/name"}},
        "required": ["queue"],
        "allOf": [{"$ref": "#/$defs/more"}, {"required": ["payload"]}],
    }  # fmt: skip

    client.call(PUBLISH, VALUES, key="k")

    assert len(infrai.queues.queues["work"].messages) == 1


def test_names_stand_in_a_path_whole(client: InfraiClient, infrai: Infrai) -> None:
    name = "a/b c?d#e%2F"
    infrai.queue(name)

    assert client.call(STATS, {"queue": name})["name"] == name


def test_of_what_nobody_must_know_the_optional_is_left_out(
    client: InfraiClient, infrai: Infrai
) -> None:
    _without(infrai.documents["queue.create"], "max_retries")
    values = {"queue": "new", "type": "standard", "max_retries": 5, "retention_days": 30}

    client.call(CREATE, values, key="k")

    assert infrai.queues.queues["new"].retention_days == 30


def test_a_shape_names_itself_by_what_it_needs() -> None:
    assert str(Shape({"a": "x"}, {"b": "y"}, {"c": 1})) == "{a, c}"
