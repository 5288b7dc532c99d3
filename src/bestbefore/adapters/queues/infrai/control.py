"""Queues as a whole: create them, look at them, empty a dead letter queue, have messages pushed.

For people and for `check`: nothing here is in the way of a message.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from bestbefore.adapters.infrai import Drift, InfraiClient, InfraiError, refused
from bestbefore.adapters.infrai.envelope import first, items, text
from bestbefore.adapters.queues.infrai.uses import (
    CREATE,
    DEAD,
    DELETE,
    LIST,
    REDRIVE,
    STATS,
    SUBSCRIBE,
)
from bestbefore.domain.failure import Failure, FailureClass

MOST_RETENTION_DAYS = 30

_MOST_RETRIES = 100
"""Nacks until they take a message away. We nack what was never begun, so a rollout must not get
there; what kills its workers is counted in the ledger."""


@dataclass(frozen=True, slots=True)
class Described:
    """A queue that there is, as far as their list says."""

    name: str
    retention_days: int | None
    dead_letter_queue: str | None


class InfraiQueues:
    """The queues of one account. Every method raises InfraiError."""

    def __init__(self, client: InfraiClient) -> None:
        self._client = client

    def all(self) -> dict[str, Described]:
        """Every queue there is, by name."""
        found = items(self._client.call(LIST, {}), "queues")
        if found is None:
            raise _unreadable(LIST.name, "a list of queues")
        named = [_described(one) for one in found]
        return {one.name: one for one in named if one is not None}

    def create_missing(
        self, queue: str, dead_letter_queue: str, retention_days: int, anew: str = ""
    ) -> list[str]:
        """Create what there is not of the two, the dead letters' first. Returns what was created.

        What there is already is left as it is. Within a day of its deletion a queue is not created
        again, unless *anew*: they take it for the same request.
        """
        there = self.all()
        created = []
        for name, dead in ((dead_letter_queue, None), (queue, dead_letter_queue)):
            if name not in there:
                self._create(name, dead, retention_days, anew)
                created.append(name)
        return created

    def delete(self, queue: str) -> None:
        """Delete a queue and whatever is in it."""
        # Another key each time: one of that name may have been deleted, and created, today already.
        self._client.call(DELETE, {"queue": queue}, key=_key("delete", secrets.token_hex(16)))

    def can_delete(self) -> bool:
        """Whether their discovery has a way to delete queues."""
        try:
            return self._client.discover(DELETE.name).available
        except Drift:
            return False

    def stats(self, queue: str) -> Mapping[str, Any]:
        """What they count of *queue*; which fields there are is theirs to say."""
        return _mapping(self._client.call(STATS, {"queue": queue}))

    def dead_letters(self, queue: str) -> list[Any]:
        """What they gave up on of *queue*, as they list it, which need not be all."""
        found = items(self._client.call(DEAD, {"queue": queue}), "messages", "dead_letters")
        if found is None:
            raise _unreadable(DEAD.name, "a list of messages")
        return found

    def redrive(self, queue: str, key: str, number: int | None = None) -> Mapping[str, Any]:
        """Have them move dead letters back into *queue*: as many as *number* where they can count,
        else all. One of many cannot be chosen; a redrive of ours publishes that one anew."""
        return _mapping(
            self._client.call(REDRIVE, {"queue": queue, "number": number}, key=_key("redrive", key))
        )

    def push_to(self, queue: str, url: str, secret: str | None) -> str:
        """Have messages of *queue* pushed to *url*, signed with *secret*; returns the id of that.

        The same again is the same subscription, for a day at least.
        """
        if problem := refused(url, self._client.base_url, https=True):
            raise InfraiError(
                Failure(FailureClass.MALFORMED, f"{SUBSCRIBE.name} of {queue}: {problem}")
            )
        answer = self._client.call(
            SUBSCRIBE,
            {"queue": queue, "url": url, "secret": secret},
            key=_key("push", queue, url, secret or ""),
        )
        return text(answer, "id", "subscription_id", "queue") or queue

    def _create(
        self, name: str, dead_letter_queue: str | None, retention_days: int, anew: str
    ) -> None:
        self._client.call(
            CREATE,
            {
                "queue": name,
                "type": "standard",
                "dead_letter_queue": dead_letter_queue,
                "max_retries": None if dead_letter_queue is None else _MOST_RETRIES,
                "retention_days": retention_days,
            },
            key=_key("create", name, dead_letter_queue or "", str(retention_days), anew),
        )


def _key(verb: str, *parts: str) -> str:
    """The name of an effect: the same for the same parts, which it does not show."""
    framed = "".join(f"{len(part)}:{part}," for part in parts)
    return f"bestbefore-{verb}-{sha256(framed.encode()).hexdigest()[:32]}"


def _described(one: Any) -> Described | None:
    if isinstance(one, str):
        return Described(one, None, None)
    name = text(one, "name", "queue")
    if name is None:
        return None
    days = first(one, ("message_retention_days", "retention_days"))
    return Described(
        name,
        days if isinstance(days, int) and not isinstance(days, bool) and days > 0 else None,
        text(one, "dead_letter_queue"),
    )


def _mapping(data: Any) -> Mapping[str, Any]:
    return data if isinstance(data, Mapping) else {}


def _unreadable(name: str, expected: str) -> InfraiError:
    return InfraiError(
        Failure(
            FailureClass.UNKNOWN,
            f"{name}: expected {expected} in the answer, found none; compare it with the "
            "discovery document",
        )
    )
