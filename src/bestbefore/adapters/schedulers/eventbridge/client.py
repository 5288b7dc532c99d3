"""Calls to EventBridge Scheduler: patient with what passes, and clear about what does not."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore import exceptions
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError

from bestbefore.domain.failure import Failure, FailureClass, backoff
from bestbefore.ports.scheduler import SchedulerFailed

TRIES = 5
"""Of one call; then it has failed."""

_CONNECT_SECONDS, _READ_SECONDS = 5, 30
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.2, 20.0
"""A person may be waiting, and requests per second are what is throttled."""

_CODES: Mapping[str, FailureClass] = {
    "ThrottlingException": FailureClass.THROTTLED,
    "TooManyRequestsException": FailureClass.THROTTLED,
    "InternalServerException": FailureClass.TRANSIENT,
    "ServiceUnavailableException": FailureClass.TRANSIENT,
    "AccessDeniedException": FailureClass.PERMISSION,
    "AccessDenied": FailureClass.PERMISSION,
    "UnrecognizedClientException": FailureClass.CREDENTIALS,
    "InvalidClientTokenId": FailureClass.CREDENTIALS,
    "InvalidSignatureException": FailureClass.CREDENTIALS,
    "SignatureDoesNotMatch": FailureClass.CREDENTIALS,
    "ExpiredTokenException": FailureClass.CREDENTIALS,
    "ExpiredToken": FailureClass.CREDENTIALS,
    "MissingAuthenticationTokenException": FailureClass.CREDENTIALS,
    "ValidationException": FailureClass.MALFORMED,
    "ResourceNotFoundException": FailureClass.MALFORMED,
    "ServiceQuotaExceededException": FailureClass.MALFORMED,
}
_AGAIN = (FailureClass.THROTTLED, FailureClass.TRANSIENT)

_READ_ONLY = ("Arn", "Name", "CreationDate", "LastModificationDate")
"""What a schedule is told with and cannot be written with; its name stands in the path."""


_AS_RECEIVED = "AsReceived"


class Absent(Exception):
    """What was asked for is not there."""


class Taken(Exception):
    """It is there already, or somebody else is changing it at this moment."""


@dataclass(frozen=True, slots=True)
class Access:
    """Whose account, and where. None leaves a value to boto3's own chain."""

    region: str | None = None
    endpoint_url: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)

    def client(self, service: str) -> Any:
        """A client of *service* that tries once."""
        session: Any = boto3.session.Session()  # stubs know the services of their day only
        return session.client(
            service,
            region_name=self.region,
            endpoint_url=self.endpoint_url,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            config=Config(
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=_READ_SECONDS,
                retries={"total_max_attempts": 1},
            ),
        )


class Calls:
    """The operations of one scheduler, which *name* calls in messages."""

    def __init__(
        self,
        access: Access,
        name: str,
        sleep: Callable[[float], None],
        spread: Callable[[], float],
    ) -> None:
        self._client = access.client("scheduler")
        self._name = name
        self._sleep = sleep
        self._spread = spread
        self._put_back = threading.local()  # botocore sends in the thread that asks
        events = self._client.meta.events
        events.register("after-call.scheduler.GetSchedule", _keep_as_received)
        events.register("before-call.scheduler.UpdateSchedule", self._write_as_received)

    def ask(self, operation: str, **parameters: Any) -> Any:
        """What *operation* answers; raises Absent, Taken and SchedulerFailed."""
        call = getattr(self._client, operation)
        attempt = 1
        while True:
            try:
                return call(**parameters)
            except (BotoCoreError, ClientError, ResponseParserError) as error:
                failure = self._failure(operation, error)
                if attempt == TRIES or failure.failure_class not in _AGAIN:
                    raise SchedulerFailed(failure) from error
            self._sleep(
                backoff(
                    attempt,
                    spread=self._spread,
                    base=_FIRST_WAIT_SECONDS,
                    cap=_LONGEST_WAIT_SECONDS,
                )
            )
            attempt += 1

    def schedule(self, group: str, name: str) -> dict[str, Any]:
        """Everything that is said of a schedule, as JSON; raises Absent and SchedulerFailed.

        Read from the answer itself: botocore drops what is newer than its model of the service.
        """
        answer = self.ask("get_schedule", GroupName=group, Name=name)
        document: dict[str, Any] = json.loads(answer[_AS_RECEIVED])
        return document

    def switch(self, group: str, name: str, state: str) -> None:
        """Set the state of a schedule. An update replaces all of it, so all of it is put back,
        as it was received. Raises Absent and SchedulerFailed.
        """
        found = self.schedule(group, name)
        if found.get("State", "ENABLED") == state:
            return
        target = found["Target"]
        self._put_back.body = {
            key: value
            for key, value in found.items()
            if key not in _READ_ONLY and value is not None
        } | {"State": state}
        try:
            self.ask(
                "update_schedule",
                GroupName=group,
                Name=name,
                ScheduleExpression=found["ScheduleExpression"],
                FlexibleTimeWindow={"Mode": "OFF"},
                Target={"Arn": target["Arn"], "RoleArn": target["RoleArn"]},
            )
        finally:
            self._put_back.body = None

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def _write_as_received(self, params: dict[str, Any], **_: Any) -> None:
        """Send what `switch` puts back, in place of what botocore made of it."""
        if (body := getattr(self._put_back, "body", None)) is not None:
            token = json.loads(params["body"]).get("ClientToken")
            params["body"] = json.dumps(body | ({"ClientToken": token} if token else {})).encode()

    def _failure(self, operation: str, error: Exception) -> Failure:
        what = f"{self._name}: {operation.replace('_', ' ')}"
        if isinstance(error, ClientError):
            said = error.response.get("Error", {})
            code = said.get("Code", "")
            if code == "ResourceNotFoundException":
                raise Absent from error
            if code == "ConflictException":
                raise Taken from error
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            class_ = _CODES.get(code)
            if class_ is None:
                class_ = FailureClass.TRANSIENT if status >= 500 else FailureClass.UNKNOWN
            message = said.get("Message") or "no reason was given"
            return Failure(class_, f"{what}: HTTP {status} {code}: {message}")
        if isinstance(error, NoCredentialsError | PartialCredentialsError):
            remedy = "set access_key_id_env and secret_access_key_env, or boto3's own variables"
            return Failure(FailureClass.CREDENTIALS, f"{what}: no credentials were found; {remedy}")
        if isinstance(error, HTTPClientError | exceptions.ConnectionError):
            return Failure(
                FailureClass.TRANSIENT, f"{what}: nobody answers ({type(error).__name__})"
            )
        if isinstance(error, ResponseParserError):  # whose text is all that was answered
            return Failure(
                FailureClass.TRANSIENT, f"{what}: the answer is not AWS's; see endpoint_url"
            )
        return Failure(FailureClass.UNKNOWN, f"{what}: {error}")


def _keep_as_received(http_response: Any, parsed: dict[str, Any], **_: Any) -> None:
    parsed[_AS_RECEIVED] = http_response.content
