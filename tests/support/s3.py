"""The S3 adapter, connected for a test."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from bestbefore.adapters.objects.s3 import S3Deleter, S3Lister, S3Settings, connect
from bestbefore.contracts.objects import ObjectWorld
from support.faults import FaultyS3

NOW = datetime(2026, 7, 1, tzinfo=UTC)


class FrozenClock:
    """A clock that stands at `NOW`."""

    def now(self) -> datetime:
        return NOW

    def sleep(self, seconds: float) -> None:
        """Nobody waits."""


def world(settings: S3Settings, bucket: str, put: Callable[[str, bytes], object]) -> ObjectWorld:
    """Both sides of the adapter on one connection."""
    clock = FrozenClock()
    connection = connect(settings, clock)
    lister = S3Lister(settings, clock, connection=connection)
    deleter = S3Deleter(settings, clock, connection=connection)
    return ObjectWorld(lister, deleter, put, bucket)


def connected(
    faulty: FaultyS3, bucket: str, *, timeout: timedelta = timedelta(seconds=30)
) -> ObjectWorld:
    """The adapter on *faulty*, in a bucket of that name. Objects it puts are old."""
    settings = S3Settings(faulty.endpoint, "us-east-1", "key-id", "secret", timeout)
    faulty.buckets.add(bucket)
    return world(settings, bucket, lambda key, body: faulty.put(bucket, key, body))
