"""The queues of the stand-in for Infrai: see `support.infrai`, which is not the vendor either."""

import hmac
import json
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from support.infrai_documents import Variant

DAY = 86_400.0
MOST_BYTES = 256_000


class Refused(Exception):
    """A request that fits its schema, and is refused all the same."""

    def __init__(self, status: int, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error = {"code": code, "message": message, "hint": hint}


@dataclass
class Stored:
    """One message. ``handle`` is that of its latest delivery."""

    message_id: str
    payload: Any
    visible_at: float
    expires_at: float
    deliveries: int = 0
    nacks: int = 0
    handle: str = ""


@dataclass
class StoredQueue:
    """One queue and what is in it."""

    name: str
    dead_letter_queue: str | None = None
    max_retries: int = 3
    retention_days: int = 4
    visibility: int = 30
    messages: dict[str, Stored] = field(default_factory=dict)
    subscriptions: dict[str, dict[str, Any]] = field(default_factory=dict)


class Queues:
    """What the calls about queues do."""

    def __init__(self, variant: Variant, now: Callable[[], float]) -> None:
        self.variant = variant
        self._now = now
        self._lock = threading.Lock()
        self.queues: dict[str, StoredQueue] = {}

    def create(self, said: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            dead = said.get("dead_letter_queue")
            if dead is not None and dead not in self.queues:
                raise Refused(400, "INVALID_ARGUMENT", "dead_letter_queue does not exist")
            if said["name"] in self.queues:
                raise Refused(409, "ALREADY_EXISTS", "name is taken")
            made = StoredQueue(
                said["name"],
                dead,
                said.get("max_retries", 3),
                said.get("message_retention_days", 4),
                said.get("visibility_timeout_default", 30),
            )
            self.queues[made.name] = made
            return {"name": made.name}

    def publish(self, said: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            payload = said[self.variant.field]
            if len(json.dumps(payload)) > MOST_BYTES:
                raise Refused(413, "PAYLOAD_TOO_LARGE", f"{self.variant.field} is over 256 KB")
            delay = said.get("delay_seconds", 0)
            return {"message_id": self._add(self._queue(said), payload, delay)}

    def consume(self, said: Mapping[str, Any]) -> Any:
        with self._lock:
            queue, now = self._queue(said), self._now()
            lease = said.get("visibility_timeout", queue.visibility)
            ready = [m for m in self._there(queue) if m.visible_at <= now]
            found = []
            for message in ready[: said.get("max_messages", 1)]:
                message.visible_at = now + lease
                message.deliveries += 1
                message.handle = uuid.uuid4().hex
                found.append(self._shown(message))
        if self.variant.messages in ("list", "bare"):
            return found
        return {self.variant.messages: found}

    def ack(self, said: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            queue, message = self._named(said)
            del queue.messages[message.message_id]
            return {}

    def nack(self, said: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            queue, message = self._named(said)
            self._given_back(queue, message, said.get("delay_seconds", 0))
            return {}

    def every(self, _: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            return {
                "items": [
                    {
                        "name": queue.name,
                        "message_retention_days": queue.retention_days,
                        "dead_letter_queue": queue.dead_letter_queue,
                    }
                    for queue in self.queues.values()
                ]
            }

    def stats(self, said: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            there, now = self._there(self._queue(said)), self._now()
            ready = sum(message.visible_at <= now for message in there)
            return {"ready": ready, "in_flight": len(there) - ready, "name": said["queue"]}

    def dlq_list(self, said: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            dead = self._dead_letters(self._queue(said))
            return {"items": [self._shown(one) for one in (self._there(dead) if dead else [])]}

    def dlq_redrive(self, said: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            queue = self._queue(said)
            dead = self._dead_letters(queue)
            moved = (self._there(dead) if dead else [])[: said.get("max_messages")]
            for message in moved:
                assert dead is not None
                del dead.messages[message.message_id]
                self._add(queue, message.payload, 0)
            return {"moved": len(moved)}

    def delete(self, said: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            del self.queues[self._queue(said).name]
            return {}

    def push_subscribe(self, said: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            made = {
                "id": uuid.uuid4().hex,
                "url": said[self.variant.push],
                "secret": said.get("secret"),
                "max_retries": said.get("max_retries", 3),
            }
            self._queue(said).subscriptions[made["id"]] = made
            return {"id": made["id"]}

    # -- pushing -----------------------------------------------------------------------------

    def deliver(self, name: str, scheme: int = 1, *, bare: bool = False) -> list[int]:
        """Push what is ready in the queue *name* once; returns what was answered.

        2xx is an ack; anything else comes again, until it is a dead letter.
        """
        with self._lock:
            queue, now = self.queues[name], self._now()
            ready = [m for m in self._there(queue) if m.visible_at <= now]
            (subscription,) = queue.subscriptions.values()
        statuses = []
        for message in ready:
            payload = message.payload
            said = payload if bare else {"message_id": message.message_id, "payload": payload}
            body = said.encode() if isinstance(said, str) else json.dumps(said).encode()
            headers = signed(body, subscription["secret"], scheme, int(now))
            answer = httpx.post(subscription["url"], content=body, headers=headers, timeout=30)
            statuses.append(answer.status_code)
            with self._lock:
                if 200 <= answer.status_code < 300:
                    queue.messages.pop(message.message_id, None)
                else:
                    self._given_back(queue, message, 0)
        return statuses

    # -- inside, with the lock ---------------------------------------------------------------

    def _queue(self, said: Mapping[str, Any]) -> StoredQueue:
        try:
            return self.queues[said["queue"]]
        except KeyError:
            raise Refused(404, "NOT_FOUND", "queue does not exist") from None

    def _named(self, said: Mapping[str, Any]) -> tuple[StoredQueue, Stored]:
        queues = [self._queue(said)] if "queue" in said else list(self.queues.values())
        for queue in queues:
            for message in self._there(queue):
                if said.get("message_id") == message.message_id or (
                    said.get("receipt_handle") and said["receipt_handle"] == message.handle
                ):
                    return queue, message
        raise Refused(404, "NOT_FOUND", "no such message")

    def _add(self, queue: StoredQueue, payload: Any, delay: float) -> str:
        now, message_id = self._now(), str(uuid.uuid4())
        expires_at = now + queue.retention_days * DAY
        queue.messages[message_id] = Stored(message_id, payload, now + delay, expires_at)
        return message_id

    def _there(self, queue: StoredQueue) -> list[Stored]:
        now = self._now()
        queue.messages = {k: m for k, m in queue.messages.items() if m.expires_at > now}
        return list(queue.messages.values())

    def _given_back(self, queue: StoredQueue, message: Stored, delay: float) -> None:
        message.nacks += 1
        message.visible_at = self._now() + delay
        dead = self._dead_letters(queue)
        if message.nacks > queue.max_retries and dead is not None:
            del queue.messages[message.message_id]
            self._add(dead, message.payload, 0)

    def _dead_letters(self, queue: StoredQueue) -> StoredQueue | None:
        return self.queues.get(queue.dead_letter_queue or "")

    def _shown(self, message: Stored) -> dict[str, Any]:
        payload = message.payload
        if self.variant.sorts and isinstance(payload, dict):
            payload = json.loads(json.dumps(payload, sort_keys=True))
        shown = {"message_id": message.message_id, self.variant.field: payload}
        if self.variant.handles:
            shown |= {"receipt_handle": message.handle, "delivery_count": message.deliveries}
        return shown


def signed(body: bytes, secret: str, scheme: int, at: int) -> dict[str, str]:
    """The headers of one of the facts' schemes 1 to 5."""

    def digest(data: bytes) -> str:
        return hmac.digest(secret.encode(), data, "sha256").hex()

    timed = f"{at}.".encode() + body
    match scheme:
        case 1:
            found = {"X-Infrai-Signature": digest(body)}
        case 2:
            found = {"X-Infrai-Signature": f"sha256={digest(body)}"}
        case 3:
            found = {"X-Infrai-Timestamp": str(at), "X-Infrai-Signature": digest(timed)}
        case 4:
            found = {"X-Timestamp": str(at), "X-Signature": digest(timed)}
        case 5:
            found = {"X-Webhook-Signature": digest(body)}
        case _:
            raise AssertionError(scheme)
    return found | {"Content-Type": "application/json"}
