"""The S3 adapter keeps the contract for versions: on SeaweedFS, on moto and on our own server."""

from typing import Any

import pytest

from bestbefore.adapters.objects.s3 import S3Settings
from bestbefore.adapters.objects.s3.client import plain_client
from bestbefore.contracts.versions import VersionContract, VersionWorld
from support.moto import Moto
from support.s3 import versions_of
from support.stacks import VersionedS3
from support.versions import VersionedBucket


class TestSeaweedVersions(VersionContract):
    @pytest.fixture
    def store(self, seaweed: Any, versioned: VersionedBucket) -> VersionWorld:
        return versions_of(seaweed.settings(), versioned)


class TestMotoVersions(VersionContract):
    @pytest.fixture
    def store(self, moto: Moto, moto_bucket: str) -> VersionWorld:
        made = VersionedBucket(moto_bucket, plain_client(moto.settings()))
        made.enable()
        return versions_of(moto.settings(), made)


class _OnOurs(VersionContract):
    """The server of the fault tests."""

    page_size = 1_000
    apart = False

    @pytest.fixture
    def store(self, stacked: VersionedS3) -> VersionWorld:
        stacked.page_size, stacked.apart = self.page_size, self.apart
        stacked.buckets.add("versions")
        settings = S3Settings(stacked.endpoint, "us-east-1", "key-id", "secret")

        def put(key: str, body: bytes) -> str:
            stacked.put("versions", key, body)
            return stacked.newest("versions", key)

        world = versions_of(settings, VersionedBucket("versions", plain_client(settings)))
        return VersionWorld(
            world.lister, world.deleter, put, lambda key: stacked.hide("versions", key), "versions"
        )


class TestInterleaved(_OnOurs):
    """As AWS lists: versions and markers in one order."""


class TestSmallPagesApart(_OnOurs):
    """Pages that end within a key, and markers after all versions."""

    page_size = 3
    apart = True
