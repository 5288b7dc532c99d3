"""What is in an answer: `{ok, data, error, metadata}` around most, nothing around some.

Their documents contradict each other about names, so reading is tolerant; writing is not.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What was said: ``data`` where it was done, else ``error``."""

    ok: bool
    data: Any
    error: Any


def read(body: bytes) -> Answer:
    """The envelope in *body*, or a body without one as its data. Raises ValueError."""
    try:
        said = json.loads(body)
    except RecursionError:
        raise ValueError("its JSON is too deep") from None
    if not isinstance(said, dict):
        if isinstance(said, list):
            return Answer(True, said, None)
        raise ValueError("expected a JSON object")
    if "ok" in said:
        return Answer(said["ok"] is True, said.get("data"), said.get("error"))
    if "data" in said and "error" in said:
        return Answer(said["error"] is None, said["data"], said["error"])
    return Answer(True, said, None)


def items(data: Any, *names: str) -> list[Any] | None:
    """The list in *data*: itself, or what stands under the first of *names*, or ``items``, that
    holds one. None where there is no list."""
    if isinstance(data, list):
        return data
    if isinstance(data, Mapping):
        for name in (*names, "items"):
            if isinstance(data.get(name), list):
                return list(data[name])
    return None


def first(data: Any, names: Iterable[str]) -> Any:
    """What *data* has under the first of *names* that it has; None without one."""
    if not isinstance(data, Mapping):
        return None
    return next((data[name] for name in names if data.get(name) is not None), None)


def text(data: Any, *names: str) -> str | None:
    """The same, as a text, for ids and names; None for what is neither text nor whole number."""
    found = first(data, names)
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return str(found) or None
