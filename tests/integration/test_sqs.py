"""SQS: what batches, long polls, dead letters and a bad network do to the adapter.

On both servers wherever a server is asked; through `support.sqs_moods` for answers that neither
of them gives by itself.
"""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from bestbefore.adapters.queues.sqs.queue import Receipt
from bestbefore.contracts.transport import message, name_of, names_until
from bestbefore.domain.failure import FailureClass
from bestbefore.ports.transport import Broker, Delivery, Message, Transport, TransportFailed
from support.proxy import Proxy
from support.sqs import Connect
from support.sqs_moods import (
    Answer,
    Asked,
    Moody,
    fails_one,
    hang_up,
    refused,
    refuses,
)
from support.sqs_servers import SqsServer, fauxqs, moto_sqs

AT_ONCE = timedelta(0)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def moody(sqs: SqsServer) -> Iterator[Moody]:
    with Moody(sqs.endpoint) as between:
        yield between


@pytest.fixture
def broker(sqs: SqsServer, moody: Moody, connected: Connect) -> Broker:
    """An empty queue, behind `moody`."""
    return connected(sqs.settings(sqs.queue(), endpoint_url=moody.endpoint))


@pytest.fixture
def transport(broker: Broker) -> Transport:
    return broker.transport


def _messages(number: int) -> list[Message]:
    return [message(f"{n:04}") for n in range(number)]


def _names(deliveries: Sequence[Delivery]) -> set[str]:
    return {name_of(delivery) for delivery in deliveries}


def _in_hand(transport: Transport, number: int) -> list[Delivery]:
    assert list(transport.publish(_messages(number))) == [None] * number
    return sorted(transport.receive(number, MINUTE, SECOND), key=name_of)


