"""Copies that fail, lie, or are of something else than what was seen."""

from collections.abc import Sequence

import pytest

from bestbefore.adapters.objects.s3 import S3Copier, S3Settings
from bestbefore.adapters.objects.s3.parts import PART_BYTES, part_size
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Level
from bestbefore.ports.objects import Copy, NotCopied, Original
from support.faults import OLD, Answer, FaultyS3, error, internal_error, slow_down
from support.s3 import FrozenClock

COPY = "digests/0123456789ab/exports/a.json"


class Copies:
    """A copier on a fault server, from ``exports`` to ``archive``; parts have ten bytes."""

    def __init__(self, server: FaultyS3) -> None:
        self.server = server
        server.buckets |= {"exports", "archive"}
        settings = S3Settings(server.endpoint, "us-east-1", "key-id", "secret")
        self.copier = S3Copier(settings, FrozenClock(), in_parts_from=20, part_bytes=10)

    def put(self, body: bytes = b"content", key: str = "exports/a.json") -> Original:
        stored = self.server.put("exports", key, body)
        return Original(key, stored.etag, stored.modified, len(body), COPY)

    def __call__(
        self, *originals: Original, overwrite: bool = True
    ) -> Sequence[Copy | NotCopied | Failure]:
        return self.copier.copy("exports", "archive", originals, overwrite=overwrite)

    def one(self, original: Original, *, overwrite: bool = True) -> Copy | NotCopied | Failure:
        (end,) = self(original, overwrite=overwrite)
        return end

    def failure(self, original: Original) -> Failure:
        end = self.one(original)
        assert isinstance(end, Failure)
        return end

    @property
    def archived(self) -> dict[str, bytes]:
        return {
            key: stored.body
            for (bucket, key), stored in self.server.objects.items()
            if bucket == "archive"
        }


@pytest.fixture
def copies(faulty: FaultyS3) -> Copies:
    return Copies(faulty)


LARGE = b"0123456789abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("answer", "failure_class"),
    [
        (error(200, "InternalError"), FailureClass.TRANSIENT),
        (internal_error(), FailureClass.TRANSIENT),
        (slow_down(), FailureClass.THROTTLED),
        (error(403, "AccessDenied"), FailureClass.PERMISSION),
        (error(403, "InvalidObjectState"), FailureClass.MALFORMED),
        (Answer(200, b"<CopyObjectResult><ETag>&quo"), FailureClass.TRANSIENT),
    ],
    ids=["an error inside a success", "500", "slow down", "denied", "frozen", "cut off"],
)
def test_a_copy_that_was_not_made_is_a_failure_of_its_class(
    copies: Copies, answer: Answer, failure_class: FailureClass
) -> None:
    original = copies.put()
    copies.server.fail("CopyObject", answer)
    failure = copies.failure(original)
    assert failure.failure_class is failure_class
    assert "s3://exports/exports/a.json to s3://archive/digests/" in failure.error
    assert copies.archived == {}


def test_an_empty_success_is_not_believed(copies: Copies) -> None:
    original = copies.put()
    copies.server.fail("CopyObject", Answer(200))
    assert copies.failure(original).failure_class is FailureClass.TRANSIENT


def test_a_copy_whose_answer_was_lost_is_made_again_under_the_same_key(copies: Copies) -> None:
    original = copies.put()
    copies.server.fail("CopyObject", internal_error(), after_effect=True)
    assert copies.failure(original).failure_class is FailureClass.TRANSIENT
    assert isinstance(copies.one(original), Copy)
    assert copies.archived == {COPY: b"content"}


def test_one_denied_copy_leaves_its_neighbours_alone(copies: Copies) -> None:
    originals = [
        copies.put(key=f"exports/{n:02}")._replace(copy_key=f"archive/{n:02}") for n in range(20)
    ]
    copies.server.copies.unwritable.add("archive/07")
    ends = copies(*originals)
    assert [n for n, end in enumerate(ends) if isinstance(end, Failure)] == [7]


