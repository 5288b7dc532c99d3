"""How the values of ``[schedule]`` are written: what EventBridge calls things by."""

import re
from urllib.parse import urlsplit

from bestbefore.app.settings.problems import Unfit, shown

_GROUP = re.compile(r"[0-9a-zA-Z_.-]{1,64}", re.ASCII)
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", re.ASCII)
_CALLED = re.compile(
    r"arn:aws[a-z-]*:(lambda:[a-z0-9-]+:\d{12}:function:|states:[a-z0-9-]+:\d{12}:stateMachine:"
    r"|events:[a-z0-9-]+:\d{12}:event-bus/)[\w.:/-]+",
    re.ASCII,
)
_QUEUE = re.compile(r"arn:aws[a-z-]*:sqs:[a-z0-9-]+:\d{12}:[\w-]{1,80}", re.ASCII)
_QUEUE_PATH = re.compile(r"/\d{12}/[\w-]{1,80}", re.ASCII)


def group(value: str) -> str:
    """What schedules are kept under."""
    if not _GROUP.fullmatch(value):
        raise Unfit(
            f"expected a name of at most 64 letters, digits, dots, underscores and hyphens, found "
            f"{shown(value)}",
            'write for example "bestbefore"',
        )
    return value


def target(value: str) -> str:
    """``target``: the sort of thing that is called."""
    if value not in ("sqs", "http"):
        raise Unfit(f'expected "sqs" or "http", found {shown(value)}', 'write "sqs" or "http"')
    return value


def role_arn(value: str) -> str:
    """The role that a scheduler delivers as."""
    if not _ROLE.fullmatch(value):
        raise Unfit(
            f"expected the ARN of a role, found {shown(value)}",
            'write for example "arn:aws:iam::123456789012:role/bestbefore-triggers"',
        )
    return value


def http_target_arn(value: str) -> str:
    """Something that a scheduler can call, and that calls our endpoint."""
    if not _CALLED.fullmatch(value):
        raise Unfit(
            f"expected the ARN of an event bus, a Lambda function or a state machine, found "
            f"{shown(value)}",
            "EventBridge Scheduler calls no address: name what does, see docs/schedulers.md",
        )
    return value


def dead_letter_arn(value: str) -> str:
    """A standard queue for what a scheduler could not deliver."""
    if not _QUEUE.fullmatch(value):
        raise Unfit(
            f"expected the ARN of a standard SQS queue, found {shown(value)}",
            'write for example "arn:aws:sqs:eu-central-1:123456789012:lost-triggers"',
        )
    return value


def trigger_queue_url(value: str) -> str:
    """The address of a standard queue."""
    try:
        there = urlsplit(value)
        good = there.scheme in ("http", "https") and there.hostname and there.port != 0
    except ValueError:
        good = False
        there = urlsplit("")
    if not good or "@" in value or "?" in value or not _QUEUE_PATH.fullmatch(there.path):
        found = "one with a user" if "@" in value else shown(value)
        raise Unfit(
            f"expected the URL of a standard SQS queue, found {found}",
            'write for example "https://sqs.eu-central-1.amazonaws.com/123456789012/triggers"',
        )
    return value
