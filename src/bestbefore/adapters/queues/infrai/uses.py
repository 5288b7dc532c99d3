"""What we ask of Infrai's queue, and every form of it that is known.

The first shape is what their documents or most of their clients have; `docs/infrai.md` says which
others were seen. What is sent is decided by the discovered schema.
"""

from bestbefore.adapters.infrai import Shape, Use

_KEY = {"idempotency_key": "key"}
_QUEUE = {"queue": "queue"}
_MAYBE = dict.fromkeys(("queue", "queue_name"), "queue")
"""Places that there are none of, as far as is known, and whose meaning would be plain."""

_IN_PATH = dict.fromkeys(("queue", "name", "queue_name", "queue_id", "id"), "queue")

CREATE = Use(
    "queue.create",
    "POST",
    "/v1/queue/create",
    [
        Shape(
            {"name": "queue"},
            {
                "type": "type",
                "dead_letter_queue": "dead_letter_queue",
                "max_retries": "max_retries",
                "message_retention_days": "retention_days",
                "visibility_timeout_default": "visibility",
                **_KEY,
            },
        ),
    ],
)
PUBLISH = Use(
    "queue.publish",
    "POST",
    "/v1/queue/publish",
    [
        Shape(_QUEUE | {field: value}, _KEY)
        for field in ("payload", "body")
        for value in ("object", "text")
    ],
    _MAYBE,
)
CONSUME = Use(
    "queue.consume",
    "POST",
    "/v1/queue/consume",
    [
        Shape(_QUEUE | {"max_messages": "number", "visibility_timeout": "visibility"}, _KEY),
    ],
    _MAYBE,
)
ACK = Use(
    "queue.ack",
    "POST",
    "/v1/queue/ack",
    [
        Shape(_QUEUE | {"message_id": "message_id"}, _KEY),
        Shape(_QUEUE | {"receipt_handle": "receipt_handle"}, _KEY),
        Shape({"message_id": "message_id"}, _KEY),
        Shape({"receipt_handle": "receipt_handle"}, _KEY),
    ],
    _MAYBE,
)
NACK = Use(
    "queue.nack",
    "POST",
    "/v1/queue/nack",
    [
        Shape(_QUEUE | {"message_id": "message_id"}, {"delay_seconds": "delay", **_KEY}),
        Shape(_QUEUE | {"receipt_handle": "receipt_handle"}, {"delay_seconds": "delay", **_KEY}),
        Shape({"message_id": "message_id"}, {"delay_seconds": "delay", "error": "why", **_KEY}),
        Shape({"receipt_handle": "receipt_handle"}, {"delay_seconds": "delay", **_KEY}),
    ],
    _MAYBE,
)
LIST = Use("queue.list", "GET", "/v1/queue/list")
STATS = Use("queue.stats", "GET", "/v1/queue/stats/{queue}", places=_IN_PATH)
DEAD = Use("queue.dlq.list", "GET", "/v1/queue/dlq/list/{queue}", places=_IN_PATH)
REDRIVE = Use(
    "queue.dlq.redrive",
    "POST",
    "/v1/queue/dlq/redrive/{queue}",
    [Shape(also={"queue": "queue", "max_messages": "number", **_KEY})],
    _IN_PATH,
)
SUBSCRIBE = Use(
    "queue.push_subscribe",
    "POST",
    "/v1/queue/push_subscribe/{queue}",
    [
        Shape({field: "url"}, {"queue": "queue", "secret": "secret", **_KEY})
        for field in ("url", "endpoint")
    ],
    _IN_PATH,
)
DELETE = Use(
    "queue.delete",
    "DELETE",
    "/v1/queue/delete/{queue}",
    [Shape(also={"queue": "queue", **_KEY})],
    _IN_PATH,
)