def test_a_store_that_ignores_the_condition_archives_nothing_under_a_false_identity(
    copies: Copies,
) -> None:
    copies.server.copies.honours_source = False
    original = copies.put(b"old")
    newer = copies.put(b"new")
    assert copies.one(original) is NotCopied.CHANGED
    assert copies.archived == {}
    assert copies.server.objects["exports", "exports/a.json"].etag == newer.etag


def test_a_copy_with_other_bytes_is_taken_away_and_tried_again(copies: Copies) -> None:
    original = copies.put(b"content")

    def spoil(truth: Answer) -> Answer:
        copies.server.put("archive", COPY, b"c0ntent")
        return truth

    copies.server.fail("CopyObject", spoil, after_effect=True)
    failure = copies.failure(original)
    assert failure.failure_class is FailureClass.TRANSIENT
    assert "the copy has 7 bytes" in failure.error
    assert copies.archived == {}
    assert isinstance(copies.one(original), Copy)


def test_a_shorter_copy_is_no_copy(copies: Copies) -> None:
    original = copies.put(b"content")

    def spoil(truth: Answer) -> Answer:
        copies.server.put("archive", COPY, b"cont")
        return truth

    copies.server.fail("CopyObject", spoil, after_effect=True)
    assert copies.failure(original).failure_class is FailureClass.TRANSIENT
    assert copies.archived == {}


def _with_another_etag(copies: Copies, here: dict[str, str], there: dict[str, str]) -> Original:
    """An original, and a store that gives its copy another ETag and these headers."""
    original = copies.put(b"content")
    copies.server.copies.describe("exports", original.key, **here)

    def encrypt(truth: Answer) -> Answer:
        stored = copies.server.objects["archive", COPY]
        copies.server.objects["archive", COPY] = stored._replace(etag="f" * 32)
        copies.server.copies.describe("archive", COPY, **there)
        return truth

    copies.server.fail("CopyObject", encrypt, after_effect=True)
    return original


def test_under_a_kms_key_the_checksum_decides_as_the_etag_cannot(copies: Copies) -> None:
    kms = {"x-amz-server-side-encryption": "aws:kms"}
    same = {"x-amz-checksum-crc32": "NhCmhg==", "x-amz-checksum-type": "FULL_OBJECT"}
    original = _with_another_etag(copies, same, same | kms)
    assert copies.one(original) == Copy(COPY, "f" * 32)
    original = _with_another_etag(copies, same, same | kms | {"x-amz-checksum-crc32": "AAAAAA=="})
    assert copies.failure(original).failure_class is FailureClass.TRANSIENT
    assert copies.archived == {}


def test_under_a_kms_key_and_without_checksums_the_size_and_the_condition_have_to_do(
    copies: Copies,
) -> None:
    original = _with_another_etag(copies, {}, {"x-amz-server-side-encryption": "aws:kms"})
    assert copies.one(original) == Copy(COPY, "f" * 32)


def test_an_original_that_vanishes_after_the_copy_leaves_what_may_be_all_that_is_left(
    copies: Copies,
) -> None:
    original = _with_another_etag(copies, {}, {})
    copies.server.fail("HeadObject", Answer(404), when=lambda r: r.bucket == "exports")
    assert copies.one(original) is NotCopied.GONE
    assert copies.archived == {COPY: b"content"}


def test_a_store_that_does_not_know_the_condition_on_the_copys_key_is_asked_without(
    copies: Copies,
) -> None:
    original = copies.put()
    copies.server.fail("CopyObject", error(501, "NotImplemented"))
    assert isinstance(copies.one(original, overwrite=False), Copy)
    assert [("if-none-match" in r.headers) for r in copies.server.asked("CopyObject")] == [
        True,
        False,
    ]