class TestBatches:
    def test_one_receive_brings_hundreds_that_are_there(self, transport: Transport) -> None:
        transport.publish(_messages(600))

        got = transport.receive(500, MINUTE, SECOND)

        assert len(got) == len(_names(got)) == 500

    def test_a_thousand_are_published_and_acked_in_one_call_each(
        self, transport: Transport, moody: Moody
    ) -> None:
        assert list(transport.publish(_messages(1_000))) == [None] * 1_000
        assert len(moody.asked("SendMessageBatch")) == 100

        got: list[Delivery] = []
        while len(got) < 1_000:
            got += transport.receive(1_000, MINUTE, SECOND)
        transport.ack(got)

        assert _names(got) == {f"{n:04}" for n in range(1_000)}
        assert len(moody.asked("DeleteMessageBatch")) == 100

    def test_an_entry_that_fails_is_the_only_one_that_does(
        self, transport: Transport, moody: Moody
    ) -> None:
        moody.on("SendMessageBatch", fails_one(1, "InternalError"))

        first, failed, last = transport.publish([message("a"), message("b"), message("c")])

        assert first is last is None
        assert failed is not None
        assert failed.failure_class is FailureClass.TRANSIENT
        assert transport.name in failed.error
        assert names_until(transport, ["a", "c"], MINUTE) == Counter(["a", "c"])

    def test_an_entry_that_the_answer_leaves_out_counts_as_failed(
        self, transport: Transport, moody: Moody
    ) -> None:
        def forget(asked: Asked, real: Any) -> Answer:
            answer: Answer = real(asked)
            answer.said["Successful"] = answer.said["Successful"][:1]
            return answer

        moody.on("SendMessageBatch", forget)

        said, unknown = transport.publish([message("a"), message("b")])

        assert said is None
        assert unknown is not None
        assert unknown.failure_class is FailureClass.TRANSIENT

    def test_a_body_that_spoils_its_batch_is_found_and_refused_alone(
        self, sqs: SqsServer, connected: Connect
    ) -> None:
        """The limit was lowered after it was asked for. fauxqs refuses the one entry, as AWS says;
        moto refuses the batch for it."""
        url = sqs.queue()
        transport = connected(sqs.settings(url)).transport
        assert list(transport.publish([message("before")])) == [None]
        sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"MaximumMessageSize": "1024"})

        answers = transport.publish([message("a"), message("large", 2_000), message("b")])

        first, refusal, last = answers
        assert first is last is None
        assert refusal is not None
        assert refusal.failure_class is FailureClass.MALFORMED
        assert not refusal.whole_source
        wanted = ["before", "a", "b"]
        assert names_until(transport, wanted, MINUTE) == Counter(wanted)

    def test_what_is_refused_alone_for_no_known_reason_is_not_given_up_for_good(
        self, transport: Transport, moody: Moody
    ) -> None:
        def refuse(asked: Asked, real: Any) -> Answer:
            odd = any("odd" in entry["MessageBody"] for entry in asked["Entries"])
            answer: Answer = refused("InvalidParameterValue") if odd else real(asked)
            return answer

        moody.on("SendMessageBatch", refuse)

        first, failure, last = transport.publish([message("a"), message("odd"), message("b")])

        assert first is last is None
        assert failure is not None
        assert failure.failure_class is FailureClass.UNKNOWN

    def test_a_batch_is_cut_by_bytes_and_not_by_characters(
        self, sqs: SqsServer, moody: Moody, connected: Connect
    ) -> None:
        """O-MSG-02"""
        url = sqs.queue(MaximumMessageSize="262144")
        transport = connected(sqs.settings(url, endpoint_url=moody.endpoint)).transport
        bodies = [f"{n}{'中' * 80_000}".encode() for n in range(3)]

        answers = transport.publish([Message("0" * 64, body) for body in bodies])

        assert list(answers) == [None] * 3
        assert [len(one["Entries"]) for one in moody.asked("SendMessageBatch")] == [1] * 3
        got = transport.receive(3, MINUTE, SECOND)
        assert {delivery.body for delivery in got} == set(bodies)

    @pytest.mark.parametrize("body", [b"", b"\x00", b"\xff", "\ufffe".encode()])
    def test_what_sqs_cannot_carry_is_refused_before_it_is_sent(
        self, transport: Transport, moody: Moody, body: bytes
    ) -> None:
        (failure,) = transport.publish([Message("0" * 64, body)])

        assert failure is not None
        assert failure.failure_class is FailureClass.MALFORMED
        assert not moody.asked("SendMessageBatch")

    def test_text_of_any_script_arrives_as_it_was_sent(
        self, sqs: SqsServer, connected: Connect
    ) -> None:
        self._sent_and_received(sqs, connected, "größe 中文 \t\r\n line")

    def test_text_beyond_the_first_65536_characters_arrives_too(
        self, moto_queues: SqsServer, connected: Connect
    ) -> None:
        """SQS allows it, by its documentation; fauxqs 1.9 refuses it."""
        self._sent_and_received(moto_queues, connected, "🗑 \U0010fffd")

    @staticmethod
    def _sent_and_received(server: SqsServer, connected: Connect, text: str) -> None:
        url = server.queue()
        transport = connected(server.settings(url)).transport
        server.client.send_message(QueueUrl=url, MessageBody=text)
        assert list(transport.publish([Message("0" * 64, text.encode())])) == [None]

        got = transport.receive(2, MINUTE, SECOND)

        assert {one.body for one in got} == {text.encode()}

    def test_one_operation_twice_in_one_batch_is_two_messages(self, transport: Transport) -> None:
        assert list(transport.publish([message("a"), message("a")])) == [None, None]

        assert names_until(transport, ["a"], MINUTE)["a"] == 2

    def test_an_ack_that_fails_for_one_is_said_and_holds_for_the_others(
        self, transport: Transport, moody: Moody
    ) -> None:
        got = _in_hand(transport, 3)
        moody.on("DeleteMessageBatch", fails_one(1, "InternalError"))

        with pytest.raises(TransportFailed, match="InternalError"):
            transport.ack(got)

        moody.behave()
        transport.release(got)
        assert names_until(transport, ["0001"], MINUTE) == Counter(["0001"])

    def test_many_failures_in_a_row_end_a_call_early(
        self, transport: Transport, moody: Moody
    ) -> None:
        assert transport.capabilities
        moody.on("SendMessageBatch", refuses("ServiceUnavailable", status=503))

        with pytest.raises(TransportFailed) as caught:
            transport.publish(_messages(1_000))

        assert caught.value.failure.failure_class is FailureClass.TRANSIENT
        assert len(moody.asked("SendMessageBatch")) < 50

    def test_a_queue_that_is_gone_is_held_against_no_message(
        self, sqs: SqsServer, connected: Connect
    ) -> None:
        """A malformed message would be given up for good."""
        url = sqs.queue()
        transport = connected(sqs.settings(url)).transport
        transport.publish([message("a")])
        sqs.client.delete_queue(QueueUrl=url)

        with pytest.raises(TransportFailed, match="us-east-1") as caught:
            transport.publish(_messages(30))

        assert caught.value.failure.whole_source
        assert url in str(caught.value)


def test_a_queue_is_asked_at_its_own_host(moto_queues: SqsServer, connected: Connect) -> None:
    """Where the settings name no endpoint."""
    settings = moto_queues.settings(moto_queues.queue(), endpoint_url=None)
    transport = connected(settings).transport

    assert list(transport.publish([message("a")])) == [None]

    assert names_until(transport, ["a"], MINUTE) == Counter(["a"])


