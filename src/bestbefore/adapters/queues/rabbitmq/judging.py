"""What a broker and its two queues are worth: findings from what was found, without asking more."""

import json
import shlex
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from bestbefore.adapters.queues.rabbitmq.server import CONSUMER_TIMEOUT, Server
from bestbefore.adapters.queues.rabbitmq.settings import RabbitSettings
from bestbefore.adapters.queues.rabbitmq.topology import Existing, queue_arguments
from bestbefore.domain.finding import Finding, Level

_FEW_DELIVERIES = 100
_POLICY_CANNOT_BE_SEEN = (
    "a policy that adds it cannot be seen from here (rabbitmqctl list_queues name policy "
    "effective_policy_definition)"
)
_OTHER_QUEUE = (
    "what exists is never changed: name another queue under [queue] {key}, or delete this one once "
    "it is empty"
)


def server_findings(settings: RabbitSettings, server: Server) -> Iterator[Finding]:
    """Who answers, and what that version lacks."""
    place = settings.server
    if server.product != "RabbitMQ":
        yield Finding(
            "queue-server",
            Level.WARNING,
            f"{place}: says that it is {server.product or 'nothing'!r}, not RabbitMQ, so what its "
            "version number promises is not known",
            "use a RabbitMQ of version 3.10 or newer",
        )
    if not server.confirms:
        yield Finding(
            "queue-confirms",
            Level.ERROR,
            f"{place}: knows no publisher confirms, so nobody can tell what it has",
            "use a RabbitMQ of version 3.10 or newer",
        )
    lacks = [] if server.dead_letters_safely else ["dead-lettering that loses nothing (from 3.10)"]
    if server.number < (4, 0):
        lacks.append("a limit of deliveries unless the queue has one (from 4.0)")
    if server.number < (4, 3):
        lacks.append("giving back without it being counted as a delivery (from 4.3)")
    yield Finding(
        "queue-version",
        Level.INFO if server.dead_letters_safely else Level.WARNING,
        f"{place}: RabbitMQ {server.version or 'of an unknown version'}"
        + (f"; it lacks {', and '.join(lacks)}" if lacks else ""),
        "" if server.dead_letters_safely else "upgrade to RabbitMQ 3.10 or newer",
    )


def queue_findings(
    settings: RabbitSettings, server: Server, queue: Existing | None
) -> Iterator[Finding]:
    """What the queue is."""
    name = settings.called(settings.queue)
    if queue is None:
        yield _missing(name, settings)
        return
    yield from _fitness(name, "queue", queue)
    if queue.exclusive or queue.arguments is None:
        return
    if queue.arguments.get("x-queue-type") == "quorum":
        yield from _dead_lettering(settings, queue.arguments)
        yield from _delivery_limit(name, settings.queue, server, queue.arguments)
    yield from _losses(name, queue)
    yield Finding(
        "queue-lease",
        Level.INFO,
        f"{name}: a delivery has no lease; it comes back when its worker is gone, or after the "
        f"broker's consumer_timeout ({_shown(CONSUMER_TIMEOUT)} unless it was set)",
        "",
    )


def dead_letter_findings(
    settings: RabbitSettings, server: Server, queue: Existing | None
) -> Iterator[Finding]:
    """What the queue for dead letters is."""
    name = settings.called(settings.dead_letters)
    if queue is None:
        if settings.declare:
            yield _missing(name, settings)
        else:
            yield Finding(
                "queue-dead-letter-queue-missing",
                Level.ERROR,
                f"{name}: there is no such queue, so dead letters have nowhere to go",
                "create it (see docs/rabbitmq.md), correct [queue] dead_letter_queue, or set "
                "[queue] declare = true",
            )
        return
    yield from _fitness(name, "dead_letter_queue", queue)
    if queue.exclusive or queue.arguments is None:
        return
    if queue.arguments.get("x-queue-type") == "quorum":
        yield from _delivery_limit(name, settings.dead_letters, server, queue.arguments)
    yield from _losses(name, queue)


def _missing(name: str, settings: RabbitSettings) -> Finding:
    if settings.declare:
        return Finding(
            "queue-missing",
            Level.INFO,
            f"{name}: is not there yet",
            "it is created when it is first used ([queue] declare = true)",
        )
    return Finding(
        "queue-missing",
        Level.ERROR,
        f"{name}: there is no such queue",
        "create it (see docs/rabbitmq.md), or set [queue] declare = true",
    )


def _fitness(name: str, key: str, queue: Existing) -> Iterator[Finding]:
    if queue.unfit is not None:
        yield Finding(
            "queue-unfit", Level.ERROR, f"{name}: {queue.unfit}", _OTHER_QUEUE.format(key=key)
        )
    if queue.arguments is None and not queue.exclusive:
        yield Finding(
            "queue-not-compared",
            Level.WARNING,
            f"{name}: what it was declared with cannot be compared, as this user may not configure "
            "it: neither its type, its limits nor its dead letters are known",
            "let this user configure the queue for one check, or look at rabbitmqctl list_queues "
            "name type arguments policy",
        )


