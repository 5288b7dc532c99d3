"""What S3's errors mean."""

from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)

from bestbefore.adapters.objects.s3.errors import Refusal, request_failed
from bestbefore.domain.failure import FailureClass as Class

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TARGET = "s3://bucket/key"


@pytest.mark.parametrize(
    ("code", "status", "meaning", "whole"),
    [
        ("SlowDown", 503, Class.THROTTLED, False),
        ("", 429, Class.THROTTLED, False),
        ("503", 503, Class.TRANSIENT, False),
        ("ServiceUnavailable", 503, Class.TRANSIENT, False),
        ("InternalError", 0, Class.TRANSIENT, False),
        ("NeverHeardOf", 502, Class.TRANSIENT, False),
        ("RequestTimeout", 400, Class.TRANSIENT, False),
        ("OperationAborted", 409, Class.TRANSIENT, False),
        ("ExpiredToken", 400, Class.CREDENTIALS, False),
        ("InvalidAccessKeyId", 403, Class.CREDENTIALS, False),
        ("SignatureDoesNotMatch", 403, Class.CREDENTIALS, False),
        ("InvalidToken", 400, Class.CREDENTIALS, False),
        ("RequestTimeTooSkewed", 403, Class.CREDENTIALS, False),
        ("AccessDenied", 403, Class.PERMISSION, False),
        ("AllAccessDisabled", 403, Class.PERMISSION, False),
        ("403", 403, Class.PERMISSION, False),
        ("407", 407, Class.CREDENTIALS, False),
        ("NoSuchBucket", 404, Class.MALFORMED, True),
        ("PermanentRedirect", 301, Class.MALFORMED, True),
        ("301", 301, Class.MALFORMED, True),
        ("AuthorizationHeaderMalformed", 400, Class.MALFORMED, True),
        ("KeyTooLongError", 400, Class.MALFORMED, False),
        ("InvalidArgument", 400, Class.MALFORMED, False),
        ("MalformedXML", 400, Class.MALFORMED, False),
        ("NotImplemented", 501, Class.UNKNOWN, False),
        ("NeverHeardOf", 0, Class.UNKNOWN, False),
        ("", 0, Class.UNKNOWN, False),
    ],
)
def test_a_code_has_one_meaning_and_the_status_decides_without_one(code, status, meaning, whole):
    failure = Refusal(code, "", status).failure(TARGET, NOW)
    assert (failure.failure_class, failure.whole_source) == (meaning, whole)


def test_a_text_names_the_target_the_code_and_the_status():
    failure = Refusal("AccessDenied", "Access Denied.", 403).failure(TARGET, NOW)
    assert failure.error == "s3://bucket/key: AccessDenied (403): Access Denied."
    assert "without a code" in Refusal("", "").failure(TARGET, NOW).error


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("Thu, 01 Jan 2026 00:02:00 GMT", timedelta(seconds=120)),
        ("120", timedelta(seconds=120)),
        ("0", timedelta(0)),
        ("-5", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("9999999999", timedelta(minutes=15)),
        (None, None),
    ],
)
def test_o_retry_01_both_forms_of_retry_after_are_read_and_capped(header, wait):
    assert Refusal("SlowDown", "", 429, header).failure(TARGET, NOW).retry_after == wait


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (ReadTimeoutError(endpoint_url="http://user:secret@host/"), Class.TRANSIENT),
        (EndpointConnectionError(endpoint_url="http://user:secret@host/"), Class.TRANSIENT),
        (ConnectionClosedError(endpoint_url="http://user:secret@host/"), Class.TRANSIENT),
        (NoCredentialsError(), Class.CREDENTIALS),
        (
            ClientError({"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {}}, "HeadObject"),
            Class.PERMISSION,
        ),
    ],
)
def test_what_botocore_raises_is_classified_and_never_shows_a_secret(error, meaning):
    failure = request_failed(error, TARGET, NOW).failure
    assert failure.failure_class is meaning
    assert failure.error.startswith(TARGET)
    assert "secret" not in failure.error
