"""Move the same objects into another bucket of the same SeaweedFS, in interleaved rounds.

Nothing passes through this machine: everybody asks the server to copy, and deletes afterwards.
Only bestbefore looks at each copy before it deletes the original, and keeps a ledger.
"""

import tempfile
from pathlib import Path

from bench.rounds import HERE, hold
from bench.seaweed import BUCKET, PREFIX, OnSeaweed

_TO, _UNDER = "archive", "digests/"


def measure(objects: int, rounds: int) -> None:
    """Print the median of each contestant, and its ratio to that of s5cmd."""
    with tempfile.TemporaryDirectory() as folder:
        contest = _Moving(Path(folder), objects)
        try:
            contest.upload()
            hold(contest, rounds, f"{objects:,} objects archived on one SeaweedFS", objects)
        finally:
            contest.stop()
    print("  what limits: two requests per object (copy, look), 1.8 ms of Python's time each")


class _Moving(OnSeaweed):
    """Everything moves."""

    def __init__(self, folder: Path, objects: int) -> None:
        super().__init__(folder, objects)
        self.contestants = {
            "s5cmd mv": self._s5cmd,
            "rclone move": self._rclone,
            "bestbefore run, action archive": self._run,
        }

    def upload(self) -> None:
        self.store.client().create_bucket(Bucket=_TO)
        super().upload()

    def expect_done(self) -> None:
        super().expect_done()
        pages = self.store.client().get_paginator("list_objects_v2").paginate(Bucket=_TO)
        found = sum(page["KeyCount"] for page in pages)
        assert found == self.objects, found

    def _s5cmd(self) -> float:
        return self.s5cmd("mv", f"s3://{BUCKET}/{PREFIX}*", f"s3://{_TO}/{_UNDER}")

    def _rclone(self) -> float:
        return self.timed(
            str(HERE / "rclone"), "move", f":s3:{BUCKET}/{PREFIX}", f":s3:{_TO}/{_UNDER}"
        )

    def _run(self) -> float:
        archive = f'{{ store = "store", bucket = "{_TO}", prefix = "{_UNDER}" }}'
        self.begin(f'action = "archive"\narchive = {archive}')
        return self.bestbefore("run", "bench", "--yes")
