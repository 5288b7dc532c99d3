"""A web address that says whether it is all right to go on."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from bestbefore.adapters.http import strain


class Address:
    """A server with one answer. ``asked`` are the paths it was asked for."""

    def __init__(self) -> None:
        self.status = 200
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                self.send_response(outer.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.01])
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def address() -> Iterator[Address]:
    there = Address()
    yield there
    there.close()


def test_only_200_lets_work_go_on(address: Address) -> None:
    assert strain(f"http://127.0.0.1:{address.port}/lag/ok") is None
    for status in (204, 302, 404, 500, 503):
        address.status = status
        found = strain(f"http://127.0.0.1:{address.port}/lag/ok")
        assert str(found) == f"http: http://127.0.0.1:{address.port}/lag/ok answers {status}"
    assert set(address.asked) == {"/lag/ok"}, "a redirect is not followed"


def test_secrets_of_the_address_are_used_and_not_shown(address: Address) -> None:
    address.status = 503
    found = strain(f"http://me:geheim@127.0.0.1:{address.port}?token=auchgeheim")

    assert address.asked == ["/?token=auchgeheim"]
    assert str(found) == f"http: http://127.0.0.1:{address.port} answers 503"


def test_an_address_that_is_out_of_reach_holds_work_back() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = strain(f"http://127.0.0.1:{free.getsockname()[1]}/ok")

    assert "gives no answer, so nobody can tell that it is safe: " in str(found)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 "])
def test_an_address_that_does_not_answer_in_time_holds_work_back(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answers: list[socket.socket] = []

        def answer() -> None:
            connection, _ = silent.accept()
            connection.sendall(said)
            answers.append(connection)

        thread = threading.Thread(target=answer)
        thread.start()
        found = strain(f"http://127.0.0.1:{silent.getsockname()[1]}/ok", timeout=0.1)
        thread.join()
        for connection in answers:
            connection.close()

    assert "gives no answer" in str(found)


def test_what_is_no_web_server_holds_work_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            connection, _ = other.accept()
            connection.recv(4096)
            connection.sendall(b"220 smtp ready\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        found = strain(f"http://127.0.0.1:{other.getsockname()[1]}/ok")
        thread.join()

    assert "gives no answer" in str(found)


@pytest.mark.parametrize("url", ["http://:1/", "http://a..b/", "http://127.0.0.1:99999/"])
def test_an_address_that_makes_no_sense_holds_work_back(url: str) -> None:
    assert strain(url) is not None
