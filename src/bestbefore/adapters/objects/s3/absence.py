"""What a store says is not there, made sure of by looking.

A 404 may also come from a proxy that knows no such path, for a bucket that is not there, or from a
store that does not know the call: the object would be counted as removed, and stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bestbefore.adapters.objects.s3.client import Connection
from bestbefore.adapters.objects.s3.errors import CLASSES, Refusal, RequestFailed
from bestbefore.adapters.objects.s3.looking import Looker, judged
from bestbefore.adapters.objects.s3.pages import Pages
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import StoreError, Target

Result = Outcome | Failure

_MISSING = frozenset({"NoSuchKey", "NoSuchVersion", "NotFound", "404"})
_HEAD_UNUSABLE = frozenset({FailureClass.MALFORMED, FailureClass.UNKNOWN})


class Absence:
    """Looks at what a delete was told is not there, for any number of threads."""

    def __init__(self, connection: Connection, looker: Looker) -> None:
        self._looker = looker
        self._pages = Pages(connection)

    def confirmed(
        self, bucket: str, targets: Sequence[Target], said: Mapping[str, str]
    ) -> dict[str, Result]:
        """What became of *targets*, for which the store *said* (by key, from `answered`) that
        they are not there: `ABSENT` only if they are not, in a bucket that answers. By key."""
        if not targets:
            return {}
        try:
            looks = self._looker.look(bucket, [target.key for target in targets])
        except StoreError as error:
            looks = dict.fromkeys(said, error.failure)
        return {
            target.key: settled(
                f"s3://{bucket}/{target.key}",
                said[target.key],
                judged(target, self._listed_instead(bucket, target.key, looks[target.key])),
            )
            for target in targets
        }

    def _listed_instead(
        self, bucket: str, key: str, look: Listed | Failure | None
    ) -> Listed | Failure | None:
        """*look*, or what a listing says of *key* where a HEAD cannot."""
        if not isinstance(look, Failure) or look.whole_source:
            return look
        if look.failure_class not in _HEAD_UNUSABLE:
            return look
        try:
            part = self._pages.part(bucket, key, most=1)
        except StoreError:
            return look
        return next((item for item in part.items if item.key == key), None)


def says_missing(said: RequestFailed | Refusal) -> bool:
    """Whether a store *said*, of a request or of one key in it, that its target is not there. What
    it said of a bucket or of an upload does not count."""
    return said.code in _MISSING or (said.status == 404 and said.code not in CLASSES)


def answered(call: str, said: RequestFailed | Refusal) -> str:
    """What *call* was answered with, in words."""
    status = f" ({said.status})" if said.status and said.code != str(said.status) else ""
    return f"{call} answered {said.code or 'an error without a code'}{status}"


def settled(target: str, said: str, found: Result | None) -> Result:
    """The result for *target* (``s3://bucket/key``) of which the store *said* that it is not there
    and a look *found*: nothing (`ABSENT`), something else (`CHANGED`), exactly what was seen
    (None), or that it cannot look."""
    if found is None:
        return Failure(
            FailureClass.UNKNOWN,
            f"{target}: {said}, yet it is there; look whether the store and what stands before it "
            "(a proxy, a gateway) support this call for this key",
        )
    if not isinstance(found, Failure):
        return found
    why = found.error.removeprefix(target).removeprefix(": ")
    return replace(
        found,
        error=f"{target}: {said}, and a look could not confirm that it is gone: {why}",
    )
