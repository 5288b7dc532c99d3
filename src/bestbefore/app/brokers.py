"""Brokers: the only place that knows which kinds of queues there are elsewhere."""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from bestbefore.app import plugins
from bestbefore.app.settings import Settings
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.scratch import ScratchQueue
from bestbefore.ports.transport import Broker


class _Kind(NamedTuple):
    """An adapter of ours in `bestbefore.adapters.queues`: ``connect``, what it takes, and the extra
    that brings what it needs."""

    module: str
    settings: str
    extra: str


_KINDS: Mapping[str, _Kind] = {
    "sqs": _Kind("sqs", "SqsSettings", "sqs"),
    "rabbitmq": _Kind("rabbitmq", "RabbitSettings", "rabbitmq"),
    "bullmq": _Kind("bullmq", "BullSettings", "bullmq"),
    "infrai": _Kind("infrai", "InfraiQueueSettings", "infrai"),
}


def connect(settings: Settings) -> Broker:
    """The broker that ``[queue]`` describes; nothing is asked of it yet.

    Raises LedgerError where what its adapter needs is not installed.
    """
    queue = settings.queue
    kind = _KINDS.get(queue.kind)
    if kind is None:
        return plugins.connect(plugins.QUEUES, queue.kind, queue.values, "queue", Broker)
    adapter, there = _made(settings, kind)
    try:
        broker: Broker = adapter.connect(there)
    except ValueError as error:  # what the environment says, of proxies above all
        raise LedgerError(str(error)) from error
    return broker


def _made(settings: Settings, kind: _Kind) -> tuple[Any, Any]:
    """The adapter, and its settings."""
    queue = settings.queue
    # Imported here: the vendor's client is an extra, and takes a while to import.
    try:
        adapter = importlib.import_module(f"bestbefore.adapters.queues.{kind.module}")
    except ImportError as error:
        raise LedgerError(
            f'a queue of kind "{queue.kind}" needs {error.name}: '
            f'pip install "bestbefore[{kind.extra}]"'
        ) from error
    try:
        return adapter, getattr(adapter, kind.settings)(**values_of(settings))
    except ValueError as error:
        raise LedgerError(f"{settings.path}: queue: {error}") from error


def scratch(settings: Settings) -> ScratchQueue | None:
    """A queue of our own beside the one that ``[queue]`` describes; None where its adapter is of
    another package. Raises LedgerError as `connect` does."""
    kind = _KINDS.get(settings.queue.kind)
    if kind is None:
        return None
    adapter, there = _made(settings, kind)
    try:
        made: ScratchQueue = adapter.scratch(there)
    except ValueError as error:
        raise LedgerError(f"{settings.path}: queue: {error}") from error
    return made


def values_of(settings: Settings) -> dict[str, Any]:
    """What the adapter's settings are made of, secrets included."""
    values = dict(settings.queue.values)
    if settings.queue.kind == "infrai":
        values.setdefault("dead_letter_queue", f"{values['queue']}-dead")
        values["api_key"] = settings.infrai.api_key
        if settings.infrai.base_url is not None:
            values["base_url"] = settings.infrai.base_url
    return values
