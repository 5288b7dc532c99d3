"""`kill -9` of planners and workers over a bucket that keeps versions.

As in `test_kills`, with another promise: at no moment does a key that readers saw as deleted, or
as what it is now, show something older. The server notices that at each removal.
"""

import random
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from support.cli import Cli
from support.faults import OLD
from support.forks import Child, Forks
from support.harness import SharedClock
from support.kills import LAPSED, random_instant
from support.stacks import Lock, VersionedS3

BUCKET = "exports"
KILLS = 20
PROGRAMS = ("planner", "worker", "worker", "both")

WORLDS = [(seed, mode) for seed, mode in enumerate(("purge", "purge", "noncurrent", "marker"), 1)]


class Stacks:
    """A versioned bucket with a model of what may go, a ledger, and processes that get killed."""

    def __init__(self, folder: Path, forks: Forks, server: VersionedS3, seed: int, mode: str):
        self.random = random.Random(seed)
        self.forks = forks
        self.server = server
        self.mode = mode
        self.folder = folder
        self.clock = SharedClock(folder / "clock")
        server.page_size = 7
        server.apart = bool(seed % 2)
        server.date = self.clock.now
        server.buckets.add(BUCKET)
        self.cli = Cli(folder, forks, server.endpoint)
        self.cli.policy("exports", versions=mode)
        self.audit = self.cli.audit
        self.cli("status")  # makes the schema
        self.audit.watch()
        self.due: set[tuple[str, str]] = set()
        self.safe: set[tuple[str, str]] = set()
        self._numbers = 0

    def fill(self, keys: int) -> None:
        """Keys with one to nine entries: some hidden, some with a new version on top."""
        for _ in range(keys):
            self._numbers += 1
            key = f"exports/{self._numbers:04}.json"
            n = self.random.choice((1, 1, 2, 3, 9))
            ids = [self._put(key, OLD + timedelta(hours=hour)) for hour in range(n)]
            hidden = self.random.random() < 0.4
            if hidden:
                ids.append(self.server.hide(BUCKET, key, OLD + timedelta(hours=n)))
            fresh = not hidden and self.random.random() < 0.3
            newest = self._put(key, self.clock.now()) if fresh else ids[-1]
            self._expect(key, ids, newest, hidden=hidden, fresh=fresh)
            if self.mode == "purge" and self.random.random() < 0.15:
                until_ = self.clock.now() + timedelta(minutes=self.random.randint(1, 5))
                self.server.lock(BUCKET, key, ids[0], Lock(until_))

    def _put(self, key: str, modified: datetime) -> str:
        self.server.put(BUCKET, key, f"{key} {modified}".encode(), modified)
        return self.server.newest(BUCKET, key)

    def _expect(self, key: str, ids: list[str], newest: str, *, hidden: bool, fresh: bool) -> None:
        if self.mode == "purge":
            self.due |= {(key, id_) for id_ in ids}
            self.safe |= {(key, newest)} if fresh else set()
        elif self.mode == "noncurrent":
            # Under a fresh one the last of the old was current until now.
            gone = ids[:-1]
            self.due |= {(key, id_) for id_ in gone}
            self.safe |= {(key, newest)} if fresh or not hidden else set()
            self.safe |= {(key, ids[-1])} if fresh else set()
        else:
            self.safe |= {(key, id_) for id_ in (*ids, newest)}

    def start(self, program: str, *arguments: str) -> Child:
        return self.forks.start(f"support.harness:{program}", arguments, cwd=self.folder)

    def drain(self) -> None:
        self.clock.step(LAPSED)
        child = self.start("worker", "4", "drain")
        assert child.wait(120) == 0, child.said()

    def check(self) -> None:
        """What has to hold at any moment."""
        assert self.server.resurrected == []
        assert self.audit.problems() == []
        assert self.audit.completed_twice() == []
        assert self.safe - self.server.entries(BUCKET) == set()
        if self.mode == "marker":
            assert self.server.removals == []
            for (_, key), stack in self.server.stacks.items():
                markers = sum(entry.stored is None for entry in stack)
                assert markers <= 1, f"{markers} markers on {key}"


@pytest.fixture
def stacks(
    tmp_path: Path, forks: Forks, stacked: VersionedS3, request: pytest.FixtureRequest
) -> Iterator[Stacks]:
    seed, mode = request.param
    made = Stacks(tmp_path, forks, stacked, seed, mode)
    yield made
    made.clock.close()


@pytest.mark.parametrize(
    "stacks", WORLDS, indirect=True, ids=[f"seed {seed}, {mode}" for seed, mode in WORLDS]
)
def test_kills_at_random_instants_bring_nothing_back_and_lose_nothing(stacks: Stacks) -> None:
    chance, killed, rounds = stacks.random, 0, 0
    stacks.fill(15)
    while killed < KILLS:
        rounds += 1
        assert rounds < 8 * KILLS, f"only {killed} processes lived long enough to be killed"
        stacks.fill(chance.randint(1, 2))
        program = chance.choice(PROGRAMS)
        children = []
        if program != "worker":
            children.append(stacks.start("planner", "exports", *chance.choice(((), ("new",)))))
        if program != "planner":
            children.append(stacks.start("worker", str(chance.choice((1, 4, 16)))))
        random_instant(chance, stacks.server, children, (0, 1, 2, 3, 5, 8, 13))
        for child in children:
            child.kill()
        killed += sum(child.wait() == -signal.SIGKILL for child in children)
        stacks.check()
        if chance.random() < 0.8:
            stacks.clock.step(LAPSED)
    stacks.clock.step(timedelta(minutes=6))  # every lock has ended
    for _ in range(2):
        stacks.drain()
        planner = stacks.start("planner", "exports", "new")
        assert planner.wait() == 0, planner.said()
    stacks.drain()
    stacks.check()
    dead = stacks.cli.json("dlq", "list")
    assert {letter["failure_class"] for letter in dead} <= {"crashed"}, dead
    if dead:
        stacks.cli.json("dlq", "redrive", "--class", "crashed")
        stacks.drain()
        stacks.check()
    assert stacks.due & stacks.server.entries(BUCKET) == set()
    assert stacks.audit.one("SELECT count(*) FROM operations WHERE state <> 'completed'") == 0
    states = stacks.audit.rows("SELECT DISTINCT state FROM runs")
    assert {row["state"] for row in states} == {"drained"}
