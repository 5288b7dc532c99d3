"""What `check --queue` says of a queue: what it would lose, and what it does not let us do.

Nothing here changes anything. Whether a right is there is asked by requests that hold nothing to
do, as of zero messages; SQS may still deny the real ones, by a condition of the policy.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from bestbefore.adapters.queues.sqs.attributes import Attributes, Redrive, attributes
from bestbefore.adapters.queues.sqs.client import Connection
from bestbefore.adapters.queues.sqs.dead_letters import SqsDeadLetters
from bestbefore.adapters.queues.sqs.errors import MISSING, CallFailed
from bestbefore.adapters.queues.sqs.place import Place
from bestbefore.adapters.queues.sqs.queue import WHY_NO_FIFO
from bestbefore.domain.failure import Attempts, FailureClass
from bestbefore.domain.finding import Finding, Level

LONGEST_RETENTION = timedelta(days=14)
_SHORT_RETENTION = timedelta(days=1)
_LARGEST_COMMAND = 8 * 1024

ENOUGH_RECEIVES = 3 * Attempts().transient
"""A receive is none of our attempts: workers that stop give back, and workers that die lose, what
they have received. So this is well above what the ledger would try."""

_NOTHING: Mapping[str, Any] = {"Entries": []}
_PROBES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "sqs:SendMessage": ("SendMessageBatch", _NOTHING),
    "sqs:ReceiveMessage": ("ReceiveMessage", {"MaxNumberOfMessages": 0, "VisibilityTimeout": 0}),
    "sqs:DeleteMessage": ("DeleteMessageBatch", _NOTHING),
    "sqs:ChangeMessageVisibility": ("ChangeMessageVisibilityBatch", _NOTHING),
}
_DEAD_RIGHTS = ("sqs:ReceiveMessage", "sqs:DeleteMessage")

_UNREACHABLE: Mapping[FailureClass, tuple[str, str]] = {
    FailureClass.CREDENTIALS: (
        "queue-credentials",
        "set access_key_id and secret_access_key under [queue], or check what boto3's own chain "
        "finds (`aws sts get-caller-identity`)",
    ),
    FailureClass.PERMISSION: ("queue-right-denied", "allow it in the policy, see docs/sqs.md"),
}


def findings(connection: Connection, place: Place, dead_letters: SqsDeadLetters) -> list[Finding]:
    """Everything an operator should know about the queue at *place* and its dead letters."""
    return list(_findings(connection, place, dead_letters))


def _findings(
    connection: Connection, place: Place, dead_letters: SqsDeadLetters
) -> Iterator[Finding]:
    yield from _region(connection, place)
    if place.fifo:
        yield Finding(
            "queue-fifo",
            Level.ERROR,
            f"{place.name}: {WHY_NO_FIFO}",
            "create a standard queue, see docs/sqs.md, and name it under [queue] queue_url",
        )
        return
    said: Attributes | None = None
    try:
        said = attributes(connection, place)
    except CallFailed as failed:
        if failed.failure.failure_class is not FailureClass.PERMISSION:
            yield _unreachable(place, failed)
            return
        yield _denied(place, "sqs:GetQueueAttributes", failed, Level.WARNING)
    yield from _rights(connection, place, tuple(_PROBES))
    if said is not None:
        yield from _queue(place, said)
    yield from _dead_letters(connection, place, dead_letters, said)


def _region(connection: Connection, place: Place) -> Iterator[Finding]:
    if place.region is not None and place.region != connection.region:
        yield Finding(
            "queue-region",
            Level.ERROR,
            f"{place.name}: its URL is of the region {place.region}, and requests are signed for "
            f"{connection.region}",
            "leave out [queue] region, or set it to the URL's",
        )


def _unreachable(place: Place, failed: CallFailed) -> Finding:
    if failed.code in MISSING:
        return Finding(
            "queue-missing",
            Level.ERROR,
            failed.failure.error,
            f"create it (aws sqs create-queue --queue-name {place.queue}), or correct "
            "[queue] queue_url",
        )
    code, remedy = _UNREACHABLE.get(
        failed.failure.failure_class,
        ("queue-unreachable", "look whether its host can be reached from here, and is SQS's"),
    )
    return Finding(code, Level.ERROR, failed.failure.error, remedy)


def _denied(place: Place, right: str, failed: CallFailed, level: Level = Level.ERROR) -> Finding:
    what = "; so neither retention nor dead letters can be looked at"
    return Finding(
        "queue-right-denied",
        level,
        f"{failed.failure.error}: {right} is denied"
        + (what if right == "sqs:GetQueueAttributes" else ""),
        f"allow {right} on {place.queue} in the policy, see docs/sqs.md",
    )


def _rights(connection: Connection, place: Place, rights: tuple[str, ...]) -> Iterator[Finding]:
    denied = False
    for right in rights:
        operation, nothing = _PROBES[right]
        try:
            connection.call(operation, place, **nothing)
        except CallFailed as failed:
            if failed.failure.failure_class is FailureClass.PERMISSION:
                denied = True
                yield _denied(place, right, failed)
    if not denied:
        yield Finding(
            "queue-rights",
            Level.INFO,
            f"{place.name}: nothing was denied of {', '.join(rights)}, as far as requests that do "
            "nothing can tell",
            "",
        )


def _queue(place: Place, said: Attributes) -> Iterator[Finding]:
    if said.max_size < _LARGEST_COMMAND:
        yield Finding(
            "queue-message-size",
            Level.ERROR,
            f"{place.name}: takes messages of at most {said.max_size:,} bytes, and a command can "
            f"have {_LARGEST_COMMAND:,}",
            f"set its MaximumMessageSize to {_LARGEST_COMMAND} or more",
        )
    if said.delay:
        yield Finding(
            "queue-delay",
            Level.WARNING,
            f"{place.name}: keeps everything back for {_shown(said.delay)} before it can be had",
            "set its DelaySeconds to 0: what has to wait, waits in the ledger",
        )
    kept = f"{place.name}: forgets a message {_shown(said.retention)} after it was sent"
    if said.retention < _SHORT_RETENTION:
        yield Finding(
            "queue-retention",
            Level.WARNING,
            f"{kept}; the ledger publishes it again before that, over and over in a long outage",
            "set its MessageRetentionPeriod to 345600 (4 days)",
        )
    else:
        yield Finding(
            "queue-retention",
            Level.INFO,
            f"{kept}; what is still there at 80 % of that, the ledger publishes again",
            "",
        )
    yield Finding(
        "queue-lease",
        Level.INFO,
        f"{place.name}: the lease is set with every receive, by [queue] lease; its own "
        f"VisibilityTimeout of {_shown(said.visibility)} does not matter",
        "",
    )


def _dead_letters(
    connection: Connection, place: Place, dead_letters: SqsDeadLetters, said: Attributes | None
) -> Iterator[Finding]:
    redrive = None if said is None else said.redrive
    if said is not None and redrive is None:
        yield Finding(
            "dead-letters-missing",
            Level.WARNING,
            f"{place.name}: has no redrive policy, so that what kills every worker before the "
            f"ledger hears of it comes back until it is {_shown(said.retention)} old, and is gone",
            "create a dead-letter queue and name it in the queue's RedrivePolicy with a "
            f"maxReceiveCount of {ENOUGH_RECEIVES}, see docs/sqs.md",
        )
    if redrive is not None:
        yield from _redrive(place, dead_letters.given, redrive)
    dead = dead_letters.given or (None if redrive is None else place.beside(redrive.target))
    if dead is None:
        return
    try:
        kept = attributes(connection, dead)
    except CallFailed as failed:
        yield _no_dead_letters(place, dead, failed)
        return
    yield from _rights(connection, dead, _DEAD_RIGHTS)
    yield from _kept(dead, kept, said)


def _redrive(place: Place, given: Place | None, redrive: Redrive) -> Iterator[Finding]:
    target = place.beside(redrive.target)
    if given is not None and given.queue != target.queue:
        yield Finding(
            "dead-letters-elsewhere",
            Level.WARNING,
            f"{place.name}: its dead letters go to {target.queue}, and `dlq absorb` looks into "
            f"{given.queue}",
            "leave out [queue] dead_letter_url, or correct the queue's RedrivePolicy",
        )
    if redrive.most_receives < ENOUGH_RECEIVES:
        yield Finding(
            "dead-letters-too-soon",
            Level.WARNING,
            f"{place.name}: gives a message up after {redrive.most_receives} receives; workers "
            "that are stopped or killed with it in their hands use them up",
            f"set the maxReceiveCount of its RedrivePolicy to {ENOUGH_RECEIVES}: three times the "
            "attempts that the ledger makes",
        )


def _no_dead_letters(place: Place, dead: Place, failed: CallFailed) -> Finding:
    if failed.code in MISSING:
        return Finding(
            "dead-letters-gone",
            Level.ERROR,
            f"{place.name}: {dead.queue}, where its dead letters go, does not exist: "
            f"{failed.failure.error}",
            f"create it (aws sqs create-queue --queue-name {dead.queue}), or correct the "
            "RedrivePolicy: what is sent there is lost",
        )
    if failed.failure.failure_class is FailureClass.PERMISSION:
        return _denied(dead, "sqs:GetQueueAttributes", failed, Level.WARNING)
    return _unreachable(dead, failed)


def _kept(dead: Place, kept: Attributes, source: Attributes | None) -> Iterator[Finding]:
    longer = source is None or kept.retention > source.retention
    if kept.retention < LONGEST_RETENTION or not longer:
        remedy = "set its MessageRetentionPeriod to 1209600 (14 days)"
        if kept.retention >= LONGEST_RETENTION:
            remedy = (
                "set the MessageRetentionPeriod of its source to 345600 (4 days): no queue keeps "
                "for longer than 14 days"
            )
        than = "" if source is None else f", and its source for {_shown(source.retention)}"
        yield Finding(
            "dead-letters-retention",
            Level.WARNING,
            f"{dead.name}: keeps a message for {_shown(kept.retention)}{than}; that counts from "
            "when it was first sent, not from when it died",
            remedy,
        )
    if kept.redrive is not None:
        yield Finding(
            "dead-letters-move-on",
            Level.WARNING,
            f"{dead.name}: has a redrive policy itself, so that looking at dead letters moves them",
            "take the RedrivePolicy off the dead-letter queue",
        )
    if kept.messages:
        yield Finding(
            "dead-letters-waiting",
            Level.WARNING,
            f"{dead.name}: holds about {kept.messages:,} messages",
            "bring them into the ledger: bestbefore dlq absorb",
        )


def _shown(length: timedelta) -> str:
    """*length* in the largest unit that it is a whole number of."""
    seconds = int(length.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
