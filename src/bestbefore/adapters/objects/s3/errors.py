"""What S3's and botocore's errors mean, in the product's words.

One table, read by code first and by HTTP status where the code says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from bestbefore.adapters.botocore_errors import (
    CREDENTIAL_ERRORS,
    NO_ANSWER_ERRORS,
    no_answer,
)
from bestbefore.domain.failure import Failure, FailureClass, parse_retry_after
from bestbefore.ports.objects import StoreError

NO_ANSWER = "NoAnswer"
"""Our code for a request that nobody answered: a timeout, a lost or refused connection."""

BAD_ANSWER = "BadAnswer"
"""Our code for a success that says nothing: empty, cut off, or not what was asked for."""

NOT_IMPLEMENTED = "NotImplemented"
SKEWED = "RequestTimeTooSkewed"
MISSING_MD5 = "MissingContentMD5"

SENT_AGAIN = frozenset({SKEWED, MISSING_MD5})
"""Codes of requests that a second try of the same kind is likely to get through."""

CLASSES: Mapping[str, FailureClass] = {
    NO_ANSWER: FailureClass.TRANSIENT,
    BAD_ANSWER: FailureClass.TRANSIENT,
    "InternalError": FailureClass.TRANSIENT,
    "ServiceUnavailable": FailureClass.TRANSIENT,
    "RequestTimeout": FailureClass.TRANSIENT,
    "OperationAborted": FailureClass.TRANSIENT,
    "ConditionalRequestConflict": FailureClass.TRANSIENT,
    "BadDigest": FailureClass.TRANSIENT,
    "IncompleteBody": FailureClass.TRANSIENT,
    "NoSuchUpload": FailureClass.TRANSIENT,  # a copy in parts that somebody else aborted
    "SlowDown": FailureClass.THROTTLED,
    "SlowDownRead": FailureClass.THROTTLED,  # MinIO's two
    "SlowDownWrite": FailureClass.THROTTLED,
    "Throttling": FailureClass.THROTTLED,
    "ThrottlingException": FailureClass.THROTTLED,
    "RequestLimitExceeded": FailureClass.THROTTLED,
    "TooManyRequests": FailureClass.THROTTLED,
    "BandwidthLimitExceeded": FailureClass.THROTTLED,
    "ExpiredToken": FailureClass.CREDENTIALS,
    "TokenRefreshRequired": FailureClass.CREDENTIALS,
    "InvalidToken": FailureClass.CREDENTIALS,
    "InvalidAccessKeyId": FailureClass.CREDENTIALS,
    "InvalidSecurity": FailureClass.CREDENTIALS,
    "SignatureDoesNotMatch": FailureClass.CREDENTIALS,
    "NotSignedUp": FailureClass.CREDENTIALS,
    "AccountProblem": FailureClass.CREDENTIALS,
    SKEWED: FailureClass.CREDENTIALS,
    "AccessDenied": FailureClass.PERMISSION,
    "AllAccessDisabled": FailureClass.PERMISSION,
    "NoSuchBucket": FailureClass.MALFORMED,
    "InvalidBucketName": FailureClass.MALFORMED,
    "PermanentRedirect": FailureClass.MALFORMED,
    "TemporaryRedirect": FailureClass.MALFORMED,
    "Redirect": FailureClass.MALFORMED,
    "AuthorizationHeaderMalformed": FailureClass.MALFORMED,
    "IllegalLocationConstraintException": FailureClass.MALFORMED,
    "InvalidObjectState": FailureClass.MALFORMED,  # in a class that has to be thawed first
    "KeyTooLong": FailureClass.MALFORMED,
    "KeyTooLongError": FailureClass.MALFORMED,
    "InvalidArgument": FailureClass.MALFORMED,
    "InvalidRequest": FailureClass.MALFORMED,
    "InvalidURI": FailureClass.MALFORMED,
    "MalformedXML": FailureClass.MALFORMED,
    MISSING_MD5: FailureClass.MALFORMED,
    NOT_IMPLEMENTED: FailureClass.UNKNOWN,
}
"""What each code means for one attempt. A code that is not here is judged by its status."""

WHOLE_SOURCE = frozenset(
    {
        "NoSuchBucket",
        "InvalidBucketName",
        "PermanentRedirect",
        "TemporaryRedirect",
        "Redirect",
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
    }
)
"""Codes that say that the bucket, as configured, cannot be worked on: missing, or elsewhere."""

_STATUSES: Mapping[int, FailureClass] = {
    400: FailureClass.MALFORMED,
    401: FailureClass.CREDENTIALS,
    403: FailureClass.PERMISSION,
    407: FailureClass.CREDENTIALS,  # a proxy's
    408: FailureClass.TRANSIENT,
    409: FailureClass.TRANSIENT,
    429: FailureClass.THROTTLED,
    501: FailureClass.UNKNOWN,
}


class RequestFailed(StoreError):
    """One request that did not do what it was sent for. ``code`` is the store's own word for it,
    `NO_ANSWER` or `BAD_ANSWER`; ``status`` the HTTP status, 0 where there was none."""

    def __init__(self, failure: Failure, code: str, status: int = 0) -> None:
        super().__init__(failure)
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as a store states it: for a request, or for one key inside a success.

    ``region`` is where the store says that the bucket is.
    """

    code: str
    message: str
    status: int = 0
    retry_after: str | None = None
    region: str | None = None

    def failure(self, target: str, now: datetime) -> Failure:
        """This refusal of *target* (``s3://bucket/key``) in the product's words."""
        status = f" ({self.status})" if self.status and self.code != str(self.status) else ""
        message = f": {self.message}" if self.message else ""
        whole = self.code in WHOLE_SOURCE or 300 <= self.status < 400
        if whole and self.region:
            # Not followed: it is a wrong configuration, or a stranger's bucket of that name.
            message += f"; the bucket is in the region {self.region}, not in that of this store"
        return Failure(
            self._class(),
            f"{target}: {self.code or 'an error without a code'}{status}{message}",
            parse_retry_after(self.retry_after, now),
            whole_source=whole,
        )

    def _class(self) -> FailureClass:
        if (known := CLASSES.get(self.code)) is not None:
            return known
        if 300 <= self.status < 400:
            return FailureClass.MALFORMED
        if self.status >= 500 and self.status not in _STATUSES:
            return FailureClass.TRANSIENT
        return _STATUSES.get(self.status, FailureClass.UNKNOWN)


