"""Whether a bucket honours the condition of a conditional delete."""

import secrets
from enum import Enum

from bestbefore.adapters.objects.s3.client import Connection
from bestbefore.adapters.objects.s3.errors import NOT_IMPLEMENTED, RequestFailed
from bestbefore.adapters.objects.s3.wire import deletion, parse_deletion
from bestbefore.domain.selection import MAX_KEY_BYTES

_ETAG = "0" * 32
_REFUSED = frozenset({NOT_IMPLEMENTED, "MalformedXML", "InvalidArgument", "InvalidRequest"})
_HONOURED = frozenset({"PreconditionFailed", "NoSuchKey", "404", "412"})


class Call(Enum):
    """The two ways to delete. A store can honour conditions in one and not in the other."""

    MULTI = "DeleteObjects"
    SINGLE = "DeleteObject"


class Condition(Enum):
    """What became of a condition on a key that does not exist."""

    HONOURED = "honoured"
    IGNORED = "ignored"  # the store reports a success, so it did not look
    REFUSED = "refused"  # the store does not know what the condition is
    UNPROVEN = "unproven"  # denied or failed: says nothing, and is asked again next time


class Conditions:
    """Probes once per bucket and kind of call, and remembers what was proven.

    The probe deletes a key that does not exist, so it writes nothing. Two threads may probe at
    the same time and find the same.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._proven: dict[tuple[str, Call], Condition] = {}

    def of(self, bucket: str, call: Call, beside: str) -> Condition:
        """What *call* does with conditions in *bucket*.

        The probe goes to the folder of the key *beside*, as rights often end with a prefix.
        """
        known = self._proven.get((bucket, call))
        if known is not None:
            return known
        found = self._probe(bucket, call, _probe_key(beside))
        if found is not Condition.UNPROVEN:
            self._proven[bucket, call] = found
        return found

    def _probe(self, bucket: str, call: Call, key: str) -> Condition:
        try:
            code, marker = self._send(bucket, call, key)
        except RequestFailed as failed:
            code, marker = failed.code, None
        except ValueError:
            return Condition.UNPROVEN
        if marker is not None:
            self._remove_marker(bucket, key, marker)
        if code is None:
            return Condition.IGNORED
        if code in _HONOURED:
            return Condition.HONOURED
        return Condition.REFUSED if code in _REFUSED else Condition.UNPROVEN

    def _send(self, bucket: str, call: Call, key: str) -> tuple[str | None, str | None]:
        """The error code the store gives, None for a success, and the marker that this left."""
        target = f"s3://{bucket}/{key}"
        if call is Call.SINGLE:
            reply = self._connection.call(
                call.value, target, Bucket=bucket, Key=key, IfMatch=f'"{_ETAG}"'
            )
            marked = reply.fields.get("DeleteMarker") is True
            return None, reply.fields.get("VersionId") if marked else None
        body = deletion([(key, _ETAG)])
        reply = self._connection.call(call.value, target, Bucket=bucket, Delete=body)
        answer = parse_deletion(reply.body)
        if key in answer.deleted:
            return None, answer.deleted[key]
        if (refused := answer.refused.get(key)) is not None:
            return refused.code, None
        raise ValueError("the answer does not name the key")

    def _remove_marker(self, bucket: str, key: str, version: str) -> None:
        target = f"s3://{bucket}/{key}"
        try:
            self._connection.call("DeleteObject", target, Bucket=bucket, Key=key, VersionId=version)
        except RequestFailed:
            return  # a marker on a key that never existed hides nothing


def _probe_key(beside: str) -> str:
    folder, slash, _ = beside.rpartition("/")
    name = f"{folder}{slash}.bestbefore-probe-{secrets.token_hex(8)}"
    return name if len(name.encode()) <= MAX_KEY_BYTES else name[len(folder + slash) :]
