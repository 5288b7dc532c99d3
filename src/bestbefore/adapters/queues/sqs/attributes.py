"""What a queue says about itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bestbefore.adapters.queues.sqs.client import Connection
from bestbefore.adapters.queues.sqs.errors import bad_answer
from bestbefore.adapters.queues.sqs.place import Place

_DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class Redrive:
    """Where messages go that were received more than ``most_receives`` times."""

    target: str
    most_receives: int


@dataclass(frozen=True, slots=True)
class Attributes:
    """A queue's settings. The defaults are SQS's, but for the size, which used to be smaller: what
    to go by where nobody tells."""

    max_size: int = 262_144
    retention: timedelta = timedelta(days=4)
    visibility: timedelta = timedelta(seconds=30)
    delay: timedelta = timedelta(0)
    redrive: Redrive | None = None
    messages: int = 0
    arn: str = ""


def attributes(connection: Connection, place: Place) -> Attributes:
    """Ask the queue at *place*. Raises CallFailed."""
    answer = connection.call("GetQueueAttributes", place, AttributeNames=["All"])
    said: Mapping[str, str] = answer.get("Attributes") or {}
    if "QueueArn" not in said:
        raise bad_answer(place.name, "it answers, but not as SQS does")

    def number(name: str, default: int) -> int:
        return int(said.get(name, default))

    return Attributes(
        number("MaximumMessageSize", Attributes().max_size),
        timedelta(seconds=number("MessageRetentionPeriod", 4 * _DAY)),
        timedelta(seconds=number("VisibilityTimeout", 30)),
        timedelta(seconds=number("DelaySeconds", 0)),
        _redrive(said.get("RedrivePolicy", "")),
        number("ApproximateNumberOfMessages", 0),
        said["QueueArn"],
    )


def _redrive(policy: str) -> Redrive | None:
    try:
        fields: Any = json.loads(policy)
        return Redrive(str(fields["deadLetterTargetArn"]), int(fields["maxReceiveCount"]))
    except (ValueError, TypeError, KeyError):
        return None
