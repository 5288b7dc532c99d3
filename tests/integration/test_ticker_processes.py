"""Two tickers as processes on one PostgreSQL, killed and restarted over slot boundaries."""

import random
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.faults import FaultyS3
from support.forks import Child, Forks, until
from support.kills import LAPSED, held
from support.postgresql import Postgres

from .test_kills import Arena

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


class Tickers:
    """Two of them over an `Arena` whose policy is due by the hour.

    Its schedule is known: the arena has asked for the status.
    """

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.running: list[Child | None] = [None, None]

    def start(self, *places: int) -> None:
        """Have both run, or those at *places*."""
        for place in places or (0, 1):
            child = self.running[place]
            if child is None or not child.running:
                self.running[place] = child = self.arena.start("schedule")
                until(
                    lambda child=child: child.out.exists() and child.out.read_text(), what="ready"
                )

    def kill(self, place: int) -> None:
        child = self.running[place]
        assert child is not None
        child.kill()
        assert child.wait() == -signal.SIGKILL, child.said()

    def stop(self) -> None:
        for child in self.running:
            assert child is not None
            child.kill(signal.SIGTERM)
            assert child.wait() == 0, child.said()

    def slots(self) -> list[int]:
        """The slots of all runs whose scan has ended, in seconds, oldest first."""
        found = self.arena.audit.rows("SELECT slot FROM runs WHERE complete ORDER BY slot")
        return [row["slot"] // 1_000_000 for row in found]

    def step_to_next(self, every: timedelta, before: timedelta = timedelta(0)) -> int:
        """Turn the clock to *before* the next slot; returns that slot."""
        now = self.arena.clock.now().timestamp()
        slot = int(now // every.total_seconds() + 1) * int(every.total_seconds())
        there = datetime.fromtimestamp(slot, UTC) - before
        self.arena.clock.step(there - self.arena.clock.now())
        return slot


@pytest.fixture
def tickers(tmp_path: Path, forks: Forks, faulty: FaultyS3, ledger_url: str) -> Tickers:
    arena = Arena(tmp_path, forks, faulty, ledger_url, more={"schedule": "0 * * * *"})
    return Tickers(arena)


def test_two_tickers_that_keep_dying_answer_each_slot_with_one_run(tickers: Tickers) -> None:
    """O-TICK-01, P5: ten slots; at each of them one or both are killed and started again."""
    chance = random.Random(5)
    arena = tickers.arena
    arena.upload(20)
    tickers.start()
    expected = []
    for _ in range(10):
        requests = len(arena.server.requests)
        expected.append(tickers.step_to_next(HOUR, before=timedelta(seconds=chance.random())))
        if chance.random() < 0.7:  # amid the plan, else about when it begins
            until(lambda seen=requests: len(arena.server.requests) > seen)
        for place in chance.sample((0, 1), chance.choice((1, 2))):
            tickers.kill(place)
        tickers.start()
        if tickers.slots() != expected:
            arena.clock.step(LAPSED)  # within the grace; whoever died held the plan
        until(lambda: tickers.slots() == expected, what=f"the run of slot {expected[-1]}")
        arena.check()
    tickers.stop()

    assert tickers.slots() == expected
    assert arena.audit.one("SELECT count(*) FROM runs") == len(expected)
    assert {row["trigger"] for row in arena.audit.rows("SELECT trigger FROM runs")} == {"schedule"}
    assert arena.audit.rows("SELECT * FROM slots WHERE verdict IS NOT NULL") == []
    arena.clock.close()


def test_a_planner_that_dies_is_taken_over_by_the_other_ticker(tickers: Tickers) -> None:
    """O-TICK-01: the claimer dies between claim and publish."""
    arena = tickers.arena
    arena.upload(3)
    tickers.start(0)
    with held(arena.server, "ListObjectsV2") as come:
        slot = tickers.step_to_next(HOUR)
        assert come.wait(30)
        tickers.start()
        tickers.kill(0)
    assert tickers.slots() == []
    tickers.start()

    arena.clock.step(LAPSED)
    until(lambda: tickers.slots() == [slot])
    tickers.stop()

    assert arena.audit.one("SELECT planned FROM runs") == len(arena.due)
    arena.clock.close()


def test_tickers_go_on_when_their_database_was_away(tickers: Tickers, postgres: Postgres) -> None:
    arena = tickers.arena
    tickers.start()
    assert postgres.end_sessions() > 0
    slot = tickers.step_to_next(HOUR)
    postgres.end_sessions()

    arena.clock.step(LAPSED)  # who was cut off amid a plan could not even give it up
    until(lambda: tickers.slots() == [slot])
    tickers.stop()
    arena.clock.close()
