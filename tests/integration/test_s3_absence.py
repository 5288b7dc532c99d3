"""Stores, and proxies before them, that answer 404 although the object is there (S-STORE-11)."""

from collections.abc import Sequence

import pytest

from bestbefore.adapters.objects.s3 import S3Copier, S3Deleter, S3Lister, S3Settings
from bestbefore.contracts.objects import ObjectWorld
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.objects import Copy, NotCopied, Original, Target, Upload
from support.cli import Cli
from support.faults import OLD, Answer, FaultyS3, error
from support.s3 import FrozenClock, connected
from support.stacks import VersionedS3

BUCKET = "bucket"
PLAIN, CONTROL = "exports/a.json", "exports/\x10a.json"

ANSWERS = {
    "without a body": Answer(404),
    "of a proxy": Answer(404, b"<html><body>404 page not found</body></html>"),
    "without a code": Answer(404, b"<Error></Error>"),
    "NoSuchKey": error(404, "NoSuchKey"),
    "of another name": error(404, "ObjectNotFound"),
}
answers = pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)


@pytest.fixture
def store(faulty: FaultyS3) -> ObjectWorld:
    return connected(faulty, BUCKET)


def put(faulty: FaultyS3, *keys: str) -> list[Target]:
    stored = [(key, faulty.put(BUCKET, key, key.encode())) for key in keys]
    return [Target(key, one.etag, one.modified) for key, one in stored]


def one_failure(results: Sequence[Outcome | Failure | Copy | NotCopied]) -> Failure:
    (end,) = results
    assert isinstance(end, Failure), end
    return end


def without_bulk(faulty: FaultyS3) -> None:
    faulty.fail("DeleteObjects", error(501, "NotImplemented"), times=99, when=lambda _: True)


@answers
@pytest.mark.parametrize("key", [PLAIN, CONTROL])
@pytest.mark.parametrize("honours", [{"DeleteObject"}, set()], ids=["conditions", "looks"])
def test_a_single_delete_answered_404_is_no_absence_while_the_object_is_there(
    store: ObjectWorld, faulty: FaultyS3, answer: Answer, key: str, honours: set[str]
) -> None:
    """S-STORE-11."""
    faulty.honours = honours
    without_bulk(faulty)
    (target,) = put(faulty, key)
    faulty.fail("DeleteObject", answer)

    failure = one_failure(store.delete([target]))

    assert failure.failure_class is FailureClass.UNKNOWN
    assert not failure.whole_source
    assert failure.error.startswith(f"s3://bucket/{key}: DeleteObject answered ")
    assert "yet it is there; look whether the store and what stands before it" in failure.error
    assert faulty.keys(BUCKET) == {key}
    assert store.delete([target]) == [Outcome.DELETED]


@answers
@pytest.mark.parametrize("key", [PLAIN, CONTROL])
def test_a_single_delete_answered_404_is_an_absence_where_a_look_agrees(
    store: ObjectWorld, faulty: FaultyS3, answer: Answer, key: str
) -> None:
    """S-STORE-11: and costs one HEAD and one listing more, in this case only."""
    without_bulk(faulty)
    here, gone = put(faulty, "exports/0.json", key)
    store.delete([])
    faulty.fail("DeleteObject", answer, when=lambda request: request.key == key)
    del faulty.objects[BUCKET, key]
    assert store.delete([here, gone]) == [Outcome.DELETED, Outcome.ABSENT]
    assert len(faulty.asked("HeadObject")) == len(faulty.asked("ListObjectsV2")) == 1


@answers
def test_what_was_overwritten_meanwhile_is_changed_and_not_absent(
    store: ObjectWorld, faulty: FaultyS3, answer: Answer
) -> None:
    (target,) = put(faulty, CONTROL)
    faulty.put(BUCKET, CONTROL, b"new")
    faulty.fail("DeleteObject", answer)
    assert store.delete([target]) == [Outcome.CHANGED]


def test_where_a_head_cannot_look_a_listing_does(store: ObjectWorld, faulty: FaultyS3) -> None:
    """S-STORE-11: such as of what is encrypted with a customer's key."""
    there, gone = put(faulty, CONTROL, CONTROL + "2")
    del faulty.objects[BUCKET, gone.key]
    faulty.fail("DeleteObject", Answer(404), times=2)
    faulty.fail("HeadObject", Answer(400), times=2)
    first, second = store.delete([there, gone])
    assert isinstance(first, Failure)
    assert "yet it is there" in first.error
    assert second is Outcome.ABSENT


