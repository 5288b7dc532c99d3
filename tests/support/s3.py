"""The S3 adapter, connected for a test."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from bestbefore.adapters.objects.s3 import S3Deleter, S3Lister, S3Settings, connect
from bestbefore.contracts.objects import ObjectWorld
from bestbefore.contracts.versions import VersionWorld
from bestbefore.ports.clock import Clock
from bestbefore.ports.endpoints import EndpointMemory, Learnt
from support.faults import FaultyS3
from support.versions import VersionedBucket

NOW = datetime(2026, 7, 1, tzinfo=UTC)


class FrozenClock:
    """A clock that stands at `NOW`."""

    def now(self) -> datetime:
        return NOW

    def sleep(self, seconds: float) -> None:
        """Nobody waits."""


class DictMemory:
    """`bestbefore.ports.endpoints.EndpointMemory` in a dict."""

    def __init__(self) -> None:
        self.learnt: dict[tuple[str, str, str], Learnt] = {}

    def recall(self, endpoint: str, since: datetime) -> Sequence[Learnt]:
        return [
            one
            for (of, _, _), one in self.learnt.items()
            if of == endpoint and one.learnt_at >= since
        ]

    def remember(self, endpoint: str, learnt: Learnt) -> None:
        self.learnt[endpoint, learnt.bucket, learnt.capability] = learnt

    def forget(self, endpoint: str) -> None:
        self.learnt = {key: one for key, one in self.learnt.items() if key[0] != endpoint}


def world(
    settings: S3Settings,
    bucket: str,
    put: Callable[[str, bytes], object],
    memory: EndpointMemory | None = None,
    clock: Clock | None = None,
) -> ObjectWorld:
    """Both sides of the adapter on one connection, as one process has them."""
    clock = clock or FrozenClock()
    connection = connect(settings, clock, memory)
    lister = S3Lister(settings, clock, connection=connection)
    deleter = S3Deleter(settings, clock, connection=connection)
    return ObjectWorld(lister, deleter, put, bucket)


def connected(
    faulty: FaultyS3,
    bucket: str,
    *,
    timeout: timedelta = timedelta(seconds=30),
    memory: EndpointMemory | None = None,
    clock: Clock | None = None,
) -> ObjectWorld:
    """The adapter on *faulty*, in a bucket of that name. Objects it puts are old."""
    settings = S3Settings(faulty.endpoint, "us-east-1", "key-id", "secret", timeout)
    faulty.buckets.add(bucket)
    return world(settings, bucket, lambda key, body: faulty.put(bucket, key, body), memory, clock)


def versions_of(settings: S3Settings, bucket: VersionedBucket) -> VersionWorld:
    """Both sides of the adapter on a bucket that keeps versions."""
    plain = world(settings, bucket.name, bucket.put)
    return VersionWorld(plain.lister, plain.deleter, bucket.put, bucket.hide, bucket.name)
