"""The deleting side: one conditional DELETE per object, as the API knows no other.

`If-Match` protects what was overwritten after it was listed, where it is honoured. A server that
ignores it answers as if all were well, so whether it does is asked first, of a key that does not
exist: RFC 9110 (13.1.1) has a condition fail there, with 412. Where nothing is proven, a look right
before each DELETE decides, which leaves the moment between the two.
"""

import threading
from collections.abc import Sequence
from functools import partial
from uuid import uuid4

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import StoreError, Target, Upload
from bestbefore_http_store.api import Api, item
from bestbefore_http_store.listing import HttpLister


class HttpDeleter:
    """An `ObjectDeleter`."""

    def __init__(self, api: Api, lister: HttpLister) -> None:
        self._api = api
        self._lister = lister
        self._honours: dict[str, bool] = {}
        self._lock = threading.Lock()

    def delete(self, bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        if not targets:
            return []
        try:
            sure = self._is_honoured(bucket)
        except StoreError:  # proves nothing; each target gets an answer of its own
            sure = False
        results = self._api.each(partial(self._delete, bucket, sure=sure), targets)
        return self._confirmed(bucket, results)

    def abort(self, bucket: str, uploads: Sequence[Upload]) -> Sequence[Outcome | Failure]:  # noqa: ARG002
        """There are no unfinished uploads."""
        return [Outcome.ABSENT] * len(uploads)

    def check(self, bucket: str, prefix: str) -> Sequence[Finding]:
        place = f"{self._api.place}/{bucket}/{prefix}"
        try:
            self._lister.describe(bucket)
            honoured = self._probe(bucket, prefix)
        except StoreError as error:
            code = f"store-{error.failure.failure_class}"
            return [Finding(code, Level.ERROR, str(error), "correct url, bucket or token")]
        if honoured:
            said = f"DELETE below {place} honours If-Match: only what was seen is deleted"
            return [Finding("conditions-honoured", Level.INFO, said, "")]
        return [
            Finding(
                "conditions-unproven",
                Level.WARNING,
                f"DELETE below {place} does not show that it honours If-Match; a fresh look right "
                "before each delete decides instead",
                "nothing to do, but an overwrite in the moment between the two is not noticed",
            )
        ]

    def _is_honoured(self, bucket: str) -> bool:
        """Asked once per process; a failed question is asked again. Raises StoreError."""
        with self._lock:
            if bucket not in self._honours:
                self._honours[bucket] = self._probe(bucket, "")
            return self._honours[bucket]

    def _probe(self, bucket: str, prefix: str) -> bool:
        path = item(bucket, f"{prefix.rpartition('/')[0] or '_'}/bestbefore-probe-{uuid4().hex}")
        return self._call(path, "bestbefore-probe") == 412

    def _call(self, path: str, etag: str) -> int:
        answer = self._api.call(
            "DELETE", path, good=(200, 204, 404, 412), headers={"If-Match": f'"{etag}"'}
        )
        return answer.status_code

    def _delete(self, bucket: str, target: Target, *, sure: bool) -> Outcome | Failure:
        if not sure and (verdict := self._judge(bucket, target)) is not None:
            return verdict
        try:
            status = self._call(item(bucket, target.key), target.etag)
        except StoreError as error:
            return error.failure
        if status == 412:
            # Of an object that is gone the condition fails too.
            return self._judge(bucket, target) or Failure(
                FailureClass.UNKNOWN,
                f"{bucket}/{target.key}: it is what was seen, and DELETE says that it is not",
            )
        return Outcome.ABSENT if status == 404 else Outcome.DELETED

    def _judge(self, bucket: str, target: Target) -> Outcome | Failure | None:
        """Why *target* is not to be deleted as it is now; None if it is what was seen."""
        match self._lister.head(bucket, target.key):
            case None:
                return Outcome.ABSENT
            case Listed() as now:
                return None if now.etag == target.etag else Outcome.CHANGED
            case Failure() as failure:
                return failure

    def _confirmed(
        self, bucket: str, results: Sequence[Outcome | Failure]
    ) -> Sequence[Outcome | Failure]:
        """*results*, where "absent" is only said of a container that is there."""
        if Outcome.ABSENT not in results:
            return results
        try:
            self._lister.describe(bucket)
        except StoreError as error:
            failed = error.failure
            return [failed if result is Outcome.ABSENT else result for result in results]
        return results
