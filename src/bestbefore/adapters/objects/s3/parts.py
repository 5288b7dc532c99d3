"""Copying one large object in parts, side by side."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from bestbefore.adapters.objects.s3.client import Connection
from bestbefore.adapters.objects.s3.crew import Crew
from bestbefore.adapters.objects.s3.errors import NOT_IMPLEMENTED, RequestFailed, bad_answer
from bestbefore.adapters.objects.s3.uploads import Uploads
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.objects import Original

PART_BYTES = 128 * 1024**2
_MOST_PARTS = 10_000
_NO_TAGS = frozenset({NOT_IMPLEMENTED, "NoSuchTagSet", "NoSuchTagSetError"})
_CARRIED = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
    "Expires",
    "Metadata",
    "WebsiteRedirectLocation",
)
"""What an upload in parts does not take over by itself. Tags, too."""


class Parts:
    """Multipart copies on one connection. Raises RequestFailed."""

    def __init__(self, connection: Connection, crew: Crew, part_bytes: int) -> None:
        self._connection = connection
        self._crew = crew
        self._uploads = Uploads(connection)
        self._part_bytes = part_bytes

    def copy(self, bucket: str, to: str, original: Original, *, overwrite: bool) -> None:
        """Copy *original* from *bucket* into *to*; every part on the condition of its ETag.

        What a failure leaves is aborted. Where the copy's key is ours to overwrite, so is what an
        earlier attempt left that was killed; elsewhere it may be somebody else's upload.
        """
        target = f"s3://{bucket}/{original.key} to s3://{to}/{original.copy_key}"
        place: dict[str, object] = {"Bucket": to, "Key": original.copy_key}
        carried = self._carried(bucket, original, target)
        if overwrite:
            self._abort_earlier(to, original.copy_key)
        created = self._connection.call("CreateMultipartUpload", target, **place, **carried)
        upload_id = created.fields.get("UploadId")
        if not upload_id:
            raise bad_answer(target, "the answer names no upload")
        place["UploadId"] = upload_id
        try:
            parts = self._copy_parts(bucket, original, target, place)
            self._complete(target, place, parts, overwrite=overwrite)
        except BaseException:
            with suppress(RequestFailed):
                self._connection.call("AbortMultipartUpload", target, **place)
            raise

    def _copy_parts(
        self, bucket: str, original: Original, target: str, place: Mapping[str, object]
    ) -> list[dict[str, object]]:
        def copy(name: str) -> str | Failure:
            number = names[name]
            first = (number - 1) * size
            last = min(first + size, original.size) - 1
            try:
                reply = self._connection.call(
                    "UploadPartCopy", f"{target} ({name})", **place, PartNumber=number,
                    CopySource=source(bucket, original.key),
                    CopySourceRange=f"bytes={first}-{last}",
                    CopySourceIfMatch=f'"{original.etag}"',
                )  # fmt: skip
            except RequestFailed as failed:
                failures.append(failed)
                return failed.failure
            etag = (reply.fields.get("CopyPartResult") or {}).get("ETag")
            if not etag:
                failures.append(bad_answer(f"{target} ({name})", "the answer names no ETag"))
                return failures[-1].failure
            return str(etag)

        size = part_size(original.size, self._part_bytes)
        count = -(-original.size // size)
        names = {f"part {number} of {count}": number for number in range(1, count + 1)}
        failures: list[RequestFailed] = []
        etags = self._crew.each(bucket, list(names), copy)
        if failures:
            raise failures[0]
        return [{"PartNumber": number, "ETag": etags[name]} for name, number in names.items()]

    def _complete(
        self,
        target: str,
        place: Mapping[str, object],
        parts: list[dict[str, object]],
        *,
        overwrite: bool,
    ) -> None:
        params = {**place, "MultipartUpload": {"Parts": parts}}
        if overwrite:
            self._connection.call("CompleteMultipartUpload", target, **params)
            return
        try:
            self._connection.call("CompleteMultipartUpload", target, **params, IfNoneMatch="*")
        except RequestFailed as failed:
            if failed.code != NOT_IMPLEMENTED:
                raise
            self._connection.call("CompleteMultipartUpload", target, **params)

    def _carried(self, bucket: str, original: Original, target: str) -> dict[str, object]:
        """Headers, metadata and tags of *original*, as CreateMultipartUpload takes them."""
        which = {"Bucket": bucket, "Key": original.key}
        head = self._connection.call(
            "HeadObject", target, **which, IfMatch=f'"{original.etag}"'
        ).fields
        if head.get("MissingMeta"):
            error = (
                f"{target}: {head['MissingMeta']} of its metadata cannot be read and so not kept"
            )
            raise RequestFailed(Failure(FailureClass.MALFORMED, error), "MissingMeta")
        carried: dict[str, object] = {name: head[name] for name in _CARRIED if head.get(name)}
        if tags := self._tags(which, target):
            carried["Tagging"] = urlencode(tags)
        return carried

    def _tags(self, which: Mapping[str, object], target: str) -> dict[str, str]:
        try:
            fields: Mapping[str, Any] = self._connection.call(
                "GetObjectTagging", target, **which
            ).fields
        except RequestFailed as failed:
            if failed.code in _NO_TAGS:
                return {}
            raise
        return {tag["Key"]: tag["Value"] for tag in fields.get("TagSet", ())}

    def _abort_earlier(self, bucket: str, key: str) -> None:
        """Abort what is unfinished under *key*."""
        with suppress(RequestFailed):
            for upload in self._uploads.under(bucket, key):
                self._uploads.abort(bucket, upload)


def part_size(size: int, wanted: int) -> int:
    """Bytes per part, all of them alike but the last: *wanted*, or what 10,000 parts take."""
    return max(wanted, -(-size // _MOST_PARTS))


def source(bucket: str, key: str) -> dict[str, str]:
    """What to copy, as botocore takes it: it percent-encodes the key."""
    return {"Bucket": bucket, "Key": key}
