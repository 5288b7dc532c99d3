"""A directory store to try: a root with one bucket, and somebody who puts files there."""

import os
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from bestbefore.adapters.objects.directory import DirectoryDeleter, DirectoryLister
from bestbefore.contracts.objects import ObjectWorld

BUCKET = "bucket"
OLD = datetime(2026, 1, 1, tzinfo=UTC)


def put(bucket: Path, key: str, body: bytes, modified: datetime = OLD) -> Path:
    """Write a file as careful programs do: beside the place it is for, then moved there."""
    path = bucket / key
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{uuid4().hex}")
    beside.write_bytes(body)
    os.utime(beside, (modified.timestamp(), modified.timestamp()))
    return beside.replace(path)


def directory(root: Path, bucket: str = BUCKET) -> ObjectWorld:
    """Both sides of the adapter over *root*, with an empty bucket in it."""
    (root / bucket).mkdir()
    return ObjectWorld(
        DirectoryLister(root),
        DirectoryDeleter(root),
        lambda key, body: put(root / bucket, key, body),
        bucket,
    )