@pytest.mark.parametrize("code", ["NoSuchKey", "404", "NotFound"])
def test_a_bulk_answer_that_misses_a_key_is_looked_into(
    store: ObjectWorld, faulty: FaultyS3, code: str
) -> None:
    """S-STORE-11, inside a success."""
    there, gone, other = put(faulty, "k1", "k2", "k3")
    for key in ("k1", "k2"):
        faulty.refuse(key, code, times=1)
    del faulty.objects[BUCKET, "k2"]

    first, second, third = store.delete([there, gone, other])

    assert isinstance(first, Failure)
    assert first.failure_class is FailureClass.UNKNOWN
    assert f"s3://bucket/k1: DeleteObjects answered {code}, yet it is there" in first.error
    assert (second, third) == (Outcome.ABSENT, Outcome.DELETED)
    assert faulty.keys(BUCKET) == {"k1"}


def test_a_thousand_absences_cost_one_look_by_listing(store: ObjectWorld, faulty: FaultyS3) -> None:
    targets = put(faulty, *(f"exports/{n:04}" for n in range(1_000)))
    faulty.objects.clear()
    assert set(store.delete(targets)) == {Outcome.ABSENT}
    assert len(faulty.asked("ListObjectsV2")) <= 2
    assert len(faulty.asked("HeadObject")) <= 10


@pytest.mark.parametrize("key", [PLAIN, CONTROL])
def test_a_server_that_answers_404_to_everything_makes_nothing_absent(
    store: ObjectWorld, faulty: FaultyS3, key: str
) -> None:
    """S-STORE-11: such as a proxy whose path to the store is gone."""
    (target,) = put(faulty, key)
    for operation in ("DeleteObject", "DeleteObjects", "HeadObject", "ListObjectsV2"):
        faulty.fail(operation, Answer(404), times=999, when=lambda _: True)
    faulty.fail("GetBucketVersioning", Answer(404), times=999)
    failure = one_failure(store.delete([target]))
    assert failure.failure_class is FailureClass.UNKNOWN
    assert "404" in failure.error
    assert faulty.keys(BUCKET) == {key}


@pytest.mark.parametrize("key", [PLAIN, CONTROL])
def test_a_bucket_that_is_not_there_is_a_failure_of_the_source(
    store: ObjectWorld, faulty: FaultyS3, key: str
) -> None:
    """S-STORE-11: also where a DELETE and a HEAD of it are answered as of a missing object."""
    (target,) = put(faulty, key)
    without_bulk(faulty)
    faulty.buckets.clear()
    for operation in ("DeleteObject", "HeadObject"):
        faulty.fail(operation, Answer(404), times=99, when=lambda _: True)
    failure = one_failure(store.delete([target]))
    assert (failure.failure_class, failure.whole_source) == (FailureClass.MALFORMED, True)
    assert "NoSuchBucket" in failure.error


def test_where_listing_is_denied_the_bucket_is_asked_about_in_another_way(
    store: ObjectWorld, faulty: FaultyS3
) -> None:
    """S-STORE-11: without any answer about the bucket nothing is absent, and the right is named."""
    (gone,) = put(faulty, CONTROL)
    faulty.objects.clear()
    faulty.fail("DeleteObject", Answer(404), times=2)
    faulty.fail("ListObjectsV2", error(403, "AccessDenied"), times=99)
    assert store.delete([gone]) == [Outcome.ABSENT]
    faulty.fail("GetBucketVersioning", error(403, "AccessDenied"), times=99)
    failure = one_failure(store.delete([gone]))
    assert failure.failure_class is FailureClass.PERMISSION
    assert "s3:ListBucket" in failure.error


def test_a_look_that_fails_is_that_looks_failure_and_says_why_it_was_made(
    store: ObjectWorld, faulty: FaultyS3
) -> None:
    (target,) = put(faulty, CONTROL)
    faulty.fail("DeleteObject", Answer(404))
    faulty.fail("HeadObject", Answer(503))
    failure = one_failure(store.delete([target]))
    assert failure.failure_class is FailureClass.TRANSIENT
    assert (
        "DeleteObject answered 404, and a look could not confirm that it is gone" in failure.error
    )


# -- versions ----------------------------------------------------------------------------------


