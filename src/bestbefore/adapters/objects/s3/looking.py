"""Looking at single keys again, right before something irreversible."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from os.path import commonprefix

from bestbefore.adapters.objects.s3.client import Connection
from bestbefore.adapters.objects.s3.errors import NO_ANSWER, RequestFailed, bad_answer
from bestbefore.adapters.objects.s3.pages import Pages
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.identity import object_identity
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import STANDARD, Listed
from bestbefore.ports.objects import StoreError, Target

PAGE_IN_HEADS = 8
"""How many HEADs a listing page of a thousand keys is worth, in time and in load."""


class Looker:
    """Answers what is under a key now: by listing where keys are neighbours, else by HEAD."""

    def __init__(self, connection: Connection, pages: Pages) -> None:
        self._connection = connection
        self._pages = pages

    def look(self, bucket: str, keys: Sequence[str]) -> Mapping[str, Listed | Failure | None]:
        """See `ObjectLister.look`. Raises StoreError for what no single key is to blame for: a
        bucket that is not there, refused credentials, throttling, a store that does not answer."""
        left = list(dict.fromkeys(keys))
        # Characters, not path components: what S3 takes for a prefix.
        prefix = commonprefix(left)  # noqa: RUF071
        seen: dict[str, Listed | Failure | None] = {}
        listed = False
        while left:
            # Sorted again each time, as the first page may teach us the store's own order.
            left.sort(key=self._connection.dialect.order.rank)
            if len(left) <= PAGE_IN_HEADS:
                seen |= self._heads(bucket, left)
                break
            try:
                run = self._run(bucket, prefix, left)
            except RequestFailed as failed:
                if failed.failure.whole_source or hopeless(failed):
                    raise
                # Reading may be allowed where listing is not.
                seen |= self._heads(bucket, left)
                break
            listed = True
            seen |= run
            left = [key for key in left if key not in seen]
            if len(run) < PAGE_IN_HEADS:
                # The page did not pay: these keys are lonely, and their successors may be too.
                lonely, left = left[: 2 * PAGE_IN_HEADS], left[2 * PAGE_IN_HEADS :]
                seen |= self._heads(bucket, lonely)
        if seen and not listed and not any(isinstance(found, Listed) for found in seen.values()):
            self._doubt_the_bucket(bucket, seen)
        return seen

    def head(self, bucket: str, key: str) -> Listed | Failure | None:
        """What is under *key*, by HEAD; its ``last_modified`` is cut to the second."""
        target = f"s3://{bucket}/{key}"
        try:
            reply = self._connection.call("HeadObject", target, Bucket=bucket, Key=key)
        except RequestFailed as failed:
            if failed.status == 404:
                return None
            return failed.failure if failed.status == 0 else self._in_words(bucket, key, failed)
        fields = reply.fields
        modified = fields.get("LastModified")
        if not isinstance(modified, datetime) or "ETag" not in fields:
            return bad_answer(target, "the answer to HEAD has no ETag or no time").failure
        return Listed(
            key,
            int(fields.get("ContentLength", 0)),
            str(fields["ETag"]).strip('"'),
            modified.astimezone(UTC),
            str(fields.get("StorageClass") or STANDARD),
        )

    def _run(
        self, bucket: str, prefix: str, keys: Sequence[str]
    ) -> Mapping[str, Listed | Failure | None]:
        """Look at the first of *keys* by HEAD and at those that one page behind it covers."""
        first = keys[0]
        part = self._pages.part(bucket, prefix, after=first)
        found = {item.key: item for item in part.items}
        rank = part.order.rank
        start = rank(part.order.start_after(first))
        end = rank(part.items[-1].key) if part.truncated else None
        seen: dict[str, Listed | Failure | None] = {
            key: found.get(key)
            for key in keys
            if rank(key) > start and (end is None or rank(key) <= end)
        }
        seen[first] = self.head(bucket, first)
        return seen

    def _heads(self, bucket: str, keys: Sequence[str]) -> Mapping[str, Listed | Failure | None]:
        return self._connection.crew.each(bucket, keys, lambda key: self.head(bucket, key))

    def _in_words(self, bucket: str, key: str, failed: RequestFailed) -> Failure:
        """Why a HEAD failed, from a listing of just this key.

        The answer to a HEAD has no body: an expired token and a denied key are both a bare 403.
        """
        try:
            self._pages.part(bucket, key, most=1)
        except StoreError as said:
            if said.failure.failure_class is FailureClass.CREDENTIALS or said.failure.whole_source:
                return said.failure
        return failed.failure

    def _doubt_the_bucket(self, bucket: str, seen: Mapping[str, Listed | Failure | None]) -> None:
        """Raise unless *bucket*, in which nothing was *seen*, answers: to a HEAD, one that is not
        there, or a server that knows nothing of it, looks like one without the key."""
        try:
            self._pages.part(bucket, next(iter(seen)), most=1)
        except RequestFailed as failed:
            if failed.failure.whole_source:
                raise
            if None not in seen.values():
                return  # each key has a failure of its own
            if failed.failure.failure_class is not FailureClass.PERMISSION:
                raise
            self._ask_about(bucket, failed.failure)

    def _ask_about(self, bucket: str, denied: Failure) -> None:
        """Raise unless *bucket* answers, where listing it is *denied*."""
        try:
            self._connection.call("GetBucketVersioning", f"s3://{bucket}", Bucket=bucket)
        except RequestFailed as failed:
            if failed.failure.failure_class is not FailureClass.PERMISSION:
                raise
            said = f"{denied.error}; whether an object is gone or the bucket cannot be told without"
            error = f"{said} the right to list it (s3:ListBucket)"
            raise RequestFailed(
                replace(denied, error=error), failed.code, failed.status
            ) from failed


def hopeless(failed: RequestFailed) -> bool:
    """Whether asking key by key would only ask more often for the same failure."""
    environment = {FailureClass.CREDENTIALS, FailureClass.THROTTLED}
    return failed.code == NO_ANSWER or failed.failure.failure_class in environment


def judged(target: Target, look: Listed | Failure | None) -> Outcome | Failure | None:
    """What a fresh *look* settles about *target*: None if it still is exactly what was seen."""
    if look is None:
        return Outcome.ABSENT
    if isinstance(look, Failure):
        return look
    seen = object_identity(target.etag, target.last_modified)
    same = object_identity(look.etag, look.last_modified) == seen
    return None if same else Outcome.CHANGED
