"""One SeaweedFS for all contestants, and a bucket that is full again for each of them."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from bench.rounds import BODY, HERE, Bestbefore, timed
from bestbefore.adapters.objects.s3.seaweed import ADMIN, REGION, Seaweed

BUCKET, PREFIX = "weekly-digests", "exports/"
_FULL = "full"


class OnSeaweed:
    """A contest on a server in *folder*.

    Uploading takes longer than deleting, so each contestant gets the same server, restarted on a
    copy of what it held after an upload.
    """

    contestants: dict[str, Callable[[], float]]

    def __init__(self, folder: Path, objects: int) -> None:
        self.store = Seaweed(folder / "server").start()
        self.environment = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": ADMIN.access_key_id,
            "AWS_SECRET_ACCESS_KEY": ADMIN.secret_access_key,
            "AWS_REGION": REGION,
            "RCLONE_S3_PROVIDER": "SeaweedFS",
            "RCLONE_S3_ENDPOINT": self.store.endpoint,
            "RCLONE_S3_ENV_AUTH": "true",
            "RCLONE_CONFIG": os.devnull,
        }
        self.objects = objects
        self.bestbefore = Bestbefore(folder / "state", self.environment)
        self._folder = folder

    def upload(self) -> None:
        """Fill the bucket, and keep what the server holds."""
        self.store.client().create_bucket(Bucket=BUCKET)
        self.write_files()
        self.copy_in()
        self.keep(_FULL)

    def write_files(self) -> None:
        """What `copy_in` uploads, in six folders."""
        for number in range(self.objects):
            generation = self._folder / "files" / f"2026-{number % 6 + 1:02}"
            generation.mkdir(parents=True, exist_ok=True)
            (generation / f"customer-{number:08}.json").write_bytes(BODY)

    def copy_in(self) -> None:
        """Upload every file, over what is there."""
        self.s5cmd("--numworkers", "32", "cp", f"{self._folder / 'files'}/*",
                   f"s3://{BUCKET}/{PREFIX}")  # fmt: skip

    def keep(self, name: str = _FULL) -> None:
        """Keep what the server holds, to be restored; it is old enough for the policy then."""
        self.store.stop()
        shutil.copytree(self._folder / "server", self._folder / name)
        self.store.start()
        time.sleep(3)  # the policy's age; nothing is timed yet

    def restore(self, name: str) -> None:
        """Restart the server, at the same address, with what it held when that was kept."""
        self.store.stop()
        shutil.rmtree(self._folder / "server")
        shutil.copytree(self._folder / name, self._folder / "server")
        self.store.start()

    def reset(self) -> None:
        self.restore(_FULL)

    def expect_done(self) -> None:
        """Nobody may claim what did not happen."""
        found = self.store.client().list_objects_v2(Bucket=BUCKET, Prefix=PREFIX, MaxKeys=1)
        assert found["KeyCount"] == 0, found["Contents"]

    def stop(self) -> None:
        self.store.stop()

    def s5cmd(self, *words: str) -> float:
        return self.timed(str(HERE / "s5cmd"), "--endpoint-url", self.store.endpoint, *words)

    def timed(self, *words: str) -> float:
        return timed(*words, env=self.environment)

    def begin(self, policy: str = "", objects: str = "") -> None:
        """A new ledger, and a policy about the bucket with these lines more."""
        self.bestbefore.begin(f"""
[stores.store]
kind = "s3"
endpoint_url = {json.dumps(self.store.endpoint)}
region = "{REGION}"
access_key_id_env = "AWS_ACCESS_KEY_ID"
secret_access_key_env = "AWS_SECRET_ACCESS_KEY"
[policies.bench]
version = "v1"
older_than = "1s"
{policy}
[policies.bench.objects]
store = "store"
bucket = "{BUCKET}"
prefix = "{PREFIX}"
{objects}
""")
