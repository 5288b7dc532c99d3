"""What ``docs/archive.md`` says to type, on a real S3 server, and what it says about rights."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bestbefore.adapters.objects.s3.seaweed import ADMIN, LIMITED, Identity, Seaweed
from support.cli import Cli, Reply
from support.docs import commands, configurations
from support.forks import Forks, until

ODD = ["a+b", "a b", "%2B", "\x01\x10", "new\nline", "größe", "q?versionId=x#y", "<&>"]


class Page:
    """The page's configuration for two buckets that exist only in this test."""

    def __init__(self, folder: Path, forks: Forks, seaweed: Seaweed, bucket: str, to: str) -> None:
        self.client = seaweed.client()
        self.bucket = bucket
        self.to = to
        (text,) = configurations("archive.md")
        for written, meant in (
            ("http://127.0.0.1:8333", seaweed.endpoint),
            ('"weekly-digests"', f'"{bucket}"'),
            ('"archive"\nprefix', f'"{to}"\nprefix'),
            ('"30d"', '"1s"'),
        ):
            assert written in text
            text = text.replace(written, meant)
        self._cli = Cli(folder, forks, seaweed.endpoint)
        (folder / "bestbefore.toml").write_text(text)
        self.exports, self.cold = LIMITED, ADMIN

    def __call__(self, *arguments: str, code: int = 0) -> Reply:
        return self._cli(*arguments, code=code, env=self.env)

    def json(self, *arguments: str, code: int = 0) -> Any:
        return self(*arguments, "--json", code=code).json

    @property
    def env(self) -> dict[str, str]:
        return _keys("EXPORTS", self.exports) | _keys("COLD", self.cold)

    def put(self, *names: str) -> None:
        for name in names:
            self.client.put_object(
                Bucket=self.bucket, Key=f"exports/{name}", Body=name.encode(),
                ContentType="application/json", Metadata={"name": "digest"}, Tagging="team=growth",
            )  # fmt: skip
        written = time.time()
        until(lambda: time.time() > written + 2.1, what="the clock")

    def keys(self, bucket: str) -> list[str]:
        found = self.client.list_objects_v2(Bucket=bucket)
        return [entry["Key"] for entry in found.get("Contents", ())]

    def described(self, bucket: str, key: str) -> tuple[Any, ...]:
        found = self.client.get_object(Bucket=bucket, Key=key)
        tags = self.client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
        return found["Body"].read(), found["ContentType"], found["Metadata"], tags


def _keys(prefix: str, identity: Identity) -> dict[str, str]:
    return {
        f"{prefix}_KEY_ID": identity.access_key_id,
        f"{prefix}_SECRET": identity.secret_access_key,
    }


@pytest.fixture
def page(tmp_path: Path, forks: Forks, seaweed: Seaweed, bucket: str) -> Iterator[Page]:
    to = f"test-{uuid4().hex}"
    seaweed.client().create_bucket(Bucket=to)
    seaweed.grant(bucket, "exports/")
    yield Page(tmp_path, forks, seaweed, bucket, to)
    seaweed.deny(bucket, "exports/")
    seaweed.client().delete_bucket(Bucket=to)


def test_what_the_page_says_to_type_archives_and_brings_back(page: Page) -> None:
    page.put(*ODD)
    before = {key: page.described(page.bucket, key) for key in page.keys(page.bucket)}
    run = ""
    for words in commands("archive.md"):
        if words[0] == "restore":
            page.exports = ADMIN  # who brings back has to be able to tag
        reply = page(*(run if word == "RUN" else word for word in words))
        if words[0] == "check":
            assert "archive-reached" in reply.out
        if words[0] == "run":
            run = page.json("runs", "list")[0]["run_id"]
            assert page.keys(page.bucket) == []
            assert len(page.keys(page.to)) == len(ODD)
            assert f"{len(ODD)} archived" in reply.out
            for key, described in before.items():
                (copy,) = [found for found in page.keys(page.to) if found.endswith(f"/{key}")]
                assert page.described(page.to, copy) == described
    assert {key: page.described(page.bucket, key) for key in page.keys(page.bucket)} == before
    assert page.json("restore", "--run", run)["already_there"] == len(ODD)
    assert page.json("verify", "weekly-digests")["overdue"] == 0  # younger than the run's cutoff


def test_keys_that_may_not_write_the_archive_delete_nothing(page: Page) -> None:
    page.put("a.json")
    page.cold = LIMITED
    assert "archive-unproven" in page("check").out
    assert page.json("run", "weekly-digests", code=1)["work"]["dead"] == 1
    (letter,) = page.json("dlq", "list")
    assert letter["failure_class"] == "permission"
    assert page.keys(page.bucket) == ["exports/a.json"]
    page.cold = ADMIN
    page("dlq", "redrive", "--all")
    assert page.json("work", "--drain")["outcomes"] == {"archived": 1}


def test_a_missing_archive_is_found_by_the_check_and_stops_the_policy(page: Page) -> None:
    page.put("a.json", "b.json")
    page.client.delete_bucket(Bucket=page.to)
    assert "archive-missing" in page("check", code=1).out
    assert page.json("run", "weekly-digests", code=1)["work"]["dead"] == 1
    assert len(page.keys(page.bucket)) == 2
    assert "NoSuchBucket" in page.json("status")["policies"][0]["paused"]
    page.client.create_bucket(Bucket=page.to)


def test_a_versioned_archive_is_fine(page: Page) -> None:
    page.put("a.json")
    page.client.put_bucket_versioning(Bucket=page.to, VersioningConfiguration={"Status": "Enabled"})
    run = page.json("run", "weekly-digests")
    assert run["work"]["outcomes"] == {"archived": 1}
    page.exports = ADMIN
    assert page.json("restore", "--run", run["plan"]["run_id"])["restored"] == 1
    for version in page.client.list_object_versions(Bucket=page.to).get("Versions", ()):
        page.client.delete_object(
            Bucket=page.to, Key=version["Key"], VersionId=version["VersionId"]
        )
