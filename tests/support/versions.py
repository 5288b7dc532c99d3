"""A bucket that keeps versions, on a real server, as a test wants to see and fill it."""

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ClientError

from bestbefore.adapters.objects.s3.seaweed import Seaweed
from support.forks import until


class Held(NamedTuple):
    """One entry: a version, or a delete marker."""

    key: str
    id: str
    marker: bool
    latest: bool


@dataclass
class VersionedBucket:
    """One bucket and the client that fills it."""

    name: str
    client: Any

    def put(self, key: str, body: bytes = b"x", **more: Any) -> str:
        """Write a version; returns its id."""
        reply = self.client.put_object(Bucket=self.name, Key=key, Body=body, **more)
        return reply.get("VersionId", "null")

    def hide(self, key: str) -> str:
        """Delete as a user does: returns the id of the marker."""
        return self.client.delete_object(Bucket=self.name, Key=key)["VersionId"]

    def hold(self, key: str, version: str, status: str) -> None:
        """Put a legal hold on a version, or lift it."""
        self.client.put_object_legal_hold(
            Bucket=self.name, Key=key, VersionId=version, LegalHold={"Status": status}
        )

    def suspend(self) -> None:
        self._versioning("Suspended")

    def enable(self) -> None:
        self._versioning("Enabled")

    def _versioning(self, status: str) -> None:
        self.client.put_bucket_versioning(
            Bucket=self.name, VersioningConfiguration={"Status": status}
        )

    def entries(self, prefix: str = "") -> list[Held]:
        """Everything there is, by key."""
        found: list[Held] = []
        for page in self.client.get_paginator("list_object_versions").paginate(
            Bucket=self.name, Prefix=prefix
        ):
            for kind, marker in (("Versions", False), ("DeleteMarkers", True)):
                found += [
                    Held(e["Key"], e["VersionId"], marker, e["IsLatest"])
                    for e in page.get(kind, [])
                ]
        return sorted(found)

    def ids(self, key: str) -> set[str]:
        """The ids of everything under *key*."""
        return {entry.id for entry in self.entries(key) if entry.key == key}

    def visible(self) -> set[str]:
        """The keys that readers see."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return {item["Key"] for page in pages for item in page.get("Contents", [])}


def tick() -> datetime:
    """Wait for a new second, as times in a listing are whole ones; returns its beginning."""
    second = datetime.now(UTC).replace(microsecond=0)
    until(lambda: datetime.now(UTC) >= second + timedelta(seconds=1), what="the next second")
    return second + timedelta(seconds=1)


def slot(cutoff: datetime) -> str:
    """The slot whose cutoff is *cutoff* with ``older_than = "1s"``."""
    return f"{cutoff + timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def versioned(seaweed: Seaweed) -> Iterator[VersionedBucket]:
    """An empty bucket that keeps versions, on `seaweed`."""
    yield from _made(seaweed, locks=False)


@pytest.fixture
def locking(seaweed: Seaweed) -> Iterator[VersionedBucket]:
    """An empty bucket that keeps versions and can lock them, on `seaweed`."""
    yield from _made(seaweed, locks=True)


def _made(seaweed: Seaweed, *, locks: bool) -> Iterator[VersionedBucket]:
    client = seaweed.client()
    made = VersionedBucket(f"test-{uuid.uuid4().hex}", client)
    client.create_bucket(Bucket=made.name, ObjectLockEnabledForBucket=locks)
    made.enable()
    yield made
    with contextlib.suppress(ClientError):  # one with a lock on something stays
        client.delete_bucket(Bucket=made.name)
