"""The SQS adapter's own arithmetic: addresses, batches, errors, and who gives up when."""

import re
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from bestbefore.adapters.queues.sqs import SqsSettings, connect
from bestbefore.adapters.queues.sqs.batches import batches, tens
from bestbefore.adapters.queues.sqs.client import Connection
from bestbefore.adapters.queues.sqs.crew import Crew
from bestbefore.adapters.queues.sqs.errors import CallFailed, Refusal, call_failed, entries
from bestbefore.adapters.queues.sqs.place import Place
from bestbefore.domain.failure import Failure, FailureClass

ROOT = Path(__file__).parents[2]
AWS = "https://sqs.eu-west-1.amazonaws.com/123456789012/cleanup"


@pytest.mark.parametrize(
    ("url", "region"),
    [
        (AWS, "eu-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/1/q", "cn-north-1"),
        ("https://sqs-fips.us-gov-west-1.amazonaws.com/1/q", "us-gov-west-1"),
        ("https://vpce-1-a.sqs.eu-west-1.vpce.amazonaws.com/1/q", "eu-west-1"),
        ("https://sqs.eu-central-1.api.aws/1/q", "eu-central-1"),
        ("https://eu-west-1.queue.amazonaws.com/1/q", "eu-west-1"),
        ("https://queue.amazonaws.com/1/q", "us-east-1"),
        ("http://127.0.0.1:9324/000000000000/q", None),
        ("https://sqs.example.com/1/q", None),
    ],
)
def test_a_queues_url_tells_its_region(url: str, region: str | None) -> None:
    assert Place.of(url, "queue_url").region == region


def test_a_queue_is_asked_at_its_own_host_and_signed_for_its_own_region() -> None:
    place = Place.of(AWS, "queue_url")

    connection = Connection(SqsSettings(AWS, access_key_id="a", secret_access_key="b"))

    assert place.endpoint == "https://sqs.eu-west-1.amazonaws.com"
    assert connection.region == "eu-west-1"
    connection.close()


def test_a_name_that_only_old_clients_knew_is_left_to_botocore() -> None:
    assert Place.of("https://queue.amazonaws.com/1/q", "queue_url").endpoint is None


def test_dead_letters_are_looked_for_beside_the_queue() -> None:
    place = Place.of(AWS, "queue_url")

    dead = place.beside("arn:aws:sqs:eu-west-1:123456789012:cleanup-dead")

    assert dead.url == "https://sqs.eu-west-1.amazonaws.com/123456789012/cleanup-dead"


@pytest.mark.parametrize(
    "url", ["cleanup", "arn:aws:sqs:eu-west-1:1:q", "https://host", "ftp://h/q"]
)
def test_what_is_no_queues_url_is_refused_with_what_was_expected(url: str) -> None:
    with pytest.raises(ValueError, match="queue_url: expected a queue's URL like https://sqs"):
        SqsSettings(url)
    with pytest.raises(ValueError, match="dead_letter_url: expected"):
        SqsSettings(AWS, dead_letter_url=url)


def test_no_setting_shows_a_secret() -> None:
    settings = SqsSettings(
        "https://me:pass-word@sqs.example.com/1/q?token=hidden",
        access_key_id="AKIA",
        secret_access_key="s3cr3t",
        endpoint_url="https://me:pass-word@sqs.example.com",
    )

    broker = connect(settings)

    shown = [repr(settings), str(settings), broker.transport.name, repr(broker)]
    assert not any(secret in text for text in shown for secret in ("pass-word", "hidden", "s3cr3t"))
    assert broker.transport.name == "sqs https://sqs.example.com/1/q"
    broker.close()


def test_batches_hold_ten_entries_and_no_more_bytes_than_allowed() -> None:
    sizes = [1] * 12 + [60, 60, 300, 1]

    cut = [list(batch) for batch in batches(sizes, lambda size: size, 100)]

    assert cut == [[1] * 10, [1, 1, 60], [60], [300], [1]]


def test_tens_keep_the_order_and_lose_nothing() -> None:
    assert [list(ten) for ten in tens(range(23))] == [
        list(range(10)),
        list(range(10, 20)),
        [20, 21, 22],
    ]


