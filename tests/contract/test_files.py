"""Stores that files of rows are written to: a real S3 server, the fault server, a directory; and
what is written there."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from bestbefore.adapters.files.jsonl import JsonLines
from bestbefore.adapters.files.parquet import Parquet
from bestbefore.adapters.objects.directory import DirectoryFiles
from bestbefore.adapters.objects.s3 import S3Files, S3Settings
from bestbefore.adapters.objects.s3.seaweed import Seaweed
from bestbefore.contracts.files import FileStoreContract, FileWorld, RowFormatContract
from bestbefore.ports.files import RowFormat
from support.faults import FaultyS3
from support.s3 import FrozenClock


class TestSeaweedFS(FileStoreContract):
    @pytest.fixture
    def there(self, seaweed: Seaweed) -> Iterator[FileWorld]:
        name = f"test-{uuid4().hex}"
        client = seaweed.client()
        client.create_bucket(Bucket=name)

        def keys() -> set[str]:
            listing = client.list_objects_v2(Bucket=name)
            return {found["Key"] for found in listing.get("Contents", ())}

        yield FileWorld(S3Files(seaweed.settings(), FrozenClock()), name, keys)
        client.delete_bucket(Bucket=name)


class TestFaultServer(FileStoreContract):
    @pytest.fixture
    def there(self, faulty: FaultyS3) -> FileWorld:
        faulty.buckets.add("bucket")
        settings = S3Settings(faulty.endpoint, "us-east-1", "key-id", "secret")
        return FileWorld(S3Files(settings, FrozenClock()), "bucket", lambda: faulty.keys("bucket"))


class TestDirectory(FileStoreContract):
    @pytest.fixture
    def there(self, tmp_path: Path) -> FileWorld:
        bucket = tmp_path / "bucket"
        bucket.mkdir()

        def keys() -> set[str]:
            return {str(p.relative_to(bucket)) for p in bucket.rglob("*") if not p.is_dir()}

        return FileWorld(DirectoryFiles(tmp_path), "bucket", keys)


class TestJsonLines(RowFormatContract):
    @pytest.fixture
    def form(self) -> RowFormat:
        return JsonLines()


class TestParquet(RowFormatContract):
    @pytest.fixture
    def form(self) -> RowFormat:
        return Parquet()
