"""Delete the same objects from the same SeaweedFS, once each, in interleaved rounds."""

import sqlite3
import sys
import tempfile
from pathlib import Path

from bench.rounds import HERE, hold
from bench.seaweed import BUCKET, PREFIX, OnSeaweed


def measure(objects: int, rounds: int) -> None:
    """Print the median of each contestant, and its ratio to that of s5cmd."""
    with tempfile.TemporaryDirectory() as folder:
        contest = _Deleting(Path(folder), objects)
        try:
            contest.upload()
            hold(contest, rounds, f"{objects:,} objects on one SeaweedFS", objects)
        finally:
            contest.stop()


class _Deleting(OnSeaweed):
    """Everything under the prefix goes."""

    def __init__(self, folder: Path, objects: int) -> None:
        super().__init__(folder, objects)
        self.contestants = {
            "s5cmd rm": self._s5cmd,
            "rclone delete": self._rclone,
            "boto3 objects.filter().delete()": self._boto3,
            "bestbefore run, publishing while scanning": self._first_run,
            "bestbefore run, with caps": self._with_caps,
            "bestbefore run, second run of the policy": self._second_run,
            "bestbefore, every command looked at again": self._looked_at_again,
        }

    def upload(self) -> None:
        """Twice the same keys, as the second run of a policy must find other objects."""
        super().upload()
        self.copy_in()
        self.keep("second")

    def _s5cmd(self) -> float:
        return self.s5cmd("rm", f"s3://{BUCKET}/{PREFIX}*")

    def _rclone(self) -> float:
        return self.timed(str(HERE / "rclone"), "delete", f":s3:{BUCKET}/{PREFIX}")

    def _boto3(self) -> float:
        code = (
            f"import boto3; boto3.resource('s3', endpoint_url={self.store.endpoint!r})"
            f".Bucket({BUCKET!r}).objects.filter(Prefix={PREFIX!r}).delete()"
        )
        return self.timed(sys.executable, "-c", code)

    def _first_run(self) -> float:
        self.begin()
        return self.bestbefore("run", "bench", "--yes")

    def _with_caps(self) -> float:
        self.begin(f"max_deletes = {self.objects}\nfirst_run_limit = {self.objects}")
        return self.bestbefore("run", "bench")

    def _second_run(self) -> float:
        self._first_run()
        self.restore("second")
        return self.bestbefore("run", "bench")

    def _looked_at_again(self) -> float:
        self.begin()
        planned = self.bestbefore("plan", "bench", "--yes")
        with sqlite3.connect(self.bestbefore.folder / "bestbefore.db") as state:
            state.execute("UPDATE operations SET seen_at = seen_at - 600000000")
        state.close()
        return planned + self.bestbefore("work", "--drain")
