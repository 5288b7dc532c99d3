"""Ports for servers that have to be told one."""

import secrets
import socket
from contextlib import suppress
from pathlib import Path

_FIRST = 10_000
_TRIES = 100


def free_port() -> int:
    """A port on loopback that nobody has now, and that the system gives to nobody who asks for any:
    it stays free until the server that is told it has started, whatever other tests do."""
    range_file = Path("/proc/sys/net/ipv4/ip_local_port_range")
    below = int(range_file.read_text().split()[0]) if range_file.exists() else 32_768
    for _ in range(_TRIES if below - _FIRST > _TRIES else 0):
        port = _FIRST + secrets.randbelow(below - _FIRST)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    with socket.create_server(("127.0.0.1", 0)) as any_one:  # where the system gives out nearly all
        found: int = any_one.getsockname()[1]
        return found
