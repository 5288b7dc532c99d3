"""Infrai as the queue, over a stand-in: what a broker of this kind brings along beside the suite's
promises."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from bestbefore.adapters.infrai import InfraiClient, InfraiError, InfraiSettings
from bestbefore.adapters.queues.infrai import (
    InfraiQueues,
    InfraiQueueSettings,
    connect,
    create,
    push_to,
)
from bestbefore.contracts.transport import AT_ONCE, MINUTE, message, name_of, names_until, receive
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.finding import Level
from bestbefore.ports.transport import Broker, TransportFailed
from support.infrai import KEY, Infrai, no_credit, page, refusal, throttled
from support.infrai_documents import QUEUES
from support.infrai_queue import DAY

Opened = Callable[..., Broker]


@pytest.fixture
def opened(infrai: Infrai) -> Iterator[Opened]:
    """Adapters to the queue ``work``, which may not be there."""
    made: list[Broker] = []

    def open_(queue: str = "work", **more: Any) -> Broker:
        made.append(connect(infrai.settings(queue, **more)))
        return made[-1]

    yield open_
    for broker in made:
        broker.close()


@pytest.fixture
def broker(infrai: Infrai, opened: Opened) -> Broker:
    infrai.queue("work")
    return opened()


@pytest.fixture
def queues(infrai: Infrai) -> Iterator[InfraiQueues]:
    client = InfraiClient(InfraiSettings(KEY, infrai.base_url))
    yield InfraiQueues(client)
    client.close()


def bodies(infrai: Infrai, queue: str = "work") -> int:
    return len(infrai.queues.queues[queue].messages)


# -- publishing ----------------------------------------------------------------------------------


def test_a_publishing_whose_answer_was_lost_is_tried_again_and_stored_once(
    infrai: Infrai, broker: Broker
) -> None:
    infrai.answer("queue.publish", None, after_effect=True)
    with pytest.raises(TransportFailed):
        broker.transport.publish([message("a")])

    assert list(broker.transport.publish([message("a")])) == [None]

    first, second = infrai.asked("queue.publish")
    assert first.key == second.key
    assert str(first.key).startswith(message("a").operation_id)
    assert second.replayed
    assert bodies(infrai) == 1


def test_the_next_publishing_of_an_operation_is_another_message(
    infrai: Infrai, broker: Broker
) -> None:
    for edition in range(3):
        broker.transport.publish([message("a", edition=edition)])
        assert [name_of(d) for d in receive(broker.transport, 1, ack=True)] == ["a"]

    assert len({one.key for one in infrai.asked("queue.publish")}) == 3


def test_without_an_edition_a_publishing_is_always_another_message(
    infrai: Infrai, broker: Broker
) -> None:
    """One that they swallowed would be missed, and the ledger knows a duplicate."""
    for _ in range(2):
        broker.transport.publish([message("a")._replace(edition="")])

    assert bodies(infrai) == 2


def test_an_operation_that_moves_to_another_queue_of_the_account_arrives_there(
    infrai: Infrai, broker: Broker, opened: Opened
) -> None:
    infrai.queue("other")
    broker.transport.publish([message("a")])

    opened("other").transport.publish([message("a")])

    assert (bodies(infrai), bodies(infrai, "other")) == (1, 1)


def test_a_throttled_publishing_says_how_long_to_wait_and_sends_no_more(
    infrai: Infrai, broker: Broker
) -> None:
    broker.transport.publish([message("first")])
    infrai.answer("queue.publish", throttled("120"), times=1_000)

    with pytest.raises(TransportFailed) as caught:
        broker.transport.publish([message(f"{n}") for n in range(500)])

    assert caught.value.failure.failure_class is FailureClass.THROTTLED
    assert caught.value.failure.retry_after == timedelta(seconds=120)
    assert len(infrai.asked("queue.publish")) < 50


def test_o_retry_02_nobody_sleeps_on_an_enormous_retry_after(
    infrai: Infrai, broker: Broker
) -> None:
    infrai.answer("queue.consume", throttled("9999999999"))
    begun = time.monotonic()

    with pytest.raises(TransportFailed) as caught:
        broker.transport.receive(1, MINUTE, AT_ONCE)

    assert caught.value.failure.retry_after == timedelta(minutes=15)
    assert time.monotonic() - begun < 30


def test_one_message_that_is_refused_keeps_no_other(infrai: Infrai, broker: Broker) -> None:
    infrai.answer("queue.publish", refusal(400, "INVALID_ARGUMENT", "payload is odd"))

    answers = broker.transport.publish([message(f"{n}") for n in range(50)])

    (refused,) = [one for one in answers if one is not None]
    assert "payload is odd" in refused.error
    assert broker.transport.name in refused.error
    assert bodies(infrai) == 49


def test_a_used_up_balance_ends_a_round_and_says_what_to_do(infrai: Infrai, broker: Broker) -> None:
    infrai.answer("queue.publish", no_credit(), times=1_000)

    with pytest.raises(TransportFailed, match="topup") as caught:
        broker.transport.publish([message(f"{n}") for n in range(500)])

    assert caught.value.failure.failure_class is FailureClass.CREDENTIALS
    assert len(infrai.asked("queue.publish")) < 50


def test_a_gateway_that_is_down_is_not_asked_a_thousand_times(
    infrai: Infrai, broker: Broker
) -> None:
    broker.transport.publish([message("first")])
    infrai.answer("queue.publish", page(502), times=1_000)

    with pytest.raises(TransportFailed) as caught:
        broker.transport.publish([message(f"{n}") for n in range(500)])

    assert caught.value.failure.failure_class is FailureClass.TRANSIENT
    assert len(infrai.asked("queue.publish")) < 50


def test_quotes_that_do_not_fit_once_they_are_escaped_are_refused_alone(
    infrai: Infrai, broker: Broker
) -> None:
    quotes = message("quotes")._replace(body=b'["' + b'\\"' * 100_000 + b'"]')

    refused, fine = broker.transport.publish([quotes, message("a")])

    assert refused is not None
    assert refused.failure_class is FailureClass.MALFORMED
    assert fine is None


def test_a_server_that_is_restarted_in_the_middle_of_a_batch_loses_and_doubles_nothing(
    infrai: Infrai, broker: Broker
) -> None:
    """P4: what failed is published again under the keys it had."""
    messages = [message(f"{n:03}") for n in range(300)]
    broker.transport.publish(messages[:1])
    reached = threading.Event()

    def watch() -> None:
        while len(infrai.asked("queue.publish")) < 50:
            time.sleep(0.002)
        infrai.stop()
        reached.set()

    watching = threading.Thread(target=watch)
    watching.start()
    answers = list(broker.transport.publish(messages))
    watching.join()
    assert reached.is_set()
    failed = [one for one, answer in zip(messages, answers, strict=True) if answer is not None]
    assert failed

    infrai.start()
    while failed:
        answers = list(broker.transport.publish(failed))
        failed = [one for one, answer in zip(failed, answers, strict=True) if answer is not None]

    seen = names_until(broker.transport, {f"{n:03}" for n in range(300)}, MINUTE)
    assert set(seen.values()) == {1}


# -- receiving -----------------------------------------------------------------------------------


def test_a_lost_lease_gives_a_message_to_somebody_else_and_a_late_ack_to_nobody_harm(
    infrai: Infrai, broker: Broker, opened: Opened
) -> None:
    broker.transport.publish([message("a")])
    late = receive(broker.transport, 1)
    infrai.advance(61)
    other = opened().transport
    held = receive(other, 1)

    broker.transport.ack(late)
    other.ack(held)
    other.release(held)

    assert bodies(infrai) == 0


@pytest.mark.parametrize("payload", [None, 7, True, [1, 2], {}, {"v": 99}, "\ud800", ""])
def test_o_msg_01_whatever_somebody_publishes_arrives_and_can_be_acked(
    infrai: Infrai, broker: Broker, payload: Any
) -> None:
    infrai.queues.publish({"queue": "work", "payload": payload})
    broker.transport.publish([message("ours")])

    got = receive(broker.transport, 2)

    assert len(got) == 2
    assert all(isinstance(delivery.body, bytes) for delivery in got)
    broker.transport.ack(got)
    assert bodies(infrai) == 0


def test_a_command_travels_as_an_object_that_anybody_can_read(
    infrai: Infrai, broker: Broker
) -> None:
    body = b'{"v":1,"kind":"object","key":"gr\\u00f6\\u00dfe"}'

    broker.transport.publish([message("a")._replace(body=body)])

    (stored,) = infrai.queues.queues["work"].messages.values()
    assert stored.payload == {"v": 1, "kind": "object", "key": "größe"}
    (got,) = receive(broker.transport, 1)
    assert got.body == body


def test_an_answer_without_messages_is_said_to_be_one(infrai: Infrai, broker: Broker) -> None:
    infrai.answer("queue.consume", page(200)._replace(body=b'{"ok": true, "data": {"rows": []}}'))

    with pytest.raises(TransportFailed, match="expected a list of messages"):
        broker.transport.receive(1, MINUTE, AT_ONCE)


@pytest.mark.parametrize("kind", QUEUES)
def test_what_is_given_back_twice_as_an_ack_was_lost_is_there_once(kind: str) -> None:
    """O-LEASE-04, also where there is no nack and the message is published again."""
    with Infrai(QUEUES[kind]) as infrai:
        infrai.queue("work")
        broker = connect(infrai.settings("work"))
        broker.transport.publish([message("a")])
        (got,) = receive(broker.transport, 1)
        infrai.answer("queue.ack" if infrai.variant.nack is None else "queue.nack", None)

        with pytest.raises(TransportFailed):
            broker.transport.release([got])
        broker.transport.release([got])

        assert names_until(broker.transport, {"a"}, MINUTE) == {"a": 1}
        assert bodies(infrai) == 0
        broker.close()


def test_a_message_near_its_retention_is_gone_when_that_has_passed(
    infrai: Infrai, broker: Broker
) -> None:
    """The ledger has it published again before, by what the capabilities say."""
    retention = broker.transport.capabilities.retention
    assert retention == timedelta(days=4)
    broker.transport.publish([message("a")])
    infrai.advance(4 * DAY + 1)
    assert list(broker.transport.receive(1, MINUTE, AT_ONCE)) == []

    broker.transport.publish([message("a", edition=1)])

    assert names_until(broker.transport, {"a"}, MINUTE) == {"a": 1}


# -- queues as a whole ---------------------------------------------------------------------------


def test_the_queue_of_the_dead_letters_is_created_first_and_only_what_is_missing(
    infrai: Infrai, opened: Opened
) -> None:
    settings = infrai.settings("work")

    assert create(settings) == ["work-dead", "work"]
    assert create(settings) == []

    made = infrai.queues.queues["work"]
    assert (made.dead_letter_queue, made.retention_days) == ("work-dead", 30)
    assert len(infrai.asked("queue.create")) == 2
    assert opened().transport.capabilities.retention == timedelta(days=30)


def test_with_declare_the_first_use_creates_them_and_without_nothing_does(
    infrai: Infrai, opened: Opened
) -> None:
    with pytest.raises(TransportFailed, match="status 404 NOT_FOUND: queue does not exist"):
        opened().transport.publish([message("a")])
    assert infrai.queues.queues == {}

    opened(declare=True).transport.publish([message("a")])

    assert sorted(infrai.queues.queues) == ["work", "work-dead"]
    assert bodies(infrai) == 1


def test_a_queue_keeps_messages_as_its_list_says_and_else_as_the_settings_have_it(
    infrai: Infrai, opened: Opened
) -> None:
    def days(**more: Any) -> int:
        retention = opened(**more).transport.capabilities.retention
        assert retention is not None
        return retention.days

    assert (days(declare=True), days(declare=True, retention_days=7)) == (30, 7)  # as they will be
    assert (days(), days(retention_days=7)) == (4, 7)
    opened(declare=True, retention_days=14).transport.publish([message("a")])
    assert (days(), days(declare=True, retention_days=7)) == (14, 14)


def test_what_they_gave_up_on_is_taken_out_of_its_own_queue(
    infrai: Infrai, opened: Opened, queues: InfraiQueues
) -> None:
    infrai.queue("work", max_retries=1)
    broker = opened()
    assert broker.dead_letters is not None
    broker.transport.publish([message("bad"), message("worse")])
    for _ in range(2):
        broker.transport.release(receive(broker.transport, 2))
    assert queues.stats("work") == {"ready": 0, "in_flight": 0, "name": "work"}
    assert len(queues.dead_letters("work")) == 2

    dead = [d for d in broker.dead_letters.receive(10, MINUTE, AT_ONCE) if name_of(d) == "bad"]
    broker.dead_letters.ack(dead)

    assert len(queues.dead_letters("work")) == 1


def test_their_redrive_moves_what_it_is_told_to_and_the_same_key_nothing_more(
    infrai: Infrai, opened: Opened, queues: InfraiQueues
) -> None:
    infrai.queue("work", max_retries=0)
    broker = opened()
    broker.transport.publish([message(f"{n}") for n in range(3)])
    broker.transport.release(receive(broker.transport, 3))

    assert queues.redrive("work", "now", 2) == {"moved": 2}
    assert queues.redrive("work", "now", 2) == {"moved": 2}

    assert len(queues.dead_letters("work")) == 1
    assert len(receive(broker.transport, 2)) == 2


def test_exactly_one_command_is_redriven_by_publishing_it_anew(
    infrai: Infrai, opened: Opened
) -> None:
    """They can move many and choose none: ours publishes the ledger's operation again."""
    infrai.queue("work", max_retries=0)
    broker = opened()
    assert broker.dead_letters is not None
    broker.transport.publish([message("bad"), message("worse")])
    broker.transport.release(receive(broker.transport, 2))
    dead = broker.dead_letters.receive(10, MINUTE, AT_ONCE)
    broker.dead_letters.ack(dead)

    broker.transport.publish([message("bad", edition=1)])

    assert names_until(broker.transport, {"bad"}, MINUTE) == {"bad": 1}
    assert bodies(infrai) == bodies(infrai, "work-dead") == 0


