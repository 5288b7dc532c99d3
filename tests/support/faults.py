"""A small S3 server that misbehaves on request.

It speaks what the product uses (ListObjectsV2, HEAD, GET, PUT, DELETE, DeleteObjects with
conditions, GetObjectTagging, GetBucketVersioning; copies and uploads in parts:
`support.faulty_copies`) over a dictionary, remembers every request, and fails as a test says::

    with FaultyS3() as s3:
        s3.put("exports", "a.json", b"{}")
        s3.fail("DeleteObjects", slow_down(retry_after="120"))          # the next one
        s3.fail("DeleteObjects", internal_error(), after_effect=True)   # deletes, then answers 500
        s3.refuse("a.json", "InternalError", times=2)                   # inside a 200
        with s3.stall("HeadObject"): ...                                # no answer until the end
        assert [r.operation for r in s3.requests] == [...]

`S3Settings(s3.endpoint, ...)` connects; any key and secret will do. It listens on the loopback,
on a port the system gives.
"""

import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import pytest

from support import faulty_copies

OLD = datetime(2026, 1, 1, tzinfo=UTC)
_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
_ODD = "surrogateescape"
_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


class Stored(NamedTuple):
    """An object. ``etag`` without quotes."""

    body: bytes
    etag: str
    modified: datetime