def _error(code: str, status: int = 400, query: str = "", **headers: str) -> ClientError:
    said = {"Code": code, "Message": "first line\nsecond line"}
    if query:
        said["QueryErrorCode"] = query
    about = {"HTTPStatusCode": status, "HTTPHeaders": headers}
    return ClientError({"Error": said, "ResponseMetadata": about}, "SendMessageBatch")  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [
        (_error("RequestThrottled"), FailureClass.THROTTLED),
        (_error("ThrottlingException"), FailureClass.THROTTLED),
        (_error("OverLimit"), FailureClass.THROTTLED),
        (_error("KMS.ThrottlingException"), FailureClass.THROTTLED),
        (_error("Whatever", 429), FailureClass.THROTTLED),
        (_error("InternalFailure", 500), FailureClass.TRANSIENT),
        (_error("Whatever", 503), FailureClass.TRANSIENT),
        (_error("ExpiredToken", 403), FailureClass.CREDENTIALS),
        (_error("InvalidClientTokenId", 403), FailureClass.CREDENTIALS),
        (_error("SignatureDoesNotMatch", 403), FailureClass.CREDENTIALS),
        (_error("UnrecognizedClientException"), FailureClass.CREDENTIALS),
        (NoCredentialsError(), FailureClass.CREDENTIALS),
        (_error("AccessDenied", 403), FailureClass.PERMISSION),
        (_error("AccessDeniedException"), FailureClass.PERMISSION),
        (_error("KmsDisabled"), FailureClass.PERMISSION),
        (_error("Whatever", 403), FailureClass.PERMISSION),
        (_error("QueueDoesNotExist"), FailureClass.MALFORMED),
        (
            _error("AWS.SimpleQueueService.NonExistentQueue", query="QueueDoesNotExist"),
            FailureClass.MALFORMED,
        ),
        (_error("InvalidMessageContents"), FailureClass.MALFORMED),
        (_error("Whatever"), FailureClass.UNKNOWN),
        (_error("Whatever", 404), FailureClass.UNKNOWN),
        (EndpointConnectionError(endpoint_url="http://me:pw@host"), FailureClass.TRANSIENT),
    ],
    ids=str,
)
def test_every_error_has_its_class(
    error: ClientError | NoCredentialsError, failure_class: FailureClass
) -> None:
    failed = call_failed(error, "sqs https://host/1/q", "eu-west-1")

    assert failed.failure.failure_class is failure_class
    assert str(failed).startswith("sqs https://host/1/q: ")
    assert "pw" not in str(failed)


def test_a_missing_queue_is_about_all_messages_and_names_the_region() -> None:
    error = _error("AWS.SimpleQueueService.NonExistentQueue")

    failure = call_failed(error, f"sqs {AWS}", "eu-west-1").failure

    assert failure.whole_source
    assert AWS in failure.error
    assert failure.error.endswith("asked in the region eu-west-1")


def test_only_the_first_line_of_an_error_is_shown() -> None:
    """Behind it stands what was signed, a session's token among it."""
    failed = call_failed(_error("SignatureDoesNotMatch", 403), "sqs q", "eu-west-1")

    assert "first line" in str(failed)
    assert "second line" not in str(failed)


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("120", timedelta(minutes=2)),
        ("Thu, 01 Jan 2026 00:02:00 GMT", timedelta(minutes=2)),
        ("-5", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("0", timedelta(0)),
        ("9999999999", timedelta(minutes=15)),
        (None, None),
    ],
)
def test_what_retry_after_asks_for_is_kept(header: str | None, wait: timedelta | None) -> None:
    """O-RETRY-01, O-RETRY-02"""
    said = Refusal("ThrottlingException", "slow down", 429, header)

    failure = said.failure("sqs q", "eu-west-1", now=datetime(2026, 1, 1, tzinfo=UTC))

    assert failure.retry_after == wait


def test_an_entry_that_an_answer_does_not_name_did_not_succeed() -> None:
    said = {
        "Successful": [{"Id": "0"}],
        "Failed": [{"Id": "2", "Code": "InternalError", "Message": "", "SenderFault": False}],
    }

    first, unknown, failed = entries(said, 3)

    assert first is None
    assert unknown is not None
    assert unknown.failure_class is FailureClass.TRANSIENT
    assert failed is not None
    assert failed.code == "InternalError"


def test_a_crew_gives_up_when_everything_fails() -> None:
    """A thousand timeouts in a row would outlast every lease."""
    crew = Crew()
    tried: list[int] = []

    def fail(number: int) -> None:
        tried.append(number)
        raise CallFailed(Failure(FailureClass.TRANSIENT, "sqs q: no answer in time"), "NoAnswer")

    results = crew.each(fail, range(1_000))
    crew.close()

    assert len(tried) < 50
    assert all(isinstance(result, CallFailed) for result in results)
    last = results[-1]
    assert isinstance(last, CallFailed)
    assert str(last) == "not tried, as before it sqs q: no answer in time"


def test_a_crew_goes_on_when_only_some_fail() -> None:
    crew = Crew()
    lock = threading.Lock()
    tried: list[int] = []

    def work(number: int) -> int:
        with lock:
            tried.append(number)
        if number % 50 == 0:
            raise CallFailed(Failure(FailureClass.TRANSIENT, "sqs q: lost"), "NoAnswer")
        return number

    results = crew.each(work, range(300))
    crew.close()

    assert sorted(tried) == list(range(300))
    assert [result for result in results if not isinstance(result, CallFailed)] == [
        number for number in range(300) if number % 50
    ]


def test_every_finding_is_documented() -> None:
    code = re.compile(r'"((?:queue|dead-letters)-[a-z-]+)"')
    written = (ROOT / "docs" / "sqs.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "bestbefore" / "adapters" / "queues" / "sqs" / "findings.py"

    found = set(code.findall(source.read_text(encoding="utf-8")))

    assert found == set(re.findall(r"^\| `([a-z-]+)` \|", written, re.MULTILINE))


def test_the_lock_of_npm_names_no_host() -> None:
    lock = ROOT / "tests" / "node" / "fauxqs" / "package-lock.json"

    assert "://" not in lock.read_text(encoding="utf-8")
