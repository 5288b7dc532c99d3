"""What SQS's and botocore's errors mean, in the product's words.

One table, read by code first and by HTTP status where the code says nothing. Only what is about
one message is ever called malformed without being about the whole queue, as such a message is
given up for good.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from bestbefore.adapters.botocore_errors import (
    CREDENTIAL_ERRORS,
    NO_ANSWER_ERRORS,
    no_answer,
)
from bestbefore.domain.failure import Failure, FailureClass, parse_retry_after
from bestbefore.ports.transport import TransportFailed

NO_ANSWER = "NoAnswer"
"""Our code for a request that nobody answered: a timeout, a lost or refused connection."""

BAD_ANSWER = "BadAnswer"
"""Our code for a success that does not say what was asked."""

ONE_MESSAGE = frozenset({"InvalidMessageContents", "InvalidParameterValue", "BatchRequestTooLong"})
"""Codes that are about what was sent. Of a batch they may be about any one of its entries."""

LOST = frozenset(
    {
        "ReceiptHandleIsInvalid",
        "MessageNotInflight",
        "InvalidIdFormat",
        "InvalidParameterValue",  # a handle that has expired, or beyond the limit of 12 hours
    }
)
"""Codes for an entry whose receipt is good for nothing any more."""

MISSING = frozenset({"QueueDoesNotExist", "NonExistentQueue", "QueueDeletedRecently"})

_WHOLE_QUEUE = MISSING | {"InvalidAddress", "UnsupportedOperation"}
"""Codes that say that the queue, as configured, cannot be worked on: missing, or elsewhere."""

CLASSES: Mapping[str, FailureClass] = {
    NO_ANSWER: FailureClass.TRANSIENT,
    BAD_ANSWER: FailureClass.TRANSIENT,
    "InternalError": FailureClass.TRANSIENT,
    "InternalFailure": FailureClass.TRANSIENT,
    "ServiceUnavailable": FailureClass.TRANSIENT,
    "RequestTimeout": FailureClass.TRANSIENT,
    "RequestThrottled": FailureClass.THROTTLED,
    "Throttling": FailureClass.THROTTLED,
    "ThrottlingException": FailureClass.THROTTLED,
    "ThrottledException": FailureClass.THROTTLED,
    "RequestLimitExceeded": FailureClass.THROTTLED,
    "TooManyRequestsException": FailureClass.THROTTLED,
    "OverLimit": FailureClass.THROTTLED,  # about 120,000 messages are in flight
    "KmsThrottled": FailureClass.THROTTLED,
    "ExpiredToken": FailureClass.CREDENTIALS,
    "ExpiredTokenException": FailureClass.CREDENTIALS,
    "IncompleteSignature": FailureClass.CREDENTIALS,
    "InvalidAccessKeyId": FailureClass.CREDENTIALS,
    "InvalidClientTokenId": FailureClass.CREDENTIALS,
    "InvalidSecurity": FailureClass.CREDENTIALS,
    "InvalidSignatureException": FailureClass.CREDENTIALS,
    "MissingAuthenticationToken": FailureClass.CREDENTIALS,
    "MissingAuthenticationTokenException": FailureClass.CREDENTIALS,
    "NotSignedUp": FailureClass.CREDENTIALS,
    "OptInRequired": FailureClass.CREDENTIALS,
    "RequestExpired": FailureClass.CREDENTIALS,
    "SignatureDoesNotMatch": FailureClass.CREDENTIALS,
    "UnrecognizedClientException": FailureClass.CREDENTIALS,
    "AccessDenied": FailureClass.PERMISSION,
    "AccessDeniedException": FailureClass.PERMISSION,
    "AuthorizationError": FailureClass.PERMISSION,
    "KmsAccessDenied": FailureClass.PERMISSION,
    "KmsDisabled": FailureClass.PERMISSION,
    "KmsInvalidKeyUsage": FailureClass.PERMISSION,
    "KmsInvalidState": FailureClass.PERMISSION,
    "KmsNotFound": FailureClass.PERMISSION,
    "KmsOptInRequired": FailureClass.PERMISSION,
    "InvalidMessageContents": FailureClass.MALFORMED,
    "InvalidParameterValue": FailureClass.MALFORMED,
    "BatchRequestTooLong": FailureClass.MALFORMED,
    **dict.fromkeys(_WHOLE_QUEUE, FailureClass.MALFORMED),
}
"""What each code means for one attempt. A code that is not here is judged by its status."""

_STATUSES: Mapping[int, FailureClass] = {
    401: FailureClass.CREDENTIALS,
    403: FailureClass.PERMISSION,
    408: FailureClass.TRANSIENT,
    429: FailureClass.THROTTLED,
}

_PREFIXES = ("AWS.SimpleQueueService.", "KMS.")
_MOST_SHOWN = 300


class CallFailed(TransportFailed):
    """One request that did not do what it was sent for. ``code`` is SQS's own word for it,
    `NO_ANSWER` or `BAD_ANSWER`."""

    def __init__(self, failure: Failure, code: str) -> None:
        super().__init__(failure)
        self.code = code


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as SQS states it: for a request, or for one entry inside a success."""

    code: str
    message: str
    status: int = 0
    retry_after: str | None = None

    def failure(self, target: str, region: str, *, now: datetime | None = None) -> Failure:
        """This refusal, by the queue called *target*, in the product's words."""
        status = f" ({self.status})" if self.status else ""
        # Behind the first line of a refused signature stands what was signed, a session's token
        # among it.
        message = self.message.strip().partition("\n")[0][:_MOST_SHOWN]
        where = f"; asked in the region {region}" if self.code in _WHOLE_QUEUE else ""
        return Failure(
            self.failure_class,
            f"{target}: {self.code or 'an error without a code'}{status}"
            f"{': ' if message else ''}{message}{where}",
            parse_retry_after(self.retry_after, now or datetime.now(UTC)),
            whole_source=self.code in _WHOLE_QUEUE,
        )

    @property
    def failure_class(self) -> FailureClass:
        if (known := CLASSES.get(self.code)) is not None:
            return known
        if self.status >= 500:
            return FailureClass.TRANSIENT
        return _STATUSES.get(self.status, FailureClass.UNKNOWN)


