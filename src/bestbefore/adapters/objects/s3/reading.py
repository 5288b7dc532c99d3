"""What no listing shows: an object's tags and what is in it."""

from collections.abc import Mapping, Sequence
from contextlib import closing

from botocore.exceptions import BotoCoreError

from bestbefore.adapters.objects.s3.client import Connection
from bestbefore.adapters.objects.s3.errors import RequestFailed, bad_answer, request_failed
from bestbefore.domain.failure import Failure

_NO_KEY = "NoSuchKey"
_NO_TAGS = frozenset({"NoSuchTagSet", "NoSuchTagSetError"})
"""How some stores say that an object has no tags; S3 answers with an empty set."""


def tags(
    connection: Connection, bucket: str, keys: Sequence[str]
) -> Mapping[str, Mapping[str, str] | Failure | None]:
    """See `ObjectLister.tags`."""

    def of(key: str) -> Mapping[str, str] | Failure | None:
        return _tags(connection, bucket, key)

    return connection.crew.each(bucket, list(dict.fromkeys(keys)), of)


def _tags(connection: Connection, bucket: str, key: str) -> Mapping[str, str] | Failure | None:
    target = f"s3://{bucket}/{key}"
    try:
        reply = connection.call("GetObjectTagging", target, Bucket=bucket, Key=key)
    except RequestFailed as failed:
        if failed.code == _NO_KEY:
            return None
        return {} if failed.code in _NO_TAGS else failed.failure
    try:
        return {str(tag["Key"]): str(tag["Value"]) for tag in reply.fields["TagSet"]}
    except KeyError:
        # Nothing must be read as "no tags" but a set that is empty.
        return bad_answer(target, "the answer holds no set of tags").failure


def content(connection: Connection, bucket: str, key: str, most: int) -> bytes | None:
    """See `ObjectLister.content`."""
    target = f"s3://{bucket}/{key}"
    try:
        reply = connection.call("GetObject", target, Bucket=bucket, Key=key)
    except RequestFailed as failed:
        if failed.code == _NO_KEY:
            return None
        raise
    try:
        with closing(reply.fields["Body"]) as body:
            read: bytes = body.read(most)
    except BotoCoreError as error:
        raise request_failed(error, target, connection.clock.now()) from error
    if len(read) < min(most, int(reply.fields.get("ContentLength", 0))):
        raise bad_answer(target, "the answer ends before the object does")
    return read
