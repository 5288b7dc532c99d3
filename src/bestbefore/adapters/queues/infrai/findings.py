"""What `check --queue` says of Infrai: everything we use, compared with discovery. Reads only."""

import json
from collections.abc import Iterator, Sequence

from bestbefore.adapters.infrai import Drift, InfraiClient, InfraiError, Use, Value
from bestbefore.adapters.queues.infrai.control import Described, InfraiQueues
from bestbefore.adapters.queues.infrai.uses import (
    ACK,
    CONSUME,
    CREATE,
    DEAD,
    LIST,
    NACK,
    PUBLISH,
    REDRIVE,
    STATS,
    SUBSCRIBE,
)
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.finding import Finding, Level

_NEEDED: Sequence[tuple[Use, str]] = (
    (PUBLISH, ""),
    (CONSUME, ""),
    (ACK, ""),
)
_WITHOUT: Sequence[tuple[Use, str]] = (
    (LIST, "nobody can tell whether the queues are there, nor how long they keep messages"),
    (CREATE, "queues cannot be created from here: create them there"),
    (NACK, "what is given back is published again instead"),
    (STATS, "their counts are not shown"),
    (DEAD, "their dead letters are only seen when they are taken in"),
    (REDRIVE, "only our own redrive is there, which needs none of theirs"),
    (SUBSCRIBE, "messages cannot be pushed: pull them"),
)
"""What is only useful, and what becomes of us without it."""

_COMMAND = {"v": 1, "kind": "object"}
_SAMPLE: dict[str, Value] = {
    "object": dict(_COMMAND),
    "text": json.dumps(_COMMAND),
    "number": 1,
    "visibility": 60,
    "message_id": "0190163d-8694-739b-aea5-966c26f8ad91",
    "delay": 0,
    "why": "given back",
    "url": "https://cleanup.example.com/v1/push",
    "secret": "0123456789abcdef" * 4,
    "type": "standard",
    "max_retries": 100,
    "retention_days": 30,
    "key": "k",
}


def findings(
    client: InfraiClient,
    queues: InfraiQueues,
    queue: str,
    dead_letter_queue: str,
    assumed_days: int,
) -> Sequence[Finding]:
    """Everything worth saying. An answer that cannot be had is a finding, not an error.

    *assumed_days* is how long messages are taken to be kept where nothing says it.
    """
    return list(_all(client, queues, queue, dead_letter_queue, assumed_days))


def _all(
    client: InfraiClient,
    queues: InfraiQueues,
    queue: str,
    dead_letter_queue: str,
    assumed_days: int,
) -> Iterator[Finding]:
    fits: list[str] = []
    sample = _SAMPLE | {"queue": queue, "dead_letter_queue": dead_letter_queue}
    for use, without in [*_NEEDED, *_WITHOUT]:
        try:
            values = _known_by(client, use, sample)
            chosen = client.chosen(use, values)
            chosen.request(values)
        except Drift as drift:
            yield _drift(drift, without)
            continue
        except InfraiError as error:
            yield _no_answer(error)
            if error.decisive:
                return  # and so would be every other question
            continue
        fits.append(use.name)
        if chosen.capability.path != use.path:
            yield Finding(
                "infrai-path-moved",
                Level.INFO,
                f"{use.name} is at {chosen.capability.path}, and was known at {use.path}",
                "nothing to do: discovery is followed",
            )
        if use is PUBLISH and not chosen.capability.idempotent:
            yield Finding(
                "infrai-publish-not-idempotent",
                Level.WARNING,
                f"{use.name} takes no Idempotency-Key: a message whose answer was lost is there "
                "twice",
                "nothing to do: the ledger has it executed once",
            )
    if fits:
        yield Finding(
            "infrai-discovery-fits",
            Level.INFO,
            f"{client.place}: requests fit the discovered schemas of {', '.join(fits)}",
            "",
        )
    if LIST.name in fits:
        yield from _queues(queues, queue, dead_letter_queue, assumed_days)
    for use in (STATS, DEAD):
        if use.name in fits:
            yield from _counts(use, queues, queue)