@pytest.fixture
def versions(stacked: VersionedS3) -> S3Deleter:
    settings = S3Settings(stacked.endpoint, "us-east-1", "key-id", "secret")
    return S3Deleter(settings, FrozenClock())


def version(stacked: VersionedS3, key: str) -> Target:
    stored = stacked.put(BUCKET, key)
    return Target(key, stored.etag, stored.modified, stacked.newest(BUCKET, key))


VERSION_ANSWERS = {**ANSWERS, "NoSuchVersion": error(404, "NoSuchVersion")}


@pytest.mark.parametrize("answer", VERSION_ANSWERS.values(), ids=VERSION_ANSWERS)
@pytest.mark.parametrize("versioning", ["Enabled", "Suspended"])
def test_a_delete_of_a_version_answered_404_is_looked_into(
    versions: S3Deleter, stacked: VersionedS3, answer: Answer, versioning: str
) -> None:
    """S-STORE-11."""
    stacked.versioning = versioning
    there, gone = version(stacked, CONTROL), version(stacked, CONTROL + "2")
    if versioning == "Suspended":
        stacked.fail("DeleteObject", answer)
        failure = one_failure(versions.delete(BUCKET, [there]))
    else:
        stacked.stacks.pop((BUCKET, gone.key))
        stacked.fail("DeleteObject", answer, times=2)
        *first, second = versions.delete(BUCKET, [there, gone])
        assert second is Outcome.ABSENT
        failure = one_failure(first)
    assert failure.failure_class is FailureClass.UNKNOWN
    assert "DeleteObject answered" in failure.error
    assert "yet it is there" in failure.error
    assert (CONTROL, str(there.version)) in stacked.entries(BUCKET)


@pytest.mark.parametrize("code", ["NoSuchKey", "NoSuchVersion", "404", "NotFound"])
def test_a_bulk_answer_that_misses_a_version_is_looked_into(
    versions: S3Deleter, stacked: VersionedS3, code: str
) -> None:
    """S-STORE-11, inside a success."""
    there, gone = version(stacked, "k1"), version(stacked, "k2")
    stacked.stacks.pop((BUCKET, "k2"))
    for key in ("k1", "k2"):
        stacked.refuse(key, code, times=1)
    first, second = versions.delete(BUCKET, [there, gone])
    assert isinstance(first, Failure)
    assert f"k1?versionId={there.version}: DeleteObjects answered {code}" in first.error
    assert second is Outcome.ABSENT
    assert versions.delete(BUCKET, [there]) == [Outcome.DELETED]


def test_no_version_is_absent_from_a_bucket_that_does_not_answer(
    versions: S3Deleter, stacked: VersionedS3
) -> None:
    """S-STORE-11."""
    there = version(stacked, "k1")
    for operation in ("DeleteObject", "DeleteObjects", "ListObjectVersions"):
        stacked.fail(operation, Answer(404), times=999, when=lambda _: True)
    failure = one_failure(versions.delete(BUCKET, [there]))
    assert failure.failure_class is FailureClass.UNKNOWN


# -- uploads -----------------------------------------------------------------------------------


def upload(faulty: FaultyS3, key: str = "exports/a") -> Upload:
    faulty.buckets.add(BUCKET)
    return Upload(key, faulty.copies.begin(BUCKET, key), OLD)


UPLOAD_ANSWERS = {**ANSWERS, "NoSuchUpload": error(404, "NoSuchUpload")}


@pytest.mark.parametrize("answer", UPLOAD_ANSWERS.values(), ids=UPLOAD_ANSWERS)
def test_an_abort_answered_404_is_looked_into(
    store: ObjectWorld, faulty: FaultyS3, answer: Answer
) -> None:
    """S-STORE-11."""
    there, gone = upload(faulty), upload(faulty, "exports/b")
    del faulty.copies.uploads[gone.upload_id]
    for operation in ("ListParts", "AbortMultipartUpload"):
        faulty.fail(operation, answer, times=2)
    failure = one_failure(store.deleter.abort(BUCKET, [there]))
    assert failure.failure_class is FailureClass.UNKNOWN
    assert "AbortMultipartUpload answered" in failure.error
    assert "yet it is there" in failure.error
    assert store.deleter.abort(BUCKET, [gone]) == [Outcome.ABSENT]
    faulty._faults.clear()
    assert store.deleter.abort(BUCKET, [there]) == [Outcome.DELETED]


