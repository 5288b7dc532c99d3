"""Tags and contents of single objects, from a server that has its ways and from a real one."""

from datetime import timedelta

import pytest

from bestbefore.adapters.objects.s3.seaweed import Seaweed
from bestbefore.contracts.objects import ObjectWorld
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import StoreError
from support.faults import EMPTY, Answer, FaultyS3, error, internal_error, slow_down
from support.s3 import connected, world

ODD = {"q/a+b", "q/a b", "q/a%20b", "q/new\nline", "q/größe", "q/ctl\x10", "q/trailing "}


@pytest.fixture
def store(faulty: FaultyS3) -> ObjectWorld:
    return connected(faulty, "bucket")


def failure(answer: object) -> Failure:
    assert isinstance(answer, Failure)
    return answer


def test_tags_are_read_whatever_the_key(store: ObjectWorld, faulty: FaultyS3) -> None:
    for key in ODD:
        faulty.put("bucket", key)
        faulty.tags["bucket", key] = {"key": key.encode().hex(), "größe <&>": ""}
    read = store.lister.tags("bucket", sorted(ODD))
    assert read == {key: {"key": key.encode().hex(), "größe <&>": ""} for key in ODD}


def test_hundreds_are_asked_one_by_one_but_side_by_side(
    store: ObjectWorld, faulty: FaultyS3
) -> None:
    keys = [f"t/{n:03d}" for n in range(200)]
    for key in keys:
        faulty.put("bucket", key)
    faulty.tags["bucket", keys[77]] = {"keep": "yes"}
    read = store.lister.tags("bucket", [*keys, keys[0], "t/missing"])
    assert read == {key: {} for key in keys} | {keys[77]: {"keep": "yes"}, "t/missing": None}
    assert len(faulty.asked("GetObjectTagging")) == 201


@pytest.mark.parametrize("code", ["NoSuchTagSet", "NoSuchTagSetError"])
def test_a_store_that_says_so_by_an_error_has_no_tags(
    store: ObjectWorld, faulty: FaultyS3, code: str
) -> None:
    faulty.put("bucket", "a")
    faulty.fail("GetObjectTagging", error(404, code))
    assert store.lister.tags("bucket", ["a"]) == {"a": {}}


@pytest.mark.parametrize(
    ("answer", "of_class"),
    [
        (error(403, "AccessDenied"), FailureClass.PERMISSION),
        (error(403, "ExpiredToken"), FailureClass.CREDENTIALS),
        (error(501, "NotImplemented"), FailureClass.UNKNOWN),
        (error(404, "NoSuchBucket"), FailureClass.MALFORMED),
        (error(404, "404"), FailureClass.UNKNOWN),
        (internal_error(), FailureClass.TRANSIENT),
        (EMPTY, FailureClass.TRANSIENT),
        (error(200, "InternalError"), FailureClass.TRANSIENT),
        (Answer(200, b"<Tagging></Tagging>"), FailureClass.TRANSIENT),
        (Answer(200, b"<Tagging><TagSet><Tag><Key>a"), FailureClass.TRANSIENT),
        (Answer(200, b"<html>sign in first</html>"), FailureClass.TRANSIENT),
    ],
    ids=lambda value: str(getattr(value, "body", value))[:60],
)
def test_nothing_but_an_empty_set_is_read_as_no_tags(
    store: ObjectWorld, faulty: FaultyS3, answer: Answer, of_class: FailureClass
) -> None:
    """Whatever else comes is a failure of its class, and the key is named in it."""
    faulty.put("bucket", "a")
    faulty.fail("GetObjectTagging", answer)
    found = failure(store.lister.tags("bucket", ["a"])["a"])
    assert found.failure_class is of_class
    assert "s3://bucket/a" in found.error


def test_throttling_is_told_with_what_the_store_asks_for(
    store: ObjectWorld, faulty: FaultyS3
) -> None:
    faulty.put("bucket", "a")
    faulty.fail("GetObjectTagging", slow_down(retry_after="120"))
    found = failure(store.lister.tags("bucket", ["a"])["a"])
    assert found.failure_class is FailureClass.THROTTLED
    assert found.retry_after == timedelta(seconds=120)


