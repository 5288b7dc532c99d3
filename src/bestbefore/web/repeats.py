"""Requests that may be sent twice: the same ``Idempotency-Key`` gets the same answer for a day.

Only what succeeded is kept. What failed did nothing that trying again could double, so that a
repetition of it is carried out.
"""

from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256

from anyio import to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bestbefore.domain.access import Principal
from bestbefore.domain.identity import frame
from bestbefore.ports.access import Answers, Reply
from bestbefore.ports.clock import Clock
from bestbefore.web.limits import replayed, whole_body
from bestbefore.web.problems import Problem, problem_of, try_again

_KEEP = timedelta(hours=24)
_LEASE = timedelta(minutes=2)
"""For how long a first request may be under way before a repetition of it is carried out."""

_LONGEST_KEY, _LONGEST_ANSWER = 255, 64 * 1024
_CHANGING = {"POST", "DELETE"}


class Repeats:
    """Answers repetitions, for callers that are known already."""

    def __init__(self, app: ASGIApp, answers: Answers, clock: Clock) -> None:
        self._app = app
        self._answers = answers
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"]).get(b"idempotency-key")
        if given is None or scope["method"] not in _CHANGING:
            await self._app(scope, receive, send)
            return
        principal: Principal = scope["state"]["principal"]
        body = await whole_body(scope, receive)
        key, request = _digests(principal, given, scope, body)
        try:
            known = await to_thread.run_sync(self._known, given, key, request)
        except Exception as error:  # noqa: BLE001  (a caller gets an answer)
            await problem_of(error).response()(scope, receive, send)
            return
        if known is not None:
            await _send(known, send)
            return
        kept = _Kept(send)
        try:
            await self._app(scope, replayed(body, receive), kept)
        finally:
            await to_thread.run_sync(self._remember, key, request, kept.reply)

    def _known(self, given: bytes, key: bytes, request: bytes) -> Reply | None:
        """The answer to give again; None where this request is to be carried out."""
        if not 1 <= len(given) <= _LONGEST_KEY:
            raise Problem(422, f"Idempotency-Key: expected 1 to {_LONGEST_KEY} characters")
        begun = self._answers.begin(key, request, self._clock.now(), _LEASE)
        if begun.mine:
            return None
        if not begun.same:
            raise Problem(422, "Idempotency-Key: it was used for another request; choose a new one")
        if begun.reply is None:
            raise try_again(409, "the same request is being carried out", 1)
        return begun.reply

    def _remember(self, key: bytes, request: bytes, reply: Reply | None) -> None:
        if reply is None:
            self._answers.forget(key)
        else:
            self._answers.finish(key, request, reply, self._clock.now() + _KEEP)


class _Kept:
    """Passes an answer on, and keeps it if it is good and short."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self._parts: list[bytes] = []
        self._whole = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif message["type"] == "http.response.body" and 200 <= self._status < 300:
            self._parts.append(message.get("body", b""))
            self._whole = not message.get("more_body", False)
        await self._send(message)

    @property
    def reply(self) -> Reply | None:
        body = b"".join(self._parts)
        good = self._whole and len(body) <= _LONGEST_ANSWER
        return Reply(self._status, body) if good else None


def _digests(principal: Principal, given: bytes, scope: Scope, body: bytes) -> tuple[bytes, bytes]:
    """What the key and the request are remembered by. A key is its caller's own."""
    asked = (scope["method"], scope["path"], scope["query_string"].decode("latin-1"))
    key = _digest((principal.name, given.decode("latin-1")))
    return key, sha256(_digest(asked) + body).digest()


def _digest(parts: Sequence[str]) -> bytes:
    return sha256("".join(map(frame, parts)).encode()).digest()


async def _send(reply: Reply, send: Send) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(reply.body)).encode()),
        (b"idempotency-replayed", b"true"),
    ]
    if reply.status == 204:
        headers = headers[2:]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
