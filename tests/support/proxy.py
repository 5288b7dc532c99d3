"""A server that can go away and come back: what connects to it is passed on, while it is there."""

import contextlib
import re
import select
import socket
import threading
from typing import Self

from support.ports import free_port


class Proxy:
    """Listens on a port of its own and passes everything on to *target*."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.port = free_port()

    def __enter__(self) -> Self:
        self.come()
        return self

    def __exit__(self, *_: object) -> None:
        self.go()

    def come(self) -> None:
        """Be there, at the same port as before."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._accepting = threading.Thread(target=self._accept, args=(self._listener,))
        self._accepting.start()

    def go(self) -> None:
        """Cut every connection and refuse new ones."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(10)
        with self._lock:
            for side in self._open:
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                threading.Thread(target=self._pass_on, args=(near,), daemon=True).start()

    def _pass_on(self, near: socket.socket) -> None:
        far = socket.create_connection(self._target)
        with self._lock:
            self._open |= {near, far}
        with contextlib.suppress(OSError):
            while self._passed(near, far):
                pass
        with self._lock:
            self._open -= {near, far}
        near.close()
        far.close()

    @staticmethod
    def _passed(near: socket.socket, far: socket.socket) -> bool:
        """Pass on what there is; False at the end."""
        for side in select.select([near, far], [], [])[0]:
            data = side.recv(65536)
            if not data:
                return False
            (far if side is near else near).sendall(data)
        return True


_COMMIT = re.compile(rb"COMMIT\b")  # and not READ COMMITTED


class CommitCutter(Proxy):
    """Once `armed`, cuts the next connection that sends a COMMIT: before it gets through, or with
    *lost_answer* when it has been answered. Unless it ``stays`` it is gone after that."""

    def __init__(self, target: tuple[str, int], *, lost_answer: bool) -> None:
        super().__init__(target)
        self.armed = False
        self.stays = True
        self._lost_answer = lost_answer

    def _passed(self, near: socket.socket, far: socket.socket) -> bool:  # type: ignore[override]
        for side in select.select([near, far], [], [])[0]:
            data = side.recv(65536)
            if not data:
                return False
            if self.armed and side is near and _COMMIT.search(data):
                self.armed = False
                if self._lost_answer:
                    far.sendall(data)
                    far.recv(65536)
                if not self.stays:
                    self.go()
                return False
            (far if side is near else near).sendall(data)
        return True