class TestLeases:
    def test_a_lease_is_asked_for_in_whole_seconds_within_sqs_limits(
        self, transport: Transport, moody: Moody
    ) -> None:
        for lease in (timedelta(milliseconds=1), timedelta(seconds=1.5), timedelta(days=1)):
            transport.receive(1, lease, AT_ONCE)

        asked = [one["VisibilityTimeout"] for one in moody.asked("ReceiveMessage")]
        assert asked == [1, 2, 43_200]

    def test_a_wait_is_a_long_poll_that_ends_before_the_clients_patience(
        self, transport: Transport, moody: Moody
    ) -> None:
        transport.publish(_messages(3))
        for seconds in (0, 0.2, 3600):
            transport.receive(1, MINUTE, timedelta(seconds=seconds))

        assert [one["WaitTimeSeconds"] for one in moody.asked("ReceiveMessage")] == [0, 1, 15]

    def test_an_extension_never_goes_beyond_twelve_hours_after_the_receive(
        self, transport: Transport, moody: Moody
    ) -> None:
        """SQS refuses an extension that does, instead of cutting it."""
        (got,) = _in_hand(transport, 1)
        hours_ago = got.receipt.since - timedelta(hours=11.5).total_seconds()
        held = Delivery(got.body, Receipt(got.receipt.handle, hours_ago))

        assert list(transport.extend([held], timedelta(hours=1))) == []

        (asked,) = moody.asked("ChangeMessageVisibilityBatch")
        assert 1_780 <= asked["Entries"][0]["VisibilityTimeout"] <= 1_800

    def test_what_was_held_for_twelve_hours_is_lost_and_not_asked_about(
        self, transport: Transport, moody: Moody
    ) -> None:
        kept, late = _in_hand(transport, 2)
        half_a_day_ago = late.receipt.since - timedelta(hours=12).total_seconds()
        held = Delivery(late.body, Receipt(late.receipt.handle, half_a_day_ago))

        assert list(transport.extend([kept, held], MINUTE)) == [held]

        (asked,) = moody.asked("ChangeMessageVisibilityBatch")
        assert len(asked["Entries"]) == 1

    def test_only_what_sqs_no_longer_knows_is_lost(self, transport: Transport) -> None:
        got = _in_hand(transport, 25)
        gone = got[3:20]
        transport.ack(gone)

        assert list(transport.extend(got, MINUTE)) == gone

    def test_an_extension_that_fails_is_an_error_and_no_loss(
        self, transport: Transport, moody: Moody
    ) -> None:
        got = _in_hand(transport, 2)
        moody.on("ChangeMessageVisibilityBatch", fails_one(0, "InternalError"))

        with pytest.raises(TransportFailed, match="InternalError"):
            transport.extend(got, MINUTE)

    def test_what_was_received_before_others_failed_is_not_thrown_away(
        self, transport: Transport, moody: Moody
    ) -> None:
        transport.publish(_messages(100))
        lock = threading.Lock()
        asked_so_far = [0]

        def only_once(asked: Asked, real: Any) -> Answer:
            with lock:
                asked_so_far[0] += 1
                first = asked_so_far[0] == 1
            answer: Answer = real(asked) if first else refused("RequestThrottled")
            return answer

        moody.on("ReceiveMessage", only_once)

        assert len(transport.receive(100, MINUTE, SECOND)) == 10
        with pytest.raises(TransportFailed) as caught:
            transport.receive(100, MINUTE, AT_ONCE)
        assert caught.value.failure.failure_class is FailureClass.THROTTLED


