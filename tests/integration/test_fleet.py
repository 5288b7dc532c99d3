"""Two planners and eight workers on one PostgreSQL, as processes, killed at random."""

import random
import signal
import time
from pathlib import Path

import pytest

from support.faults import FaultyS3
from support.forks import Child, Forks, until
from support.postgresql import Postgres

from .test_kills import BUCKET, LAPSED, Arena

SLOTS = 3
KILLS_PER_SLOT = 8


@pytest.mark.parametrize("seed", [1, 2])
def test_planners_and_workers_that_keep_dying_answer_each_slot_once_and_finish(
    tmp_path: Path, forks: Forks, faulty: FaultyS3, ledger_url: str, seed: int
) -> None:
    """P3, P4, P5, P11"""
    arena = Arena(tmp_path, forks, faulty, ledger_url, seed, more={"schedule": "* * * * *"})
    chance = random.Random(seed)
    fleet: dict[int, Child] = {}
    programs = [("planner", "exports")] * 2 + [("worker", "4")] * 8
    for _ in range(SLOTS):
        arena.upload(60)
        killed = 0
        while killed < KILLS_PER_SLOT:
            for place, program in enumerate(programs):
                if place not in fleet or not fleet[place].running:
                    fleet[place] = arena.start(*program)
            _wait(arena, chance)
            for victim in chance.sample(list(fleet), 3):
                fleet[victim].kill()
                killed += fleet[victim].wait() == -signal.SIGKILL
            arena.check()
        survivor = arena.start("planner", "exports")
        assert survivor.wait() == 0, survivor.said()
        arena.clock.step(LAPSED)  # a minute later is another slot, and what was lost is due
    for child in fleet.values():
        child.kill(signal.SIGTERM)
        child.wait()

    arena.drain()
    planner = arena.start("planner", "exports")
    assert planner.wait() == 0, planner.said()
    arena.drain()
    if dead := arena.cli.json("dlq", "list"):
        # A command whose workers were killed three times is a person's business.
        assert {letter["failure_class"] for letter in dead} == {"crashed"}
        arena.cli.json("dlq", "redrive", "--all")
        arena.drain()
    arena.check()

    assert arena.due.keys() & arena.server.keys(BUCKET) == set(), "something is left"
    slots = [row["slot"] for row in arena.audit.rows("SELECT slot FROM runs")]
    assert len(slots) == len(set(slots)) >= SLOTS
    states = {row["state"] for row in arena.audit.rows("SELECT state FROM runs")}
    assert states == {"drained"}
    planned = arena.audit.one("SELECT sum(planned) FROM runs")
    assert planned == arena.audit.one("SELECT count(*) FROM operations") == len(arena.due)
    arena.clock.close()


def test_workers_go_on_when_every_connection_is_cut_again_and_again(
    tmp_path: Path, forks: Forks, faulty: FaultyS3, ledger_url: str, postgres: Postgres
) -> None:
    """P4: a restart of the server costs no attempt, no result and no worker."""
    arena = Arena(tmp_path, forks, faulty, ledger_url)
    arena.server.page_size = 1_000
    arena.upload(4_000)
    planner = arena.start("planner", "exports")
    assert planner.wait() == 0, planner.said()
    workers = [arena.start("worker", "2", "drain") for _ in range(3)]
    cut = 0

    def cut_somebody() -> bool:
        nonlocal cut
        ended = postgres.end_sessions()
        cut += ended
        return ended > 0 or not any(worker.running for worker in workers)

    for n in range(1, 11):
        until(
            lambda n=n: (
                len(arena.server.asked("DeleteObjects")) >= n
                or not any(worker.running for worker in workers)
            ),
            what="the next request",
        )
        until(cut_somebody, what="a session")
    # What was claimed when the answer was lost is nobody's until its lease ends.
    arena.clock.step(LAPSED)

    assert [worker.wait() for worker in workers] == [0, 0, 0], [w.said() for w in workers]

    assert cut > 3
    arena.drain()
    arena.check()
    assert not arena.due.keys() & arena.server.keys(BUCKET)
    assert arena.audit.one("SELECT count(*) FROM failures") == 0
    arena.clock.close()


def _wait(arena: Arena, chance: random.Random) -> None:
    """A random while, measured in requests, so that a busy machine gets further than the start."""
    wanted = len(arena.server.requests) + chance.choice((0, 1, 3, 8, 13))
    gives_up = time.monotonic() + 0.5
    until(lambda: len(arena.server.requests) >= wanted or time.monotonic() > gives_up)