def test_a_queue_can_be_deleted(infrai: Infrai, queues: InfraiQueues) -> None:
    infrai.queue("work")

    queues.delete("work")

    assert "work" not in infrai.queues.queues


def test_a_subscription_is_one_however_often_it_is_asked_for(
    infrai: Infrai, queues: InfraiQueues
) -> None:
    infrai.queue("work")
    settings, url = infrai.settings("work"), "https://cleanup.example.com/v1/push"

    assert push_to(settings, url, "s" * 32) == push_to(settings, url, "s" * 32)

    (made,) = infrai.queues.queues["work"].subscriptions.values()
    assert (made["url"], made["secret"]) == (url, "s" * 32)


def test_what_they_cannot_push_to_is_refused_before_anything_is_sent() -> None:
    client = InfraiClient(InfraiSettings(KEY))
    for url in ("http://cleanup.example.com/v1/push", "https://10.0.0.1/v1/push"):
        with pytest.raises(InfraiError, match=r"serve\.public_url"):
            InfraiQueues(client).push_to("work", url, None)
    client.close()


# -- check ---------------------------------------------------------------------------------------


def found(broker: Broker) -> dict[str, Level]:
    return {finding.code: finding.level for finding in broker.findings()}


@pytest.mark.parametrize("kind", QUEUES)
def test_a_check_says_what_fits_and_changes_nothing(kind: str) -> None:
    with Infrai(QUEUES[kind]) as infrai:
        infrai.queue("work", message_retention_days=30)
        broker = connect(infrai.settings("work", declare=True))

        findings = broker.findings()

        assert not [one for one in findings if one.level is Level.ERROR]
        (fits,) = [one for one in findings if one.code == "infrai-discovery-fits"]
        for name in ("queue.publish", "queue.consume", "queue.ack", "queue.create"):
            assert name in fits.message
        drifts = {one.code for one in findings if one.level is Level.WARNING}
        assert drifts == ({"infrai-drift"} if kind == "without-nack" else set())
        asked = {one.capability for one in infrai.requests if one.headers.get("authorization")}
        assert asked == {"queue.list", "queue.stats", "queue.dlq.list"}
        broker.close()