def call_failed(error: BotoCoreError | ClientError, target: str, region: str) -> CallFailed:
    """*error*, raised by a request about the queue *target*, as one that may leave the adapter.

    The texts of transport errors are our own: botocore's say more than people need.
    """
    if isinstance(error, ClientError):
        said = _refusal(error)
        return CallFailed(said.failure(target, region), said.code)
    kind = type(error).__name__
    if isinstance(error, CREDENTIAL_ERRORS):
        return CallFailed(Failure(FailureClass.CREDENTIALS, f"{target}: {kind}"), kind)
    if isinstance(error, NO_ANSWER_ERRORS):
        return CallFailed(
            Failure(FailureClass.TRANSIENT, f"{target}: {no_answer(error)}"), NO_ANSWER
        )
    return CallFailed(Failure(FailureClass.TRANSIENT, f"{target}: {kind}"), BAD_ANSWER)


def bad_answer(target: str, what: str) -> CallFailed:
    """A success that cannot be believed, because *what*."""
    return CallFailed(Failure(FailureClass.TRANSIENT, f"{target}: {what}"), BAD_ANSWER)


def entries(said: Mapping[str, Any], number: int) -> list[Refusal | None]:
    """What an answer to a batch of *number* entries, called 0, 1, …, says of each in turn.

    An entry that it does not name did not succeed as far as we know.
    """
    found: dict[str, Refusal | None] = {
        one.get("Id", ""): Refusal(_plain(one.get("Code", "")), one.get("Message", ""))
        for one in said.get("Failed", ())
    }
    found |= {one.get("Id", ""): None for one in said.get("Successful", ())}
    unknown = Refusal(BAD_ANSWER, "the answer does not say what became of it")
    return [found.get(str(n), unknown) for n in range(number)]


def _refusal(error: ClientError) -> Refusal:
    answer: Mapping[str, Any] = error.response
    said = answer.get("Error", {})
    about = answer.get("ResponseMetadata", {})
    # The name that SQS had for it in its former protocol, and the one that it has now.
    codes = [_plain(str(said.get(name, ""))) for name in ("Code", "QueryErrorCode")]
    known = [code for code in codes if code in CLASSES]
    return Refusal(
        (known or codes)[0],
        str(said.get("Message", "")),
        int(about.get("HTTPStatusCode", 0)),
        about.get("HTTPHeaders", {}).get("retry-after"),
    )


def _plain(code: str) -> str:
    for prefix in _PREFIXES:
        code = code.removeprefix(prefix)
    return code