class TestDeadLetters:
    @pytest.fixture
    def queues(self, sqs: SqsServer) -> tuple[str, str]:
        """A queue that gives up after two receives, and where its dead letters go."""
        dead = sqs.queue()
        policy = {"deadLetterTargetArn": sqs.arn(dead), "maxReceiveCount": "2"}
        return sqs.queue(RedrivePolicy=json.dumps(policy)), dead

    def test_what_is_received_too_often_is_found_among_the_dead_letters(
        self, sqs: SqsServer, connected: Connect, queues: tuple[str, str]
    ) -> None:
        url, dead = queues
        broker = connected(sqs.settings(url))
        broker.transport.publish([message("poison"), message("good")])
        assert broker.dead_letters is not None
        assert list(broker.dead_letters.receive(10, MINUTE, AT_ONCE)) == []

        seen: Counter[str] = Counter()
        found: list[Delivery] = []
        deadline = time.monotonic() + 30
        while not found and time.monotonic() < deadline:
            for delivery in broker.transport.receive(10, MINUTE, AT_ONCE):
                seen[name_of(delivery)] += 1
                if name_of(delivery) == "good":
                    broker.transport.ack([delivery])
                else:
                    broker.transport.release([delivery])
            found += broker.dead_letters.receive(10, MINUTE, AT_ONCE)

        assert seen == {"good": 1, "poison": 2}
        assert _names(found) == {"poison"}
        assert broker.dead_letters.name == f"sqs {dead}"
        broker.dead_letters.ack(found)
        said = sqs.client.get_queue_attributes(QueueUrl=dead, AttributeNames=["All"])
        assert said["Attributes"]["ApproximateNumberOfMessages"] == "0"
        assert said["Attributes"]["ApproximateNumberOfMessagesNotVisible"] == "0"

    def test_a_place_for_dead_letters_can_be_named_without_a_policy(
        self, sqs: SqsServer, connected: Connect
    ) -> None:
        url, dead = sqs.queue(), sqs.queue()
        broker = connected(sqs.settings(url, dead_letter_url=dead))
        sqs.client.send_message(QueueUrl=dead, MessageBody="not ours")

        assert broker.dead_letters is not None
        (found,) = broker.dead_letters.receive(10, MINUTE, SECOND)

        assert found.body == b"not ours"

    def test_a_policy_that_comes_later_is_found(self, sqs: SqsServer, connected: Connect) -> None:
        url, dead = sqs.queue(), sqs.queue()
        broker = connected(sqs.settings(url))
        sqs.client.send_message(QueueUrl=dead, MessageBody="dead")
        assert broker.dead_letters is not None
        assert list(broker.dead_letters.receive(10, MINUTE, AT_ONCE)) == []
        assert broker.dead_letters.name == f"dead letters of sqs {url}"

        policy = {"deadLetterTargetArn": sqs.arn(dead), "maxReceiveCount": "24"}
        sqs.client.set_queue_attributes(
            QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)}
        )

        (found,) = broker.dead_letters.receive(10, MINUTE, SECOND)
        assert found.body == b"dead"