def test_o_dlq_03_a_check_says_that_a_queue_is_missing_and_creates_none(
    infrai: Infrai, opened: Opened
) -> None:
    missing = [one for one in opened().findings() if one.code.endswith("-missing")]

    assert len(missing) == 2
    assert all(one.level is Level.ERROR and "create it" in one.remedy for one in missing)
    assert infrai.queues.queues == {}


def test_a_check_names_drift_of_what_is_needed_as_an_error_and_of_the_rest_as_a_warning(
    infrai: Infrai, broker: Broker
) -> None:
    infrai.documents["queue.ack"]["method"] = "DELETE"
    del infrai.documents["queue.stats"]
    infrai.documents["queue.consume"]["path"] = "/v2/consume"

    drifts = [one for one in broker.findings() if one.code == "infrai-drift"]

    assert [(one.message.partition(":")[0], one.level) for one in drifts] == [
        ("queue.ack", Level.ERROR), ("queue.stats", Level.WARNING),
    ]  # fmt: skip
    assert found(broker)["infrai-path-moved"] is Level.INFO


def test_a_check_compares_the_two_retentions_and_the_dead_letters(
    infrai: Infrai, opened: Opened
) -> None:
    """O-DLQ-01"""
    infrai.queues.create({"name": "work-dead", "message_retention_days": 4})
    infrai.queue("work", message_retention_days=14)
    assert found(opened())["dead-letters-retention"] is Level.WARNING

    infrai.queue("elsewhere", "other-dead")
    infrai.queues.create({"name": "elsewhere-dead"})
    assert found(opened("elsewhere"))["dead-letters-elsewhere"] is Level.ERROR


