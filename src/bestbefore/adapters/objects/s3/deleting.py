"""The deleting side of an S3 store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TypeAlias

from bestbefore.adapters.objects.s3.absence import Absence, answered, says_missing
from bestbefore.adapters.objects.s3.client import Connection, Reply, S3Settings, connect
from bestbefore.adapters.objects.s3.conditions import Call, Condition, Conditions
from bestbefore.adapters.objects.s3.crew import SIZE
from bestbefore.adapters.objects.s3.dialect import readable
from bestbefore.adapters.objects.s3.entries import EntryLooker, EntryPages
from bestbefore.adapters.objects.s3.errors import (
    SENT_AGAIN,
    SKEWED,
    Refusal,
    RequestFailed,
    bad_answer,
)
from bestbefore.adapters.objects.s3.findings import findings
from bestbefore.adapters.objects.s3.halving import Halving, Result, Tried
from bestbefore.adapters.objects.s3.looking import Looker, judged
from bestbefore.adapters.objects.s3.pages import Pages
from bestbefore.adapters.objects.s3.removing import EntryRemover
from bestbefore.adapters.objects.s3.uploads import Uploads
from bestbefore.adapters.objects.s3.wire import carries, deletion, parse_deletion
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import impossible
from bestbefore.ports.clock import Clock
from bestbefore.ports.objects import StoreError, Target, Upload

Results: TypeAlias = dict[str, Result]

_CHANGED = frozenset({"PreconditionFailed", "412"})

_KEY = attrgetter("key")


class S3Deleter:
    """An `ObjectDeleter` and `VersionDeleter` over one S3 endpoint, for any number of threads.

    Every delete carries the ETag that was seen, so the store itself compares and deletes in one
    step, if it honours that. Where it does not, a fresh look right before the delete decides.
    """

    def __init__(
        self, settings: S3Settings, clock: Clock, *, connection: Connection | None = None
    ) -> None:
        self._connection = connection or connect(settings, clock)
        self._looker = Looker(self._connection, Pages(self._connection))
        self._absence = Absence(self._connection, self._looker)
        self._conditions = Conditions(self._connection)
        self._traits = self._connection.traits
        self._uploads = Uploads(self._connection)
        entries = EntryLooker(self._connection, EntryPages(self._connection))
        self._remover = EntryRemover(self._connection, entries)

    @property
    def connection(self) -> Connection:
        """What its requests go through."""
        return self._connection

    def delete(self, bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        if targets and targets[0].version is not None:
            return self._remover.remove(bucket, targets)
        results: Results = {}
        in_body: list[Target] = []
        in_url: list[Target] = []
        for target in targets:
            if (reason := impossible(target.key)) is not None:
                error = readable(f"s3://{bucket}/{target.key}") + f": {reason}"
                results[target.key] = Failure(FailureClass.MALFORMED, error)
            elif carries(target.key):
                in_body.append(target)
            else:
                in_url.append(target)
        if in_body:
            results |= self._with(Call.MULTI, bucket, in_body)
        if in_url:
            results |= self._with(Call.SINGLE, bucket, in_url)
        return [results[target.key] for target in targets]

    def abort(self, bucket: str, uploads: Sequence[Upload]) -> Sequence[Outcome | Failure]:
        by_key = {upload.key: upload for upload in uploads}
        ends = self._connection.crew.each(
            bucket, list(by_key), lambda key: self._uploads.abort(bucket, by_key[key])
        )
        return [ends[upload.key] for upload in uploads]

    def check(self, bucket: str, prefix: str) -> Sequence[Finding]:
        return list(findings(self._traits, self._conditions, bucket, prefix))

    def check_versions(self, bucket: str, prefix: str) -> Sequence[Finding]:
        return self._remover.check(bucket, prefix)

    def _with(self, call: Call, bucket: str, targets: Sequence[Target]) -> Results:
        """Delete *targets* by *call*, looking at them first if it ignores conditions."""
        condition = self._conditions.of(bucket, call, targets[0].key)
        if condition is Condition.NO_CALL:
            return self._with(Call.SINGLE, bucket, targets)
        if call is Call.MULTI:
            return Halving(
                name=_KEY,
                try_=partial(self._try, bucket, condition),
                alone=partial(self._alone, bucket),
                about=partial(_about, bucket),
                traits=self._traits,
            ).settle(targets)
        results: Results = {}
        # What was looked at is deleted in the same breath: no more at once than are sent at once.
        size = len(targets) if condition is Condition.HONOURED else SIZE
        for start in range(0, len(targets), size):
            settled, left = self._looked_at(bucket, condition, targets[start : start + size])
            results |= settled | self._singly(bucket, condition, left)
        return results

    def _looked_at(
        self, bucket: str, condition: Condition, targets: Sequence[Target]
    ) -> tuple[Results, Sequence[Target]]:
        """What a fresh look settles of *targets*, and what may be deleted now.

        Before every request, also one that is sent again: where *condition* is not honoured
        nothing else protects what was written meanwhile.
        """
        if condition is Condition.HONOURED:
            return {}, targets
        seen = self._compared(bucket, targets)
        settled = {key: result for key, result in seen.items() if result is not None}
        return settled, [target for target in targets if target.key not in settled]

    def _try(self, bucket: str, condition: Condition, batch: Sequence[Target]) -> Tried[str]:
        """A look at *batch* if it takes one, then one DeleteObjects for what is left of it."""
        tried = self._try_once(bucket, condition, batch)
        if tried.failed is None or condition is Condition.HONOURED:
            return tried
        if tried.failed.code not in SENT_AGAIN:
            return tried
        # Signed anew, as `Connection.call` does it, but not without a look in between.
        again = self._try_once(bucket, condition, tried.left)
        return again._replace(results=tried.results | again.results)

    def _try_once(self, bucket: str, condition: Condition, batch: Sequence[Target]) -> Tried[str]:
        results, left = self._looked_at(bucket, condition, batch)
        if not left:
            return Tried(results)
        answer = self._one_request(bucket, condition, left)
        if isinstance(answer, RequestFailed):
            return Tried(results, left, answer)
        return Tried(results | answer)

    def _alone(self, bucket: str, target: Target) -> Result:
        """*target*, for which even a DeleteObjects of its own failed."""
        return self._with(Call.SINGLE, bucket, [target])[target.key]

    def _one_request(
        self, bucket: str, condition: Condition, batch: Sequence[Target]
    ) -> Results | RequestFailed:
        """DeleteObjects, in verbose mode: only a key that the answer names is deleted."""
        conditional = condition is not Condition.REFUSED
        body = deletion((target.key, target.etag if conditional else None) for target in batch)
        source = f"s3://{bucket}"
        try:
            reply = self._call(condition)("DeleteObjects", source, Bucket=bucket, Delete=body)
            answer = parse_deletion(reply.body)
        except RequestFailed as failed:
            return failed
        except ValueError as error:
            return bad_answer(source, str(error))
        self._traits.took(len(batch))
        results: Results = {}
        doubtful: list[Target] = []
        missing: dict[str, str] = {}
        for target in batch:
            refusal = answer.refused.get(target.key)
            if refusal is not None and refusal.code in _CHANGED:
                doubtful.append(target)
            elif refusal is not None and says_missing(refusal):
                missing[target.key] = answered("DeleteObjects", refusal)
            elif refusal is not None:
                results[target.key] = self._refused(bucket, target, refusal, reply.headers)
            elif target.key in answer.deleted:
                marked = answer.deleted[target.key] is not None
                results[target.key] = _ended(bucket, target, marked=marked)
            else:
                said = f"s3://{bucket}/{target.key}: the store's answer does not name the key"
                results[target.key] = Failure(FailureClass.UNKNOWN, said)
        gone = [target for target in batch if target.key in missing]
        results |= self._absence.confirmed(bucket, gone, missing)
        return results | self._doubted(bucket, doubtful)

    def _call(self, condition: Condition) -> Callable[..., Reply]:
        """How to send a delete: only under a condition that is honoured, again without a look."""
        honoured = condition is Condition.HONOURED
        return self._connection.call if honoured else self._connection.call_once

    def _refused(
        self, bucket: str, target: Target, refusal: Refusal, headers: Mapping[str, str]
    ) -> Result:
        now = self._connection.clock.now()
        said = replace(refusal, retry_after=headers.get("retry-after"))
        return said.failure(f"s3://{bucket}/{target.key}", now)

    def _singly(self, bucket: str, condition: Condition, targets: Sequence[Target]) -> Results:
        """A DELETE for each of *targets*, whose keys travel percent-encoded in the URL."""
        by_key = {target.key: target for target in targets}
        return self._connection.crew.each(
            bucket, list(by_key), lambda key: self._single(bucket, condition, by_key[key])
        )

    def _single(self, bucket: str, condition: Condition, target: Target) -> Result:
        """A DELETE for *target*, and after another look a second one if the first was skewed."""
        result = self._single_once(bucket, condition, target)
        if not isinstance(result, RequestFailed):
            return result
        if result.code == SKEWED and condition is not Condition.HONOURED:
            settled, _ = self._looked_at(bucket, condition, [target])
            if settled:
                return settled[target.key]
            result = self._single_once(bucket, condition, target)
        return result.failure if isinstance(result, RequestFailed) else result

    def _single_once(
        self, bucket: str, condition: Condition, target: Target
    ) -> Result | RequestFailed:
        params = {} if condition is Condition.REFUSED else {"IfMatch": f'"{target.etag}"'}
        name = f"s3://{bucket}/{target.key}"
        try:
            reply = self._call(condition)(
                "DeleteObject", name, Bucket=bucket, Key=target.key, **params
            )
        except RequestFailed as failed:
            if says_missing(failed):
                said = {target.key: answered("DeleteObject", failed)}
                return self._absence.confirmed(bucket, [target], said)[target.key]
            if failed.code in _CHANGED:
                return self._doubted(bucket, [target])[target.key]
            return failed
        return _ended(bucket, target, marked=reply.fields.get("DeleteMarker") is True)

    def _doubted(self, bucket: str, targets: Sequence[Target]) -> Results:
        """*targets* whose condition did not hold: something else is there, or nothing."""
        results: Results = {}
        for key, result in self._compared(bucket, targets).items():
            error = f"s3://{bucket}/{key}: refused as changed, yet it looks as it did"
            results[key] = result or Failure(FailureClass.TRANSIENT, error)
        return results

    def _compared(
        self, bucket: str, targets: Sequence[Target]
    ) -> Mapping[str, Outcome | Failure | None]:
        """A fresh look at *targets*: None for what is still exactly what was seen."""
        if not targets:
            return {}
        try:
            looks = self._looker.look(bucket, [target.key for target in targets])
        except StoreError as error:
            return {target.key: _about(bucket, target, error.failure) for target in targets}
        return {target.key: judged(target, looks[target.key]) for target in targets}


def _ended(bucket: str, target: Target, *, marked: bool) -> Result:
    """*target* was deleted, or *marked* as deleted: its bytes stay, and so would those of all that
    come after it, which has to be meant.

    The marker stays too. Only a person knows who switched versioning on, and what for.
    """
    if target.hides or not marked:
        return Outcome.DELETED
    error = (
        f"s3://{bucket}/{target.key}: versioning was switched on after this was planned: only a "
        "delete marker was written, which stays and hides the object; nothing was freed"
    )
    return Failure(FailureClass.MALFORMED, error, whole_source=True)


def _about(bucket: str, target: Target, failure: Failure) -> Failure:
    """*failure*, which was about the whole bucket, as *target*'s own."""
    source = f"s3://{bucket}"
    said = failure.error.removeprefix(source)
    return replace(failure, error=f"{source}/{target.key}{said}")
