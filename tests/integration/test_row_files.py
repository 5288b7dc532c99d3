"""Files of rows where a store, a disk or an installation is not what it should be."""

import sys
from collections.abc import Callable
from datetime import timedelta
from hashlib import md5
from pathlib import Path

import pytest

from bestbefore.adapters.objects.directory import DirectoryFiles
from bestbefore.adapters.objects.s3 import S3Files, S3Settings
from bestbefore.app.formats import row_format
from bestbefore.domain.failure import FailureClass
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.objects import StoreError
from support.directory import nobody
from support.faults import Answer, FaultyS3, error, slow_down
from support.s3 import FrozenClock

BODY = b"rows"


@pytest.fixture
def files(faulty: FaultyS3) -> S3Files:
    faulty.buckets.add("bucket")
    seconds = timedelta(seconds=2)
    there = S3Settings(faulty.endpoint, "us-east-1", "key-id", "secret", seconds)
    return S3Files(there, FrozenClock())


def other_etag(answer: Answer) -> Answer:
    """As of a store that encrypts."""
    return answer._replace(headers=dict(answer.headers) | {"ETag": '"0123456789abcdef-1"'})


def test_the_store_is_told_what_has_to_arrive_and_its_own_checksum_is_believed(
    files: S3Files, faulty: FaultyS3
) -> None:
    files.put("bucket", "a", BODY)
    (put,) = faulty.asked("PutObject")
    assert put.headers["content-md5"]
    assert faulty.objects["bucket", "a"].etag == md5(BODY, usedforsecurity=False).hexdigest()
    assert faulty.asked("GetObject") == []


def test_an_etag_that_is_no_checksum_has_the_file_read_back(
    files: S3Files, faulty: FaultyS3
) -> None:
    faulty.fail("PutObject", other_etag, after_effect=True)
    files.put("bucket", "a", BODY)
    assert len(faulty.asked("GetObject")) == 1


def test_a_file_that_is_not_what_was_written_is_a_failure(files: S3Files, faulty: FaultyS3) -> None:
    def spoil(answer: Answer) -> Answer:
        faulty.put("bucket", "a", BODY[::-1])
        return other_etag(answer)

    faulty.fail("PutObject", spoil, after_effect=True)
    with pytest.raises(StoreError) as caught:
        files.put("bucket", "a", BODY)
    assert caught.value.failure.failure_class is FailureClass.TRANSIENT
    assert "not what was written" in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (lambda _: slow_down(), FailureClass.THROTTLED),
        (lambda _: error(403, "AccessDenied"), FailureClass.PERMISSION),
        (lambda _: error(403, "InvalidAccessKeyId"), FailureClass.CREDENTIALS),
    ],
)
def test_what_a_store_says_keeps_its_class(
    files: S3Files, faulty: FaultyS3, fault: Callable[[Answer], Answer], expected: FailureClass
) -> None:
    faulty.fail("PutObject", fault)
    with pytest.raises(StoreError) as caught:
        files.put("bucket", "a", BODY)
    assert caught.value.failure.failure_class is expected


def test_a_read_that_ends_early_is_no_file(files: S3Files, faulty: FaultyS3) -> None:
    files.put("bucket", "a", BODY)
    faulty.fail(
        "GetObject", lambda answer: answer._replace(body=answer.body[:-1]), after_effect=True
    )
    with pytest.raises(StoreError) as caught:
        files.get("bucket", "a")
    assert caught.value.failure.failure_class is FailureClass.TRANSIENT


def test_a_folder_that_may_not_be_written_is_a_denial_and_nothing_is_left(public: Path) -> None:
    (public / "bucket" / "closed").mkdir(parents=True)
    (public / "bucket" / "closed").chmod(0o555)
    (public / "bucket").chmod(0o777)
    files = DirectoryFiles(public)
    with nobody(), pytest.raises(StoreError) as caught:
        files.put("bucket", "closed/a", BODY)
    assert caught.value.failure.failure_class is FailureClass.PERMISSION
    with nobody():
        files.put("bucket", "open/a", BODY)
    assert [p.name for p in (public / "bucket").rglob("*") if p.is_file()] == ["a"]


def test_no_link_leads_a_file_out_of_the_root(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "root"
    (root / "bucket").mkdir(parents=True)
    (root / "bucket" / "way").symlink_to(outside)
    files = DirectoryFiles(root)
    for key in ("way/a", "../outside/a", "a/../../../outside/a"):
        with pytest.raises(StoreError) as caught:
            files.put("bucket", key, BODY)
        assert caught.value.failure.failure_class is FailureClass.MALFORMED
    (root / "bucket" / "a").symlink_to(outside / "b")
    files.put("bucket", "a", BODY)
    assert list(outside.iterdir()) == []
    assert files.get("bucket", "a") == BODY


def test_a_disk_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bucket").mkdir()
    files = DirectoryFiles(tmp_path)
    files.put("bucket", "a", BODY)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreError) as caught:
        files.put("bucket", "a", b"others")
    assert caught.value.failure.failure_class is FailureClass.TRANSIENT
    assert files.get("bucket", "a") == BODY
    assert [path.name for path in (tmp_path / "bucket").iterdir()] == ["a"]


def test_parquet_without_its_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "bestbefore.adapters.files.parquet", raising=False)
    with pytest.raises(LedgerError, match=r'needs pyarrow: pip install "bestbefore\[parquet\]"'):
        row_format("parquet")
    assert row_format("jsonl")
