"""What `support.faults` knows about copies and uploads in parts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import md5
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from support import faults

if TYPE_CHECKING:
    from support.faults import Answer, FaultyS3, Request

OLD = datetime(2026, 1, 1, tzinfo=UTC)
_KEPT = ("content-type", "cache-control", "content-encoding", "content-disposition")


@dataclass
class Details:
    """What an object has besides its bytes."""

    headers: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Unfinished:
    """An upload in parts."""

    bucket: str
    key: str
    initiated: datetime
    details: Details
    parts: dict[int, bytes] = field(default_factory=dict)


class FaultyCopies:
    """The part of a `FaultyS3` that copies."""

    def __init__(self, server: "FaultyS3") -> None:
        self._server = server
        self._headers: dict[tuple[str, str], Mapping[str, str]] = {}
        self.uploads: dict[str, Unfinished] = {}
        self.honours_source = True
        """Whether a copy looks at the condition on its original."""
        self.honours_destination = True
        """Whether a copy looks at the condition on its own key."""
        self.unwritable: set[str] = set()
        """Key prefixes under which nothing may be written."""
        self.upload_page = 1_000
        self.parts_arrive = 0
        """How many aborts leave a part behind that was on its way."""

    @property
    def operations(self) -> Mapping[str, "Callable[[Request], Answer]"]:
        return {
            "CopyObject": self._copy,
            "CreateMultipartUpload": self._create,
            "UploadPartCopy": self._copy_part,
            "CompleteMultipartUpload": self._complete,
            "AbortMultipartUpload": self._abort,
            "ListMultipartUploads": self._list,
            "ListParts": self._parts,
        }

    def describe(self, bucket: str, key: str, tags: Mapping[str, str] = {}, **headers: str) -> None:
        """Give an object metadata, without a request."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.write(bucket, key, Details(named, tags))

    def write(self, bucket: str, key: str, details: Details) -> None:
        """Set headers and tags of an object."""
        self._headers[bucket, key] = details.headers
        self._server.tags[bucket, key] = dict(details.tags)

    def read(self, bucket: str, key: str) -> Details:
        """Headers and tags of an object."""
        return Details(self.headers(bucket, key), self._server.tags.get((bucket, key), {}))

    def begin(self, bucket: str, key: str, initiated: datetime = OLD) -> str:
        """Begin an upload, without a request; returns its id."""
        upload_id = f"upload-{len(self.uploads):04}-{len(self._server.requests)}"
        self.uploads[upload_id] = Unfinished(bucket, key, initiated, Details())
        return upload_id

    def headers(self, bucket: str, key: str) -> Mapping[str, str]:
        """What HEAD says of an object besides the usual."""
        return self._headers.get((bucket, key), {})

    def _copy(self, request: "Request") -> "Answer":
        found = self._original(request)
        if isinstance(found, faults.Answer):
            return found
        if (refused := self._occupied(request)) is not None:
            return refused
        bucket, key = found
        body = self._server.objects[bucket, key].body
        stored = self._server.put(request.bucket, request.key, body, self._server.date())
        self.write(request.bucket, request.key, self.read(bucket, key))
        return _document("CopyObjectResult", f"<ETag>&quot;{stored.etag}&quot;</ETag>")

    def _original(self, request: "Request") -> "tuple[str, str] | Answer":
        named = request.headers["x-amz-copy-source"]
        bucket, _, key = unquote(named.lstrip("/")).partition("/")
        if bucket not in self._server.buckets:
            return faults.error(404, "NoSuchBucket")
        stored = self._server.objects.get((bucket, key))
        if stored is None:
            return faults.error(404, "NoSuchKey")
        wanted = request.headers.get("x-amz-copy-source-if-match", "").strip('"')
        if self.honours_source and wanted not in ("", stored.etag):
            return faults.error(412, "PreconditionFailed")
        return bucket, key

    def _occupied(self, request: "Request") -> "Answer | None":
        if self._denied(request):
            return faults.error(403, "AccessDenied")
        there = (request.bucket, request.key) in self._server.objects
        if there and self.honours_destination and request.headers.get("if-none-match") == "*":
            return faults.error(412, "PreconditionFailed")
        return None

    def _denied(self, request: "Request") -> bool:
        return any(request.key.startswith(prefix) for prefix in self.unwritable)

    def _create(self, request: "Request") -> "Answer":
        if self._denied(request):
            return faults.error(403, "AccessDenied")
        upload_id = self.begin(request.bucket, request.key, self._server.date())
        headers = {
            name: value
            for name, value in request.headers.items()
            if name in _KEPT or name.startswith("x-amz-meta-")
        }
        tags = dict(parse_qsl(request.headers.get("x-amz-tagging", "")))
        self.uploads[upload_id].details = Details(headers, tags)
        return _document("InitiateMultipartUploadResult", f"<UploadId>{upload_id}</UploadId>")

    def _copy_part(self, request: "Request") -> "Answer":
        upload = self.uploads.get(request.query["uploadId"])
        if upload is None:
            return faults.error(404, "NoSuchUpload")
        found = self._original(request)
        if isinstance(found, faults.Answer):
            return found
        first, last = request.headers["x-amz-copy-source-range"].removeprefix("bytes=").split("-")
        part = self._server.objects[found].body[int(first) : int(last) + 1]
        upload.parts[int(request.query["partNumber"])] = part
        return _document("CopyPartResult", f"<ETag>&quot;{_md5(part)}&quot;</ETag>")

    def _complete(self, request: "Request") -> "Answer":
        upload = self.uploads.get(request.query["uploadId"])
        if upload is None:
            return faults.error(404, "NoSuchUpload")
        if (refused := self._occupied(request)) is not None:
            return refused
        named = ET.fromstring(request.body).findall("{*}Part/{*}PartNumber")  # noqa: S314
        numbers = [int(number.text or 0) for number in named]
        if numbers != sorted(upload.parts):
            return faults.error(400, "InvalidPart")
        parts = [upload.parts[number] for number in numbers]
        whole = md5(b"".join(bytes.fromhex(_md5(part)) for part in parts), usedforsecurity=False)
        etag = f"{whole.hexdigest()}-{len(parts)}"
        whole_object = faults.Stored(b"".join(parts), etag, self._server.date())
        self._server.objects[request.bucket, request.key] = whole_object
        self.write(request.bucket, request.key, upload.details)
        del self.uploads[request.query["uploadId"]]
        return _document("CompleteMultipartUploadResult", f"<ETag>&quot;{etag}&quot;</ETag>")

    def _abort(self, request: "Request") -> "Answer":
        upload = self.uploads.get(request.query["uploadId"])
        if upload is None or upload.key != request.key:
            return faults.error(404, "NoSuchUpload")
        if any(request.key.startswith(prefix) for prefix in self._server.denied):
            return faults.error(403, "AccessDenied")
        if self.parts_arrive:
            self.parts_arrive -= 1
            upload.parts[1] = b"late"
        else:
            del self.uploads[request.query["uploadId"]]
        return faults.Answer(204)

    def _parts(self, request: "Request") -> "Answer":
        upload = self.uploads.get(request.query["uploadId"])
        if upload is None or upload.key != request.key:
            return faults.error(404, "NoSuchUpload")
        listed = "".join(
            f"<Part><PartNumber>{number}</PartNumber><Size>{len(part)}</Size></Part>"
            for number, part in sorted(upload.parts.items())
        )
        return _document("ListPartsResult", "<IsTruncated>false</IsTruncated>", listed)

    def _list(self, request: "Request") -> "Answer":
        """In the order of keys, and of ids under one; markers as S3 has them."""
        query = request.query
        marker = (query.get("key-marker", ""), query.get("upload-id-marker"))
        found = sorted(
            (upload.key, upload_id)
            for upload_id, upload in self.uploads.items()
            if upload.bucket == request.bucket
            and upload.key.startswith(query.get("prefix", ""))
            and _follows((upload.key, upload_id), marker)
        )
        page = found[: min(self.upload_page, int(query.get("max-uploads", 1_000)))]
        rest = ""
        if len(page) < len(found):
            key, upload_id = page[-1]
            rest = (
                f"<NextKeyMarker>{quote(key)}</NextKeyMarker>"
                f"<NextUploadIdMarker>{upload_id}</NextUploadIdMarker>"
            )
        listed = "".join(
            f"<Upload><Key>{escape(quote(key))}</Key><UploadId>{upload_id}</UploadId><Initiated>"
            f"{self.uploads[upload_id].initiated:%Y-%m-%dT%H:%M:%S}.000Z</Initiated></Upload>"
            for key, upload_id in page
        )
        return _document(
            "ListMultipartUploadsResult",
            "<EncodingType>url</EncodingType>",
            f"<IsTruncated>{str(bool(rest)).lower()}</IsTruncated>",
            rest,
            listed,
        )


def _follows(entry: tuple[str, str], marker: tuple[str, str | None]) -> bool:
    key, upload_id = marker
    return entry[0] > key or (entry[0] == key and upload_id is not None and entry[1] > upload_id)


def _document(root: str, *parts: str) -> "Answer":
    body = f'<?xml version="1.0" encoding="UTF-8"?><{root}>{"".join(parts)}</{root}>'
    return faults.Answer(200, body.encode(), {"Content-Type": "application/xml"})


def _md5(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest()


def operation(command: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str | None:
    """The name of a request about copies or uploads; None for any other."""
    if "uploads" in query:
        return {"GET": "ListMultipartUploads", "POST": "CreateMultipartUpload"}.get(command)
    copies = command == "PUT" and "x-amz-copy-source" in headers
    if "uploadId" in query:
        return {
            "GET": "ListParts",
            "PUT": "UploadPartCopy" if copies else "UploadPart",
            "POST": "CompleteMultipartUpload",
            "DELETE": "AbortMultipartUpload",
        }.get(command)
    return "CopyObject" if copies else None
