"""A stand-in for Infrai, built from `facts/infrai.md`. It is not the vendor.

Nobody could look at the real API while this was written: what is known of it comes from the first
part of some pages and from clients that contradict each other. So the stand-in is strict where they
agree (envelope, bearer key, discovery without one, statuses), serves each of the forms in which
they do not (`support.infrai_documents.VARIANTS`), and refuses whatever does not fit its own
discovery documents. That a test passes here says that bestbefore does what it means to::

    with Infrai() as infrai:
        infrai.queue("work")
        infrai.answer("queue.publish", throttled("120"))          # the next one
        infrai.documents["queue.ack"]["path"] = "/v2/ack"         # drift
        assert [r.key for r in infrai.asked("queue.publish")] == [...]

It listens on the loopback, at a port of its own.
"""

import json
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from jsonschema import Draft202012Validator

from bestbefore.adapters.queues.infrai import InfraiQueueSettings
from support.infrai_cron import Crons
from support.infrai_documents import COMMON, Variant, documents
from support.infrai_queue import DAY, Queues, Refused
from support.ports import free_port

KEY = "ifr_test_0123456789abcdefghij"
_KEPT = DAY
_TYPED = re.compile(r"\d+")


class Reply(NamedTuple):
    """An answer, made up or real."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


class Request(NamedTuple):
    """One request as it came in. ``key`` is its Idempotency-Key, ``replayed`` whether that was
    known, so that nothing was done."""

    capability: str
    path: str
    headers: Mapping[str, str]
    body: Any
    key: str | None
    replayed: bool
    status: int


@dataclass
class _Fault:
    reply: Reply | None
    times: int
    after_effect: bool


class Infrai:
    """The server. Any of ``keys`` opens it; ``requests`` are what came in, as long as it
    ``remembers``."""

    def __init__(self, variant: Variant = COMMON) -> None:
        self.variant = variant
        self.port = free_port()
        self.documents = documents(variant)
        self.keys = {KEY}
        self.requests: list[Request] = []
        self.remembers = True
        self._ahead = 0.0
        self.queues = Queues(variant, self.now)
        self.crons = Crons(variant)
        self._faults: dict[str, list[_Fault]] = {}
        self._lock = threading.Lock()
        self._answered: dict[tuple[str, str], tuple[str, float, Reply]] = {}
        self._turns: dict[tuple[str, str], threading.Lock] = {}
        self.do: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "queue.list": self.queues.every,
            "cron.list": self.crons.every,
        }
        for name in self.documents.keys() - self.do.keys():
            module, _, verb = name.partition(".")
            does = {"queue": self.queues, "cron": self.crons}[module]
            self.do[name] = getattr(does, verb.replace(".", "_"))

    # -- for tests ---------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._server: ThreadingHTTPServer
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen: again at the same port, with everything still there, after a stop."""
        self._server = _Server(("127.0.0.1", self.port), _handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Answer no more, in the middle of whatever it is."""
        self._server.shutdown()
        self._server.cut()
        self._server.server_close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def now(self) -> float:
        """What this server takes the time to be."""
        return time.time() + self._ahead

    def advance(self, seconds: float) -> None:
        """Let time pass here."""
        self._ahead += seconds

    def queue(self, name: str, dead: str | None = None, **more: Any) -> None:
        """Have a queue, and one for its dead letters."""
        dead = dead or f"{name}-dead"
        if dead not in self.queues.queues:
            self.queues.create({"name": dead, "message_retention_days": 30})
        self.queues.create({"name": name, "dead_letter_queue": dead, "max_retries": 100} | more)

    def settings(self, queue: str, **more: Any) -> InfraiQueueSettings:
        """The settings of an adapter to *queue* here."""
        said = {"api_key": KEY, "base_url": self.base_url} | more
        return InfraiQueueSettings(queue, f"{queue}-dead", **said)

    def answer(
        self, what: str, reply: Reply | None, times: int = 1, *, after_effect: bool = False
    ) -> None:
        """Answer the next *times* calls of a capability, or of ``discovery/<capability>``, so;
        None cuts the connection. With *after_effect* it is done all the same."""
        self._faults.setdefault(what, []).append(_Fault(reply, times, after_effect))

    def asked(self, capability: str) -> list[Request]:
        """The requests for a capability so far."""
        return [one for one in self.requests if one.capability == capability]

    # -- answering ---------------------------------------------------------------------------

    def handle(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Reply | None:
        """The answer to a request; None for a connection that is cut."""
        parts = urlsplit(target)
        if parts.path == "/v1/discovery":
            manifest = {"version": "1", "capabilities": sorted(self.documents)}
            return Reply(200, json.dumps(manifest).encode())
        if parts.path.startswith("/v1/discovery/"):
            return self._discovered(parts.path.removeprefix("/v1/discovery/"), headers)
        for name, document in self.documents.items():
            places = _match(document["path"], parts.path)
            if document["method"] == method and places is not None:
                return self._called(name, document, places, parts.query, headers, body)
        return _refusal(404, "NOT_FOUND", f"no route for {method} {parts.path}")

    def _discovered(self, name: str, headers: Mapping[str, str]) -> Reply | None:
        what = f"discovery/{name}"
        document = self.documents.get(name)
        found = (
            _refusal(404, "NOT_FOUND", f"no capability {name}")
            if document is None
            else Reply(200, json.dumps(document).encode())
        )
        fault = self._fault(what)
        reply = found if fault is None else fault.reply
        status = 0 if reply is None else reply.status
        self.requests.append(Request(what, "", headers, None, None, False, status))
        return reply

    def _called(
        self,
        name: str,
        document: Mapping[str, Any],
        places: Mapping[str, str],
        query: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Reply | None:
        said, replayed = None, False
        key = headers.get("idempotency-key")
        fault = self._fault(name)
        reply: Reply | None
        if fault is not None and not fault.after_effect:
            reply = fault.reply
        else:
            try:
                said = self._read(document, places, query, headers, body)
                key = key or said.pop("idempotency_key", None)
                # One after the other, also where the first one's client has gone away.
                turn = self._turns.setdefault((name, key or uuid.uuid4().hex), threading.Lock())
                with turn:
                    reply, replayed = self._once(name, document, key, said)
            except Refused as refused:
                reply = _refusal(refused.status, **refused.error)
            if fault is not None:
                reply = fault.reply
        status = 0 if reply is None else reply.status
        if self.remembers:
            with self._lock:
                self.requests.append(Request(name, query, headers, said, key, replayed, status))
        return reply

    def _read(
        self,
        document: Mapping[str, Any],
        places: Mapping[str, str],
        query: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> dict[str, Any]:
        """What is asked for, if somebody may ask and it fits the schema."""
        kind, _, key = headers.get("authorization", "").partition(" ")
        if kind != "Bearer" or key not in self.keys:
            raise Refused(401, "UNAUTHORIZED", f"the key {key} is not known")
        said: dict[str, Any] = {
            name: int(value) if _TYPED.fullmatch(value) else value
            for name, value in parse_qsl(query)
        }
        if document["method"] != "GET":
            if headers.get("content-type") != "application/json":
                raise Refused(415, "UNSUPPORTED_MEDIA_TYPE", "expected application/json")
            try:
                said |= json.loads(body)
            except (ValueError, TypeError):
                raise Refused(400, "INVALID_ARGUMENT", "expected a JSON object") from None
        elif body:
            raise Refused(400, "INVALID_ARGUMENT", "a GET has no body")
        properties = document["params"].get("properties", {})
        whole = said | {name: value for name, value in places.items() if name in properties}
        schema = document["params"] or {"type": "object", "additionalProperties": False}
        if errors := list(Draft202012Validator(schema).iter_errors(whole)):
            where = "/".join(map(str, errors[0].absolute_path))
            raise Refused(400, "INVALID_ARGUMENT", f"{where}: {errors[0].message[:200]}")
        return whole | dict(places)

    def _once(
        self, name: str, document: Mapping[str, Any], key: str | None, said: Mapping[str, Any]
    ) -> tuple[Reply, bool]:
        """The answer, and whether it was given before under the same key."""
        remembered = document["idempotent"] and key and document["method"] != "GET"
        digest = sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
        if remembered and (known := self._answered.get((name, str(key)))) is not None:
            before, until, reply = known
            if self.now() < until:
                if before != digest:
                    raise Refused(
                        409, "IDEMPOTENCY_CONFLICT", "this key came with another request before"
                    )
                return reply, True
        reply = self._enveloped(name, self.do[name](said))
        if remembered:
            self._answered[name, str(key)] = (digest, self.now() + _KEPT, reply)
        return reply, False

    def _enveloped(self, name: str, data: Any) -> Reply:
        if name == "queue.consume" and self.variant.messages == "bare":
            return Reply(200, json.dumps({"messages": data}).encode())
        said = {"ok": True, "data": data, "error": None, "metadata": _metadata()}
        return Reply(200, json.dumps(said).encode())

    def _fault(self, what: str) -> _Fault | None:
        with self._lock:
            waiting = self._faults.get(what)
            if not waiting:
                return None
            fault = waiting[0]
            fault.times -= 1
            if not fault.times:
                waiting.pop(0)
            return fault


def throttled(retry_after: str | None = None) -> Reply:
    """429, with what Retry-After says."""
    return _refusal(429, "RATE_LIMITED", "slow down", retry_after=retry_after)


def refusal(status: int, code: str, message: str, hint: str | None = None) -> Reply:
    """Any other refusal."""
    return _refusal(status, code, message, hint)


def no_credit() -> Reply:
    """The one code that is documented."""
    return _refusal(402, "INSUFFICIENT_CREDIT", "the balance is used up", "top up first")


def page(status: int = 502) -> Reply:
    """What a gateway says in their place."""
    return Reply(status, b"<html>Bad gateway</html>", {"Content-Type": "text/html"})


def _refusal(
    status: int, code: str, message: str, hint: str | None = None, retry_after: str | None = None
) -> Reply:
    error = {"code": code, "message": message, "hint": hint}
    said = {"ok": False, "data": None, "error": error, "metadata": _metadata()}
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Reply(status, json.dumps(said).encode(), headers)


def _metadata() -> dict[str, Any]:
    return {
        "cost_usd": 0,
        "latency_ms": 1,
        "vendor": "stand-in",
        "cache_hit": False,
        "request_id": str(uuid.uuid4()),
    }


def _match(template: str, path: str) -> dict[str, str] | None:
    """What stands in the places of *template*; None where *path* is another."""
    names = re.findall(r"\{(\w+)\}", template)
    pattern = re.sub(r"\\\{\w+\\\}", "([^/]+)", re.escape(template))
    found = re.fullmatch(pattern, path)
    return None if found is None else dict(zip(names, map(unquote, found.groups()), strict=True))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        """End every connection."""
        for one in list(self._open):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, *_: object) -> None:
        """A client that is gone is nothing to tell of."""


def _handler(infrai: Infrai) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def _any(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length)
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = infrai.handle(self.command, self.path, headers, body)
            if reply is None:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)
            self.wfile.flush()

        do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler


@pytest.fixture
def infrai() -> Iterator[Infrai]:
    """The stand-in, in the form that most of their clients know."""
    with Infrai() as running:
        yield running
