"""Purge the same versions from the same SeaweedFS, once each, in interleaved rounds."""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench import objects

_PEER = "s5cmd rm --all-versions"


def measure(versions: int, rounds: int) -> None:
    """Print the median of each contestant, and its ratio to that of s5cmd.

    Each key has two versions, so that half of what goes has to wait for the other half.
    """
    with tempfile.TemporaryDirectory() as folder:
        bench = _Bench(Path(folder), versions // 2)
        times: dict[str, list[float]] = {name: [] for name in bench.contestants}
        try:
            bench.upload()
            for number in range(1, rounds + 1):
                for name, purge in bench.contestants.items():
                    bench.restore("first")
                    times[name].append(purge())
                    bench.expect_empty()
                    objects.say(f"round {number}/{rounds}  {name:<44}{times[name][-1]:7.2f} s")
        finally:
            bench.stop()
    peer = statistics.median(times[_PEER])
    print(f"\n{versions:,} versions, median of {rounds} interleaved rounds, one SeaweedFS")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(f"  {name:<46}{median:7.2f} s  {versions / median:>7,.0f}/s  {median / peer:5.2f}x")


class _Bench(objects.Bench):
    """The same in a bucket that keeps versions."""

    versions = "purge"

    def __init__(self, folder: Path, keys: int) -> None:
        super().__init__(folder, keys)
        self.contestants = {
            _PEER: self._s5cmd_versions,
            "boto3 object_versions.filter().delete()": self._boto3_versions,
            "bestbefore run, purge": self._first_run,
        }

    def upload(self) -> None:
        """Write every key twice, and keep what the server holds."""
        client = self._store.client()
        client.create_bucket(Bucket=objects.BUCKET)
        client.put_bucket_versioning(
            Bucket=objects.BUCKET, VersioningConfiguration={"Status": "Enabled"}
        )
        objects.write_files(self._folder / "files", self._objects)
        for _ in range(2):
            self._s5cmd_copy()
        self._store.stop()
        shutil.copytree(self._folder / "server", self._folder / "first")
        self._store.start()
        time.sleep(3)  # the policy's age; nothing is timed yet

    def expect_empty(self) -> None:
        found = self._store.client().list_object_versions(Bucket=objects.BUCKET, MaxKeys=1)
        left = [*found.get("Versions", []), *found.get("DeleteMarkers", [])]
        assert not left, left

    def _s5cmd_versions(self) -> float:
        return self._s5cmd("--all-versions")

    def _boto3_versions(self) -> float:
        code = (
            f"import boto3; boto3.resource('s3', endpoint_url={self._store.endpoint!r})"
            f".Bucket({objects.BUCKET!r}).object_versions.filter(Prefix={objects.PREFIX!r}).delete()"
        )
        return self._command(sys.executable, "-c", code)
