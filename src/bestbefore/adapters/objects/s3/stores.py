"""Stores whose habits are known before the first request: ``stores.toml`` says what that means."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class KnownStore:
    """One entry of ``stores.toml``."""

    name: str
    notes: str
    sources: tuple[str, ...]
    servers: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    content_md5: bool = False
    batch_limit: int | None = None
    tree_order: bool = False
    tried: bool = False

    def matches(self, host: str, server: str) -> bool:
        """Whether an endpoint at *host* that calls itself *server* looks like this store."""
        return host.endswith(self.endpoints) or server.startswith(self.servers)


@cache
def stores() -> Sequence[KnownStore]:
    """Every entry, in the order of the file."""
    text = files(__package__).joinpath("stores.toml").read_text(encoding="utf-8")
    return [KnownStore(**_frozen(entry)) for entry in tomllib.loads(text)["store"]]


def known(host: str, server: str) -> KnownStore | None:
    """The store that this looks like, if it is one of those."""
    return next((store for store in stores() if store.matches(host, server)), None)


def _frozen(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
