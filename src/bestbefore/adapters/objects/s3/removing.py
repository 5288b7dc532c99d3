"""Removing single entries of a bucket that keeps versions, each by its id."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeAlias

from bestbefore.adapters.objects.s3.absence import answered, says_missing, settled
from bestbefore.adapters.objects.s3.client import Connection
from bestbefore.adapters.objects.s3.conditions import probe_key
from bestbefore.adapters.objects.s3.crew import SIZE
from bestbefore.adapters.objects.s3.dialect import readable
from bestbefore.adapters.objects.s3.entries import EntryLooker
from bestbefore.adapters.objects.s3.errors import RequestFailed, bad_answer
from bestbefore.adapters.objects.s3.halving import Halving, Result, Tried
from bestbefore.adapters.objects.s3.looking import judged
from bestbefore.adapters.objects.s3.wire import carries, parse_version_deletion, version_deletion
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import impossible
from bestbefore.domain.versions import NULL
from bestbefore.ports.objects import StoreError, Target

Name: TypeAlias = tuple[str, str]
Results: TypeAlias = dict[Name, Result]

_CLOCKS_DIFFER = timedelta(minutes=5)


class EntryRemover:
    """Removes versions and delete markers of one endpoint, for any number of threads.

    An id names what was seen for ever, so it takes no condition (and AWS refuses one beside it).
    Only ``null`` names a place: a fresh look right before decides whether it still is what was
    seen.
    """

    def __init__(self, connection: Connection, looker: EntryLooker) -> None:
        self._connection = connection
        self._looker = looker
        self._bulk_works: dict[str, bool] = {}

    def remove(self, bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        """See `ObjectDeleter.delete`."""
        results: Results = {}
        named: list[Target] = []
        null: list[Target] = []
        for target in targets:
            if (reason := impossible(target.key)) is not None:
                error = readable(_place(bucket, target)) + f": {reason}"
                results[_name(target)] = Failure(FailureClass.MALFORMED, error)
            else:
                (null if target.version == NULL else named).append(target)
        results |= self._removed(bucket, named)
        # What was looked at goes in the same breath: no more at once than are looked at at once.
        for start in range(0, len(null), SIZE):
            settled, left = self._looked_at(bucket, null[start : start + SIZE])
            results |= settled | self._removed(bucket, left)
        return [results[_name(target)] for target in targets]

    def check(self, bucket: str, prefix: str) -> Sequence[Finding]:
        """See `VersionDeleter.check_versions`: removes a version of a key that does not exist."""
        probe = Target(probe_key(prefix), "", self._connection.clock.now(), NULL)
        result = self._single(bucket, probe)
        if isinstance(result, Outcome):
            message = "DeleteObject may remove single versions"
            return [Finding("versions-removable", Level.INFO, message, "")]
        message = f"removing a version of a key that does not exist failed: {result.error}"
        remedy = "look whether these keys may remove versions (s3:DeleteObjectVersion) there"
        return [Finding("delete-unproven", Level.WARNING, message, remedy)]

    def _looked_at(
        self, bucket: str, targets: Sequence[Target]
    ) -> tuple[Results, Sequence[Target]]:
        """What a fresh look settles of *targets*, and what may go now."""
        try:
            seen = self._looker.look_at(bucket, [_name(target) for target in targets])
        except StoreError as error:
            return {_name(t): _about(bucket, t, error.failure) for t in targets}, []
        settled: Results = {}
        for target in targets:
            if (result := judged(target, seen[_name(target)])) is not None:
                settled[_name(target)] = result
        return settled, [target for target in targets if _name(target) not in settled]

    def _removed(self, bucket: str, targets: Sequence[Target]) -> Results:
        in_body: list[Target] = []
        in_url: list[Target] = []
        for target in targets:
            fits = carries(target.key) and carries(target.version or "")
            (in_body if fits else in_url).append(target)
        results: Results = {}
        if in_body:
            results |= Halving(
                name=_name,
                try_=partial(self._try, bucket),
                alone=partial(self._alone, bucket),
                about=partial(_about, bucket),
                traits=self._connection.traits,
            ).settle(in_body)
        results |= self._singly(bucket, in_url)
        return results | self._locked(bucket, [t for t in targets if _denied(results[_name(t)])])

    def _try(self, bucket: str, batch: Sequence[Target]) -> Tried[Name]:
        """One DeleteObjects for *batch*; only an entry that the answer names is gone."""
        if self._bulk_works.get(bucket) is False:
            return Tried(self._singly(bucket, batch))
        source = f"s3://{bucket}"
        body = version_deletion(map(_name, batch))
        try:
            reply = self._connection.call(
                "DeleteObjects", source, Bucket=bucket, Delete=body, **_bypass(batch[0])
            )
            answer = parse_version_deletion(reply.body)
        except RequestFailed as failed:
            return Tried({}, batch, failed)
        except ValueError as error:
            return Tried({}, batch, bad_answer(source, str(error)))
        self._bulk_works[bucket] = True
        self._connection.traits.took(len(batch))
        now = self._connection.clock.now()
        results: Results = {}
        missing: dict[Name, str] = {}
        for target in batch:
            name = _name(target)
            refusal = answer.refused.get(name)
            if refusal is not None and says_missing(refusal):
                missing[name] = answered("DeleteObjects", refusal)
            elif refusal is not None:
                said = replace(refusal, retry_after=reply.headers.get("retry-after"))
                results[name] = said.failure(_place(bucket, target), now)
            elif name in answer.deleted:
                results[name] = Outcome.DELETED
            else:
                said_not = f"{_place(bucket, target)}: the store's answer does not name it"
                results[name] = Failure(FailureClass.UNKNOWN, said_not)
        gone = [target for target in batch if _name(target) in missing]
        return Tried(results | self._confirmed(bucket, gone, missing))

    def _confirmed(
        self, bucket: str, targets: Sequence[Target], said: Mapping[Name, str]
    ) -> Results:
        """What became of *targets*, for which the store *said* that they are not there."""
        if not targets:
            return {}
        found, left = self._looked_at(bucket, targets)
        seen: dict[Name, Result | None] = {**found, **dict.fromkeys(map(_name, left))}
        return {
            name: settled(_place(bucket, target), said[name], seen[name])
            for target in targets
            for name in [_name(target)]
        }

    def _alone(self, bucket: str, target: Target) -> Result:
        """*target*, for which even a DeleteObjects of its own failed."""
        result = self._single(bucket, target)
        if isinstance(result, Outcome):
            # Not the key's fault. If no DeleteObjects ever worked here, none will (GCS).
            self._bulk_works.setdefault(bucket, False)
        return result

    def _singly(self, bucket: str, targets: Sequence[Target]) -> Results:
        """A DELETE for each of *targets*, whose keys travel percent-encoded in the URL."""
        named = {_in_words(target): target for target in targets}
        done = self._connection.crew.each(
            bucket, list(named), lambda name: self._single(bucket, named[name])
        )
        return {_name(named[name]): result for name, result in done.items()}

    def _single(self, bucket: str, target: Target) -> Result:
        place = _place(bucket, target)
        try:
            self._connection.call(
                "DeleteObject",
                place,
                Bucket=bucket,
                Key=target.key,
                VersionId=target.version,
                **_bypass(target),
            )
        except RequestFailed as failed:
            if not says_missing(failed):
                return failed.failure
            said = {_name(target): answered("DeleteObject", failed)}
            return self._confirmed(bucket, [target], said)[_name(target)]
        return Outcome.DELETED

    def _locked(self, bucket: str, denied: Sequence[Target]) -> Results:
        """Those of *denied* that a lock keeps, by a HEAD each: a lock is no lack of rights."""
        if not denied:
            return {}
        named = {_in_words(target): target for target in denied}
        looks = self._connection.crew.each(
            bucket, list(named), lambda name: self._lock(bucket, named[name])
        )
        return {
            _name(named[name]): lock for name, lock in looks.items() if isinstance(lock, Failure)
        }

    def _lock(self, bucket: str, target: Target) -> Failure | None:
        place = _place(bucket, target)
        try:
            fields = self._connection.call(
                "HeadObject", place, Bucket=bucket, Key=target.key, VersionId=target.version
            ).fields
        except RequestFailed:
            return None  # what denied the delete may deny this too, and then it says nothing
        if fields.get("ObjectLockLegalHoldStatus") == "ON":
            return Failure(FailureClass.HELD, f"{place}: a legal hold is on it")
        until, mode = fields.get("ObjectLockRetainUntilDate"), fields.get("ObjectLockMode")
        now = self._connection.clock.now()
        if isinstance(until, datetime) and until > now - _CLOCKS_DIFFER:
            end = until.astimezone(UTC)
            error = f"{place}: locked until {end:%Y-%m-%dT%H:%M:%SZ} ({str(mode).lower()})"
            return Failure(FailureClass.HELD, error, until=end)
        return None


def _name(target: Target) -> Name:
    return target.key, target.version or ""


def _place(bucket: str, target: Target) -> str:
    return f"s3://{bucket}/{_in_words(target)}"


def _in_words(target: Target) -> str:
    return f"{target.key}?versionId={target.version}"


def _bypass(target: Target) -> dict[str, bool]:
    return {"BypassGovernanceRetention": True} if target.bypass_governance else {}


def _denied(result: Result) -> bool:
    return isinstance(result, Failure) and result.failure_class is FailureClass.PERMISSION


def _about(bucket: str, target: Target, failure: Failure) -> Failure:
    """*failure*, which was about the whole bucket, as *target*'s own."""
    said = failure.error.removeprefix(f"s3://{bucket}")
    return replace(failure, error=_place(bucket, target) + said)
