"""A stand-in for an EventBridge Scheduler that is newer than any client: one schedule, with fields
that nobody knows. As with the real one, an update replaces everything. It can refuse the next few
requests first.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class NewerEventBridge:
    """``schedule`` is what is there, ``written`` what was sent by each update, ``refusals`` the
    status and code of what the next requests are answered with."""

    def __init__(self, schedule: dict[str, Any]) -> None:
        self.schedule = schedule
        self.written: list[dict[str, Any]] = []
        self.refusals: list[tuple[int, str]] = []
        self.asked = 0
        self.url = ""

    def get(self) -> tuple[int, dict[str, Any]]:
        return 200, self.schedule

    def put(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.written.append(body)
        kept = {key: self.schedule[key] for key in ("Arn", "Name", "CreationDate")}
        self.schedule = {key: value for key, value in body.items() if key != "ClientToken"} | kept
        return 200, {"ScheduleArn": self.schedule["Arn"]}

    @contextmanager
    def listening(self) -> Iterator["NewerEventBridge"]:
        there = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self._answer(*(self._refusal() or there.get()))

            def do_PUT(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(*(self._refusal() or there.put(body)))

            def _refusal(self) -> tuple[int, dict[str, Any]] | None:
                there.asked += 1
                if not there.refusals:
                    return None
                status, code = there.refusals.pop(0)
                return status, {"__type": code, "Message": "not now"}

            def _answer(self, status: int, document: dict[str, Any]) -> None:
                data = json.dumps(document).encode()
                self.send_response(status)
                if status >= 400:
                    self.send_header("x-amzn-ErrorType", document["__type"])
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
