"""The S3 adapter over two servers: a real one, and one whose listing is S3's own order."""

import pytest

from bestbefore.adapters.objects.s3.seaweed import Seaweed
from bestbefore.contracts.objects import ObjectStoreContract, ObjectWorld
from support.faults import FaultyS3
from support.s3 import connected, world


class TestS3OnSeaweed(ObjectStoreContract):
    @pytest.fixture
    def store(self, seaweed: Seaweed, bucket: str) -> ObjectWorld:
        client = seaweed.client()
        return world(
            seaweed.settings(),
            bucket,
            lambda key, body: client.put_object(Bucket=bucket, Key=key, Body=body),
        )


class TestS3InByteOrder(ObjectStoreContract):
    @pytest.fixture
    def store(self, faulty: FaultyS3) -> ObjectWorld:
        return connected(faulty, "bucket")


class TestS3WithoutConditions(ObjectStoreContract):
    """A store that ignores If-Match, as MinIO did."""

    @pytest.fixture
    def store(self, faulty: FaultyS3) -> ObjectWorld:
        faulty.honours.clear()
        return connected(faulty, "bucket")
