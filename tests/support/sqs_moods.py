"""A man in the middle, between the product and a server that speaks SQS.

Passes everything on, remembers it, and answers otherwise where a test says so::

    with Moody(server.endpoint) as moody:
        moody.on("SendMessageBatch", lambda asked, real: refused("ThrottlingException"))
        moody.on("DeleteMessageBatch", hang_up)
        assert [one["WaitTimeSeconds"] for one in moody.asked("ReceiveMessage")] == [1]

A rule gets what was asked and a function that asks the real server.
"""

import json
import threading
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

Asked = dict[str, Any]
Said = dict[str, Any]


class Answer(NamedTuple):
    """An HTTP answer, made up or real. One of status 0 is none: the connection ends."""

    status: int
    said: Said
    headers: Mapping[str, str] = {}


Rule = Callable[[Asked, Callable[[Asked], Answer]], Answer]
_KEPT = ("content-type", "x-amzn-query-error", "x-amzn-requestid")


class Moody:
    """Listens on a port of its own, in front of the server at *endpoint*."""

    def __init__(self, endpoint: str) -> None:
        self._target = urlsplit(endpoint).netloc
        self._rules: dict[str, Rule] = {}
        self._requests: list[tuple[str, Asked]] = []
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.moody = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def on(self, operation: str, rule: Rule) -> None:
        """From now on *rule* answers requests for *operation*."""
        self._rules[operation] = rule

    def behave(self) -> None:
        """Break no more rules."""
        self._rules.clear()

    def asked(self, operation: str) -> list[Asked]:
        """The requests for *operation* so far."""
        return [asked for name, asked in self._requests if name == operation]

    # What the handler asks.

    def answer(self, operation: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        asked = json.loads(body)
        self._requests.append((operation, asked))

        def real(changed: Asked) -> Answer:
            return self._passed_on(json.dumps(changed).encode(), headers)

        rule = self._rules.get(operation)
        return real(asked) if rule is None else rule(asked, real)

    def _passed_on(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        connection = HTTPConnection(self._target, timeout=60)
        try:
            kept = {
                name: value
                for name, value in headers.items()
                if name.lower() not in ("host", "content-length", "connection")
            }
            connection.request("POST", "/", body, kept)
            answer = connection.getresponse()
            said = json.loads(answer.read() or b"{}")
            known = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
            return Answer(answer.status, said, known)
        finally:
            connection.close()


def refused(code: str, message: str = "no", status: int = 400, **headers: str) -> Answer:
    """SQS's way to say no."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"__type": f"com.amazonaws.sqs#{code}", "message": message}, named)


def refuses(code: str, message: str = "no", status: int = 400, **headers: str) -> Rule:
    """A rule that always answers `refused`."""
    return lambda asked, real: refused(code, message, status, **headers)


def hang_up(asked: Asked, real: Callable[[Asked], Answer]) -> Answer:
    """A rule that ends the connection without an answer."""
    return Answer(0, {})


def fails_one(position: int, code: str, *, sender: bool = False) -> Rule:
    """A rule under which the entry at *position* of every batch fails, and never gets there."""

    def rule(asked: Asked, real: Callable[[Asked], Answer]) -> Answer:
        bad = asked["Entries"].pop(position)
        answer = real(asked)
        entry = {"Id": bad["Id"], "Code": code, "Message": "one bad entry", "SenderFault": sender}
        answer.said.setdefault("Failed", []).append(entry)
        return answer

    return rule


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    moody: Moody

    def handle_error(self, *_: object) -> None:
        """Whoever hung up had a reason."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        operation = self.headers["x-amz-target"].rpartition(".")[2]
        answer = self.server.moody.answer(operation, body, dict(self.headers.items()))
        if not answer.status:
            self.close_connection = True
            return
        said = json.dumps(answer.said).encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""
