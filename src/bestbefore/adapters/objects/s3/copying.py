"""The copying side of an S3 store: from bucket to bucket, and nothing passes through here."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from bestbefore.adapters.objects.s3.absence import says_missing
from bestbefore.adapters.objects.s3.client import Connection, S3Settings, connect
from bestbefore.adapters.objects.s3.conditions import probe_key
from bestbefore.adapters.objects.s3.crew import Crew
from bestbefore.adapters.objects.s3.errors import NOT_IMPLEMENTED, RequestFailed, bad_answer
from bestbefore.adapters.objects.s3.looking import Looker
from bestbefore.adapters.objects.s3.pages import Pages
from bestbefore.adapters.objects.s3.parts import PART_BYTES, Parts, source
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.identity import object_identity
from bestbefore.domain.selection import Listed
from bestbefore.ports.clock import Clock
from bestbefore.ports.objects import Copy, NotCopied, Original, StoreError

Result: TypeAlias = Copy | NotCopied | Failure

IN_PARTS_FROM = 1024**3
"""S3 copies up to 5 GB in one request. A store at 100 MB a second would need 50 seconds for it, and
a timeout is 30: in parts a copy makes progress on any store that moves 5 MB a second."""

_AT_ONCE = 32
"""Requests side by side: a copy waits for the store for nearly all of its time."""

_GONE = "NoSuchKey"
_REFUSED = frozenset({"PreconditionFailed", "412"})
_MD5 = re.compile(r"[0-9a-f]{32}")
_CHECKSUMS = ("CRC64NVME", "CRC32C", "CRC32", "SHA256", "SHA1")


class _Way(NamedTuple):
    """From which bucket into which, and whether what is under a copy's key may be overwritten."""

    bucket: str
    to: str
    overwrite: bool

    def name(self, original: Original) -> str:
        """What errors call the copy of *original*."""
        return f"s3://{self.bucket}/{original.key} to s3://{self.to}/{original.copy_key}"


