"""The two queues: what they have to be, what they are, and making what is missing.

Nothing that exists is changed or deleted. The broker shows nobody a queue's arguments, but it
compares them: a declaration that differs is refused, naming one argument and its value. That is
asked until there is no difference left, only for a queue that is there.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from aiormq.channel import Channel
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
)

from bestbefore.adapters.queues.rabbitmq.errors import broken, failing
from bestbefore.adapters.queues.rabbitmq.settings import RabbitSettings
from bestbefore.domain.failure import FailureClass

CALL_SECONDS = 10.0
Arguments = dict[str, Any]
OpenChannel = Callable[[], Awaitable[Channel]]

_DELIVERIES = 1_000
"""Often enough for any outage during which messages are given back; a count of the broker's is a
safety net, as budgets are the ledger's."""

_LOOKS = 1_000_000
"""Of a dead letter: what is over its limit there is gone, as nothing is behind that queue."""

_MOST_DIFFERENCES = 25
_DIFFERENCE = re.compile(
    r"inequivalent arg '(?P<name>[^']+)' for .*: received .* but current is (?P<current>.*)"
)
_VALUE = re.compile(r"(?:the value )?'(?P<value>.*?)'(?: of type '(?P<type>[^']*)')?")
_NUMBERS = frozenset({"byte", "short", "signedint", "long", "unsignedint", "timestamp"})


def queue_arguments(settings: RabbitSettings) -> Arguments:
    """What the queue is declared with. All four about dead letters belong together: without any of
    them the broker quietly falls back to losing some. They go through the default exchange, which
    is always there, and to which every queue is bound by its name."""
    return {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": settings.dead_letters,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
        "x-delivery-limit": _DELIVERIES,
    }


def dead_letter_arguments() -> Arguments:
    """What the queue for dead letters is declared with."""
    return {"x-queue-type": "quorum", "x-delivery-limit": _LOOKS}


@dataclass(frozen=True, slots=True)
class Existing:
    """A queue that is there. ``arguments`` are its own, without any policy's, or None where this
    user may not compare; ``exclusive`` means that it belongs to somebody's connection."""

    arguments: Mapping[str, Any] | None
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False

    @property
    def retention(self) -> timedelta | None:
        """How long a message stays there, as far as the queue's own arguments say it."""
        lasts = (self.arguments or {}).get("x-message-ttl")
        return timedelta(milliseconds=lasts) if isinstance(lasts, int) else None

    @property
    def unfit(self) -> str | None:
        """Why nothing that must not be lost can be put there; None where it can."""
        if self.exclusive:
            return "it is exclusive: it belongs to one connection and goes with it"
        if not self.durable:
            return "it is not durable: it is gone when the broker restarts"
        if self.auto_delete:
            return "it is auto-delete: it goes with its last consumer"
        if self.arguments is not None and self.arguments.get("x-queue-type") != "quorum":
            found = self.arguments.get("x-queue-type", "classic")
            return f"x-queue-type is {found!r}, expected 'quorum'"
        return None


@dataclass(slots=True)
class _Declaration:
    """What to try next, to find out what is there."""

    arguments: Arguments
    durable: bool = True
    auto_delete: bool = False
    seen: list[str] = field(default_factory=list)

    def follow(self, text: str) -> bool:
        """Take over what *text*, a refusal, says is there; False where it says nothing new."""
        found = _DIFFERENCE.search(text)
        if found is None or self.seen.count(found["name"]) > 1:
            return False
        name, current = found["name"], _read(found["current"])
        self.seen.append(name)
        match name:
            case "durable":
                self.durable = current is True
            case "auto_delete":
                self.auto_delete = current is True
            case _ if current is None:
                self.arguments.pop(name, None)
            case _:
                # Beside another value of its kind it is given without its type.
                number = isinstance(self.arguments.get(name), int)
                self.arguments[name] = int(current) if number else current
        return True


async def look(open_channel: OpenChannel, queue: str, expected: Arguments) -> Existing | None:
    """What *queue* is; None where there is none. Raises what the client raises."""
    if not await exists(open_channel, queue):
        return None
    trying = _Declaration(dict(expected))
    for _ in range(_MOST_DIFFERENCES):
        channel = await open_channel()
        try:
            await channel.queue_declare(
                queue,
                durable=trying.durable,
                auto_delete=trying.auto_delete,
                arguments=trying.arguments,
                timeout=CALL_SECONDS,
            )
        except ChannelPreconditionFailed as refused:
            if not trying.follow(str(refused)):
                break
        except ChannelLockedResource:
            return Existing(None, exclusive=True)
        except ChannelAccessRefused:
            break
        else:
            await channel.close()
            return Existing(trying.arguments, trying.durable, trying.auto_delete)
    return Existing(None, trying.durable, trying.auto_delete)


async def exists(open_channel: OpenChannel, queue: str) -> bool:
    """Whether *queue* is there, whatever it is."""
    channel = await open_channel()
    try:
        await channel.queue_declare(queue, passive=True, timeout=CALL_SECONDS)
    except ChannelNotFoundEntity:
        return False
    except ChannelLockedResource:
        return True
    await channel.close()
    return True


class Topology:
    """Sees to it that both queues are there, once per connection, and knows what it found."""

    def __init__(self, settings: RabbitSettings) -> None:
        self._settings = settings
        self._name = settings.called(settings.queue)
        self._fit = False
        self.retention: timedelta | None = None

    async def prepare(self, open_channel: OpenChannel) -> None:
        """Make what is missing, where that is wanted. TransportFailed if the queue is missing all
        the same, or is none that could be trusted with anything; the one for dead letters may be
        missing, as then they stay where they are, or in the ledger at the least."""
        dead, queue = self._settings.dead_letters, self._settings.queue
        if self._settings.declare and not await exists(open_channel, dead):
            await self._make(open_channel, dead, dead_letter_arguments(), needed=False)
        with failing(self._name):
            there = await exists(open_channel, queue)
        if not there:
            if not self._settings.declare:
                raise broken(
                    self._name,
                    "there is no such queue; create it (see docs/rabbitmq.md), or set [queue] "
                    "declare = true",
                    FailureClass.MALFORMED,
                )
            await self._make(open_channel, queue, queue_arguments(self._settings), needed=True)
        elif not self._fit:
            found = await look(open_channel, queue, queue_arguments(self._settings))
            if found is not None and found.unfit:
                raise broken(
                    self._name,
                    f"{found.unfit}; nothing that exists is changed: name another queue under "
                    "[queue] queue, or delete this one once it is empty",
                    FailureClass.MALFORMED,
                )
            self.retention = found.retention if found else None
        self._fit = True

    async def _make(
        self, open_channel: OpenChannel, queue: str, arguments: Arguments, *, needed: bool
    ) -> None:
        channel = await open_channel()
        try:
            await channel.queue_declare(
                queue, durable=True, arguments=arguments, timeout=CALL_SECONDS
            )
        except ChannelPreconditionFailed:
            # Somebody else has just made it. What it is shows when it is looked at.
            return
        except ChannelAccessRefused as refused:
            if needed:
                with failing(self._settings.called(queue)):
                    raise ChannelAccessRefused(
                        f"it is missing, and this user may not create it: {refused}"
                    ) from refused
            return
        await channel.close()


def _read(text: str) -> Any:
    """A value as the broker writes it; None for ``none``."""
    found = _VALUE.match(text)
    if found is None:
        return None
    value = found["value"]
    if found["type"] in _NUMBERS:
        return int(value)
    if found["type"] == "bool" or (found["type"] is None and value in ("true", "false")):
        return value == "true"
    return value