def _dead_lettering(settings: RabbitSettings, found: Mapping[str, Any]) -> Iterator[Finding]:
    """All of it, or the broker falls back to losing some, and says so nowhere."""
    name = settings.called(settings.queue)
    wanted = queue_arguments(settings)
    for argument, key in (
        ("x-dead-letter-exchange", "dead-letter-exchange"),
        ("x-dead-letter-strategy", "dead-letter-strategy"),
        ("x-overflow", "overflow"),
    ):
        if argument not in found:
            yield Finding(
                "queue-not-at-least-once",
                Level.WARNING,
                f"{name}: was declared without {argument} = {wanted[argument]!r}, so that a dead "
                f"letter can be lost; {_POLICY_CANNOT_BE_SEEN}",
                _policy(settings.queue, {key: wanted[argument]}),
            )
        elif argument != "x-dead-letter-exchange" and found[argument] != wanted[argument]:
            yield Finding(
                "queue-not-at-least-once",
                Level.WARNING,
                f"{name}: {argument} is {found[argument]!r}, expected {wanted[argument]!r}, so "
                "that a dead letter can be lost",
                _OTHER_QUEUE.format(key="queue"),
            )
    if "x-dead-letter-exchange" not in found:
        return
    exchange = found["x-dead-letter-exchange"]
    target = found.get("x-dead-letter-routing-key", settings.queue)
    if exchange != "":
        yield Finding(
            "queue-dead-letter-exchange",
            Level.INFO,
            f"{name}: its dead letters go to the exchange {exchange!r} with the routing key "
            f"{target!r}; what is bound to it cannot be seen from here",
            f"see that {settings.dead_letters!r} is bound to it: rabbitmqctl list_bindings",
        )
    elif target != settings.dead_letters:
        yield Finding(
            "queue-dead-letter-queue-other",
            Level.ERROR,
            f"{name}: its dead letters go to the queue {target!r}, expected "
            f"{settings.dead_letters!r}",
            f"set [queue] dead_letter_queue = {target!r}, or name another queue under [queue] "
            "queue",
        )


def _delivery_limit(
    name: str, queue: str, server: Server, found: Mapping[str, Any]
) -> Iterator[Finding]:
    limit = found.get("x-delivery-limit", server.delivery_limit)
    if limit is None or not 0 <= limit < _FEW_DELIVERIES:
        return
    own = "x-delivery-limit" in found
    yield Finding(
        "queue-delivery-limit",
        Level.WARNING,
        f"{name}: gives a message up after {limit} deliveries"
        + ("" if own else f" (the default of this version); {_POLICY_CANNOT_BE_SEEN}")
        + ": restarts and an outage of the ledger can use that up, and budgets are the ledger's",
        _OTHER_QUEUE.format(key="queue") if own else _policy(queue, {"delivery-limit": 1_000}),
    )


def _losses(name: str, queue: Existing) -> Iterator[Finding]:
    """Other arguments by which a message goes that nobody has worked on."""
    found = queue.arguments or {}
    if queue.retention is not None:
        yield Finding(
            "queue-retention",
            Level.WARNING,
            f"{name}: forgets a message after {_shown(queue.retention)} (x-message-ttl); the "
            "ledger publishes it again, over and over in a long outage",
            _OTHER_QUEUE.format(key="queue"),
        )
    if "x-expires" in found:
        yield Finding(
            "queue-expires",
            Level.WARNING,
            f"{name}: is deleted, with all there is in it, when nobody uses it for "
            f"{_shown(timedelta(milliseconds=found['x-expires']))} (x-expires)",
            _OTHER_QUEUE.format(key="queue"),
        )
    for argument in ("x-max-length", "x-max-length-bytes"):
        if argument in found and found.get("x-overflow", "drop-head") == "drop-head":
            yield Finding(
                "queue-length",
                Level.WARNING,
                f"{name}: drops its oldest messages when it is full ({argument} = "
                f"{found[argument]:,}, without x-overflow = 'reject-publish')",
                _OTHER_QUEUE.format(key="queue"),
            )
    if found.get("x-single-active-consumer"):
        yield Finding(
            "queue-single-consumer",
            Level.WARNING,
            f"{name}: gives its messages to one consumer at a time (x-single-active-consumer), so "
            "that a second worker has nothing to do",
            _OTHER_QUEUE.format(key="queue"),
        )


def _policy(queue: str, definition: Mapping[str, Any]) -> str:
    pattern = shlex.quote(f"^{queue}$")
    return (
        "unless one is there already (a queue has one policy at a time), set one: rabbitmqctl "
        f"set_policy --apply-to queues bestbefore {pattern} '{json.dumps(definition)}'; "
        "docs/rabbitmq.md has all of it"
    )


def _shown(lasts: timedelta) -> str:
    seconds = int(lasts.total_seconds())
    for unit, size in ("d", 86_400), ("h", 3_600), ("min", 60):
        if seconds and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{lasts.total_seconds():g} s"
