"""Move the same objects into another bucket of the same SeaweedFS, in interleaved rounds.

Nothing passes through this machine: everybody asks the server to copy, and deletes afterwards.
Only bestbefore looks at each copy before it deletes the original, and keeps a ledger.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bestbefore.adapters.objects.s3.seaweed import ADMIN, REGION, Seaweed

_FROM, _TO, _PREFIX = "weekly-digests", "archive", "exports/"
_BODY = b'{"customer": 1842, "digest": "a small export"}' * 2
_HERE = Path(sys.executable).parent
_PEER = "s5cmd mv"


def measure(objects: int, rounds: int) -> None:
    """Print the median of each contestant, and its ratio to that of s5cmd."""
    with tempfile.TemporaryDirectory() as folder:
        bench = _Bench(Path(folder), objects)
        times: dict[str, list[float]] = {name: [] for name in bench.contestants}
        try:
            bench.upload()
            for number in range(1, rounds + 1):
                for name, move in bench.contestants.items():
                    bench.reset()
                    times[name].append(move())
                    bench.expect_moved()
                    _say(f"round {number}/{rounds}  {name:<34}{times[name][-1]:7.2f} s")
        finally:
            bench.stop()
    peer = statistics.median(times[_PEER])
    print(f"\n{objects:,} objects archived, median of {rounds} interleaved rounds, one SeaweedFS")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(f"  {name:<36}{median:7.2f} s  {objects / median:>7,.0f}/s  {median / peer:5.2f}x")
    print("  what limits: two requests per object (copy, look), and the server's own copying")


class _Bench:
    """The contestants, each a callable that moves everything and returns its seconds.

    Each gets the same server, restarted on a copy of what it held after the only upload.
    """

    def __init__(self, folder: Path, objects: int) -> None:
        self._store = Seaweed(folder / "server").start()
        self._folder = folder
        self._objects = objects
        self._environment = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": ADMIN.access_key_id,
            "AWS_SECRET_ACCESS_KEY": ADMIN.secret_access_key,
            "AWS_REGION": REGION,
            "RCLONE_S3_PROVIDER": "SeaweedFS",
            "RCLONE_S3_ENDPOINT": self._store.endpoint,
            "RCLONE_S3_ENV_AUTH": "true",
            "RCLONE_CONFIG": os.devnull,
        }
        self.contestants: dict[str, Callable[[], float]] = {
            _PEER: self._s5cmd,
            "rclone move": self._rclone,
            "bestbefore run, action archive": self._bestbefore,
        }

    def upload(self) -> None:
        for bucket in (_FROM, _TO):
            self._store.client().create_bucket(Bucket=bucket)
        files = self._folder / "files"
        for number in range(self._objects):
            generation = files / f"2026-{number % 6 + 1:02}"
            generation.mkdir(parents=True, exist_ok=True)
            (generation / f"customer-{number:08}.json").write_bytes(_BODY)
        self._command(
            str(_HERE / "s5cmd"), "--endpoint-url", self._store.endpoint, "--numworkers", "32",
            "cp", f"{files}/*", f"s3://{_FROM}/{_PREFIX}",
        )  # fmt: skip
        self._store.stop()
        shutil.copytree(self._folder / "server", self._folder / "full")
        self._store.start()
        time.sleep(3)  # the policy's age; nothing is timed yet

    def reset(self) -> None:
        """Restart the server, at the same address, with what it held after the upload."""
        self._store.stop()
        shutil.rmtree(self._folder / "server")
        shutil.copytree(self._folder / "full", self._folder / "server")
        self._store.start()

    def stop(self) -> None:
        self._store.stop()

    def expect_moved(self) -> None:
        """Nobody may claim what did not happen."""
        client = self._store.client()
        assert client.list_objects_v2(Bucket=_FROM, MaxKeys=1)["KeyCount"] == 0
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=_TO)
        found = sum(page["KeyCount"] for page in pages)
        assert found == self._objects, found

    def _s5cmd(self) -> float:
        return self._command(
            str(_HERE / "s5cmd"), "--endpoint-url", self._store.endpoint, "mv",
            f"s3://{_FROM}/{_PREFIX}*", f"s3://{_TO}/digests/",
        )  # fmt: skip

    def _rclone(self) -> float:
        return self._command(
            str(_HERE / "rclone"), "move", f":s3:{_FROM}/{_PREFIX}", f":s3:{_TO}/digests/"
        )

    def _bestbefore(self) -> float:
        state = self._folder / "state"
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir()
        config = state / "bestbefore.toml"
        config.write_text(f"""
[stores.store]
kind = "s3"
endpoint_url = {json.dumps(self._store.endpoint)}
region = "{REGION}"
access_key_id_env = "AWS_ACCESS_KEY_ID"
secret_access_key_env = "AWS_SECRET_ACCESS_KEY"
[policies.bench]
version = "v1"
older_than = "1s"
action = "archive"
archive = {{ store = "store", bucket = "{_TO}", prefix = "digests/" }}
objects = {{ store = "store", bucket = "{_FROM}", prefix = "{_PREFIX}" }}
""")
        return self._command(
            str(_HERE / "bestbefore"), "run", "bench", "--yes", "--config", str(config), "--json"
        )

    def _command(self, *words: str) -> float:
        began = time.perf_counter()
        done = subprocess.run(words, env=self._environment, capture_output=True, check=False)
        seconds = time.perf_counter() - began
        assert done.returncode == 0, _end(done)
        return seconds


def _end(done: subprocess.CompletedProcess[bytes]) -> Any:
    return (done.args, done.stdout[-2000:], done.stderr[-2000:])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