class Answer(NamedTuple):
    """An HTTP answer, made up or real."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


@dataclass(frozen=True)
class Request:
    """One request as it came in. ``path`` is raw; ``keys`` are those of a DeleteObjects."""

    operation: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    bucket: str
    key: str
    keys: tuple[str, ...] = ()

    @property
    def signed_at(self) -> str:
        return self.headers.get("x-amz-date", "")


def error(status: int, code: str, *, retry_after: str | None = None, message: str = "") -> Answer:
    """An S3 error document. With status 200, the infamous error inside a success."""
    body = f"{_XML}<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Answer(status, body.encode(), headers)


def slow_down(status: int = 503, *, retry_after: str | None = None) -> Answer:
    return error(status, "SlowDown", retry_after=retry_after)


def internal_error() -> Answer:
    return error(500, "InternalError")


def redirect(region: str = "eu-west-1") -> Answer:
    """A bucket of another region, without saying where to go."""
    answer = error(301, "PermanentRedirect")
    return answer._replace(headers={"x-amz-bucket-region": region})


EMPTY = Answer(200)
"""A success that says nothing."""


@dataclass
class _Fault:
    operation: str
    answer: Answer | Callable[[Answer], Answer]
    times: int
    after_effect: bool
    when: Callable[[Request], bool]


@dataclass
class FaultyS3:
    """The server. Attributes may be changed at any time; see the module for the rest."""

    page_size: int = 1_000
    """At most so many entries per listing, whatever a request asks for (and never above it)."""

    plus: str = "form"
    """How listings encode: ``form`` (blank ``+``, plus ``%2B``), ``percent`` (blank ``%20``, plus
    ``+``) or ``strict`` (``%20`` and ``%2B``)."""

    tree: bool = False
    """List folder by folder as SeaweedFS does, and skip a folder that StartAfter names."""

    honours: set[str] = field(default_factory=lambda: {"DeleteObjects", "DeleteObject"})
    """Calls that look at conditions; the others ignore them silently."""

    missing: int = 404
    """What a condition on a key that does not exist is answered with: 404 or 412."""

    absent: int = 204
    """What a delete of a key that does not exist is answered with where no condition is honoured:
    204, or 404."""

    multi_delete: Answer | None = None
    """What every DeleteObjects is answered with, where there is no such call."""

    wants_md5: str | None = None
    """The code that a DeleteObjects without Content-MD5 is refused with; a wrong one always is."""

    most_keys: int = 1_000
    """A DeleteObjects with more is refused."""

    url_encoding: bool = True
    """Without it, a listing that asks for encoded keys is refused."""

    region: str | None = None
    """Where every bucket really is: whatever is asked of one is answered with a redirect."""

    denied: set[str] = field(default_factory=set)
    """Key prefixes under which nothing may be deleted."""

    hidden: set[str] = field(default_factory=set)
    """Keys that DeleteObjects deletes but does not name in its answer."""

    versioning: str | None = None
    """``Enabled``: a delete only writes a marker, and says so; its id is then in `markers`."""

    server: str = "FaultyS3"
    date: Callable[[], datetime] = lambda: datetime.now(UTC)

    def __post_init__(self) -> None:
        self.requests: list[Request] = []
        self.objects: dict[tuple[str, str], Stored] = {}
        self.markers: dict[str, str] = {}
        self.tags: dict[tuple[str, str], dict[str, str]] = {}
        self.classes: dict[tuple[str, str], str] = {}
        self.buckets: set[str] = set()
        self.copies = faulty_copies.FaultyCopies(self)
        self._faults: list[_Fault] = []
        self._refusals: dict[str, tuple[str, int]] = {}
        self._stalls: list[tuple[str, threading.Event]] = []
        self._lock = threading.RLock()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.world = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for _operation, released in self._stalls:
            released.set()
        self._http.shutdown()
        self._http.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def put(self, bucket: str, key: str, body: bytes = b"x", modified: datetime = OLD) -> Stored:
        """Store an object without a request, as old as wanted. Creates the bucket.

        Bytes that are not UTF-8 are surrogates in *key*, as in Python's file names.
        """
        stored = Stored(body, md5(body, usedforsecurity=False).hexdigest(), modified)
        with self._lock:
            self.buckets.add(bucket)
            self.objects[bucket, key] = stored
        return stored

    def keys(self, bucket: str) -> set[str]:
        """What *bucket* holds."""
        with self._lock:
            return {key for of, key in self.objects if of == bucket}

    def asked(self, operation: str) -> list[Request]:
        """The requests for *operation* so far, without the product's probes of conditions."""
        return [
            request
            for request in self.requests
            if request.operation == operation
            and not any(".bestbefore-probe-" in key for key in (request.key, *request.keys))
        ]

    def fail(
        self,
        operation: str,
        answer: Answer | Callable[[Answer], Answer],
        *,
        times: int = 1,
        after_effect: bool = False,
        when: Callable[[Request], bool] | None = None,
    ) -> None:
        """Answer the next *times* requests for *operation* with *answer*.

        With *after_effect* the request is carried out first; a callable *answer* then gets the
        true answer to spoil it. *when* chooses requests; without it, the product's probes of
        conditions are left alone.
        """
        self._faults.append(_Fault(operation, answer, times, after_effect, when or _no_probe))

    def refuse(self, key: str, code: str, *, times: int = 1_000_000) -> None:
        """Refuse to delete *key* with *code*, inside a DeleteObjects' success; *times* times."""
        self._refusals[key] = (code, times)

    @contextmanager
    def stall(self, operation: str) -> Iterator[None]:
        """Accept requests for *operation*, never answer them, hang up at the end of the block."""
        released = threading.Event()
        self._stalls.append((operation, released))
        try:
            yield
        finally:
            self._stalls.remove((operation, released))
            released.set()

    # What the handler asks.

    def answer(self, request: Request) -> Answer | None:
        """The answer to *request*; None hangs up."""
        with self._lock:
            self.requests.append(request)
            stall = next((event for name, event in self._stalls if name == request.operation), None)
            fault = None if stall else self._fault(request)
        if stall is not None:
            stall.wait()
            return None
        if fault is not None and not fault.after_effect:
            return fault.answer if isinstance(fault.answer, Answer) else fault.answer(EMPTY)
        with self._lock:
            truth = self._carry_out(request)
        if fault is None:
            return truth
        return fault.answer if isinstance(fault.answer, Answer) else fault.answer(truth)

    def _fault(self, request: Request) -> _Fault | None:
        for fault in self._faults:
            if fault.operation == request.operation and fault.times and fault.when(request):
                fault.times -= 1
                return fault
        return None

    def _carry_out(self, request: Request) -> Answer:
        if request.operation == "CreateBucket":
            self.buckets.add(request.bucket)
            return EMPTY
        if self.region is not None:
            return redirect(self.region)
        if request.bucket not in self.buckets:
            return error(404, "NoSuchBucket")
        return {
            "ListObjectsV2": self._list,
            "GetBucketVersioning": self._get_versioning,
            "HeadObject": self._head,
            "GetObject": self._get,
            "GetObjectTagging": self._get_tags,
            "PutObject": self._put,
            "DeleteObject": self._delete,
            "DeleteObjects": self._delete_many,
            **self.copies.operations,
        }.get(request.operation, lambda _: error(501, "NotImplemented"))(request)

    def _get_versioning(self, _: Request) -> Answer:
        status = f"<Status>{self.versioning}</Status>" if self.versioning else ""
        return _document("VersioningConfiguration", status)

    def _head(self, request: Request) -> Answer:
        stored = self.objects.get((request.bucket, request.key))
        if stored is None:
            return Answer(404)
        headers = {
            "ETag": f'"{stored.etag}"',
            "Last-Modified": format_datetime(stored.modified, usegmt=True),
            "Content-Length": str(len(stored.body)),
            **self.copies.headers(request.bucket, request.key),
        }
        if (storage := self.classes.get((request.bucket, request.key))) is not None:
            headers["x-amz-storage-class"] = storage
        condition = request.headers.get("if-match", "").strip('"')
        return Answer(412) if condition not in ("", stored.etag) else Answer(200, b"", headers)

    def _get(self, request: Request) -> Answer:
        stored = self.objects.get((request.bucket, request.key))
        if stored is None:
            return error(404, "NoSuchKey")
        return Answer(200, stored.body, self._head(request).headers)

    def _get_tags(self, request: Request) -> Answer:
        if (request.bucket, request.key) not in self.objects:
            return error(404, "NoSuchKey")
        tags = self.tags.get((request.bucket, request.key), {})
        said = [
            f"<Tag><Key>{_xml(key)}</Key><Value>{_xml(value)}</Value></Tag>"
            for key, value in tags.items()
        ]
        return _document("Tagging", f"<TagSet>{''.join(said)}</TagSet>")

    def _put(self, request: Request) -> Answer:
        stored = self.put(request.bucket, request.key, request.body, self.date())
        return Answer(200, b"", {"ETag": f'"{stored.etag}"'})

    def _delete(self, request: Request) -> Answer:
        if "versionId" in request.query:
            self.markers.pop(request.query["versionId"], None)
            return Answer(204)
        condition = request.headers.get("if-match")
        code = self._delete_one("DeleteObject", request.bucket, request.key, condition)
        if code is None:
            marker = self._mark(request.key)
            return Answer(
                204,
                headers={"x-amz-delete-marker": "true", "x-amz-version-id": marker}
                if marker
                else {},
            )
        status = {"NoSuchKey": 404, "PreconditionFailed": 412, "AccessDenied": 403}.get(code, 500)
        return error(status, code)

    def _delete_many(self, request: Request) -> Answer:
        if self.multi_delete is not None:
            return self.multi_delete
        digest = request.headers.get("content-md5")
        if digest is None and self.wants_md5 is not None:
            message = "Missing required header for this request: Content-MD5"
            return error(400, self.wants_md5, message=message)
        if digest not in (
            None,
            b64encode(md5(request.body, usedforsecurity=False).digest()).decode(),
        ):
            return error(400, "BadDigest")
        try:
            root = ET.fromstring(request.body)  # noqa: S314
        except ET.ParseError:
            return error(400, "MalformedXML")
        entries = root.findall("{*}Object")
        if not 1 <= len(entries) <= self.most_keys:
            return error(400, "MalformedXML")
        said = []
        for entry in entries:
            key = entry.findtext("{*}Key") or ""
            condition = entry.findtext("{*}ETag")
            code = self._delete_one("DeleteObjects", request.bucket, key, condition)
            if code is not None:
                said.append(f"<Error><Key>{_xml(key)}</Key><Code>{code}</Code></Error>")
            elif key not in self.hidden:
                marker = self._mark(key)
                marked = (
                    "<DeleteMarker>true</DeleteMarker>"
                    f"<DeleteMarkerVersionId>{marker}</DeleteMarkerVersionId>"
                )
                said.append(f"<Deleted><Key>{_xml(key)}</Key>{marked if marker else ''}</Deleted>")
        return _document("DeleteResult", "".join(said))

    def _mark(self, key: str) -> str | None:
        """The id of the marker that deleting *key* leaves, None without versioning."""
        if self.versioning != "Enabled":
            return None
        marker = f"marker-{len(self.requests)}-{len(self.markers)}"
        self.markers[marker] = key
        return marker

    def _delete_one(self, call: str, bucket: str, key: str, etag: str | None) -> str | None:
        """Delete one object; the error's code, or None."""
        code, times = self._refusals.get(key, ("", 0))
        if times:
            self._refusals[key] = (code, times - 1)
            return code
        if any(key.startswith(prefix) for prefix in self.denied):
            return "AccessDenied"
        stored = self.objects.get((bucket, key))
        if etag is not None and call in self.honours:
            if stored is None:
                return "NoSuchKey" if self.missing == 404 else "PreconditionFailed"
            if stored.etag != etag.strip('"'):
                return "PreconditionFailed"
        if stored is None and self.absent == 404:
            return "NoSuchKey"
        self.objects.pop((bucket, key), None)
        return None

    def _list(self, request: Request) -> Answer:
        query = request.query
        if "encoding-type" in query and not self.url_encoding:
            return error(400, "InvalidArgument")
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        token = unquote(query.get("continuation-token", ""), errors=_ODD)
        after = token or query.get("start-after", "")
        most = min(int(query.get("max-keys", 1_000)), self.page_size, 1_000)
        encoded = query.get("encoding-type") == "url"
        entries: list[str] = []
        shown: set[str] = set()
        truncated, last = False, ""
        for key in sorted(self.keys(request.bucket), key=self._rank):
            folder = _folder(key, prefix, delimiter)
            name = folder or key
            if not key.startswith(prefix) or not self._follows(name, after) or name in shown:
                continue
            if len(shown) == most:
                truncated = True
                break
            shown.add(name)
            last = name
            entries.append(self._entry(request.bucket, key, folder, encoded=encoded))
        return _document(
            "ListBucketResult",
            f"<IsTruncated>{str(truncated).lower()}</IsTruncated>",
            "<EncodingType>url</EncodingType>" if encoded else "",
            f"<NextContinuationToken>{quote(last, errors=_ODD)}</NextContinuationToken>"
            if truncated
            else "",
            *entries,
        )

    def _rank(self, key: str) -> list[bytes]:
        raw = key.encode(errors=_ODD)
        return raw.split(b"/") if self.tree else [raw]

    def _follows(self, key: str, after: str) -> bool:
        if not after:
            return True
        if self.tree and key.startswith(after + "/"):
            return False
        return self._rank(key) > self._rank(after)

    def _entry(self, bucket: str, key: str, folder: str | None, *, encoded: bool) -> str:
        encode = self._encode if encoded else str
        if folder is not None:
            name = _xml(encode(folder))
            return f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"
        stored = self.objects[bucket, key]
        modified = f"{stored.modified:%Y-%m-%dT%H:%M:%S}.000Z"
        storage = self.classes.get((bucket, key), "")
        storage = f"<StorageClass>{storage}</StorageClass>" if storage else ""
        return (
            f"<Contents><Key>{_xml(encode(key))}</Key><LastModified>{modified}</LastModified>"
            f"<ETag>&quot;{stored.etag}&quot;</ETag><Size>{len(stored.body)}</Size>"
            f"{storage}</Contents>"
        )

    def _encode(self, key: str) -> str:
        text = quote(key, safe="/-_.~*", errors=_ODD)
        if self.plus == "form":
            return text.replace("%20", "+")
        return text.replace("%2B", "+") if self.plus == "percent" else text


