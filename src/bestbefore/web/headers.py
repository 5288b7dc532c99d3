"""The outermost layer: headers for every answer, one line per request, an answer to every error.

No header allows another origin anything. What is logged of a path is the route's pattern, so that
no secret in a path, nor one in a path that is mistyped, reaches a log.
"""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bestbefore.web.problems import problem_of

log = logging.getLogger(__name__)

_DEFAULTS = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}
"""A route that needs another one sets it itself."""


class Outermost:
    """Wraps everything else of the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began, status = time.monotonic(), 0

        async def with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name.lower() for name, _ in message["headers"]}
                missing = [(n, v) for n, v in _DEFAULTS.items() if n not in given]
                message = {**message, "headers": [*message["headers"], *missing]}
            await send(message)

        try:
            await self._app(scope, receive, with_headers)
        except Exception as error:  # noqa: BLE001  (a caller gets an answer)
            # The inner application has answered, and raises again what it could not explain.
            if not status:
                await problem_of(error).response()(scope, receive, with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "(no route)")
            principal = scope.get("state", {}).get("principal")
            log.info(
                "%s %s %d in %.0f ms for %s",
                scope["method"],
                route,
                status,
                1000 * (time.monotonic() - began),
                "nobody" if principal is None else principal.name,
            )
