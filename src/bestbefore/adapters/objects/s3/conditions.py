"""Whether a bucket honours the condition of a conditional delete."""

import secrets
from enum import Enum

from bestbefore.adapters.objects.s3.client import Connection
from bestbefore.adapters.objects.s3.errors import BAD_ANSWER, NOT_IMPLEMENTED, RequestFailed
from bestbefore.adapters.objects.s3.wire import deletion, parse_deletion
from bestbefore.domain.selection import MAX_KEY_BYTES

_ETAG = "0" * 32
_SUCCESS = "a success"  # no store's code for an error
_REFUSED = frozenset({NOT_IMPLEMENTED, "MalformedXML", "InvalidArgument", "InvalidRequest"})
_FAILED = frozenset({"PreconditionFailed", "412"})
_MISSING = frozenset({"NoSuchKey", "404"})


class Call(Enum):
    """The two ways to delete. A store can honour conditions in one and not in the other."""

    MULTI = "DeleteObjects"
    SINGLE = "DeleteObject"


class Condition(Enum):
    """What became of a condition on a key that does not exist."""

    HONOURED = "honoured"
    IGNORED = "ignored"  # the store says what it says without one, so it may not have looked
    REFUSED = "refused"  # the store does not know what the condition is
    UNPROVEN = "unproven"  # denied or failed: says nothing, and is asked again next time


class Conditions:
    """Probes once per bucket and kind of call, and remembers what was proven.

    A probe deletes a key that does not exist, under a condition and, if that leaves it open, one
    more without: it writes nothing. Two threads may probe at the same time and find the same.
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
        found = self._probe(bucket, call, beside)
        if found is not Condition.UNPROVEN:
            self._proven[bucket, call] = found
        return found

    def _probe(self, bucket: str, call: Call, beside: str) -> Condition:
        code = self._ask(bucket, call, beside, _ETAG)
        if code == _SUCCESS:
            return Condition.IGNORED
        if code in _FAILED:
            return Condition.HONOURED
        if code in _MISSING:
            return self._compared_with_none(bucket, call, beside)
        return Condition.REFUSED if code in _REFUSED else Condition.UNPROVEN

    def _compared_with_none(self, bucket: str, call: Call, beside: str) -> Condition:
        """What "there is no such key" says about a condition.

        AWS says it because of the condition, and SeaweedFS in one of the two calls. A store that
        says it to every delete of a missing key (GCS) may well ignore conditions.
        """
        code = self._ask(bucket, call, beside, None)
        if code == _SUCCESS:
            return Condition.HONOURED
        return Condition.IGNORED if code in _MISSING else Condition.UNPROVEN

    def _ask(self, bucket: str, call: Call, beside: str, etag: str | None) -> str:
        """What the store says to *call* of a new missing key: a code, or one of our two."""
        key = probe_key(beside)
        try:
            code, marker = self._send(bucket, call, key, etag)
        except RequestFailed as failed:
            return failed.code
        except ValueError:
            return BAD_ANSWER
        if marker:
            self._remove_marker(bucket, key, marker)
        return code

    def _send(self, bucket: str, call: Call, key: str, etag: str | None) -> tuple[str, str | None]:
        """The error code the store gives, or `_SUCCESS`, and the marker that this left."""
        target = f"s3://{bucket}/{key}"
        if call is Call.SINGLE:
            condition = {} if etag is None else {"IfMatch": f'"{etag}"'}
            reply = self._connection.call(call.value, target, Bucket=bucket, Key=key, **condition)
            marked = reply.fields.get("DeleteMarker") is True
            return _SUCCESS, reply.fields.get("VersionId") if marked else None
        body = deletion([(key, etag)])
        reply = self._connection.call(call.value, target, Bucket=bucket, Delete=body)
        answer = parse_deletion(reply.body)
        if key in answer.deleted:
            return _SUCCESS, answer.deleted[key]
        if (refused := answer.refused.get(key)) is not None:
            return refused.code, None
        raise ValueError("the answer does not name the key")

    def _remove_marker(self, bucket: str, key: str, version: str) -> None:
        target = f"s3://{bucket}/{key}"
        try:
            self._connection.call("DeleteObject", target, Bucket=bucket, Key=key, VersionId=version)
        except RequestFailed:
            return  # a marker on a key that never existed hides nothing


def probe_key(beside: str) -> str:
    folder, slash, _ = beside.rpartition("/")
    name = f"{folder}{slash}.bestbefore-probe-{secrets.token_hex(8)}"
    return name if len(name.encode()) <= MAX_KEY_BYTES else name[len(folder + slash) :]