class S3Copier:
    """An `ObjectCopier` over one S3 endpoint, for any number of threads.

    Every copy carries the ETag that was seen, and is compared with it afterwards, as some stores
    ignore that condition. Objects of *in_parts_from* bytes and more are copied in parts of
    *part_bytes*, side by side.
    """

    def __init__(
        self,
        settings: S3Settings,
        clock: Clock,
        *,
        connection: Connection | None = None,
        in_parts_from: int = IN_PARTS_FROM,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._connection = connection or connect(settings, clock)
        self._looker = Looker(self._connection, Pages(self._connection))
        self._crew = Crew(_AT_ONCE)
        self._parts = Parts(self._connection, self._crew, part_bytes)
        self._in_parts_from = in_parts_from

    def copy(
        self, bucket: str, to: str, originals: Sequence[Original], *, overwrite: bool
    ) -> Sequence[Result]:
        way = _Way(bucket, to, overwrite)
        small = {o.key: o for o in originals if o.size < self._in_parts_from}
        results = self._crew.each(bucket, list(small), lambda key: self._copied(way, small[key]))
        for original in originals:
            if original.key not in small:
                results[original.key] = self._copied(way, original)  # its parts go side by side
        return [results[original.key] for original in originals]

    def check(self, bucket: str, prefix: str, to: str, to_prefix: str) -> Sequence[Finding]:
        key, probe = probe_key(to_prefix), probe_key(prefix)
        try:
            self._connection.call(
                "CopyObject", f"s3://{to}/{to_prefix}", Bucket=to, Key=key,
                CopySource=source(bucket, probe),
            )  # fmt: skip
        except RequestFailed as failed:
            return [_finding(failed, bucket, to, to_prefix)]
        return []  # cannot be, as there is nothing to copy

    def _copied(self, way: _Way, original: Original) -> Result:
        try:
            if not way.overwrite and (there := self._under(way.to, original.copy_key)) is not None:
                return there
            if original.size < self._in_parts_from:
                self._at_once(way, original)
            else:
                self._parts.copy(way.bucket, way.to, original, overwrite=way.overwrite)
            return self._verified(way, original)
        except RequestFailed as failed:
            if says_missing(failed):
                return self._missing(way, original, failed)
            if failed.code in _REFUSED:
                return self._refused(way, original)
            return failed.failure

    def _look(self, bucket: str, key: str) -> Listed | Failure | None:
        try:
            return self._looker.look(bucket, [key])[key]
        except StoreError as error:
            return error.failure

    def _under(self, bucket: str, key: str) -> NotCopied | Failure | None:
        """`OCCUPIED` if there is anything under *key*."""
        found = self._look(bucket, key)
        return found if found is None or isinstance(found, Failure) else NotCopied.OCCUPIED

    def _at_once(self, way: _Way, original: Original) -> None:
        """One CopyObject. Its answer is not read: what counts is what is there afterwards."""
        params: dict[str, object] = {
            "Bucket": way.to,
            "Key": original.copy_key,
            "CopySource": source(way.bucket, original.key),
            "CopySourceIfMatch": f'"{original.etag}"',
        }
        if way.overwrite:
            self._connection.call("CopyObject", way.name(original), **params)
            return
        try:
            self._connection.call("CopyObject", way.name(original), **params, IfNoneMatch="*")
        except RequestFailed as failed:
            if failed.code != NOT_IMPLEMENTED:
                raise
            # The store does not know that condition; a look has just found nothing there.
            self._connection.call("CopyObject", way.name(original), **params)

    def _verified(self, way: _Way, original: Original) -> Result:
        """The copy as it is there now, if it is one of what was seen."""
        copy = self._look(way.to, original.copy_key)
        if isinstance(copy, Failure):
            return copy
        if copy is None:
            return bad_answer(way.name(original), "copied, yet there is no copy").failure
        if copy.size == original.size and copy.etag == original.etag:
            return Copy(copy.key, copy.etag)
        found = self._look(way.bucket, original.key)
        if found is None:
            return NotCopied.GONE  # the copy stays: it may be all that is left
        if isinstance(found, Failure):
            return found
        seen = object_identity(original.etag, original.last_modified)
        if object_identity(found.etag, found.last_modified) != seen:
            self._remove(way.to, original.copy_key, copy.etag)
            return NotCopied.CHANGED
        if copy.size == original.size and self._equal(way, original):
            return Copy(copy.key, copy.etag)
        self._remove(way.to, original.copy_key, copy.etag)
        said = (
            f"the copy has {copy.size:,} bytes and ETag {copy.etag}, the original {original.size:,}"
        )
        return bad_answer(way.name(original), f"{said} and {original.etag}").failure

    def _equal(self, way: _Way, original: Original) -> bool:
        """Whether a copy of the right size can be of *original* although its ETag is another.

        ETags differ with the number of parts and with the key an object is encrypted with, so
        checksums decide where both have one. Without any, two plain MD5s tell a difference, and
        nothing else does.
        """
        there = self._checksums(way.bucket, original.key)
        here = self._checksums(way.to, original.copy_key)
        for name in _CHECKSUMS:
            sums = there.get(f"Checksum{name}"), here.get(f"Checksum{name}")
            if all(sums) and there.get("ChecksumType") == here.get("ChecksumType"):
                return sums[0] == sums[1]
        return not (_is_md5(there) and _is_md5(here))

    def _checksums(self, bucket: str, key: str) -> Mapping[str, Any]:
        target = f"s3://{bucket}/{key}"
        params = {"Bucket": bucket, "Key": key, "ChecksumMode": "ENABLED"}
        return self._connection.call("HeadObject", target, **params).fields

    def _missing(self, way: _Way, original: Original, failed: RequestFailed) -> Result:
        """What became of *original* after a request *failed* as if it were not there."""
        found = self._look(way.bucket, original.key)
        if found is None:
            return NotCopied.GONE
        if isinstance(found, Failure):
            return found
        if found.etag != original.etag:
            return NotCopied.CHANGED
        error = (
            f"{failed.failure.error}, yet the original is there; look whether there is a bucket "
            f"{way.to}, and whether the store and what stands before it support copies"
        )
        return Failure(FailureClass.UNKNOWN, error)

    def _refused(self, way: _Way, original: Original) -> Result:
        """What did not hold: the condition on the original, or the one on the copy's key."""
        found = self._look(way.bucket, original.key)
        if found is None:
            return NotCopied.GONE
        if isinstance(found, Failure):
            return found
        if found.etag != original.etag:
            return NotCopied.CHANGED
        if not way.overwrite:
            return self._under(way.to, original.copy_key) or _doubt(way, original)
        return _doubt(way, original)

    def _remove(self, bucket: str, key: str, etag: str) -> None:
        """Take away a copy that is none, as well as that goes: it is not recorded either way."""
        try:
            head = self._connection.call("HeadObject", f"s3://{bucket}/{key}", Bucket=bucket,
                                         Key=key)  # fmt: skip
            version = head.fields.get("VersionId")
            which = {"IfMatch": f'"{etag}"'} if version is None else {"VersionId": version}
            self._connection.call(
                "DeleteObject", f"s3://{bucket}/{key}", Bucket=bucket, Key=key, **which
            )
        except RequestFailed:
            return


def _doubt(way: _Way, original: Original) -> Failure:
    return bad_answer(way.name(original), "refused as changed, yet it looks as it did").failure


def _is_md5(head: Mapping[str, Any]) -> bool:
    """Whether an object's ETag is the MD5 of its content: in one part, and under no key of KMS or
    the customer's."""
    encrypted = str(head.get("ServerSideEncryption", "")).startswith("aws:kms")
    plain = _MD5.fullmatch(str(head.get("ETag", "")).strip('"')) is not None
    return plain and not encrypted and "SSECustomerAlgorithm" not in head


def _finding(failed: RequestFailed, bucket: str, to: str, prefix: str) -> Finding:
    place = f"s3://{to}/{prefix}"
    if failed.code == _GONE:
        return Finding(
            "archive-reached",
            Level.INFO,
            f"{place} can be copied to, as far as that can be told without writing",
            "",
        )
    return Finding(
        "archive-unproven",
        Level.WARNING,
        f"{place}: copying an object that does not exist was denied, or failed "
        f"({failed.code or failed.status})",
        f"look whether the archive store's keys may read {bucket} (s3:GetObject, "
        f"s3:GetObjectTagging) and write {to} (s3:PutObject, s3:PutObjectTagging, s3:GetObject)",
    )