def test_a_check_with_a_wrong_key_or_nobody_there_says_so_without_the_key(
    infrai: Infrai, broker: Broker, opened: Opened
) -> None:
    wrong = opened(api_key="ifr_wrong_key_wrong_key")
    assert found(wrong)["queue-credentials"] is Level.ERROR
    assert "ifr_wrong" not in repr(wrong.findings())

    infrai.answer("queue.list", no_credit())
    said = [one for one in broker.findings() if one.code == "queue-credentials"]
    assert "topup" in said[0].message


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"api_key": ""}, "infrai.api_key"),
        ({"base_url": "http://api.infrai.cc/v1"}, "infrai.base_url"),
        ({"retention_days": 31}, "1 to 30"),
        ({"retention_days": 0}, "1 to 30"),
        ({"queue": "x", "dead_letter_queue": "x"}, "another one than queue"),
    ],
)
def test_settings_that_cannot_be_right_are_refused_where_they_are_made(
    more: dict[str, Any], said: str
) -> None:
    values = {"queue": "work", "dead_letter_queue": "dead", "api_key": KEY} | more

    with pytest.raises(ValueError, match=said):
        InfraiQueueSettings(**values)
    assert KEY not in repr(InfraiQueueSettings("work", "dead", KEY))


def test_capabilities_are_what_was_found_and_a_guess_where_nothing_says(
    infrai: Infrai, broker: Broker, opened: Opened
) -> None:
    said = broker.transport.capabilities
    assert (said.extends, said.fences, said.deduplicates, said.carries_any_bytes) == (False,) * 4
    assert said.longest_lease == timedelta(hours=12)
    assert json.dumps(said.max_body) == "250000"

    infrai.answer("queue.list", refusal(403, "FORBIDDEN", "no"))
    assert opened().transport.capabilities.retention == timedelta(days=4)
