"""A queue of our own beside the configured one, and another one for its dead letters."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from bestbefore.adapters.queues.sqs.attributes import Attributes, attributes
from bestbefore.adapters.queues.sqs.client import Connection, SqsSettings
from bestbefore.adapters.queues.sqs.errors import MISSING, CallFailed
from bestbefore.adapters.queues.sqs.place import Place
from bestbefore.adapters.queues.sqs.queue import WHY_NO_FIFO
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.scratch import BESIDE
from bestbefore.ports.transport import Broker, TransportFailed

_LONGEST_NAME = 80
_LONGEST_RETENTION = timedelta(days=14)
_SETTLING_SECONDS = 1.0
"""After which a new queue can be used, as SQS says."""

_DELETED_RECENTLY = "QueueDeletedRecently"


class SqsScratch:
    """`bestbefore.ports.scratch.ScratchQueue`. *connect* is the adapter's own."""

    def __init__(self, settings: SqsSettings, connect: Callable[[SqsSettings], Broker]) -> None:
        self._configured = settings.place
        self._queue = self._configured.named(f"{self._configured.queue}{BESIDE}")
        self._dead = self._configured.named(f"{self._queue.queue}-dead")
        if len(self._dead.queue) > _LONGEST_NAME:
            raise ValueError(
                f"queue_url: no name is left for a scratch queue beside it, as "
                f"{self._dead.queue!r} has over {_LONGEST_NAME} characters"
            )
        self._settings = replace(
            settings, queue_url=self._queue.url, dead_letter_url=self._dead.url
        )
        self._connect = connect
        self.name = self._queue.name

    def exists(self) -> bool:
        """See the port. For up to a minute SQS may still know what was removed."""
        with self._connected() as connection:
            return any(_is_there(connection, place) for place in (self._queue, self._dead))

    def create(self) -> None:
        """See the port: the configured queue's limits, and the longest retention for dead
        letters."""
        with self._connected() as connection:
            like = attributes(connection, self._configured)
            lasts = str(int(_LONGEST_RETENTION.total_seconds()))
            self._refuse_elsewhere(
                connection, connection.create(self._dead, {"MessageRetentionPeriod": lasts})
            )
            connection.create(self._queue, self._attributes(like))
        time.sleep(_SETTLING_SECONDS)

    def connect(self) -> Broker:
        """See the port."""
        return self._connect(self._settings)

    def remove(self) -> None:
        """See the port."""
        with self._connected() as connection:
            for place in (self._queue, self._dead):
                if _is_there(connection, place):
                    connection.call("DeleteQueue", place)

    def _attributes(self, like: Attributes) -> dict[str, str]:
        made = {
            "MaximumMessageSize": str(like.max_size),
            "MessageRetentionPeriod": str(int(like.retention.total_seconds())),
            "VisibilityTimeout": str(int(like.visibility.total_seconds())),
            "DelaySeconds": str(int(like.delay.total_seconds())),
        }
        if like.redrive is not None:
            target = f"{like.arn.rpartition(':')[0]}:{self._dead.queue}"
            policy = {
                "deadLetterTargetArn": target, "maxReceiveCount": str(like.redrive.most_receives)
            }  # fmt: skip
            made["RedrivePolicy"] = json.dumps(policy)
        return made

    def _refuse_elsewhere(self, connection: Connection, made: Place) -> None:
        """A queue can only be created in one's own account, whoever's the configured one is."""
        if urlsplit(made.url).path != urlsplit(self._dead.url).path:
            connection.call("DeleteQueue", made)
            raise TransportFailed(
                Failure(
                    FailureClass.PERMISSION,
                    f"{self._configured.name}: it is of another account, and queues are created in "
                    f"one's own ({made.name}); expected credentials of the queue's account",
                )
            )

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        if self._configured.fifo:
            raise TransportFailed(
                Failure(FailureClass.MALFORMED, f"{self._configured.name}: {WHY_NO_FIFO}")
            )
        connection = Connection(self._settings)
        try:
            yield connection
        except CallFailed as failed:
            if (remedy := self._remedy(failed)) is None:
                raise
            error = f"{failed.failure.error}; {remedy}"
            raise TransportFailed(replace(failed.failure, error=error)) from failed
        finally:
            connection.close()

    def _remedy(self, failed: CallFailed) -> str | None:
        if failed.code == _DELETED_RECENTLY:
            return "wait a minute: until then SQS creates none of a name that was deleted"
        if failed.failure.failure_class is FailureClass.PERMISSION:
            return (
                "a scratch queue is made and removed here: allow sqs:CreateQueue, "
                "sqs:DeleteQueue, sqs:GetQueueAttributes, sqs:SendMessage, sqs:ReceiveMessage, "
                "sqs:DeleteMessage and sqs:ChangeMessageVisibility on queues called "
                f"{self._queue.queue}*"
            )
        return None


def _is_there(connection: Connection, place: Place) -> bool:
    try:
        attributes(connection, place)
    except CallFailed as failed:
        if failed.code not in MISSING:
            raise
        return False
    return True