def test_a_store_that_is_down_is_not_asked_a_thousand_times(
    store: ObjectWorld, faulty: FaultyS3
) -> None:
    faulty.fail("GetObjectTagging", internal_error(), times=1_000)
    read = store.lister.tags("bucket", [f"t/{n:03d}" for n in range(1_000)])
    assert len(read) == 1_000
    assert {failure(found).failure_class for found in read.values()} == {FailureClass.TRANSIENT}
    assert len(faulty.asked("GetObjectTagging")) == 16


def test_one_key_that_fails_costs_its_neighbours_nothing(
    store: ObjectWorld, faulty: FaultyS3
) -> None:
    keys = [f"t/{n:02d}" for n in range(40)]
    for key in keys:
        faulty.put("bucket", key)
    faulty.fail("GetObjectTagging", internal_error(), times=9, when=lambda r: r.key == keys[5])
    read = store.lister.tags("bucket", keys)
    assert failure(read.pop(keys[5])).failure_class is FailureClass.TRANSIENT
    assert read == {key: {} for key in keys if key != keys[5]}


@pytest.mark.parametrize(
    ("answer", "of_class"),
    [
        (error(403, "AccessDenied"), FailureClass.PERMISSION),
        (slow_down(), FailureClass.THROTTLED),
        (error(404, "NoSuchBucket"), FailureClass.MALFORMED),
        (Answer(404), FailureClass.UNKNOWN),
    ],
)
def test_content_that_cannot_be_read_is_a_failure_not_an_absence(
    store: ObjectWorld, faulty: FaultyS3, answer: Answer, of_class: FailureClass
) -> None:
    faulty.put("bucket", "a", b"2026-05")
    faulty.fail("GetObject", answer)
    with pytest.raises(StoreError) as raised:
        store.lister.content("bucket", "a", 100)
    assert raised.value.failure.failure_class is of_class
    assert store.lister.content("bucket", "a", 100) == b"2026-05"


def test_content_that_ends_early_is_not_believed(store: ObjectWorld, faulty: FaultyS3) -> None:
    """Half of a pointer may name another generation than all of it."""

    def cut(answer: Answer) -> Answer:
        return answer._replace(body=answer.body[:7], headers={"Content-Length": "7000"})

    faulty.put("bucket", "a", b"2026-05/".ljust(7_000))
    faulty.fail("GetObject", cut, after_effect=True)
    impatient = connected(faulty, "bucket", timeout=timedelta(seconds=0.5))
    with pytest.raises(StoreError) as raised:
        impatient.lister.content("bucket", "a", 65_537)
    assert raised.value.failure.failure_class is FailureClass.TRANSIENT


def test_listings_and_heads_tell_the_storage_class(store: ObjectWorld, faulty: FaultyS3) -> None:
    faulty.put("bucket", "cold")
    faulty.put("bucket", "plain")
    faulty.classes["bucket", "cold"] = "GLACIER"
    assert [item.storage_class for item in store.listed()] == ["GLACIER", "STANDARD"]
    looks = store.lister.look("bucket", ["cold", "plain"])
    classes = {
        key: isinstance(found, Listed) and found.storage_class for key, found in looks.items()
    }
    assert classes == {"cold": "GLACIER", "plain": "STANDARD"}


def test_a_real_store_tells_tags_and_tagging_changes_nothing_else(
    seaweed: Seaweed, bucket: str
) -> None:
    """Else an object would be `changed`, not protected, once somebody tags it."""
    client = seaweed.client()
    for key in ODD - {"q/ctl\x10"}:
        client.put_object(Bucket=bucket, Key=key, Body=b"x")
    real = world(seaweed.settings(), bucket, lambda key, body: None)
    before = real.listed()
    keys = [item.key for item in before]
    assert real.lister.tags(bucket, keys) == {key: {} for key in keys}
    for key in keys:
        tag = {"TagSet": [{"Key": "keep", "Value": "größe + co"}]}
        client.put_object_tagging(Bucket=bucket, Key=key, Tagging=tag)
    assert real.listed() == before
    assert {item.storage_class for item in before} == {"STANDARD"}
    assert real.lister.tags(bucket, keys) == {key: {"keep": "größe + co"} for key in keys}
