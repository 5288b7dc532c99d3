"""Who a request comes from. Nothing is answered to nobody, but whether the process is well.

A caller is known by a bearer token, by a signature over the raw body, or, where it can only be
given an address, by a secret in the path. The last two can trigger, and the signature push.
"""

import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Annotated

from anyio import to_thread
from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from bestbefore.app.settings import ServeSettings
from bestbefore.domain.access import TOKEN_PREFIX, Principal, Scope, token_digest
from bestbefore.ports.access import Access, Deliveries
from bestbefore.ports.clock import Clock
from bestbefore.web.limits import RateLimit, replayed, whole_body
from bestbefore.web.problems import Problem, problem_of
from bestbefore.web.signatures import NotVerified, verify

log = logging.getLogger(__name__)

OPEN = frozenset({"/healthz", "/readyz"})
"""Paths that are answered to everybody."""

_SECRET_PATH = "/cleanup/plan/"  # noqa: S105  (the path before one)
_HMAC = Principal("hmac", frozenset({Scope.TRIGGER}))
_BY_PATH = Principal("trigger-secret", frozenset({Scope.TRIGGER}))

bearer = HTTPBearer(auto_error=False, description="A token of `bestbefore token add`.")


class Gatekeeper:
    """Lets in who is known, and limits how much anybody may ask."""

    def __init__(
        self,
        app: ASGIApp,
        serve: ServeSettings,
        access: Access,
        deliveries: Deliveries,
        clock: Clock,
    ) -> None:
        self._app = app
        self._serve = serve
        self._access = access
        self._deliveries = deliveries
        self._clock = clock
        self._limit = RateLimit()

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        try:
            body = await whole_body(scope, receive)
            principal, delivery = await self._identified(scope, body)
            self._limit.known(principal.name)
        except Exception as error:  # noqa: BLE001  (whatever it is, nobody was let in)
            await self._refuse(error, scope, receive, send)
            return
        scope.setdefault("state", {})["principal"] = principal
        await self._answer(delivery, scope, replayed(body, receive), send)

    async def _identified(self, scope: Connection, body: bytes) -> tuple[Principal, str | None]:
        """Who sends this, and the id of a signed delivery. Raises Problem."""
        headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in scope["headers"]}
        principal = await self._known(headers, scope["path"])
        if principal is not None:
            return principal, None
        if self._serve.hmac_header in headers:
            return _HMAC, await self._signed(headers, body)
        raise _unknown()

    async def _known(self, headers: Mapping[str, str], path: str) -> Principal | None:
        if path.startswith(_SECRET_PATH):
            given = path.removeprefix(_SECRET_PATH).encode()
            fits = [
                hmac.compare_digest(given, secret.encode())
                for secret in self._serve.trigger_secrets
            ]
            return _BY_PATH if any(fits) else None
        kind, _, text = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return await to_thread.run_sync(by_token, self._access, self._clock, text.strip())
        return None

    async def _signed(self, headers: Mapping[str, str], body: bytes) -> str | None:
        """The id of a delivery that is signed and new; raises Problem for any other."""
        serve, now = self._serve, self._clock.now()
        found = verify(
            headers,
            body,
            serve.hmac_keys,
            serve.hmac_header,
            serve.hmac_tolerance,
            now,
            serve.hmac_timestamp_header,
        )
        if isinstance(found, NotVerified):
            log.warning("a signature was refused: %s", found.why)
            raise _unknown()
        if (delivery := found.delivery) is None:
            return None
        if not await to_thread.run_sync(self._deliveries.first, *delivery, now):
            raise Problem(409, "a delivery with this webhook-id, or signature, was accepted before")
        return delivery.sender_id

    async def _answer(
        self, delivery: str | None, scope: Connection, receive: Receive, send: Send
    ) -> None:
        """Have the request answered. A delivery that led to nothing may come again."""
        status = 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if delivery is not None and status >= 400:
                    await to_thread.run_sync(self._deliveries.forget, delivery)
            await send(message)

        await self._app(scope, receive, noted)

    async def _refuse(
        self, error: Exception, scope: Connection, receive: Receive, send: Send
    ) -> None:
        problem = problem_of(error)
        if problem.status == 401:
            client = scope.get("client") or ("?", 0)
            try:
                self._limit.unknown(client[0])
            except Problem as too_many:
                problem = too_many
        await problem.response()(scope, receive, send)


def by_token(access: Access, clock: Clock, text: str) -> Principal | None:
    """Who holds the token *text*; None where there is no such token."""
    if not text.startswith(TOKEN_PREFIX):
        return None
    token = access.token(token_digest(text), clock.now())
    return None if token is None else Principal(f"token:{token.name}", token.scopes)


def requires(scope: Scope) -> Callable[..., Principal]:
    """A dependency: the caller, who may do what needs *scope*; else 403."""

    def principal(request: Request, _: Annotated[object, Depends(bearer)]) -> Principal:
        caller: Principal = request.state.principal
        if not caller.may(scope):
            raise Problem(403, f"this needs the scope {scope}, which {caller.name} has not")
        return caller

    return principal


Reader = Annotated[Principal, Depends(requires(Scope.READ))]
Operator = Annotated[Principal, Depends(requires(Scope.OPERATE))]
Triggerer = Annotated[Principal, Depends(requires(Scope.TRIGGER))]


def _unknown() -> Problem:
    return Problem(
        401,
        "say who you are: a bearer token, or a signature where those are accepted",
        {"WWW-Authenticate": 'Bearer realm="bestbefore"'},
    )
