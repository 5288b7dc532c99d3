"""Discovery documents of the stand-in for Infrai, in every form that its papers and clients show.

Made up from `facts/infrai.md`: no real document was found anywhere. A `Variant` is one reading of
the contradictions; the first is what most clients have.
"""

from collections.abc import Callable, Hashable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_KEY = {"idempotency_key": {"type": "string", "minLength": 1, "maxLength": 128}}
_PAYLOADS: dict[str, dict[str, Any]] = {
    "object": {"type": "object"},
    "text": {"type": "string"},
    "either": {"anyOf": [{"type": "object"}, {"type": "string"}]},
    "any": {},
}


@dataclass(frozen=True)
class Variant:
    """One reading. ``messages`` is where a consume answers: under that name, as a ``list``, or
    ``bare``, without an envelope. ``ack`` and ``nack`` are the fields that name a message, ``cron``
    the letter of the facts' table, ``handles`` whether messages have one."""

    payload: str = "either"
    field: str = "payload"
    messages: str = "messages"
    handles: bool = False
    ack: tuple[str, ...] = ("queue", "message_id")
    nack: tuple[str, ...] | None = ("queue", "message_id", "delay_seconds")
    most: int | None = 25
    push: str = "url"
    cron: str = "a"
    cron_id: str = "job_id"
    zone_in_list: bool = True
    sorts: bool = False


COMMON = Variant()
VARIANTS = {
    "common": COMMON,
    "object": Variant(payload="object", most=10, sorts=True),
    "text": Variant(payload="text", messages="items", most=None),
    "article": Variant(
        payload="any",
        field="body",
        messages="bare",
        handles=True,
        ack=("queue", "receipt_handle"),
        nack=("queue", "receipt_handle", "delay_seconds"),
        cron="e",
        cron_id="id",
    ),
    "short": Variant(
        messages="list",
        ack=("message_id",),
        nack=("message_id", "error"),
        push="endpoint",
        cron="c",
        cron_id="cron_id",
        zone_in_list=False,
    ),
    "without-nack": replace(COMMON, nack=None, cron="b"),
    "docs": replace(COMMON, cron="d"),
}


def _differing(read: Callable[[Variant], Hashable]) -> dict[str, Variant]:
    """The first of those that *read* sees as the same."""
    firsts: dict[Hashable, str] = {}
    for name, variant in VARIANTS.items():
        firsts.setdefault(read(variant), name)
    return {name: VARIANTS[name] for name in firsts.values()}


CRONS = _differing(lambda v: (v.cron, v.cron_id, v.zone_in_list))
"""Those that differ in anything that a scheduler sees."""

QUEUES = _differing(
    lambda v: replace(v, cron=COMMON.cron, cron_id=COMMON.cron_id, zone_in_list=True)
)
"""Those that differ in anything else: a queue sees no cron."""

_CRON: dict[str, tuple[list[str], dict[str, Any]]] = {
    "a": (
        ["cron_expr", "task"],
        {"task": _TEXT, "name": _TEXT, "max_runs": {"type": "integer"}, "run_at": _TEXT},
    ),
    "b": (
        ["cron_expr", "task_type", "task_url"],
        {"task_type": {"enum": ["http_url"], "type": "string"}, "task_url": _TEXT, "name": _TEXT},
    ),
    "c": (
        ["name", "schedule", "url"],
        {"url": _TEXT, "name": _TEXT, "run_at": _TEXT, "payload": {"type": "object"},
         "retries": {"type": "integer", "minimum": 0}},
    ),
    "d": (
        ["name", "task", "cron_expr", "timezone"],
        {"task": _TEXT, "name": _TEXT, "retry": {"type": "integer"},
         "timeout_seconds": {"type": "integer", "maximum": 900},
         "overlap_policy": {"enum": ["skip"]}},
    ),
    "e": (
        ["name", "schedule", "http_url"],
        {"http_url": _TEXT, "name": _TEXT,
         "timeout_seconds": {"type": "integer", "maximum": 900}},
    ),
}  # fmt: skip


