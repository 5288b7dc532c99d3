"""Whether a bucket honours the condition of a conditional delete."""

import secrets
from enum import Enum

from bestbefore.adapters.objects.s3.client import Connection
from bestbefore.adapters.objects.s3.errors import BAD_ANSWER, NOT_IMPLEMENTED, RequestFailed
from bestbefore.adapters.objects.s3.traits import Capability
from bestbefore.adapters.objects.s3.wire import deletion, parse_deletion
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.selection import MAX_KEY_BYTES
from bestbefore.ports.endpoints import Learnt

_ETAG = "0" * 32
_SUCCESS = "a success"  # no store's code for an error
_REFUSED = frozenset({NOT_IMPLEMENTED, "MalformedXML", "InvalidArgument", "InvalidRequest"})
_NOT_UNDERSTOOD = frozenset({FailureClass.MALFORMED, FailureClass.UNKNOWN})
_FAILED = frozenset({"PreconditionFailed", "412"})
_MISSING = frozenset({"NoSuchKey", "404"})


class Call(Enum):
    """The two ways to delete. A store can honour conditions in one and not in the other."""

    MULTI = "DeleteObjects"
    SINGLE = "DeleteObject"


_ABOUT = {
    Call.MULTI: Capability.MULTI_CONDITIONS,
    Call.SINGLE: Capability.SINGLE_CONDITIONS,
}


class Condition(Enum):
    """What became of a condition on a key that does not exist."""

    HONOURED = "honoured"
    IGNORED = "ignored"  # the store says what it says without one, so it may not have looked
    REFUSED = "refused"  # the store does not know what the condition is
    NO_CALL = "no call"  # it does not know DeleteObjects at all, with or without one
    UNPROVEN = "unproven"  # denied or failed: says nothing, and is asked again next time


class Conditions:
    """Probes once per bucket and kind of call; what was proven is one of the endpoint's traits.

    A probe deletes a key that does not exist, under a condition and, if that leaves it open, one
    more without: it writes nothing. Two threads may probe at the same time and find the same.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, bucket: str, call: Call, beside: str) -> Condition:
        """What *call* does with conditions in *bucket*.

        The probe goes to the folder of the key *beside*, as rights often end with a prefix.
        """
        learnt = self._connection.traits.found(_ABOUT[call], bucket)
        if learnt is not None:
            return Condition(learnt.value)
        return self.asked_anew(bucket, call, beside)[0]

    def asked_anew(self, bucket: str, call: Call, beside: str) -> tuple[Condition, Learnt | None]:
        """The same by a probe, whatever is known; with the earlier finding that it confirms."""
        traits, about = self._connection.traits, _ABOUT[call]
        found = self._probe(bucket, call, beside)
        learnt = traits.found(about, bucket)
        if learnt is not None and learnt.value == found.value:
            return found, learnt
        if found is not Condition.UNPROVEN:
            # What deletes rely on is not taken from another process.
            traits.learn(about, found.value, bucket, keep=found is not Condition.HONOURED)
        return found, None

    def _probe(self, bucket: str, call: Call, beside: str) -> Condition:
        code = self._ask(bucket, call, beside, _ETAG)
        if code == _SUCCESS:
            return Condition.IGNORED
        if code in _FAILED:
            return Condition.HONOURED
        if code in _MISSING:
            return self._compared_with_none(bucket, call, beside)
        return self._refused(bucket, call, beside) if code in _REFUSED else Condition.UNPROVEN

    def _refused(self, bucket: str, call: Call, beside: str) -> Condition:
        """What was refused under a condition: the condition, or any call of that kind?"""
        code = self._ask(bucket, call, beside, None)
        if code == _SUCCESS or code in _MISSING:
            return Condition.REFUSED
        no_call = call is Call.MULTI and code in _REFUSED
        return Condition.NO_CALL if no_call else Condition.UNPROVEN

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
            failure = failed.failure
            understood = failure.failure_class not in _NOT_UNDERSTOOD or failure.whole_source
            if call is Call.MULTI and not understood:
                return NOT_IMPLEMENTED  # however the store, or a proxy before it, calls that
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
    """A key that does not exist, in the folder of the key *beside*."""
    folder, slash, _ = beside.rpartition("/")
    name = f"{folder}{slash}.bestbefore-probe-{secrets.token_hex(8)}"
    return name if len(name.encode()) <= MAX_KEY_BYTES else name[len(folder + slash) :]
