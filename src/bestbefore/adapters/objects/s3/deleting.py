"""The deleting side of an S3 store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from bestbefore.adapters.objects.s3.client import Connection, S3Settings, connect
from bestbefore.adapters.objects.s3.conditions import Call, Condition, Conditions
from bestbefore.adapters.objects.s3.errors import NO_ANSWER, Refusal, RequestFailed, bad_answer
from bestbefore.adapters.objects.s3.looking import Looker
from bestbefore.adapters.objects.s3.pages import Pages
from bestbefore.adapters.objects.s3.wire import carries, deletion, parse_deletion
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.identity import object_identity
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import Listed, impossible
from bestbefore.ports.clock import Clock
from bestbefore.ports.objects import StoreError, Target

Result: TypeAlias = Outcome | Failure
Results: TypeAlias = dict[str, Result]

_CHANGED = frozenset({"PreconditionFailed", "412"})
_GONE = frozenset({"NoSuchKey", "404"})

_ONE_OF_THEM = frozenset({FailureClass.MALFORMED, FailureClass.UNKNOWN})
"""Failures of a whole request that one odd key may cause: looked into down to the single key."""

_NONE_OF_THEM = frozenset({FailureClass.THROTTLED, FailureClass.CREDENTIALS})
"""Failures of a whole request that no key in it causes and that more requests only feed."""


_FINDINGS: Mapping[Condition, Callable[[str], Finding]] = {
    Condition.HONOURED: lambda call: Finding(
        "conditions-honoured",
        Level.INFO,
        f"{call} honours conditions: only what was seen is deleted",
        "",
    ),
    Condition.IGNORED: lambda call: Finding(
        "conditions-ignored",
        Level.WARNING,
        f"{call} ignores conditions; a fresh look right before each delete decides instead",
        "nothing to do, but an overwrite in the moment between the two is not noticed",
    ),
    Condition.REFUSED: lambda call: Finding(
        "conditions-refused",
        Level.WARNING,
        f"{call} does not know conditions; a fresh look right before each delete decides instead",
        "nothing to do, but an overwrite in the moment between the two is not noticed",
    ),
    Condition.UNPROVEN: lambda call: Finding(
        "delete-unproven",
        Level.WARNING,
        f"{call} could not be probed: deleting a key that does not exist was denied, or failed",
        "look whether these keys may delete (s3:DeleteObject, s3:GetObject) under the prefix",
    ),
}


class S3Deleter:
    """An `ObjectDeleter` over one S3 endpoint, for any number of threads.

    Every delete carries the ETag that was seen, so the store itself compares and deletes in one
    step, if it honours that. Where it does not, a fresh look right before the delete decides.
    """

    def __init__(
        self, settings: S3Settings, clock: Clock, *, connection: Connection | None = None
    ) -> None:
        self._connection = connection or connect(settings, clock)
        self._looker = Looker(self._connection, Pages(self._connection))
        self._conditions = Conditions(self._connection)
        self._bulk_works: dict[str, bool] = {}

    def delete(self, bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        results: Results = {}
        in_body: list[Target] = []
        in_url: list[Target] = []
        for target in targets:
            if (reason := impossible(target.key)) is not None:
                error = f"s3://{bucket}/{target.key}: {reason}"
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

    def check(self, bucket: str, prefix: str) -> Sequence[Finding]:
        return [_FINDINGS[self._conditions.of(bucket, call, prefix)](call.value) for call in Call]

    def _with(self, call: Call, bucket: str, targets: Sequence[Target]) -> Results:
        """Delete *targets* by *call*, looking at them first if it ignores conditions."""
        results: Results = {}
        condition = self._conditions.of(bucket, call, targets[0].key)
        if condition is not Condition.HONOURED:
            seen = self._compared(bucket, targets)
            results |= {key: result for key, result in seen.items() if result is not None}
            targets = [target for target in targets if seen[target.key] is None]
        if not targets:
            return results
        conditional = condition is not Condition.REFUSED
        if call is Call.MULTI:
            return results | self._in_bulk(bucket, targets, conditional)
        return results | self._singly(bucket, targets, conditional)

    def _in_bulk(self, bucket: str, batch: Sequence[Target], conditional: bool) -> Results:
        """One DeleteObjects for all of *batch*, and as few more as it takes to be fair."""
        answer = self._one_request(bucket, batch, conditional)
        if isinstance(answer, RequestFailed):
            return self._divided(bucket, batch, conditional, answer)
        return answer

    def _divided(
        self, bucket: str, batch: Sequence[Target], conditional: bool, failed: RequestFailed
    ) -> Results:
        """What becomes of *batch* after the request with all of it has *failed*.

        That says nothing about one key, so it is sent again in halves. An outage is told from a
        bad key by both halves failing as the whole did, and where each try costs a timeout
        already by the first.
        """
        failure = failed.failure
        charged: Results = {target.key: _about(bucket, target, failure) for target in batch}
        if failure.whole_source or failure.failure_class in _NONE_OF_THEM or failure.retry_after:
            return charged
        if len(batch) == 1:
            return self._alone(bucket, batch[0], failure, charged)
        middle = len(batch) // 2
        halves = batch[:middle], batch[middle:]
        answers = [self._one_request(bucket, halves[0], conditional)]
        if failed.code == NO_ANSWER and _same_way(answers, failed):
            return charged
        answers.append(self._one_request(bucket, halves[1], conditional))
        if failure.failure_class not in _ONE_OF_THEM and _same_way(answers, failed):
            return charged
        results: Results = {}
        for half, answer in zip(halves, answers, strict=True):
            if isinstance(answer, RequestFailed):
                answer = self._divided(bucket, half, conditional, answer)
            results |= answer
        return results

    def _alone(self, bucket: str, target: Target, failure: Failure, charged: Results) -> Results:
        """*target*, for which even a DeleteObjects of its own ended in *failure*."""
        if failure.failure_class not in _ONE_OF_THEM:
            return charged
        results = self._with(Call.SINGLE, bucket, [target])
        if isinstance(results[target.key], Outcome):
            # Not the key's fault. If no DeleteObjects ever worked here, none will (GCS).
            self._bulk_works.setdefault(bucket, False)
        return results

    def _one_request(
        self, bucket: str, batch: Sequence[Target], conditional: bool
    ) -> Results | RequestFailed:
        """DeleteObjects, in verbose mode: only a key that the answer names is deleted."""
        if self._bulk_works.get(bucket) is False:
            return self._with(Call.SINGLE, bucket, batch)
        body = deletion((target.key, target.etag if conditional else None) for target in batch)
        source = f"s3://{bucket}"
        try:
            reply = self._connection.call("DeleteObjects", source, Bucket=bucket, Delete=body)
            answer = parse_deletion(reply.body)
        except RequestFailed as failed:
            return failed
        except ValueError as error:
            return bad_answer(source, str(error))
        self._bulk_works[bucket] = True
        results: Results = {}
        doubtful: list[Target] = []
        for target in batch:
            refusal = answer.refused.get(target.key)
            if refusal is not None and refusal.code in _CHANGED:
                doubtful.append(target)
            elif refusal is not None:
                results[target.key] = self._refused(bucket, target, refusal, reply.headers)
            elif target.key in answer.deleted:
                results[target.key] = Outcome.DELETED
            else:
                said = f"s3://{bucket}/{target.key}: the store's answer does not name the key"
                results[target.key] = Failure(FailureClass.UNKNOWN, said)
        return results | self._doubted(bucket, doubtful)

    def _refused(
        self, bucket: str, target: Target, refusal: Refusal, headers: Mapping[str, str]
    ) -> Result:
        if refusal.code in _GONE:
            return Outcome.ABSENT
        now = self._connection.clock.now()
        said = replace(refusal, retry_after=headers.get("retry-after"))
        return said.failure(f"s3://{bucket}/{target.key}", now)

    def _singly(self, bucket: str, targets: Sequence[Target], conditional: bool) -> Results:
        """A DELETE for each of *targets*, whose keys travel percent-encoded in the URL."""
        by_key = {target.key: target for target in targets}
        return self._connection.crew.each(
            bucket, list(by_key), lambda key: self._single(bucket, by_key[key], conditional)
        )

    def _single(self, bucket: str, target: Target, conditional: bool) -> Result:
        params = {"IfMatch": f'"{target.etag}"'} if conditional else {}
        name = f"s3://{bucket}/{target.key}"
        try:
            self._connection.call("DeleteObject", name, Bucket=bucket, Key=target.key, **params)
        except RequestFailed as failed:
            if failed.code in _GONE:
                return Outcome.ABSENT
            if failed.code in _CHANGED:
                return self._doubted(bucket, [target])[target.key]
            return failed.failure
        return Outcome.DELETED

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
        return {target.key: _judged(target, looks[target.key]) for target in targets}


def _judged(target: Target, look: Listed | Failure | None) -> Outcome | Failure | None:
    if look is None:
        return Outcome.ABSENT
    if isinstance(look, Failure):
        return look
    seen = object_identity(target.etag, target.last_modified)
    same = object_identity(look.etag, look.last_modified) == seen
    return None if same else Outcome.CHANGED


def _about(bucket: str, target: Target, failure: Failure) -> Failure:
    """*failure*, which was about the whole bucket, as *target*'s own."""
    source = f"s3://{bucket}"
    said = failure.error.removeprefix(source)
    return replace(failure, error=f"{source}/{target.key}{said}")


def _same_way(answers: Sequence[Results | RequestFailed], failed: RequestFailed) -> bool:
    """Whether every one of *answers* is a failure of the same class as *failed*."""
    return all(
        isinstance(answer, RequestFailed)
        and answer.failure.failure_class is failed.failure.failure_class
        for answer in answers
    )
