"""What `check` finds about a queue at SQS, one misconfiguration after the other."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.transport import TransportFailed
from support.sqs import NOBODY, Connect
from support.sqs_moods import Moody, refuses
from support.sqs_servers import SECRET, SqsServer

DAY = 86_400
_FINE = {"queue-rights", "queue-retention", "queue-lease"}


@pytest.fixture
def moody(sqs: SqsServer) -> Iterator[Moody]:
    with Moody(sqs.endpoint) as between:
        yield between


def _dead(sqs: SqsServer, receives: int = 24, **attributes: str) -> tuple[str, dict[str, str]]:
    """A queue for dead letters, and the attributes of one that sends them there."""
    url = sqs.queue(**({"MessageRetentionPeriod": str(14 * DAY)} | attributes))
    policy = {"deadLetterTargetArn": sqs.arn(url), "maxReceiveCount": str(receives)}
    return url, {"RedrivePolicy": json.dumps(policy)}


def _found(connected: Connect, sqs: SqsServer, url: str, **more: str) -> dict[str, Finding]:
    found = connected(sqs.settings(url, **more)).findings()
    for one in found:
        assert one.level is Level.INFO or one.remedy, one
        assert SECRET not in one.message + one.remedy
    return {one.code: one for one in found}


def _worse_than_info(found: dict[str, Finding]) -> dict[str, Level]:
    return {code: one.level for code, one in found.items() if one.level is not Level.INFO}


def test_a_queue_as_the_docs_make_it_is_fine(sqs: SqsServer, connected: Connect) -> None:
    _, attributes = _dead(sqs)

    found = _found(connected, sqs, sqs.queue(**attributes))

    assert found.keys() == _FINE
    assert _worse_than_info(found) == {}
    assert "VisibilityTimeout of 30 s does not matter" in found["queue-lease"].message


def test_looking_changes_nothing(sqs: SqsServer, connected: Connect) -> None:
    """Rights are asked for by requests that hold nothing to do."""
    dead, attributes = _dead(sqs)
    url = sqs.queue(**attributes)
    for one in (url, dead):
        sqs.client.send_message(QueueUrl=one, MessageBody="there")

    for _ in range(3):
        _found(connected, sqs, url)

    for one in (url, dead):
        answer = sqs.client.receive_message(
            QueueUrl=one, MaxNumberOfMessages=10, AttributeNames=["ApproximateReceiveCount"]
        )
        (message,) = answer["Messages"]
        assert message["Attributes"]["ApproximateReceiveCount"] == "1"


def test_a_queue_that_is_missing_is_said_with_its_region(
    sqs: SqsServer, connected: Connect
) -> None:
    found = _found(connected, sqs, f"{sqs.queue()}-typo")

    assert _worse_than_info(found) == {"queue-missing": Level.ERROR}
    assert "us-east-1" in found["queue-missing"].message
    assert "create-queue" in found["queue-missing"].remedy


def test_a_server_that_is_not_there_is_said(sqs: SqsServer, connected: Connect) -> None:
    found = _found(connected, sqs, sqs.queue(), endpoint_url=NOBODY)

    assert _worse_than_info(found) == {"queue-unreachable": Level.ERROR}


def test_keys_that_are_refused_are_said(sqs: SqsServer, moody: Moody, connected: Connect) -> None:
    moody.on("GetQueueAttributes", refuses("InvalidClientTokenId", status=403))

    found = _found(connected, sqs, sqs.queue(), endpoint_url=moody.endpoint)

    assert _worse_than_info(found) == {"queue-credentials": Level.ERROR}


def test_a_fifo_queue_is_refused_with_the_reason(sqs: SqsServer, connected: Connect) -> None:
    url = sqs.queue(f"{sqs.queue().rpartition('/')[2]}.fifo", FifoQueue="true")

    found = _found(connected, sqs, url)

    assert _worse_than_info(found) == {"queue-fifo": Level.ERROR}
    with pytest.raises(TransportFailed, match="expected a standard queue") as caught:
        connected(sqs.settings(url)).transport.receive(1, timedelta(minutes=1), timedelta(0))
    assert caught.value.failure.whole_source


def test_a_region_that_contradicts_the_url_is_said(sqs: SqsServer, connected: Connect) -> None:
    url = "https://sqs.eu-west-1.amazonaws.com/000000000000/cleanup"

    found = _found(connected, sqs, url, region="us-east-1", endpoint_url=NOBODY)

    assert found["queue-region"].level is Level.ERROR


@pytest.mark.parametrize(
    ("operation", "right"),
    [
        ("SendMessageBatch", "sqs:SendMessage"),
        ("ReceiveMessage", "sqs:ReceiveMessage"),
        ("DeleteMessageBatch", "sqs:DeleteMessage"),
        ("ChangeMessageVisibilityBatch", "sqs:ChangeMessageVisibility"),
    ],
)
def test_each_right_that_is_denied_is_named(
    sqs: SqsServer, moody: Moody, connected: Connect, operation: str, right: str
) -> None:
    _, attributes = _dead(sqs)
    moody.on(operation, refuses("AccessDeniedException", "User is not authorized"))

    found = _found(connected, sqs, sqs.queue(**attributes), endpoint_url=moody.endpoint)

    assert _worse_than_info(found) == {"queue-right-denied": Level.ERROR}
    assert right in found["queue-right-denied"].message


def test_who_may_not_look_is_told_what_was_not_looked_at(
    sqs: SqsServer, moody: Moody, connected: Connect
) -> None:
    moody.on("GetQueueAttributes", refuses("AccessDeniedException"))

    found = _found(connected, sqs, sqs.queue(), endpoint_url=moody.endpoint)

    assert _worse_than_info(found) == {"queue-right-denied": Level.WARNING}
    assert "neither retention nor dead letters" in found["queue-right-denied"].message


def test_a_queue_without_dead_letters_is_warned_of(sqs: SqsServer, connected: Connect) -> None:
    found = _found(connected, sqs, sqs.queue())

    assert _worse_than_info(found) == {"dead-letters-missing": Level.WARNING}
    assert "maxReceiveCount of 24" in found["dead-letters-missing"].remedy


def test_a_dead_letter_queue_that_is_gone_is_an_error(sqs: SqsServer, connected: Connect) -> None:
    """O-DLQ-03: what is sent there is destroyed."""
    dead, attributes = _dead(sqs)
    url = sqs.queue(**attributes)
    sqs.client.delete_queue(QueueUrl=dead)

    found = _found(connected, sqs, url)

    assert _worse_than_info(found) == {"dead-letters-gone": Level.ERROR}


def test_dead_letters_that_go_elsewhere_are_said(sqs: SqsServer, connected: Connect) -> None:
    _, attributes = _dead(sqs)
    other, _ = _dead(sqs)

    found = _found(connected, sqs, sqs.queue(**attributes), dead_letter_url=other)

    assert _worse_than_info(found) == {"dead-letters-elsewhere": Level.WARNING}


def test_too_few_receives_are_warned_of_with_a_number(sqs: SqsServer, connected: Connect) -> None:
    _, attributes = _dead(sqs, receives=3)

    found = _found(connected, sqs, sqs.queue(**attributes))

    assert _worse_than_info(found) == {"dead-letters-too-soon": Level.WARNING}
    assert "to 24" in found["dead-letters-too-soon"].remedy


def test_dead_letters_that_expire_too_early_are_warned_of(
    sqs: SqsServer, connected: Connect
) -> None:
    """O-DLQ-01: their clock started when they were first sent."""
    _, attributes = _dead(sqs, MessageRetentionPeriod=str(4 * DAY))

    found = _found(connected, sqs, sqs.queue(**attributes, MessageRetentionPeriod=str(7 * DAY)))

    assert _worse_than_info(found) == {"dead-letters-retention": Level.WARNING}
    assert "4 d, and its source for 7 d" in found["dead-letters-retention"].message
    assert "1209600" in found["dead-letters-retention"].remedy


def test_dead_letters_that_are_kept_no_longer_than_in_their_queue_are_warned_of(
    sqs: SqsServer, connected: Connect
) -> None:
    _, attributes = _dead(sqs)

    found = _found(connected, sqs, sqs.queue(**attributes, MessageRetentionPeriod=str(14 * DAY)))

    assert _worse_than_info(found) == {"dead-letters-retention": Level.WARNING}
    assert "of its source to 345600" in found["dead-letters-retention"].remedy


def test_dead_letters_that_move_on_are_warned_of(sqs: SqsServer, connected: Connect) -> None:
    _, further = _dead(sqs)
    _, attributes = _dead(sqs, **further)

    found = _found(connected, sqs, sqs.queue(**attributes))

    assert _worse_than_info(found) == {"dead-letters-move-on": Level.WARNING}


def test_dead_letters_that_wait_are_counted(sqs: SqsServer, connected: Connect) -> None:
    dead, attributes = _dead(sqs)
    sqs.client.send_message(QueueUrl=dead, MessageBody="dead")

    found = _found(connected, sqs, sqs.queue(**attributes))

    assert _worse_than_info(found) == {"dead-letters-waiting": Level.WARNING}
    assert "about 1 messages" in found["dead-letters-waiting"].message


@pytest.mark.parametrize(
    ("attribute", "value", "code", "level"),
    [
        ("MessageRetentionPeriod", "3600", "queue-retention", Level.WARNING),
        ("DelaySeconds", "60", "queue-delay", Level.WARNING),
        ("MaximumMessageSize", "1024", "queue-message-size", Level.ERROR),
    ],
)
def test_a_queue_that_does_not_suit_is_said(
    sqs: SqsServer, connected: Connect, attribute: str, value: str, code: str, level: Level
) -> None:
    _, attributes = _dead(sqs)

    found = _found(connected, sqs, sqs.queue(**attributes, **{attribute: value}))

    assert _worse_than_info(found) == {code: level}
