"""Unfinished multipart uploads: listed and aborted.

Seen in SeaweedFS 4.48: it lists them by upload id, goes on from an upload id alone, says that keys
are url-encoded and leaves them as they are, and answers 204 to the abort of what is not there.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from bestbefore.adapters.objects.s3.absence import answered, says_missing, settled
from bestbefore.adapters.objects.s3.client import Connection
from bestbefore.adapters.objects.s3.dialect import Plus, readable, sendable
from bestbefore.adapters.objects.s3.errors import RequestFailed, bad_answer
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.selection import impossible
from bestbefore.ports.objects import Upload

_PAGE = 1_000
_NO_SUCH_UPLOAD = "NoSuchUpload"


class UploadsPart(NamedTuple):
    """One answer. ``rest`` is where the next one begins, in the store's own words."""

    uploads: Sequence[Upload]
    rest: tuple[str | None, str] | None


class Uploads:
    """What is unfinished in the buckets of one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reading: Callable[[str], str] | None = None

    def part(
        self, bucket: str, prefix: str, after: str | None = None, upload_id: str = ""
    ) -> UploadsPart:
        """Uploads under *prefix*, from the markers *after* and *upload_id* of the part before.

        Raises RequestFailed.
        """
        target = readable(f"s3://{bucket}/{prefix}") + " (unfinished uploads)"
        params: dict[str, object] = {"Prefix": sendable(prefix), "MaxUploads": _PAGE}
        if after:
            params["KeyMarker"] = sendable(after)
        if upload_id:
            params["UploadIdMarker"] = upload_id
        fields = self._connection.call(
            "ListMultipartUploads", target, Bucket=bucket, EncodingType="url", **params
        ).fields
        truncated = fields.get("IsTruncated")
        if not isinstance(truncated, bool):
            raise bad_answer(target, "the listing does not say whether it is complete")
        encoded = fields.get("EncodingType") == "url"
        uploads = []
        for found in fields.get("Uploads", ()):
            text, name, initiated = (found.get(key) for key in ("Key", "UploadId", "Initiated"))
            if not text or not name or not isinstance(initiated, datetime):
                raise bad_answer(target, "the listing has an upload without key, id or date")
            key = self._read(bucket, text, name) if encoded else text
            uploads.append(Upload(key, name, initiated.astimezone(UTC)))
        if not truncated:
            return UploadsPart(uploads, None)
        marker = str(fields.get("NextKeyMarker") or ""), str(fields.get("NextUploadIdMarker") or "")
        if marker in {("", ""), (after or "", upload_id)}:
            raise bad_answer(target, "the listing goes on without saying where")
        key = self._read(bucket, marker[0], marker[1]) if encoded else marker[0]
        return UploadsPart(uploads, (key or None, marker[1]))

    def under(self, bucket: str, key: str) -> Iterator[Upload]:
        """The uploads of exactly this *key*. Raises RequestFailed."""
        rest: tuple[str | None, str] | None = (None, "")
        while rest is not None:
            part = self.part(bucket, key, *rest)
            yield from (upload for upload in part.uploads if upload.key == key)
            rest = part.rest

    def abort(self, bucket: str, upload: Upload) -> Outcome | Failure:
        """Abort one upload, unless it is gone, and look whether parts still arrive. Never raises.

        It is gone if the listing does not show it either. Where listing its parts is denied
        (s3:ListMultipartUploadParts), the answer to the abort has to do.
        """
        target = f"s3://{bucket}/{upload.key} (upload {upload.upload_id})"
        which = {"Bucket": bucket, "Key": upload.key, "UploadId": upload.upload_id}
        if self._holds_parts(target, which) is None:
            found = self._listed(bucket, upload)
            if found is not None:
                return settled(target, f"ListParts answered {_NO_SUCH_UPLOAD}", found)
        try:
            self._connection.call("AbortMultipartUpload", target, **which)
        except RequestFailed as failed:
            if not _says_missing(failed):
                return failed.failure
            said = answered("AbortMultipartUpload", failed)
            return settled(target, said, self._listed(bucket, upload))
        if not self._holds_parts(target, which):
            return Outcome.DELETED
        error = f"{target}: aborted, but parts were still arriving"
        return Failure(FailureClass.TRANSIENT, error)

    def _listed(self, bucket: str, upload: Upload) -> Outcome | Failure | None:
        """None if the bucket's listing shows *upload*, `ABSENT` if it does not."""
        try:
            shown = any(found.upload_id == upload.upload_id
                        for found in self.under(bucket, upload.key))  # fmt: skip
        except RequestFailed as failed:
            return failed.failure
        return None if shown else Outcome.ABSENT

    def _holds_parts(self, target: str, which: dict[str, str]) -> bool | None:
        """Whether the upload has parts; None if there is no such upload, False if nobody says."""
        try:
            listed = self._connection.call("ListParts", target, **which, MaxParts=1)
        except RequestFailed as failed:
            return None if _says_missing(failed) else False
        return bool(listed.fields.get("Parts"))

    def _read(self, bucket: str, text: str, upload_id: str) -> str:
        """The key behind *text*. Where that can be read in several ways the store is asked which
        of those keys the upload has: once, as a store always writes alike."""
        if "%" not in text and "+" not in text:
            return text
        if self._reading is not None:
            return self._reading(text)
        ways = (Plus.BLANK.decode, Plus.PLUS.decode, str)
        if len({way(text) for way in ways}) == 1 or impossible(ways[0](text)):
            return ways[0](text)
        for way in ways:
            which = {"Bucket": bucket, "Key": way(text), "UploadId": upload_id}
            target = readable(f"s3://{bucket}/{which['Key']}")
            if self._holds_parts(target, which) is not None:
                if sum(way(text) == other(text) for other in ways) == 1:
                    self._reading = way
                return way(text)
        return text


def _says_missing(failed: RequestFailed) -> bool:
    return failed.code == _NO_SUCH_UPLOAD or says_missing(failed)
