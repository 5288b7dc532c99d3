"""How the values of ``[queue]`` and ``[infrai]`` are written, and which of them a kind takes."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from bestbefore.app import plugins
from bestbefore.app.settings import kinds, values
from bestbefore.app.settings.problems import Unfit, shown

STATE = "state"

KEYS: Mapping[str, tuple[str, ...]] = {
    STATE: (),
    "sqs": (
        "queue_url", "dead_letter_url", "region", "endpoint_url", "access_key_id",
        "secret_access_key",
    ),
    "rabbitmq": ("url", "queue", "dead_letter_queue", "declare"),
    "bullmq": ("url", "queue", "prefix"),
    "infrai": ("queue", "dead_letter_queue", "declare", "retention_days"),
}  # fmt: skip
"""What each kind of ours takes beside ``kind`` and ``lease``; any other one takes ``options``."""

NEEDED: Mapping[str, str] = {
    "sqs": 'queue_url = "https://sqs.us-east-1.amazonaws.com/123456789012/bestbefore"',
    "rabbitmq": 'url_env = "RABBITMQ_URL"',
    "bullmq": 'url_env = "REDIS_URL"',
}
"""What each cannot do without, as it is written."""

_SCHEMES: Mapping[str, tuple[str, ...]] = {
    "rabbitmq": ("amqp", "amqps"),
    "bullmq": ("redis", "rediss", "unix"),
}
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


def kind(value: str) -> str:
    """``[queue] kind``"""
    return kinds.adapter(value, tuple(KEYS), plugins.QUEUES)


def name(value: str) -> str:
    """What a queue is called, by every broker's rules at once."""
    if not _NAME.fullmatch(value):
        raise Unfit(
            f"expected the name of a queue, found {shown(value)}",
            "write at most 200 letters, digits, dots, underscores and hyphens",
        )
    return value


def queue_url(value: str) -> str:
    """The address of a queue, as SQS gives it."""
    values.resolved(value)
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.path.strip("/")
    except ValueError:
        good = False
    if not good or "@" in value or not value.isprintable():
        raise Unfit(
            "expected the URL of a queue, with the queue's name at its end",
            "copy it from `aws sqs get-queue-url --queue-name NAME`",
        )
    return value


def broker_url(value: str, of: object) -> str:
    """The address of a broker of the kind *of*. Not shown, as it may hold a password."""
    schemes = _SCHEMES.get(str(of))
    if schemes is None:
        return value  # that it is here at all is a problem of its own
    example = f"{schemes[0]}://USER:PASSWORD@HOST"
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError as error:
        raise Unfit(
            "expected an address with a port that is a number",
            f'write "{example}", with %2F for / and %40 for @ in the password',
        ) from error
    if parts.scheme not in schemes or not value.isprintable():
        raise Unfit(
            f"expected {' or '.join(f'{scheme}://…' for scheme in schemes)}, found "
            f"{shown(parts.scheme)}",
            f'write "{example}"',
        )
    return value


def base_url(value: str) -> str:
    """The address of an HTTP API, without credentials."""
    try:
        return values.endpoint(value)
    except Unfit as fault:
        raise Unfit(
            "expected the address of the API, without user, password or query",
            "remove the key for the vendor's own",
        ) from fault
