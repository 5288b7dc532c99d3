"""Interleaved rounds: everybody once in each, so that a slow minute of the machine hits all."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

BODY = b'{"customer": 1842, "digest": "a small export"}' * 2
HERE = Path(sys.executable).parent
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


class Contest(Protocol):
    """What is measured. ``contestants`` do the same and return their seconds; the first is what the
    others are held against."""

    contestants: dict[str, Callable[[], float]]

    def reset(self) -> None:
        """Put everything in place for the next contestant."""
        ...

    def expect_done(self) -> None:
        """Fail where a contestant claims what did not happen."""
        ...


def hold(contest: Contest, rounds: int, title: str, things: int) -> dict[str, float]:
    """Print the median of each contestant, and its ratio to that of the first. Returns them."""
    times: dict[str, list[float]] = {name: [] for name in contest.contestants}
    for number in range(1, rounds + 1):
        for name, run in contest.contestants.items():
            contest.reset()
            times[name].append(run())
            contest.expect_done()
            line = f"round {number}/{rounds}  {name:<44}{times[name][-1]:7.2f} s"
            print(line, file=sys.stderr, flush=True)
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    first = next(iter(medians.values()))
    print(f"\n{title}, median of {rounds} interleaved rounds")
    for name, median in medians.items():
        print(f"  {name:<46}{median:7.2f} s  {things / median:>9,.0f}/s  {median / first:7.2f}x")
    return medians


def timed(*words: str, env: Mapping[str, str] | None = None) -> float:
    """The seconds that a command takes, which has to succeed."""
    return answered(*words, env=env)[0]


def answered(*words: str, env: Mapping[str, str] | None = None) -> tuple[float, bytes]:
    """The seconds that a command takes, which has to succeed, and its standard output.

    Its modules stay compiled from one time to the next, as where it is installed.
    """
    env = {name: value for name, value in (env or os.environ).items() if name != _NO_BYTECODE}
    began = time.perf_counter()
    done = subprocess.run(words, env=env, capture_output=True, check=False)
    seconds = time.perf_counter() - began
    assert done.returncode == 0, (done.args, done.stdout[-2000:], done.stderr[-2000:])
    return seconds, done.stdout


class Bestbefore:
    """bestbefore with a configuration and a ledger of its own, in *folder*."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._env = env

    def begin(self, configuration: str) -> None:
        """Forget everything, and write *configuration*."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "bestbefore.toml").write_text(configuration)

    def command(self, *words: str) -> list[str]:
        config = str(self.folder / "bestbefore.toml")
        return [str(HERE / "bestbefore"), *words, "--config", config, "--json"]

    def __call__(self, *words: str) -> float:
        return timed(*self.command(*words), env=self._env)

    def answer(self, *words: str) -> tuple[float, Any]:
        """The seconds that a command takes, and the document that it prints."""
        seconds, printed = answered(*self.command(*words), env=self._env)
        return seconds, json.loads(printed)
