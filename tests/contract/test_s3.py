"""The S3 adapter over servers that agree about little: two real ones, and one of many moods.

`tools/compatibility.py` makes the table in ``docs/compatibility.md`` out of this: a class is a
row, with the first line of its docstring.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from bestbefore.adapters.objects.s3.client import plain_client
from bestbefore.adapters.objects.s3.seaweed import Seaweed
from bestbefore.adapters.objects.s3.wire import carries
from bestbefore.contracts.objects import ODD_KEYS, ObjectStoreContract, ObjectWorld
from bestbefore.domain.outcome import Outcome
from support.faults import FaultyS3, error
from support.moto import Moto
from support.s3 import connected, world

CARRIED = frozenset(filter(carries, ODD_KEYS))
"""Keys that XML can carry: a listing with any other fails where it cannot be url-encoded."""

_ABOUT = {
    "conditions-honoured": "honoured",
    "conditions-ignored": "ignored: looks first",
    "conditions-refused": "refused: looks first",
    "multi-delete-missing": "no such call: single deletes",
    "delete-unproven": "unproven: looks first",
}


class _S3Contract(ObjectStoreContract):
    """The contract, and what the adapter found out about the store while it kept it."""

    def test_more_than_one_request_takes_is_deleted_all_the_same(
        self, store: ObjectWorld, record_property: Callable[[str, object], None]
    ) -> None:
        for n in range(250):
            store.put(f"many/{n:03d}", b"x")
        assert set(store.delete(store.targets("many/"))) == {Outcome.DELETED}
        multi, single, *others = store.deleter.check(store.bucket, "")
        record_property("DeleteObjects", _ABOUT[multi.code])
        record_property("DeleteObject", _ABOUT[single.code])
        for one in others:
            record_property(one.code, one.message.partition(";")[0])
        record_property("odd keys", f"{len(store.odd_keys)} of {len(ODD_KEYS)}")

    def test_a_key_and_a_folder_of_its_name_are_covered_once_each(self, store: ObjectWorld) -> None:
        """In S3 a key may also be the beginning of others: no file is a folder as well."""
        wanted = {f"p/{folder}/{n:04d}" for folder in "ab" for n in range(501)} | {"p/a", "p/b-"}
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda key: store.put(key, b"x"), sorted(wanted)))
        ranges = store.lister.ranges(store.bucket, "p/", 4)
        seen = [item.key for keys in ranges for item in store.listed("p/", keys)]
        assert len(seen) == len(wanted)
        assert set(seen) == wanted


class TestSeaweed(_S3Contract):
    """SeaweedFS, the real server."""

    @pytest.fixture
    def store(self, seaweed: Seaweed, bucket: str) -> ObjectWorld:
        client = seaweed.client()
        return world(
            seaweed.settings(),
            bucket,
            lambda key, body: client.put_object(Bucket=bucket, Key=key, Body=body),
        )


class TestMoto(_S3Contract):
    """moto's server, a second opinion."""

    @pytest.fixture
    def store(self, moto: Moto, moto_bucket: str) -> ObjectWorld:
        client = plain_client(moto.settings())
        made = world(
            moto.settings(),
            moto_bucket,
            lambda key, body: client.put_object(Bucket=moto_bucket, Key=key, Body=body),
        )
        # It answers 404 to a PUT of a line break, and repeats StartAfter in its XML as it is.
        return replace(made, odd_keys=CARRIED - {"line\nbreak"})


class TestByteOrder(_S3Contract):
    """Fault server: as AWS does it."""

    @pytest.fixture
    def store(self, faulty: FaultyS3) -> ObjectWorld:
        return connected(faulty, "bucket")


class TestConditionsIgnored(_S3Contract):
    """Fault server: ignores conditions, as MinIO did."""

    @pytest.fixture
    def store(self, faulty: FaultyS3) -> ObjectWorld:
        faulty.honours.clear()
        return connected(faulty, "bucket")


class TestNoMultiDelete(_S3Contract):
    """Fault server: knows no DeleteObjects, as Google's endpoint did not."""

    @pytest.fixture
    def store(self, faulty: FaultyS3) -> ObjectWorld:
        faulty.multi_delete = error(501, "NotImplemented")
        return connected(faulty, "bucket")


class TestWantsMd5(_S3Contract):
    """Fault server: demands Content-MD5."""

    @pytest.fixture
    def store(self, faulty: FaultyS3) -> ObjectWorld:
        faulty.wants_md5 = "MissingContentMD5"
        return connected(faulty, "bucket")


class TestSmallBatches(_S3Contract):
    """Fault server: takes at most 100 keys in a DeleteObjects."""

    @pytest.fixture
    def store(self, faulty: FaultyS3) -> ObjectWorld:
        faulty.most_keys = 100
        return connected(faulty, "bucket")


class TestNoUrlEncoding(_S3Contract):
    """Fault server: refuses to url-encode a listing."""

    @pytest.fixture
    def store(self, faulty: FaultyS3) -> ObjectWorld:
        faulty.url_encoding = False
        return replace(connected(faulty, "bucket"), odd_keys=CARRIED)


class TestMissingIs412(_S3Contract):
    """Fault server: answers 412 for a key that is not there."""

    @pytest.fixture
    def store(self, faulty: FaultyS3) -> ObjectWorld:
        faulty.missing = 412
        return connected(faulty, "bucket")


class TestEverythingAtOnce(_S3Contract):
    """Fault server: no conditions, at most 100 keys, Content-MD5, no encoding, 404 for missing."""

    @pytest.fixture
    def store(self, faulty: FaultyS3) -> ObjectWorld:
        faulty.honours.clear()
        faulty.most_keys, faulty.absent, faulty.url_encoding = 100, 404, False
        faulty.wants_md5 = "InvalidRequest"
        return replace(connected(faulty, "bucket"), odd_keys=CARRIED)
