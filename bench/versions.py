"""Purge the same versions from the same SeaweedFS, once each, in interleaved rounds."""

import sys
import tempfile
from pathlib import Path

from bench.rounds import hold
from bench.seaweed import BUCKET, PREFIX, OnSeaweed


def measure(versions: int, rounds: int) -> None:
    """Print the median of each contestant, and its ratio to that of s5cmd.

    Each key has two versions, so that half of what goes has to wait for the other half.
    """
    with tempfile.TemporaryDirectory() as folder:
        contest = _Purging(Path(folder), versions // 2)
        try:
            contest.upload()
            hold(contest, rounds, f"{versions:,} versions on one SeaweedFS", versions)
        finally:
            contest.stop()
    print(
        "  what limits: the server removes versions one by one, and every newest one is looked at"
    )


class _Purging(OnSeaweed):
    """Everything goes, in a bucket that keeps versions."""

    def __init__(self, folder: Path, objects: int) -> None:
        super().__init__(folder, objects)
        self.contestants = {
            "s5cmd rm --all-versions": self._s5cmd,
            "boto3 object_versions.filter().delete()": self._boto3,
            "bestbefore run, purge": self._run,
        }

    def upload(self) -> None:
        """Write every key twice, and keep what the server holds."""
        client = self.store.client()
        client.create_bucket(Bucket=BUCKET)
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        self.write_files()
        for _ in range(2):
            self.copy_in()
        self.keep()

    def expect_done(self) -> None:
        found = self.store.client().list_object_versions(Bucket=BUCKET, MaxKeys=1)
        left = [*found.get("Versions", []), *found.get("DeleteMarkers", [])]
        assert not left, left

    def _s5cmd(self) -> float:
        return self.s5cmd("rm", "--all-versions", f"s3://{BUCKET}/{PREFIX}*")

    def _boto3(self) -> float:
        code = (
            f"import boto3; boto3.resource('s3', endpoint_url={self.store.endpoint!r})"
            f".Bucket({BUCKET!r}).object_versions.filter(Prefix={PREFIX!r}).delete()"
        )
        return self.timed(sys.executable, "-c", code)

    def _run(self) -> float:
        self.begin(objects='versions = "purge"')
        return self.bestbefore("run", "bench", "--yes")
