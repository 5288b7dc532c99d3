"""The copying side of the S3 adapter over two servers: a real one, and the fault server."""

from collections.abc import Iterator
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from bestbefore.adapters.objects.s3 import S3Copier, S3Lister, S3Settings, connect
from bestbefore.adapters.objects.s3.seaweed import Seaweed
from bestbefore.contracts.copies import CopyingWorld, Described, ObjectCopierContract
from support.faults import FaultyS3
from support.s3 import FrozenClock

FIVE_MIB = 5 * 1024**2


def sides(settings: S3Settings) -> tuple[S3Lister, S3Copier, S3Copier]:
    """A lister, a copier, and one that copies in parts what has 5 MiB and more."""
    clock = FrozenClock()
    connection = connect(settings, clock)
    return (
        S3Lister(settings, clock, connection=connection),
        S3Copier(settings, clock, connection=connection),
        S3Copier(
            settings, clock, connection=connection, in_parts_from=FIVE_MIB, part_bytes=FIVE_MIB
        ),
    )


def on_seaweed(seaweed: Seaweed, bucket: str, to: str) -> CopyingWorld:
    client = seaweed.client()

    def put(bucket: str, key: str, object_: Described) -> None:
        client.put_object(
            Bucket=bucket, Key=key, Body=object_.body, ContentType=object_.content_type,
            Metadata=dict(object_.metadata), Tagging=urlencode(object_.tags),
        )  # fmt: skip

    def get(bucket: str, key: str) -> Described:
        found = client.get_object(Bucket=bucket, Key=key)
        tags = client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
        return Described(
            found["Body"].read(),
            found["ContentType"],
            found["Metadata"],
            {tag["Key"]: tag["Value"] for tag in tags},
        )

    def remove(bucket: str, key: str) -> None:
        client.delete_object(Bucket=bucket, Key=key)

    return CopyingWorld(*sides(seaweed.settings()), put, get, remove, bucket, to)


def on_faulty(faulty: FaultyS3) -> CopyingWorld:
    faulty.buckets |= {"bucket", "archive"}

    def put(bucket: str, key: str, object_: Described) -> None:
        faulty.put(bucket, key, object_.body)
        metadata = {f"x-amz-meta-{name}": value for name, value in object_.metadata.items()}
        headers = {"content-type": object_.content_type, **metadata}
        faulty.copies.describe(bucket, key, object_.tags, **headers)

    def get(bucket: str, key: str) -> Described:
        details = faulty.copies.read(bucket, key)
        return Described(
            faulty.objects[bucket, key].body,
            details.headers["content-type"],
            {
                name.removeprefix("x-amz-meta-"): value
                for name, value in details.headers.items()
                if name.startswith("x-amz-meta-")
            },
            details.tags,
        )

    def remove(bucket: str, key: str) -> None:
        del faulty.objects[bucket, key]

    settings = S3Settings(faulty.endpoint, "us-east-1", "key-id", "secret")
    return CopyingWorld(*sides(settings), put, get, remove, "bucket", "archive")


class TestCopiesOnSeaweed(ObjectCopierContract):
    @pytest.fixture
    def copying(self, seaweed: Seaweed, bucket: str) -> Iterator[CopyingWorld]:
        to = f"test-{uuid4().hex}"
        seaweed.client().create_bucket(Bucket=to)
        yield on_seaweed(seaweed, bucket, to)
        seaweed.client().delete_bucket(Bucket=to)


class TestCopiesOnTheFaultServer(ObjectCopierContract):
    @pytest.fixture
    def copying(self, faulty: FaultyS3) -> CopyingWorld:
        return on_faulty(faulty)


class TestCopiesWithoutConditions(ObjectCopierContract):
    """A store that ignores both conditions of a copy: looks decide instead."""

    @pytest.fixture
    def copying(self, faulty: FaultyS3) -> CopyingWorld:
        faulty.copies.honours_source = False
        faulty.copies.honours_destination = False
        return on_faulty(faulty)
