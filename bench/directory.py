"""Delete the same old files from the same folders, once each, in interleaved rounds."""

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

_BODY = b'{"customer": 1842, "digest": "a small export"}' * 2
_OLD = 1_767_225_600
_FOLDERS = 50
_PEER = "find -delete"
_HERE = Path(sys.executable).parent


def measure(files: int, rounds: int) -> None:
    """Print the median of each contestant, and its ratio to that of find."""
    with tempfile.TemporaryDirectory() as folder:
        bench = _Bench(Path(folder), files)
        times: dict[str, list[float]] = {name: [] for name in bench.contestants}
        for number in range(1, rounds + 1):
            for name, delete in bench.contestants.items():
                bench.fill()
                times[name].append(delete())
                bench.expect_empty()
                line = f"round {number}/{rounds}  {name:<44}{times[name][-1]:7.2f} s"
                print(line, file=sys.stderr, flush=True)
    peer = statistics.median(times[_PEER])
    print(f"\n{files:,} files in {_FOLDERS} folders, median of {rounds} interleaved rounds")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(f"  {name:<46}{median:7.2f} s  {files / median:>9,.0f}/s  {median / peer:7.2f}x")


class _Bench:
    """The contestants, each a callable that deletes everything and returns its seconds."""

    def __init__(self, folder: Path, files: int) -> None:
        self._folder = folder
        self._files = files
        self._bucket = folder / "data" / "exports"
        self.contestants: dict[str, Callable[[], float]] = {
            _PEER: self._find,
            "Python: os.walk, os.stat, os.unlink": self._python,
            "bestbefore run, publishing while scanning": self._first_run,
            "bestbefore run, with caps": self._with_caps,
            "bestbefore plan alone": self._plan,
        }

    def fill(self) -> None:
        """As many old files again, and the disk at rest."""
        for number in range(_FOLDERS):
            (self._bucket / f"2026-{number:02}").mkdir(parents=True, exist_ok=True)
        for number in range(self._files):
            name = self._bucket / f"2026-{number % _FOLDERS:02}" / f"customer-{number:08}.json"
            name.write_bytes(_BODY)
            os.utime(name, (_OLD, _OLD))
        os.sync()

    def expect_empty(self) -> None:
        """Nobody may claim what did not happen."""
        assert not any(files for _, _, files in os.walk(self._bucket))

    def _find(self) -> float:
        return _command("find", str(self._bucket), "-type", "f", "-mtime", "+30", "-delete")

    def _python(self) -> float:
        code = (
            "import os, sys, time\n"
            "for folder, _, names in os.walk(sys.argv[1]):\n"
            "    for name in names:\n"
            "        path = os.path.join(folder, name)\n"
            "        if os.stat(path).st_mtime < time.time() - 30 * 86400: os.unlink(path)\n"
        )
        return _command(sys.executable, "-c", code, str(self._bucket))

    def _first_run(self) -> float:
        self._fresh_state("")
        return self._bestbefore("run", "bench", "--yes")

    def _with_caps(self) -> float:
        self._fresh_state(f"max_deletes = {self._files}\nfirst_run_limit = {self._files}")
        return self._bestbefore("run", "bench")

    def _plan(self) -> float:
        self._fresh_state("")
        seconds = self._bestbefore("plan", "bench")
        self._bestbefore("work", "--drain")
        return seconds

    def _fresh_state(self, cap: str) -> None:
        shutil.rmtree(self._folder / "state", ignore_errors=True)
        (self._folder / "state").mkdir()
        (self._folder / "state" / "bestbefore.toml").write_text(f"""
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

    def _bestbefore(self, *words: str) -> float:
        config = self._folder / "state" / "bestbefore.toml"
        return _command(str(_HERE / "bestbefore"), *words, "--config", str(config), "--json")


def _command(*words: str) -> float:
    began = time.perf_counter()
    done = subprocess.run(words, capture_output=True, check=False)
    seconds = time.perf_counter() - began
    assert done.returncode == 0, (done.args, done.stdout[-2000:], done.stderr[-2000:])
    return seconds
