"""Delete the same objects from the same SeaweedFS, once each, in interleaved rounds."""

import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bestbefore.adapters.objects.s3.seaweed import ADMIN, REGION, Seaweed

BUCKET, PREFIX = "weekly-digests", "exports/"
_BODY = b'{"customer": 1842, "digest": "a small export"}' * 2
_HERE = Path(sys.executable).parent
_PEER = "s5cmd rm"


def measure(objects: int, rounds: int) -> None:
    """Print the median of each contestant, and its ratio to that of s5cmd."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), objects)
        times: dict[str, list[float]] = {name: [] for name in bench.contestants}
        try:
            bench.upload()
            for number in range(1, rounds + 1):
                for name, delete in bench.contestants.items():
                    bench.restore("first")
                    times[name].append(delete())
                    bench.expect_empty()
                    say(f"round {number}/{rounds}  {name:<44}{times[name][-1]:7.2f} s")
        finally:
            bench.stop()
    peer = statistics.median(times[_PEER])
    print(f"\n{objects:,} objects, median of {rounds} interleaved rounds, one SeaweedFS")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(f"  {name:<46}{median:7.2f} s  {objects / median:>7,.0f}/s  {median / peer:5.2f}x")


class Bench:
    """The contestants, each a callable that deletes everything and returns its seconds.

    Uploading takes longer than deleting, so it happens twice in all: each contestant gets the
    same server, restarted on a copy of what it held after the upload.
    """

    versions: str | None = None

    def __init__(self, folder: Path, objects: int) -> None:
        self._store = store = Seaweed(folder / "server").start()
        self._folder = folder
        self._objects = objects
        self._environment = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": ADMIN.access_key_id,
            "AWS_SECRET_ACCESS_KEY": ADMIN.secret_access_key,
            "AWS_REGION": REGION,
            "RCLONE_S3_PROVIDER": "SeaweedFS",
            "RCLONE_S3_ENDPOINT": store.endpoint,
            "RCLONE_S3_ENV_AUTH": "true",
            "RCLONE_CONFIG": os.devnull,
        }
        self.contestants: dict[str, Callable[[], float]] = {
            _PEER: self._s5cmd,
            "rclone delete": self._rclone,
            "boto3 objects.filter().delete()": self._boto3,
            "bestbefore run, publishing while scanning": self._first_run,
            "bestbefore run, with caps": self._with_caps,
            "bestbefore run, second run of the policy": self._second_run,
            "bestbefore, every command looked at again": self._looked_at_again,
        }

    def upload(self) -> None:
        """Fill the bucket twice with the same keys, and keep what the server holds each time."""
        self._store.client().create_bucket(Bucket=BUCKET)
        write_files(self._folder / "files", self._objects)
        for name in ("first", "second"):
            self._s5cmd_copy()
            self._store.stop()
            shutil.copytree(self._folder / "server", self._folder / name)
            self._store.start()
        time.sleep(3)  # the policy's age; nothing is timed yet

    def restore(self, name: str) -> None:
        """Restart the server, at the same address, with what it held after that upload."""
        self._store.stop()
        shutil.rmtree(self._folder / "server")
        shutil.copytree(self._folder / name, self._folder / "server")
        self._store.start()

    def stop(self) -> None:
        self._store.stop()

    def expect_empty(self) -> None:
        """Nobody may claim what did not happen."""
        found = self._store.client().list_objects_v2(Bucket=BUCKET, Prefix=PREFIX, MaxKeys=1)
        assert found["KeyCount"] == 0, found["Contents"]

    def _s5cmd_copy(self) -> None:
        self._command(
            str(_HERE / "s5cmd"), "--endpoint-url", self._store.endpoint, "--numworkers", "32",
            "cp", f"{self._folder / 'files'}/*", f"s3://{BUCKET}/{PREFIX}",
        )  # fmt: skip

    def _s5cmd(self, *options: str) -> float:
        return self._command(
            str(_HERE / "s5cmd"), "--endpoint-url", self._store.endpoint, "rm", *options,
            f"s3://{BUCKET}/{PREFIX}*",
        )  # fmt: skip

    def _rclone(self) -> float:
        return self._command(str(_HERE / "rclone"), "delete", f":s3:{BUCKET}/{PREFIX}")

    def _boto3(self) -> float:
        code = (
            f"import boto3; boto3.resource('s3', endpoint_url={self._store.endpoint!r})"
            f".Bucket({BUCKET!r}).objects.filter(Prefix={PREFIX!r}).delete()"
        )
        return self._command(sys.executable, "-c", code)

    def _first_run(self) -> float:
        self._fresh_state("")
        return self._bestbefore("run", "bench", "--yes")

    def _with_caps(self) -> float:
        self._fresh_state(f"max_deletes = {self._objects}\nfirst_run_limit = {self._objects}")
        return self._bestbefore("run", "bench")

    def _second_run(self) -> float:
        self._fresh_state("")
        self._bestbefore("run", "bench", "--yes")
        self.restore("second")
        return self._bestbefore("run", "bench")

    def _looked_at_again(self) -> float:
        self._fresh_state("")
        planned = self._bestbefore("plan", "bench")
        with sqlite3.connect(self._folder / "state" / "bestbefore.db") as state:
            state.execute("UPDATE operations SET seen_at = seen_at - 600000000")
        state.close()
        return planned + self._bestbefore("work", "--drain")

    def _fresh_state(self, cap: str) -> None:
        shutil.rmtree(self._folder / "state", ignore_errors=True)
        (self._folder / "state").mkdir()
        (self._folder / "state" / "bestbefore.toml").write_text(f"""
[stores.store]
kind = "s3"
endpoint_url = {json.dumps(self._store.endpoint)}
region = "{REGION}"
access_key_id_env = "AWS_ACCESS_KEY_ID"
secret_access_key_env = "AWS_SECRET_ACCESS_KEY"
[policies.bench]
version = "v1"
older_than = "1s"
{cap}
[policies.bench.objects]
store = "store"
bucket = "{BUCKET}"
prefix = "{PREFIX}"
{f'versions = "{self.versions}"' if self.versions else ""}
""")

    def _bestbefore(self, *words: str) -> float:
        config = self._folder / "state" / "bestbefore.toml"
        return self._command(str(_HERE / "bestbefore"), *words, "--config", str(config), "--json")

    def _command(self, *words: str) -> float:
        began = time.perf_counter()
        done = subprocess.run(words, env=self._environment, capture_output=True, check=False)
        seconds = time.perf_counter() - began
        assert done.returncode == 0, _end(done)
        return seconds


def write_files(folder: Path, objects: int) -> None:
    for number in range(objects):
        generation = folder / f"2026-{number % 6 + 1:02}"
        generation.mkdir(parents=True, exist_ok=True)
        (generation / f"customer-{number:08}.json").write_bytes(_BODY)


def _end(done: subprocess.CompletedProcess[bytes]) -> Any:
    return (done.args, done.stdout[-2000:], done.stderr[-2000:])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
