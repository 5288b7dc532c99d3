"""Delete the same old files from the same folders, once each, in interleaved rounds."""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.rounds import BODY, Bestbefore, hold, timed

_OLD = 1_767_225_600
_FOLDERS = 50


def measure(files: int, rounds: int) -> None:
    """Print the median of each contestant, and its ratio to that of find."""
    with tempfile.TemporaryDirectory() as folder:
        title = f"{files:,} files in {_FOLDERS} folders"
        hold(_Deleting(Path(folder), files), rounds, title, files)
    print("  what limits: the ledger, and starting Python, which takes longer than find needs")


class _Deleting:
    """Everything goes."""

    def __init__(self, folder: Path, files: int) -> None:
        self._files = files
        self._bucket = folder / "data" / "exports"
        self._bestbefore = Bestbefore(folder / "state")
        self.contestants: dict[str, Callable[[], float]] = {
            "find -delete": self._find,
            "Python: os.walk, os.stat, os.unlink": self._python,
            "bestbefore run, publishing while scanning": self._first_run,
            "bestbefore run, with caps": self._with_caps,
            "bestbefore plan alone": self._plan,
        }

    def reset(self) -> None:
        """As many old files again, and the disk at rest."""
        for number in range(_FOLDERS):
            (self._bucket / f"2026-{number:02}").mkdir(parents=True, exist_ok=True)
        for number in range(self._files):
            name = self._bucket / f"2026-{number % _FOLDERS:02}" / f"customer-{number:08}.json"
            name.write_bytes(BODY)
            os.utime(name, (_OLD, _OLD))
        os.sync()

    def expect_done(self) -> None:
        """Nobody may claim what did not happen."""
        assert not any(files for _, _, files in os.walk(self._bucket))

    def _find(self) -> float:
        return timed("find", str(self._bucket), "-type", "f", "-mtime", "+30", "-delete")

    def _python(self) -> float:
        code = (
            "import os, sys, time\n"
            "for folder, _, names in os.walk(sys.argv[1]):\n"
            "    for name in names:\n"
            "        path = os.path.join(folder, name)\n"
            "        if os.stat(path).st_mtime < time.time() - 30 * 86400: os.unlink(path)\n"
        )
        return timed(sys.executable, "-c", code, str(self._bucket))

    def _first_run(self) -> float:
        self._begin("")
        return self._bestbefore("run", "bench", "--yes")

    def _with_caps(self) -> float:
        self._begin(f"max_deletes = {self._files}\nfirst_run_limit = {self._files}")
        return self._bestbefore("run", "bench")

    def _plan(self) -> float:
        self._begin("")
        seconds = self._bestbefore("plan", "bench", "--yes")
        self._bestbefore("work", "--drain")
        return seconds

    def _begin(self, cap: str) -> None:
        self._bestbefore.begin(f"""
[stores.store]
kind = "directory"
root = {json.dumps(str(self._bucket.parent))}
[policies.bench]
version = "v1"
older_than = "30d"
{cap}
[policies.bench.objects]
store = "store"
bucket = "exports"
whole_bucket = true
""")