def documents(variant: Variant = COMMON) -> dict[str, dict[str, Any]]:
    """Every document, by capability."""
    queue = {"queue": _TEXT}
    ids = dict.fromkeys(("message_id", "receipt_handle", "error"), _TEXT)
    ids |= queue | {"delay_seconds": {"type": "integer", "minimum": 0, "maximum": 604_800}}
    most = {} if variant.most is None else {"maximum": variant.most}
    cron_required, cron_fields = _CRON[variant.cron]
    expression = "schedule" if "schedule" in cron_required else "cron_expr"
    cron = cron_fields | {expression: _TEXT, "timezone": _TEXT} | _KEY
    found = [
        _document(
            "queue.create", "POST", "/v1/queue/create",
            {
                "name": _TEXT,
                "type": {"enum": ["standard", "fifo"], "type": "string"},
                "dead_letter_queue": _TEXT,
                "max_retries": {"type": "integer", "minimum": 0},
                "message_retention_days": {"type": "integer", "minimum": 1, "maximum": 30},
                "visibility_timeout_default": {"type": "integer", "minimum": 1},
                "enable_priority": {"type": "boolean"},
                **_KEY,
            },
            ["name"], idempotent=True,
        ),
        _document(
            "queue.publish", "POST", "/v1/queue/publish",
            queue | {
                variant.field: _PAYLOADS[variant.payload],
                "delay_seconds": ids["delay_seconds"],
                "priority": {"type": "integer"},
                **_KEY,
            },
            ["queue", variant.field], idempotent=True,
        ),
        _document(
            "queue.consume", "POST", "/v1/queue/consume",
            queue | {
                "max_messages": {"type": "integer", "minimum": 1} | most,
                "visibility_timeout": {"type": "integer", "minimum": 1, "maximum": 43_200},
            },
            ["queue"], idempotent=False,
        ),
        _document(
            "queue.ack", "POST", "/v1/queue/ack",
            {name: ids[name] for name in variant.ack} | _KEY, list(variant.ack), idempotent=True,
        ),
        _document("queue.list", "GET", "/v1/queue/list", {}, [], idempotent=True),
        _document(
            "queue.stats", "GET", "/v1/queue/stats/{queue}", queue, ["queue"], idempotent=True
        ),
        _document(
            "queue.dlq.list", "GET", "/v1/queue/dlq/list/{queue}", queue, ["queue"],
            idempotent=True,
        ),
        _document(
            "queue.dlq.redrive", "POST", "/v1/queue/dlq/redrive/{queue}",
            queue | {"max_messages": {"type": "integer", "minimum": 1}} | _KEY, ["queue"],
            idempotent=True,
        ),
        _document(
            "queue.push_subscribe", "POST", "/v1/queue/push_subscribe/{queue}",
            queue | {variant.push: _TEXT, "secret": _TEXT, "max_retries": {"type": "integer"}}
            | _KEY,
            ["queue", variant.push], idempotent=True,
        ),
        _document(
            "queue.delete", "DELETE", "/v1/queue/delete/{queue}", queue, ["queue"],
            idempotent=True,
        ),
        _document(
            "cron.create", "POST", "/v1/cron/create", cron, cron_required, idempotent=True
        ),
        _document("cron.list", "GET", "/v1/cron/list", {}, [], idempotent=True),
        _document(
            "cron.get", "GET", "/v1/cron/get/{id}", {"id": _TEXT}, ["id"], idempotent=True
        ),
        _document(
            "cron.runs.list", "GET", "/v1/cron/runs/list/{id}", {"id": _TEXT}, ["id"],
            idempotent=True,
        ),
        _document(
            "cron.delete", "DELETE", "/v1/cron/delete/{id}", {"id": _TEXT}, ["id"],
            idempotent=True,
        ),
        *(
            _document(
                f"cron.{verb}", "POST", f"/v1/cron/{verb}/{{id}}", {"id": _TEXT} | _KEY, ["id"],
                idempotent=True,
            )
            for verb in ("pause", "resume", "trigger")
        ),
    ]  # fmt: skip
    if variant.nack is not None:
        needed = [name for name in variant.nack if name not in ("delay_seconds", "error")]
        fields = {name: ids[name] for name in variant.nack} | _KEY
        found.append(
            _document("queue.nack", "POST", "/v1/queue/nack", fields, needed, idempotent=True)
        )
    return {document["id"]: document for document in found}


def _document(
    name: str,
    method: str,
    path: str,
    properties: dict[str, Any],
    required: list[str],
    *,
    idempotent: bool,
) -> dict[str, Any]:
    params = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    document = {
        "id": name,
        "method": method,
        "path": path,
        "available": True,
        "idempotent": idempotent,
        "params": params if properties else {},
    }
    return deepcopy(document)  # a test that changes one changes no other