def _known_by(client: InfraiClient, use: Use, sample: dict[str, Value]) -> dict[str, Value]:
    """*sample* with a handle, only where messages are known by one."""
    if use in (ACK, NACK) and "receipt_handle" in client.discover(use.name).properties:
        return sample | {"receipt_handle": "h"}
    return sample


def _queues(
    queues: InfraiQueues, queue: str, dead_letter_queue: str, assumed_days: int
) -> Iterator[Finding]:
    try:
        there = queues.all()
    except InfraiError as error:
        yield _no_answer(error)
        return
    for name, code in ((queue, "queue-missing"), (dead_letter_queue, "dead-letters-missing")):
        if name not in there:
            yield Finding(
                code,
                Level.ERROR,
                f"infrai queue {name!r}: there is none of that name",
                "create it there, set queue.declare = true, or correct its name",
            )
    if queue not in there:
        return
    yield from _retention(there[queue], there.get(dead_letter_queue), assumed_days)
    known = there[queue].dead_letter_queue
    if known is not None and known != dead_letter_queue:
        yield Finding(
            "dead-letters-elsewhere",
            Level.ERROR,
            f"infrai queue {queue!r}: its dead letters go to {known!r}, and not to "
            f"{dead_letter_queue!r}",
            f'set queue.dead_letter_queue = "{known}"',
        )


def _retention(queue: Described, dead: Described | None, assumed_days: int) -> Iterator[Finding]:
    if queue.retention_days is None:
        yield Finding(
            "queue-retention",
            Level.WARNING,
            f"infrai queue {queue.name!r}: nothing says how long it keeps messages, so "
            f"{assumed_days} days are assumed",
            "set queue.retention_days to what it was created with; 30 is best",
        )
        return
    days = queue.retention_days
    yield Finding(
        "queue-retention",
        Level.INFO,
        f"infrai queue {queue.name!r} keeps messages for {days} days; what is left near the end of "
        "that is published again",
        "",
    )
    if dead is not None and dead.retention_days is not None and dead.retention_days < days:
        yield Finding(
            "dead-letters-retention",
            Level.WARNING,
            f"infrai queue {dead.name!r} keeps messages for {dead.retention_days} days, and "
            f"{queue.name!r} for {days}: a dead letter may be gone before it is seen",
            "have it keep messages for at least as long; the ledger keeps every operation",
        )


def _counts(use: Use, queues: InfraiQueues, queue: str) -> Iterator[Finding]:
    try:
        if use is STATS:
            numbers = {
                name: value
                for name, value in queues.stats(queue).items()
                if isinstance(value, int) and not isinstance(value, bool)
            }
            said = ", ".join(f"{name} {value}" for name, value in sorted(numbers.items()))
        else:
            dead = len(queues.dead_letters(queue))
            said = f"{dead} dead letters listed" if dead else ""
    except InfraiError as error:
        if error.status != 404:  # a queue that is not there: said already
            yield _no_answer(error)
        return
    if said:
        remedy = "" if use is STATS else "take them in with `bestbefore dlq absorb`"
        level = Level.INFO if use is STATS else Level.WARNING
        code = "queue-counts" if use is STATS else "dead-letters-waiting"
        yield Finding(code, level, f"infrai queue {queue!r}: {said}", remedy)


def _drift(drift: Drift, without: str) -> Finding:
    return Finding(
        "infrai-drift",
        Level.WARNING if without else Level.ERROR,
        f"{drift.capability}: expected {drift.expected}, found {drift.found}"
        + (f"; {without}" if without else ""),
        drift.remedy,
    )


def _no_answer(error: InfraiError) -> Finding:
    code = {
        FailureClass.CREDENTIALS: "queue-credentials",
        FailureClass.PERMISSION: "queue-right-denied",
    }.get(error.failure.failure_class, "queue-unreachable")
    return Finding(code, Level.ERROR, str(error), "see what it says, and check again")
