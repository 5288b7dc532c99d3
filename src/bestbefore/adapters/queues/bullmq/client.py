"""The Redis client that BullMQ's own code runs on, and where it connects to."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
_TOGETHER = 200
"""Commands that are sent in one go."""

_LANES = 4
"""How many times that at a time. Redis does one thing after the other, so more would only wait."""

_MOST_CONNECTIONS = 1_000
"""One for each lane and each thread that waits for a job."""

_ALONE = frozenset({"BZPOPMIN"})
"""Commands that wait for something, and would hold up all that came after them."""


@dataclass(frozen=True, slots=True)
class BullSettings:
    """Which queue, on which Redis.

    ``url`` is ``redis://``, ``rediss://`` or ``unix://``, with user, password and database number;
    ``prefix`` is what BullMQ's other clients call their prefix.
    """

    url: str = field(repr=False)
    queue: str = "bestbefore"
    prefix: str = "bull"

    def __post_init__(self) -> None:
        # As BullMQ's other clients have it: their keys are told apart by the colons.
        for key, value in ("queue", self.queue), ("prefix", self.prefix):
            if not value or ":" in value:
                raise ValueError(f"{key}: expected a name without colons, found {value!r}")
        if place(self.url) is None:
            raise ValueError(
                "url: expected redis://HOST:PORT/DATABASE, rediss://… or unix://PATH (what is no "
                "letter or digit in a password is written as %XX)"
            )
        try:
            ConnectionPool.from_url(self.url).make_connection()  # type: ignore[no-untyped-call]
        except (TypeError, ValueError):
            # Neither repeats what it does not know, as that may be a secret.
            raise ValueError(
                "url: expected parameters of redis-py's after the question mark, such as "
                "ssl_ca_certs=/etc/ssl/redis.pem; found one that it does not know or cannot read"
            ) from None


def place(url: str) -> str | None:
    """*url* as people may see it, without user, password and parameters. None if it is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 6379
    except ValueError:
        return None
    match parts.scheme:
        case "unix" if parts.path:
            return f"unix://{parts.path}"
        case "redis" | "rediss" if host and parts.path.strip("/").isdigit() | (
            parts.path.strip("/") == ""
        ):
            shown = f"[{host}]" if ":" in host else host
            return f"{parts.scheme}://{shown}:{port}/{parts.path.strip('/') or 0}"
        case _:
            return None


class Together(Redis):
    """A client that sends in one go what is asked of it at the same time.

    BullMQ's scripts take one job each. A hundred of them, started together, are one round trip
    here, while each still hears its own answer or error.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self._asked: list[tuple[asyncio.Future[Any], tuple[Any, ...], dict[str, Any]]] = []
        self._sending: set[asyncio.Task[None]] = set()
        self._lanes = asyncio.Semaphore(_LANES)

    async def execute_command(self, *command: Any, **options: Any) -> Any:
        if command[0] in _ALONE:
            return await super().execute_command(*command, **options)  # type: ignore[no-untyped-call]
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if not self._asked:
            # After every coroutine that is ready now has had its turn, and has asked.
            loop.call_soon(self._send)
        self._asked.append((answer, command, options))
        return await answer

    def _send(self) -> None:
        asked, self._asked = self._asked, []
        for begin in range(0, len(asked), _TOGETHER):
            task = asyncio.ensure_future(self._exchange(asked[begin : begin + _TOGETHER]))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _exchange(
        self, asked: list[tuple[asyncio.Future[Any], tuple[Any, ...], dict[str, Any]]]
    ) -> None:
        waiting = [answer for answer, _, _ in asked]
        try:
            async with self._lanes, self.pipeline(transaction=False) as pipe:
                for _, command, options in asked:
                    pipe.execute_command(*command, **options)
                answers = await pipe.execute(raise_on_error=False)
        except asyncio.CancelledError:
            for future in waiting:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - whoever asked raises it
            answers = [error] * len(asked)
        for future, answer in zip(waiting, answers, strict=True):
            if future.done():  # its asker has gone
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)


def client(settings: BullSettings) -> Together:
    """A client as *settings* say, which repeats nothing by itself. Sends nothing yet."""
    made = Together.from_url(  # a classmethod that promises a Redis only
        settings.url,
        decode_responses=True,
        # What somebody else wrote need not be UTF-8; this way it can be had back as it was.
        encoding_errors="surrogateescape",
        retry=Retry(NoBackoff(), 0),
        # With the newer protocol the client expects to be told of a server's maintenance, and no
        # longer looks whether a connection that it kept is still there.
        protocol=2,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=READ_SECONDS,
        socket_keepalive=True,
        max_connections=_MOST_CONNECTIONS,
        client_name="bestbefore",
    )
    return cast("Together", made)
