"""How large a request may be, and how many a caller may send."""

import time

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.types import Message, Receive, Scope

from bestbefore.web.problems import Problem, try_again

MOST_BYTES = 64 * 1024
"""Of a body: the largest there is, a redrive by ids, is far below."""

_KNOWN, _UNKNOWN = parse("3000/minute"), parse("60/minute")


async def whole_body(scope: Scope, receive: Receive) -> bytes:
    """The body of a request. Raises Problem where it is too large."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if length.isdigit() and int(length) > MOST_BYTES:
        raise _too_large()
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "the request broke off")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            return b"".join(parts)


def replayed(body: bytes, receive: Receive) -> Receive:
    """*receive* for whoever comes next, with the body that was taken from it."""
    taken = False

    async def again() -> Message:
        nonlocal taken
        if taken:
            return await receive()
        taken = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


class RateLimit:
    """Counts requests in this process. Callers that are known, by name, may send many; those that
    are not, by address, few."""

    def __init__(self) -> None:
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    def known(self, name: str) -> None:
        """Count a request; raises Problem where it is one too many."""
        self._hit(_KNOWN, f"name:{name}")

    def unknown(self, address: str) -> None:
        """Count a request that did not say, or prove, who sent it."""
        self._hit(_UNKNOWN, f"address:{address}")

    def _hit(self, item: object, key: str) -> None:
        if not self._limiter.hit(item, key):  # type: ignore[arg-type]
            reset = self._limiter.get_window_stats(item, key).reset_time  # type: ignore[arg-type]
            raise try_again(429, "too many requests", reset - time.time())


def _too_large() -> Problem:
    return Problem(413, f"a body has at most {MOST_BYTES:,} bytes")
