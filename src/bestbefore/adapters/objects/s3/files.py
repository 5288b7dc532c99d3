"""Whole files in an S3 store: what archives of rows are kept in."""

from base64 import b64encode
from collections.abc import Sequence
from contextlib import closing
from hashlib import md5

from botocore.exceptions import BotoCoreError

from bestbefore.adapters.objects.s3.client import Connection, S3Settings, connect
from bestbefore.adapters.objects.s3.conditions import probe_key
from bestbefore.adapters.objects.s3.errors import RequestFailed, bad_answer, request_failed
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.clock import Clock

_NO_KEY = "NoSuchKey"


class S3Files:
    """A `FileStore` over one S3 endpoint, for any number of threads."""

    def __init__(
        self, settings: S3Settings, clock: Clock, *, connection: Connection | None = None
    ) -> None:
        self._connection = connection or connect(settings, clock)
        self._found: set[str] = set()

    def put(self, bucket: str, key: str, body: bytes) -> None:
        self._find(bucket)
        digest = md5(body, usedforsecurity=False)
        reply = self._connection.call(
            "PutObject", _name(bucket, key), Bucket=bucket, Key=key, Body=body,
            ContentMD5=b64encode(digest.digest()).decode(),
        )  # fmt: skip
        # An ETag that is the MD5 was computed from what arrived. Where it is something else, as
        # with encryption under a key of KMS, what is there has to be read.
        same = str(reply.fields.get("ETag", "")).strip('"') == digest.hexdigest()
        if not same and self.get(bucket, key) != body:
            raise bad_answer(_name(bucket, key), "what is there is not what was written")

    def get(self, bucket: str, key: str) -> bytes | None:
        self._find(bucket)
        try:
            reply = self._connection.call("GetObject", _name(bucket, key), Bucket=bucket, Key=key)
        except RequestFailed as failed:
            if failed.code == _NO_KEY:
                return None
            raise
        try:
            with closing(reply.fields["Body"]) as body:
                read: bytes = body.read()
        except BotoCoreError as error:
            raise request_failed(error, _name(bucket, key), self._connection.clock.now()) from error
        return read

    def remove(self, bucket: str, key: str) -> None:
        self._connection.call("DeleteObject", _name(bucket, key), Bucket=bucket, Key=key)

    def check(self, bucket: str, prefix: str) -> Sequence[Finding]:
        place = _name(bucket, prefix)
        try:
            self.get(bucket, probe_key(prefix))
        except RequestFailed as failed:
            return [
                Finding(
                    "archive-unproven",
                    Level.WARNING,
                    f"{place}: reading a file that does not exist was denied, or failed "
                    f"({failed.code or failed.status})",
                    "look whether the store's keys may list, read, write and delete there "
                    "(s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject)",
                )
            ]
        said = f"{place} can be read; whether it can be written only a file will tell"
        return [Finding("archive-reached", Level.INFO, said, "")]

    def _find(self, bucket: str) -> None:
        """Raise where *bucket* is not there: some stores would make it, or say that it holds no
        such file."""
        if bucket not in self._found:
            self._connection.call("GetBucketVersioning", _name(bucket, ""), Bucket=bucket)
            self._found.add(bucket)


def _name(bucket: str, key: str) -> str:
    return f"s3://{bucket}/{key}"