class TestNetwork:
    @pytest.mark.parametrize(
        ("answer", "failure_class", "retry_after"),
        [
            (refused("RequestThrottled"), FailureClass.THROTTLED, None),
            (
                refused("ThrottlingException", status=429, retry_after="7"),
                FailureClass.THROTTLED,
                timedelta(seconds=7),
            ),
            (refused("InternalFailure", status=500), FailureClass.TRANSIENT, None),
            (Answer(502, {}), FailureClass.TRANSIENT, None),
            (Answer(0, {}), FailureClass.TRANSIENT, None),
            (refused("ExpiredToken", status=403), FailureClass.CREDENTIALS, None),
            (refused("InvalidClientTokenId", status=403), FailureClass.CREDENTIALS, None),
            (refused("SignatureDoesNotMatch", status=403), FailureClass.CREDENTIALS, None),
            (refused("AccessDeniedException"), FailureClass.PERMISSION, None),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_each_way_to_fail_has_its_class_in_every_verb(
        self,
        transport: Transport,
        moody: Moody,
        answer: Answer,
        failure_class: FailureClass,
        retry_after: timedelta | None,
    ) -> None:
        got = _in_hand(transport, 1)
        for operation in (
            "SendMessageBatch",
            "ReceiveMessage",
            "DeleteMessageBatch",
            "ChangeMessageVisibilityBatch",
        ):
            moody.on(operation, lambda asked, real: answer)

        for call in (
            lambda: transport.publish([message("a")]),
            lambda: transport.receive(1, MINUTE, AT_ONCE),
            lambda: transport.extend(got, MINUTE),
            lambda: transport.ack(got),
            lambda: transport.release(got),
        ):
            with pytest.raises(TransportFailed) as caught:
                call()
            assert caught.value.failure.failure_class is failure_class
            assert caught.value.failure.retry_after == retry_after
            assert transport.name in str(caught.value)

    def test_no_request_is_repeated(self, transport: Transport, moody: Moody) -> None:
        """Retries have one place, and that is the ledger."""
        assert transport.capabilities
        moody.on("SendMessageBatch", hang_up)

        with pytest.raises(TransportFailed):
            transport.publish([message("a")])

        assert len(moody.asked("SendMessageBatch")) == 1

    def test_who_never_answers_is_not_waited_for(self, sqs: SqsServer, connected: Connect) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
            settings = sqs.settings(sqs.queue(), endpoint_url=endpoint, timeout=2 * SECOND)
            transport = connected(settings).transport
            begun = time.monotonic()

            with pytest.raises(TransportFailed, match="no answer in time"):
                transport.receive(1, MINUTE, timedelta(seconds=20))

        assert time.monotonic() - begun < 15

    def test_who_answers_something_else_is_not_taken_for_a_queue(
        self, transport: Transport, moody: Moody
    ) -> None:
        moody.on("GetQueueAttributes", lambda asked, real: Answer(200, {"hello": "world"}))

        with pytest.raises(TransportFailed, match="not as SQS does"):
            transport.publish([message("a")])

    def test_whoever_may_not_ask_for_limits_can_work_all_the_same(
        self, transport: Transport, moody: Moody
    ) -> None:
        moody.on("GetQueueAttributes", refuses("AccessDeniedException"))

        assert list(transport.publish([message("a")])) == [None]

        assert transport.capabilities.max_body == 262_144
        assert names_until(transport, ["a"], MINUTE) == Counter(["a"])

    def test_no_text_holds_what_stands_behind_a_refused_signature(
        self, broker: Broker, moody: Moody
    ) -> None:
        said = "The signature does not match.\n\nCanonical String:\nx-amz-security-token:FwoGZ"
        for operation in ("GetQueueAttributes", "ReceiveMessage"):
            moody.on(operation, refuses("SignatureDoesNotMatch", said, 403))

        with pytest.raises(TransportFailed) as caught:
            broker.transport.receive(1, MINUTE, AT_ONCE)

        texts = [str(caught.value), *(f"{one.message} {one.remedy}" for one in broker.findings())]
        assert not any("FwoGZ" in text for text in texts)

    def test_a_connection_that_is_cut_mid_batch_loses_nothing(
        self, sqs: SqsServer, moody: Moody, connected: Connect
    ) -> None:
        """P4: what was said to be published is there; what was not, was said to be."""
        with Proxy(("127.0.0.1", int(moody.endpoint.rpartition(":")[2]))) as between:
            endpoint = f"http://127.0.0.1:{between.port}"
            transport = connected(sqs.settings(sqs.queue(), endpoint_url=endpoint)).transport
            cutting = threading.Lock()  # once

            def cut(asked: Asked, real: Any) -> Answer:
                answer: Answer = real(asked)
                many = len(moody.asked("SendMessageBatch")) >= 40
                if many and cutting.acquire(blocking=False):
                    between.go()  # and so this one is done, and nobody hears of it
                return answer

            moody.on("SendMessageBatch", cut)
            messages = {f"{n:04}": message(f"{n:04}") for n in range(1_000)}

            answers = dict(zip(messages, transport.publish(list(messages.values())), strict=True))

            failures = [answer for answer in answers.values() if answer is not None]
            assert 0 < len(failures) < 1_000
            assert {failure.failure_class for failure in failures} == {FailureClass.TRANSIENT}
            between.come()
            again = [messages[name] for name, answer in answers.items() if answer is not None]
            assert not any(transport.publish(again))
            assert names_until(transport, messages, MINUTE).keys() == messages.keys()


@pytest.mark.parametrize("kind", ["moto", "fauxqs"])
def test_a_server_that_is_killed_while_it_is_asked_is_used_again_when_it_is_back(
    kind: str, request: pytest.FixtureRequest, connected: Connect
) -> None:
    request.getfixturevalue(f"{kind}_queues")  # skips where there is none
    with moto_sqs() if kind == "moto" else fauxqs() as server:
        url = server.queue("cleanup")
        transport = connected(server.settings(url)).transport
        transport.publish(_messages(20))
        held = list(transport.receive(20, MINUTE, SECOND))
        failures: list[TransportFailed] = []
        waiting = threading.Event()

        def poll() -> None:
            waiting.set()
            try:
                while True:
                    transport.receive(10, MINUTE, timedelta(seconds=10))
            except TransportFailed as failed:
                failures.append(failed)

        poller = threading.Thread(target=poll)
        poller.start()
        waiting.wait(10)
        server.kill()
        poller.join(30)

        assert [one.failure.failure_class for one in failures] == [FailureClass.TRANSIENT]
        with pytest.raises(TransportFailed):
            transport.ack(held)

        server.start()
        assert server.queue("cleanup") == url
        # It has forgotten everything, as SQS never would. The receipts are of another life.
        transport.ack(held)
        transport.release(held)
        assert list(transport.publish([message("after")])) == [None]
        assert names_until(transport, ["after"], MINUTE) == Counter(["after"])