@pytest.fixture
def faulty() -> Iterator[FaultyS3]:
    with FaultyS3() as server:
        yield server


def _no_probe(request: Request) -> bool:
    return not any(".bestbefore-probe-" in key for key in (request.key, *request.keys))


def _folder(key: str, prefix: str, delimiter: str) -> str | None:
    if not delimiter or delimiter not in key[len(prefix) :]:
        return None
    return key[: key.index(delimiter, len(prefix)) + len(delimiter)]


def _document(root: str, *parts: str) -> Answer:
    body = f"{_XML}<{root} {_NAMESPACE}>{''.join(parts)}</{root}>"
    return Answer(200, body.encode(), {"Content-Type": "application/xml"})


def _xml(text: str) -> str:
    return escape(text, {"\r": "&#xD;", "\n": "&#xA;"})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    world: FaultyS3

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is none of our business."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    # Headers and body leave in one packet; two of them meet delayed acknowledgements.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._respond()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def handle_expect_100(self) -> bool:
        # botocore waits a second for this line, which would stay in the buffer.
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def version_string(self) -> str:
        return self.server.world.server

    def date_time_string(self, timestamp: float | None = None) -> str:
        return format_datetime(self.server.world.date(), usegmt=True)

    def log_message(self, *_: object) -> None:
        """Tests read `FaultyS3.requests` instead."""

    def _respond(self) -> None:
        answer = self.server.world.answer(self._request())
        if answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        headers = {"Content-Length": str(len(answer.body))} | dict(answer.headers)
        if answer.status == 204:
            del headers["Content-Length"]
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()

    def _request(self) -> Request:
        # `self.path` has its leading slashes collapsed; the request line has them all.
        target = self.requestline.split(" ")[1]
        parts = urlsplit(f"http://host{target}")
        query = {
            name: values[0]
            for name, values in parse_qs(parts.query, keep_blank_values=True, errors=_ODD).items()
        }
        bucket, _, key = parts.path[1:].partition("/")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        operation = faulty_copies.operation(self.command, query, headers) or self._operation(
            query, has_key=bool(key)
        )
        keys: tuple[str, ...] = ()
        if operation == "DeleteObjects":
            try:
                found = ET.fromstring(body).findall("{*}Object/{*}Key")  # noqa: S314
                keys = tuple(element.text or "" for element in found)
            except ET.ParseError:
                keys = ()
        return Request(
            operation, parts.path, query, headers, body, unquote(bucket), unquote(key), keys
        )

    def _operation(self, query: Mapping[str, str], *, has_key: bool) -> str:
        if self.command == "POST" and "delete" in query:
            return "DeleteObjects"
        if self.command == "GET" and "versioning" in query:
            return "GetBucketVersioning"
        if self.command == "GET" and not has_key:
            return "ListObjectVersions" if "versions" in query else "ListObjectsV2"
        names = {"HEAD": "HeadObject", "PUT": "PutObject", "DELETE": "DeleteObject"}
        if has_key and self.command == "GET" and "tagging" in query:
            return "GetObjectTagging"
        if has_key:
            return names.get(self.command, "GetObject")
        return {"PUT": "CreateBucket", "HEAD": "HeadBucket"}.get(self.command, "DeleteBucket")
