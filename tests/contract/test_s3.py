"""The S3 adapter over two servers: a real one, and one whose listing is S3's own order."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from bestbefore.adapters.objects.s3.seaweed import Seaweed
from bestbefore.contracts.objects import ObjectStoreContract, ObjectWorld
from support.faults import FaultyS3
from support.s3 import connected, world


class S3Contract(ObjectStoreContract):
    """In S3 a key may also be the beginning of others: no file is a folder as well."""

    def test_a_key_and_a_folder_of_its_name_are_covered_once_each(self, store: ObjectWorld) -> None:
        wanted = {f"p/{folder}/{n:04d}" for folder in "ab" for n in range(501)} | {"p/a", "p/b-"}
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda key: store.put(key, b"x"), sorted(wanted)))
        ranges = store.lister.ranges(store.bucket, "p/", 4)
        seen = [item.key for keys in ranges for item in store.listed("p/", keys)]
        assert len(seen) == len(wanted)
        assert set(seen) == wanted


class TestS3OnSeaweed(S3Contract):
    @pytest.fixture
    def store(self, seaweed: Seaweed, bucket: str) -> ObjectWorld:
        client = seaweed.client()
        return world(
            seaweed.settings(),
            bucket,
            lambda key, body: client.put_object(Bucket=bucket, Key=key, Body=body),
        )


class TestS3InByteOrder(S3Contract):
    @pytest.fixture
    def store(self, faulty: FaultyS3) -> ObjectWorld:
        return connected(faulty, "bucket")


class TestS3WithoutConditions(S3Contract):
    """A store that ignores If-Match, as MinIO did."""

    @pytest.fixture
    def store(self, faulty: FaultyS3) -> ObjectWorld:
        faulty.honours.clear()
        return connected(faulty, "bucket")
