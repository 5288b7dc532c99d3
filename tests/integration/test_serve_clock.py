"""Two real `serve` processes on one PostgreSQL, killed and restarted over slot boundaries, on a
clock that is turned for both (by libfaketime)."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

import psycopg
import pytest

from support.forks import until

DAY = timedelta(days=1)
FIRST = datetime(2026, 7, 1, 2, tzinfo=UTC)
LAPSED = timedelta(seconds=90)
_LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
)


class Turned:
    """A clock that runs as the real one does, from an instant that is set for all processes."""

    def __init__(self, file: Path, library: str) -> None:
        self._file = file
        self._library = library
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def turn_to(self, moment: datetime) -> None:
        """Have every process believe that it is *moment*, from here on."""
        self.ahead = moment - datetime.now(UTC)
        new = self._file.with_suffix(".new")
        new.write_text(f"{self.ahead.total_seconds():+.3f}")
        new.replace(self._file)

    def environ(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": self._library,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


class Pair:
    """Two serving processes of one configuration."""

    def __init__(self, folder: Path, clock: Turned, dsn: str) -> None:
        self.clock = clock
        self._folder = folder
        self._dsn = dsn
        self.running: list[subprocess.Popen[str] | None] = [None, None]

    def start(self) -> None:
        """Have both run."""
        for place, process in enumerate(self.running):
            if process is None or process.poll() is not None:
                self.running[place] = self._begin()

    def kill(self, place: int) -> None:
        process = self.running[place]
        assert process is not None
        with process:  # closes what it was heard through
            process.kill()
        assert process.returncode == -signal.SIGKILL

    def stop(self) -> None:
        for process in self.running:
            if process is not None and process.poll() is None:
                process.terminate()
                assert process.wait(30) == 0, (self._folder / "log").read_text()

    def slots(self, where: str = "complete") -> list[datetime]:
        """The slots of the runs, oldest first."""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            rows = connection.execute(f"SELECT slot FROM runs WHERE {where} ORDER BY slot")  # noqa: S608
            return [datetime.fromtimestamp(row[0] / 1_000_000, UTC) for row in rows]

    def _begin(self) -> subprocess.Popen[str]:
        with (self._folder / "log").open("a") as log:
            process = self._spawn(log)
        assert process.stdout is not None
        said = ""
        while not said.endswith("}\n"):
            line = process.stdout.readline()
            assert line, (self._folder / "log").read_text()
            said += line
        return process

    def _spawn(self, log: TextIO) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                Path(sys.executable).with_name("bestbefore"), "serve", "--port", "0", "--json",
                "--config", self._folder / "bestbefore.toml",
            ],
            env=os.environ | self.clock.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )  # fmt: skip


@pytest.fixture
def pair(tmp_path: Path, ledger_url: str) -> Iterator[Pair]:
    library = next((place for place in _LIBRARIES if Path(place).exists()), None)
    if library is None:
        if os.environ.get("CI"):
            pytest.fail("libfaketime is missing: apt-get install faketime")
        pytest.skip("libfaketime is missing: apt-get install faketime")
    (tmp_path / "data" / "exports").mkdir(parents=True)
    (tmp_path / "bestbefore.toml").write_text(
        f"""
[state]
url = {json.dumps(ledger_url)}
[stores.disk]
kind = "directory"
root = "data"
[policies.exports]
version = "v1"
schedule = "0 2 * * *"
older_than = "30d"
[policies.exports.objects]
store = "disk"
bucket = "exports"
whole_bucket = true
"""
    )
    clock = Turned(tmp_path / "clock", library)
    clock.turn_to(FIRST - timedelta(hours=1))
    made = Pair(tmp_path, clock, ledger_url.replace("+psycopg", ""))
    try:
        yield made
    finally:
        for process in filter(None, made.running):
            with process:
                process.kill()  # which one that has ended does not feel


def _files(folder: Path, due: datetime, count: int) -> None:
    """Files that the slot *due*, and none before, selects."""
    written = (due - 30 * DAY).timestamp() - 3600
    for number in range(count):
        path = folder / "data" / "exports" / f"{due:%Y%m%d}-{number:02}"
        path.write_bytes(b"old")
        os.utime(path, (written, written))


def _left(folder: Path) -> int:
    return len(list((folder / "data" / "exports").iterdir()))


def test_two_servers_that_keep_dying_answer_each_slot_with_one_run(
    pair: Pair, tmp_path: Path
) -> None:
    """O-TICK-01, P5"""
    chance = random.Random(7)
    pair.start()
    expected = []
    for day in range(4):
        slot = FIRST + day * DAY
        _files(tmp_path, slot, 20)
        pair.clock.turn_to(slot - timedelta(seconds=0.5 + chance.random()))
        time.sleep(chance.random() * 2)  # killed somewhere around the slot
        for place in chance.sample((0, 1), chance.choice((1, 2))):
            pair.kill(place)
        pair.start()
        expected.append(slot)
        if pair.slots() != expected:
            pair.clock.turn_to(slot + LAPSED)  # whoever died may have held the plan
        # Or commands, which come back after a lease of a minute.
        until(lambda: pair.slots("state = 'drained'") == expected, 150, f"the run of {slot}")
        until(lambda: _left(tmp_path) == 0, 60, "files that are gone")
    pair.stop()

    assert pair.slots("true") == expected


def test_the_clock_jumps_over_three_slots_and_one_run_takes_what_they_left(
    pair: Pair, tmp_path: Path
) -> None:
    """O-TICK of the kind: the servers were down, or the machine slept."""
    pair.start()
    last = FIRST + 3 * DAY
    for day in range(4):
        _files(tmp_path, FIRST + day * DAY, 5)

    pair.clock.turn_to(last - timedelta(seconds=1))

    until(lambda: pair.slots("state = 'drained'") == [last], 60, f"the run of {last}")
    assert _left(tmp_path) == 0
    until(lambda: _missed(pair) == 3, 60, "three slots that are seen as missed")
    pair.stop()
    assert pair.slots("true") == [last]


def _missed(pair: Pair) -> int:
    with psycopg.connect(pair._dsn, autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM slots WHERE verdict = 'missed'").fetchone()
        assert row is not None
        return int(row[0])