def test_parts_that_cannot_be_found_keep_no_listed_upload_from_its_abort(
    store: ObjectWorld, faulty: FaultyS3
) -> None:
    there = upload(faulty)
    faulty.fail("ListParts", error(404, "NoSuchUpload"))
    assert store.deleter.abort(BUCKET, [there]) == [Outcome.DELETED]
    assert not faulty.copies.uploads


def test_no_upload_is_absent_from_a_bucket_that_does_not_answer(
    store: ObjectWorld, faulty: FaultyS3
) -> None:
    """S-STORE-11."""
    there = upload(faulty)
    for operation in ("ListParts", "AbortMultipartUpload", "ListMultipartUploads"):
        faulty.fail(operation, Answer(404), times=99)
    failure = one_failure(store.deleter.abort(BUCKET, [there]))
    assert failure.failure_class is FailureClass.UNKNOWN
    assert "a look could not confirm that it is gone" in failure.error


# -- archives ----------------------------------------------------------------------------------


@answers
@pytest.mark.parametrize("size", [5, 50], ids=["at once", "in parts"])
def test_a_copy_answered_404_is_no_absence_while_the_original_is_there(
    faulty: FaultyS3, answer: Answer, size: int
) -> None:
    """S-STORE-11: the answer may be about the bucket to copy to, or about the call."""
    faulty.buckets |= {"archive"}
    settings = S3Settings(faulty.endpoint, "us-east-1", "key-id", "secret")
    copier = S3Copier(settings, FrozenClock(), in_parts_from=20, part_bytes=10)
    stored = faulty.put(BUCKET, "a", b"x" * size)
    original = Original("a", stored.etag, stored.modified, size, "copies/a")
    faulty.fail("CopyObject" if size == 5 else "CreateMultipartUpload", answer)

    failure = one_failure(copier.copy(BUCKET, "archive", [original], overwrite=True))

    assert failure.failure_class is FailureClass.UNKNOWN
    assert "yet the original is there; look whether there is a bucket archive" in failure.error
    assert list(copier.copy(BUCKET, "archive", [original], overwrite=True)) == [
        Copy("copies/a", faulty.objects["archive", "copies/a"].etag)
    ]
    del faulty.objects[BUCKET, "a"]
    assert copier.copy(BUCKET, "archive", [original], overwrite=True) == [NotCopied.GONE]


def test_no_original_is_gone_from_a_bucket_that_does_not_answer(faulty: FaultyS3) -> None:
    """S-STORE-11."""
    faulty.buckets |= {"archive"}
    settings = S3Settings(faulty.endpoint, "us-east-1", "key-id", "secret")
    stored = faulty.put(BUCKET, "a")
    original = Original("a", stored.etag, stored.modified, 1, "copies/a")
    for operation in ("CopyObject", "HeadObject", "ListObjectsV2"):
        faulty.fail(operation, Answer(404), times=99)
    copies = S3Copier(settings, FrozenClock()).copy(BUCKET, "archive", [original], overwrite=True)
    assert one_failure(copies).failure_class is FailureClass.UNKNOWN


# -- looking, and through the command line -----------------------------------------------------


def test_a_look_at_a_bucket_that_does_not_answer_finds_nothing_absent(faulty: FaultyS3) -> None:
    """S-STORE-11: also before a delete, where a look decides."""
    put(faulty, "a", "b")
    settings = S3Settings(faulty.endpoint, "us-east-1", "key-id", "secret")
    lister = S3Lister(settings, FrozenClock())
    for operation in ("HeadObject", "ListObjectsV2"):
        faulty.fail(operation, Answer(404), times=99)
    with pytest.raises(Exception, match="404"):
        lister.look(BUCKET, ["a", "b"])


def test_an_object_that_a_404_left_where_it_is_becomes_a_dead_letter(
    cli: Cli, faulty: FaultyS3
) -> None:
    """S-STORE-11, as an operator meets it: nothing is reported as done."""

    cli.policy("exports", more={"attempts": {"unknown": 1}})
    faulty.put("exports", CONTROL)
    faulty.fail("DeleteObject", Answer(404), times=99)

    work = cli.json("run", "exports", code=None)["work"]

    assert (work["dead"], work["outcomes"]) == (1, {})
    (line,) = cli("export", code=None).lines
    assert "yet it is there" in line["error"]
    assert faulty.keys("exports") == {CONTROL}
