"""Where a service listens, and who can reach it there."""

import socket
from ipaddress import ip_address


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; with port 0 the system chooses. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=512)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach *host*."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def address(listening: socket.socket) -> str:
    """Where *listening* can be reached, as a URL."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
