"""Bytes as JSON payloads, and back: what comes out is what went in, whatever they do to JSON."""

import json
from collections.abc import Mapping
from typing import Any

WRAPPED = "bestbefore"
"""The one field of an object that carries a text, where only objects are carried."""

MOST_BYTES = 256_000
"""Of a payload as it is encoded. Theirs is "256 KB": the smaller reading of that."""

MOST_BODY = 250_000
"""Of a body, which leaves room for what is around it."""

SURELY_FITS = 40_000
"""Of a body, however much of it is escaped: no byte takes more than six."""


def as_object(body: bytes) -> dict[str, object]:
    """*body* as an object: itself where it is one that comes back the same, as every command of
    ours is, else a text in one."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, dict) and _compact(said) == body:
        return said
    return {WRAPPED: as_text(body)}


def as_text(body: bytes) -> str:
    """*body* as a text; what is no UTF-8 cannot be one. Raises UnicodeDecodeError."""
    return body.decode()


def encoded_size(payload: object) -> int:
    """How many bytes *payload* takes in a request."""
    return len(_compact(payload))


def body_of(payload: Any) -> bytes:
    """The bytes of a *payload* that arrived, ours or somebody else's, readable or not."""
    if payload is None:
        return b""
    if isinstance(payload, Mapping) and set(payload) == {WRAPPED}:
        payload = payload[WRAPPED]
    if isinstance(payload, str):
        return payload.encode("utf-8", "surrogatepass")
    return _compact(payload)


def _compact(payload: object) -> bytes:
    return json.dumps(payload, separators=(",", ":")).encode("ascii")
