"""The server process's HTTP side: a socket, and a thread that answers on it."""

import socket
import threading

import uvicorn
from starlette.types import ASGIApp

_GRACE_SECONDS = 10


class Server:
    """Answers on *listening* until told to stop."""

    def __init__(self, app: ASGIApp, listening: socket.socket) -> None:
        # No log of its own: it would hold the secrets that stand in paths.
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([listening],), name="http", daemon=True
        )

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it still answers."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Answer what was asked, within a few seconds, and no more."""
        self._server.should_exit = True

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join(_GRACE_SECONDS + 5)
