"""A small, strict server of the API in the README, for tests and to try things out.

It keeps objects in memory and refuses whatever the README does not promise: a DELETE without
`If-Match`, an unknown parameter, a path that was not percent-encoded. Beyond the API it takes a
PUT, as whoever makes artifacts would. To run it with some objects of last year::

    python tests/reference.py 8321
"""

import hashlib
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

_PLAIN = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2}")
_PARAMETERS = {"prefix", "after", "limit"}
_MOST = 1_000


class Object(NamedTuple):
    body: bytes
    etag: str
    modified: datetime


@dataclass
class Reference:
    """What the server holds, and how it behaves.

    ``evaluates_conditions`` is RFC 9110's order: a condition is looked at before anything else, so
    that of an absent object it fails. Without it such a DELETE is 404. ``ignores_conditions``
    deletes whatever is there. ``refuse`` answers so many next calls with a status and headers.
    """

    token: str | None = None
    evaluates_conditions: bool = True
    ignores_conditions: bool = False
    clock_is_off_by: timedelta = timedelta(0)
    containers: dict[str, dict[str, Object]] = field(default_factory=dict)
    refuse: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, bucket: str, key: str, body: bytes, modified: datetime | None = None) -> None:
        """Write an object, as somebody else would."""
        # An artifact that is written again with the same bytes is another one all the same.
        moment = modified or datetime.now(UTC)
        digest = hashlib.sha256(body).hexdigest()[:32]
        with self.lock:
            self.containers[bucket][key] = Object(body, digest, moment.replace(microsecond=0))

    def keys(self, bucket: str) -> set[str]:
        with self.lock:
            return set(self.containers[bucket])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    reference: Reference

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_PUT = do_DELETE = do_GET  # noqa: N815  (names of the standard library)

    def date_time_string(self, timestamp: float | None = None) -> str:
        """What `Date` says."""
        off = self.reference.clock_is_off_by.total_seconds()
        return super().date_time_string(time.time() + off if timestamp is None else timestamp)

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urlsplit(self.path)
        with self.reference.lock:
            self.reference.calls.append((self.command, unquote(parts.path)))
            refused = self.reference.refuse.pop(0) if self.reference.refuse else None
        if refused is not None:
            return self._send(refused[0], headers=refused[1])
        wanted = self.reference.token
        if wanted is not None and self.headers.get("Authorization") != f"Bearer {wanted}":
            return self._send(401)
        _, bucket, *rest = parts.path.split("/", 2)
        if _PLAIN.sub("", parts.path) or not {"", ".", ".."}.isdisjoint(parts.path.split("/")[1:]):
            return self._send(400)
        with self.reference.lock:
            objects = self.reference.containers.get(unquote(bucket))
            if objects is None:
                return self._send(404)
            if not rest:
                return self._list(objects, parts.query)
            if parts.query:
                return self._send(400)
            return self._one(objects, unquote(rest[0]), body)

    def _list(self, objects: dict[str, Object], query: str) -> None:
        asked = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        limit = asked.get("limit", str(_MOST))
        if self.command != "GET" or asked.keys() - _PARAMETERS or not limit.isdigit():
            return self._send(400)
        prefix, after = asked.get("prefix", ""), asked.get("after", "")
        found = sorted(key for key in objects if key.startswith(prefix) and key > after)
        shown = found[: min(int(limit), _MOST)]
        items = [
            {
                "key": key,
                "size": len(objects[key].body),
                "etag": f'"{objects[key].etag}"',
                "last_modified": objects[key].modified.isoformat().replace("+00:00", "Z"),
            }
            for key in shown
        ]
        document = {"items": items, "more": len(found) > len(shown)}
        return self._send(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def _one(self, objects: dict[str, Object], key: str, body: bytes) -> None:
        now = objects.get(key)
        match self.command:
            case "PUT":
                etag = hashlib.sha256(body).hexdigest()[:32]
                objects[key] = Object(body, etag, datetime.now(UTC).replace(microsecond=0))
                return self._send(204)
            case "DELETE":
                return self._delete(objects, key, now)
            case "HEAD" | "GET" if now is None:
                return self._send(404)
        assert now is not None
        headers = {
            "ETag": f'"{now.etag}"',
            "Last-Modified": format_datetime(now.modified, usegmt=True),
        }
        part = re.fullmatch(r"bytes=0-(\d+)", self.headers.get("Range", ""))
        if part is None or self.command == "HEAD":
            return self._send(200, now.body, headers)
        if not now.body:
            return self._send(416)
        return self._send(206, now.body[: int(part[1]) + 1], headers)

    def _delete(self, objects: dict[str, Object], key: str, now: Object | None) -> None:
        condition = self.headers.get("If-Match")
        if condition is None:
            return self._send(428)
        reference = self.reference
        if now is None:
            early = reference.evaluates_conditions and not reference.ignores_conditions
            return self._send(412 if early else 404)
        if condition != f'"{now.etag}"' and not reference.ignores_conditions:
            return self._send(412)
        del objects[key]
        return self._send(204)

    def _send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def serving(reference: Reference, port: int = 0) -> Iterator[Reference]:
    """*reference* at its ``url`` while inside."""
    handler = type("Handler", (_Handler,), {"reference": reference})
    with _Server(("127.0.0.1", port), handler) as server:
        reference.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield reference
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    sample = Reference(containers={"builds": {}})
    for number in range(20):
        age = timedelta(days=20 * number)
        sample.put("builds", f"nightly/{number:02}.tar", b"x" * number, datetime.now(UTC) - age)
    with serving(sample, int(sys.argv[1])):
        print(f"20 objects in {sample.url}/builds")
        threading.Event().wait()