def test_a_large_object_goes_in_parts_of_one_size_each_on_its_condition(copies: Copies) -> None:
    original = copies.put(LARGE)
    end = copies.one(original)
    assert isinstance(end, Copy)
    assert end.etag.endswith("-4")
    assert copies.archived == {COPY: LARGE}
    parts = copies.server.asked("UploadPartCopy")
    ranges = sorted(part.headers["x-amz-copy-source-range"] for part in parts)
    assert ranges == ["bytes=0-9", "bytes=10-19", "bytes=20-29", "bytes=30-35"]
    conditions = {part.headers["x-amz-copy-source-if-match"] for part in parts}
    assert conditions == {f'"{original.etag}"'}
    assert copies.server.copies.uploads == {}


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        ("UploadPartCopy", internal_error()),
        ("UploadPartCopy", error(200, "InternalError")),
        ("UploadPartCopy", Answer(200)),
        ("CompleteMultipartUpload", error(200, "InternalError")),
        ("CompleteMultipartUpload", slow_down()),
    ],
)
def test_what_a_failed_copy_in_parts_leaves_is_aborted(
    copies: Copies, operation: str, answer: Answer
) -> None:
    original = copies.put(LARGE)
    copies.server.fail(operation, answer)
    failure = copies.failure(original)
    assert failure.failure_class in {FailureClass.TRANSIENT, FailureClass.THROTTLED}
    assert copies.server.copies.uploads == {}
    assert copies.archived == {}
    assert isinstance(copies.one(original), Copy)


def test_what_a_killed_copy_in_parts_left_is_aborted_by_the_next_one(copies: Copies) -> None:
    original = copies.put(LARGE)
    left = copies.server.copies.begin("archive", COPY)
    (end,) = copies(original, overwrite=False)
    assert isinstance(end, Copy)
    assert left in copies.server.copies.uploads, "under a key of somebody else it is theirs"
    other = copies.server.copies.begin("archive", COPY + "-beside")
    assert isinstance(copies.one(original), Copy)
    assert list(copies.server.copies.uploads) == [other]


def test_an_original_overwritten_between_two_parts_is_not_copied(copies: Copies) -> None:
    original = copies.put(LARGE)

    def overwrite(truth: Answer) -> Answer:
        copies.server.put("exports", original.key, LARGE[::-1], OLD)
        return truth

    copies.server.fail(
        "UploadPartCopy", overwrite, after_effect=True, when=lambda r: r.query["partNumber"] == "1"
    )
    end = copies.one(original)
    # Whichever parts came first: a mixture is never completed.
    assert end is NotCopied.CHANGED
    assert copies.archived == {}
    assert copies.server.copies.uploads == {}


def test_tags_that_may_not_be_read_stop_a_copy_that_would_lose_them(copies: Copies) -> None:
    original = copies.put(LARGE)
    copies.server.fail("GetObjectTagging", error(403, "AccessDenied"))
    assert copies.failure(original).failure_class is FailureClass.PERMISSION
    copies.server.fail("GetObjectTagging", error(501, "NotImplemented"))
    assert isinstance(copies.one(original), Copy)


def test_metadata_that_cannot_be_read_stop_a_copy_that_would_lose_them(copies: Copies) -> None:
    original = copies.put(LARGE)
    copies.server.copies.describe("exports", original.key, **{"x-amz-missing-meta": "2"})
    failure = copies.failure(original)
    assert failure.failure_class is FailureClass.MALFORMED
    assert "2 of its metadata" in failure.error


def test_parts_are_never_more_than_ten_thousand_and_fit_the_largest_object() -> None:
    largest = 50 * 10**12
    for size in (1024**3, 5 * 1024**3, 5 * 1024**4, largest):
        part = part_size(size, PART_BYTES)
        assert part >= PART_BYTES
        assert -(-size // part) <= 10_000
        assert part <= 5 * 1024**3


def test_a_check_says_what_is_missing(copies: Copies) -> None:
    (found,) = copies.copier.check("exports", "exports/", "archive", "digests/")
    assert (found.code, found.level) == ("archive-reached", Level.INFO)
    copies.server.fail("CopyObject", error(403, "AccessDenied"), when=lambda _: True)
    (found,) = copies.copier.check("exports", "exports/", "archive", "digests/")
    assert (found.code, found.level) == ("archive-unproven", Level.WARNING)
    assert copies.archived == {}
