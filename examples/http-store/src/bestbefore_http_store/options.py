"""What stands in ``[stores.NAME.options]``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

_LONGEST_TIMEOUT, _MOST_CONNECTIONS = 300, 64


@dataclass(frozen=True, slots=True)
class Options:
    """``token`` is sent as ``Authorization: Bearer``, ``timeout`` is in seconds and for each call,
    ``connections`` is how many calls of one process run at a time."""

    url: str
    token: str | None = field(default=None, repr=False)
    timeout: float = 30.0
    connections: int = 16

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> "Options":
        """Raises ValueError; no message holds the value of ``url`` or ``token``."""
        known = cls.__slots__
        for key in written:
            if key not in known:
                raise ValueError(f"unknown key {key}; there are {', '.join(known)}")
        if "url" not in written:
            raise ValueError('expected url, found none; add url = "https://artifacts.example.com"')
        options = cls(**written)
        options._check()
        return options

    def _check(self) -> None:
        if not isinstance(self.url, str) or not _is_plain(self.url):
            raise ValueError(
                "url: expected http:// or https:// with a host, and without user, password or "
                "query; put what is secret into token_env"
            )
        if self.token is not None and not _is_header(self.token):
            raise ValueError("token: expected printable ASCII; look at where it is read from")
        if not _is_within(self.timeout, (int, float), _LONGEST_TIMEOUT):
            raise ValueError(f"timeout: expected seconds, at most {_LONGEST_TIMEOUT}")
        if not _is_within(self.connections, (int,), _MOST_CONNECTIONS):
            raise ValueError(f"connections: expected a whole number from 1 to {_MOST_CONNECTIONS}")


def _is_plain(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port_fits = parts.port != 0
    except ValueError:
        return False
    bare = not (parts.query or parts.fragment or "@" in parts.netloc)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port_fits and bare


def _is_within(value: object, sorts: tuple[type, ...], most: int) -> bool:
    return type(value) in sorts and 0 < value <= most  # type: ignore[operator]


def _is_header(token: object) -> bool:
    return isinstance(token, str) and token.isascii() and token.isprintable() and bool(token)