def refusal(error: ClientError) -> Refusal:
    """What the store said in *error*.

    An answer to HEAD has no body, so there botocore gives its status as its code.
    """
    answer = error.response
    said = answer.get("Error", {})
    about = answer.get("ResponseMetadata", {})
    headers = about.get("HTTPHeaders", {})
    code, message = str(said.get("Code", "")), str(said.get("Message", ""))
    if code == "InvalidRequest" and "content-md5" in message.lower():
        code = MISSING_MD5
    return Refusal(
        code,
        message,
        int(about.get("HTTPStatusCode", 0)),
        headers.get("retry-after"),
        headers.get("x-amz-bucket-region"),
    )


def request_failed(error: BotoCoreError | ClientError, target: str, now: datetime) -> RequestFailed:
    """*error*, raised by a request about *target*, as one that may leave the adapter.

    The texts of transport errors are our own, as botocore's hold the URL and so whatever
    user and password an endpoint was configured with.
    """
    if isinstance(error, ClientError):
        said = refusal(error)
        return RequestFailed(said.failure(target, now), said.code, said.status)
    if isinstance(error, CREDENTIAL_ERRORS):
        failure = Failure(FailureClass.CREDENTIALS, f"{target}: {type(error).__name__}")
        return RequestFailed(failure, type(error).__name__)
    if isinstance(error, ParamValidationError):
        return RequestFailed(
            Failure(FailureClass.MALFORMED, f"{target}: {error}"), "InvalidRequest"
        )
    if isinstance(error, NO_ANSWER_ERRORS):
        failure = Failure(FailureClass.TRANSIENT, f"{target}: {no_answer(error)}")
        return RequestFailed(failure, NO_ANSWER)
    failure = Failure(FailureClass.TRANSIENT, f"{target}: {type(error).__name__}")
    return RequestFailed(failure, BAD_ANSWER)


def bad_answer(target: str, what: str) -> RequestFailed:
    """A success that cannot be believed, because *what*."""
    return RequestFailed(Failure(FailureClass.TRANSIENT, f"{target}: {what}"), BAD_ANSWER)
