"""Where a delete is about to be sent: somebody else may answer it in the store's place."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from botocore.awsrequest import AWSResponse

from bestbefore.adapters.objects.s3.deleting import S3Deleter

_STATUS = 503
_ANSWER = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Slowing:
    """Answers each delete that *deleter* sends with 503 SlowDown while ``retry_after``, the
    header's value, is set; the store hears nothing of it. ``deletes`` counts those that it was
    asked for, answered here or not."""

    def __init__(self, deleter: S3Deleter) -> None:
        self.retry_after: str | None = None
        self.deletes = 0
        for operation in ("DeleteObject", "DeleteObjects"):
            deleter.connection.events.register(f"before-send.s3.{operation}", self._answered)

    def _answered(self, request: Any, **_: object) -> AWSResponse | None:
        self.deletes += 1
        if self.retry_after is None:
            return None
        headers: Any = {"Retry-After": self.retry_after, "Content-Type": "application/xml"}
        return AWSResponse(request.url, _STATUS, headers, _Body(_ANSWER))


class _Body(BytesIO):
    """A body as botocore reads it from a socket."""

    def stream(self) -> Iterator[bytes]:
        yield self.read()
