"""`kill -9` of planners and workers: counts reconcile, nothing eligible is lost, nothing else goes.

The store is the fault server in this process, the ledger real SQLite or PostgreSQL, planner and
worker are real processes (`support.harness`) that a SIGKILL ends wherever they are. `Arena` holds
the model.
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.cli import Cli
from support.faults import OLD, FaultyS3, Stored
from support.forks import Child, Forks, until
from support.harness import SharedClock
from support.kills import LAPSED, held, random_instant, stop

BUCKET = "exports"
KILLS = {"sqlite": 50, "postgresql": 20}
"""In each of the worlds below."""

KINDS = {
    "page by page": {},
    "decided at the end": {"more": {"max_deletes": 1_000_000}},
    "keeping a generation": {
        "generation": r"exports/(?P<generation>\d{4}-\d{2})/",
        "keep_generations": 1,
    },
}


class Arena:
    """A bucket with a model of what may go, a ledger, and processes that get killed."""

    def __init__(
        self,
        folder: Path,
        forks: Forks,
        faulty: FaultyS3,
        state: str | None = None,
        seed: int = 0,
        kind: str = "page by page",
        **more: Any,
    ) -> None:
        self.random = random.Random(seed)
        self.forks = forks
        self.server = faulty
        self.kind = kind
        self.folder = folder
        self.clock = SharedClock(folder / "clock")
        faulty.page_size = 7
        faulty.date = self.clock.now
        self.cli = Cli(folder, forks, faulty.endpoint, state=state)
        self.cli.policy("exports", **KINDS[kind], **more)
        self.audit = self.cli.audit
        self.cli("status")  # makes the schema
        self.audit.watch()
        self.due: dict[str, Stored] = {}
        self.safe: dict[str, Stored] = {}
        self.taken: set[str] = set()
        self._numbers = 0
        faulty.buckets.add(BUCKET)

    def upload(self, n: int) -> None:
        """*n* objects that are due, and as many of each sort that has to stay."""
        for _ in range(n):
            self._numbers += 1
            month = self.random.randint(1, 5)
            key = f"exports/2026-{month:02}/{self._numbers:05} ü+%41.json"
            self.due[key] = self.server.put(BUCKET, key, key.encode(), OLD)
        young = f"exports/2026-12/{self._numbers:05}.json"
        outside = f"exports-{self._numbers}/2026-01/a.json"
        self.safe[young] = self.server.put(BUCKET, young, b"young", self.clock.now())
        self.safe[outside] = self.server.put(BUCKET, outside, b"outside", OLD)
        if "generation" in self.kind:
            kept = f"exports/2026-12/{self._numbers:05}-old.json"
            self.safe[kept] = self.server.put(BUCKET, kept, b"kept", OLD)

    def disturb(self) -> None:
        """Somebody else overwrites one object that is due, and removes another."""
        there = sorted(self.due.keys() & self.server.keys(BUCKET))
        if len(there) < 2 or "generation" in self.kind:
            return
        overwritten, removed = self.random.sample(there, 2)
        del self.due[overwritten]
        again = self.server.put(BUCKET, overwritten, b"rewritten", self.clock.now())
        self.safe[overwritten] = again
        self.server.objects.pop((BUCKET, removed), None)

    def start(self, program: str, *arguments: str) -> Child:
        return self.forks.start(f"support.harness:{program}", arguments, cwd=self.folder)

    def has_planned(self, _request: object = None) -> bool:
        """Whether the first page of any plan is written."""
        return bool(self.audit.one("SELECT coalesce(max(planned), 0) FROM runs"))

    def drain(self) -> None:
        """One worker that nobody disturbs, until nothing is left to do."""
        self.clock.step(LAPSED)
        child = self.start("worker", "4", "drain")
        assert child.wait(120) == 0, child.said()

    def check(self) -> None:
        """What has to hold at any moment."""
        assert self.audit.problems() == []
        assert self.audit.completed_twice() == []
        for key, stored in self.safe.items():
            found = self.server.objects.get((BUCKET, key))
            assert found == stored, f"{key!r} had to stay, and is {found}"
        lost = [
            row["key"]
            for row in self.audit.rows(
                "SELECT key FROM operations WHERE state = 'completed' AND outcome = 'deleted'"
            )
            if self.server.objects.get((BUCKET, row["key"])) == self.due.get(row["key"], 0)
        ]
        assert not lost, f"recorded as deleted, yet still there: {lost}"


@pytest.fixture
def arena(
    tmp_path: Path,
    forks: Forks,
    faulty: FaultyS3,
    state: str | None,
    request: pytest.FixtureRequest,
) -> Iterator[Arena]:
    made = Arena(tmp_path, forks, faulty, state, *getattr(request, "param", ()))
    yield made
    made.clock.close()


WORLDS = [
    (state, (seed, list(KINDS)[seed % 3]))
    for state, worlds in (("sqlite", 10), ("postgresql", 3))
    for seed in range(1, worlds + 1)
]


@pytest.mark.parametrize(
    ("state", "arena"),
    WORLDS,
    indirect=True,
    ids=[f"{state}, seed {seed}, {kind}" for state, (seed, kind) in WORLDS],
)
def test_kills_at_random_instants_lose_nothing_and_take_nothing_else(arena: Arena) -> None:
    chance, killed, rounds = arena.random, 0, 0
    kills = KILLS["postgresql" if arena.cli.state else "sqlite"]
    arena.upload(30)
    while killed < kills:
        rounds += 1
        assert rounds < 6 * kills, f"only {killed} processes lived long enough to be killed"
        arena.upload(chance.randint(1, 4))
        if chance.random() < 0.2:
            arena.disturb()
        worker = ("worker", str(chance.choice((1, 4, 16))))
        planner = ("planner", "exports", *chance.choice(((), ("new",))))
        programs = chance.choice(
            ([planner], [planner], [worker], [worker], [worker, planner], [worker, worker])
        )
        children = [arena.start(*program) for program in programs]
        random_instant(chance, arena.server, children, (0, 1, 1, 2, 3, 5, 8, 13))
        chance.shuffle(children)
        for child in children:
            child.kill()
        killed += sum(child.wait() == -signal.SIGKILL for child in children)
        arena.check()
        if chance.random() < 0.8:
            arena.clock.step(LAPSED)
    arena.drain()
    planner_ended = arena.start("planner", "exports", "new")
    assert planner_ended.wait() == 0, planner_ended.said()
    arena.drain()
    arena.check()

    dead = arena.cli.json("dlq", "list")
    # Three of its deliveries died with their workers: it is a person's turn, and here it is ours.
    assert {letter["failure_class"] for letter in dead} <= {"crashed"}, dead
    assert len(dead) <= killed // 3
    if dead:
        assert arena.cli.json("dlq", "redrive", "--class", "crashed")["redriven"] == len(dead)
        arena.drain()
        arena.check()
    assert arena.due.keys() & arena.server.keys(BUCKET) == set()
    assert arena.audit.one("SELECT count(*) FROM operations WHERE state <> 'completed'") == 0
    states = arena.audit.rows("SELECT DISTINCT state FROM runs")
    assert {row["state"] for row in states} == {"drained"}
    completed = {row["key"] for row in arena.audit.rows("SELECT key FROM operations")}
    assert arena.due.keys() - completed <= {
        key for key in arena.due if (BUCKET, key) not in arena.server.objects
    }


def _planned(arena: Arena, n: int = 20) -> None:
    arena.upload(n)
    child = arena.start("planner", "exports")
    assert child.wait() == 0, child.said()


def test_a_worker_killed_between_the_effect_and_its_record_repeats_a_safe_delete(
    arena: Arena,
) -> None:
    _planned(arena)
    with held(arena.server, "DeleteObjects") as come:
        child = arena.start("worker", "1")
        assert come.wait(30)
        gone = arena.due.keys() - arena.server.keys(BUCKET)
        assert gone == set(arena.due)
        child.kill()
        assert child.wait() == -signal.SIGKILL
    assert arena.audit.one("SELECT count(*) FROM operations WHERE state = 'completed'") == 0
    arena.drain()
    arena.check()
    outcomes = dict(arena.audit.rows("SELECT outcome, count(*) FROM operations GROUP BY outcome"))
    assert outcomes == {"absent": len(gone)}


def test_a_worker_killed_before_its_request_had_an_effect_loses_nothing(arena: Arena) -> None:
    _planned(arena)
    with held(arena.server, "DeleteObjects", effect=False) as come:
        child = arena.start("worker", "4")
        assert come.wait(30)
        child.kill()
        child.wait()
    arena.drain()
    arena.check()
    assert not arena.due.keys() & arena.server.keys(BUCKET)


def test_a_worker_killed_while_it_waits_to_record_has_recorded_nothing(arena: Arena) -> None:
    _planned(arena)
    with ExitStack() as stack:
        with held(arena.server, "DeleteObjects") as come:
            child = arena.start("worker", "1")
            assert come.wait(30)
            stack.enter_context(arena.audit.writing())
        # The answer is out; the worker can come as far as the lock and no further.
        child.kill()
        assert child.wait() == -signal.SIGKILL
    assert arena.audit.one("SELECT count(*) FROM operations WHERE state = 'completed'") == 0
    arena.drain()
    arena.check()
    assert not arena.due.keys() & arena.server.keys(BUCKET)


def test_a_worker_killed_right_after_it_recorded_does_not_do_it_again(arena: Arena) -> None:
    _planned(arena)
    child = arena.start("worker", "4")
    until(
        lambda: arena.audit.one("SELECT count(*) FROM operations WHERE state = 'completed'"),
        what="a completion",
    )
    child.kill()
    child.wait()
    done = {
        row["key"]
        for row in arena.audit.rows("SELECT key FROM operations WHERE state = 'completed'")
    }
    asked = len(arena.server.asked("DeleteObjects"))
    arena.drain()
    arena.check()
    again = {key for request in arena.server.asked("DeleteObjects")[asked:] for key in request.keys}
    assert not again & done


def test_a_planner_killed_between_two_pages_is_continued_from_its_cursor(arena: Arena) -> None:
    arena.upload(200)
    with held(arena.server, "ListObjectsV2", when=arena.has_planned) as come:
        child = arena.start("planner", "exports")
        assert come.wait(30)
        child.kill()
        child.wait()
    before = arena.audit.one("SELECT planned FROM runs")
    assert 0 < before < 200
    arena.check()
    arena.clock.step(LAPSED)
    child = arena.start("planner", "exports")
    assert child.wait() == 0, child.said()
    assert arena.audit.one("SELECT count(*) FROM runs") == 1
    assert arena.audit.one("SELECT planned FROM runs") == 200
    assert arena.audit.one("SELECT already_pending FROM runs") == 0, "a page was planned twice"
    arena.drain()
    arena.check()


def test_a_planner_killed_before_its_last_page_is_written_does_not_drain_too_early(
    arena: Arena,
) -> None:
    arena.upload(5)
    with held(arena.server, "ListObjectsV2") as come:
        child = arena.start("planner", "exports")
        assert come.wait(30)
        child.kill()
        child.wait()
    assert arena.audit.one("SELECT complete FROM runs") == 0
    arena.drain()  # the worker plans on
    arena.check()
    assert arena.audit.one("SELECT state FROM runs") == "drained"
    assert not arena.due.keys() & arena.server.keys(BUCKET)


def test_a_planner_that_stalls_and_wakes_up_after_a_takeover_writes_nothing(arena: Arena) -> None:
    arena.upload(40)
    with held(arena.server, "ListObjectsV2") as come:
        sleeper = arena.start("planner", "exports")
        assert come.wait(30)
        stop(sleeper, arena.folder)
    arena.clock.step(LAPSED)
    successor = arena.start("planner", "exports")
    assert successor.wait() == 0, successor.said()
    assert arena.audit.one("SELECT planned FROM runs") == 40
    contents = arena.audit.contents()
    os.kill(sleeper.pid, signal.SIGCONT)
    assert sleeper.wait() == 0, sleeper.said()
    assert arena.audit.contents() == contents


def test_a_worker_that_stalls_and_wakes_up_late_changes_no_result_o_lease_02(arena: Arena) -> None:
    """O-LEASE-02: the late finisher's report is refused by its stale claim."""
    _planned(arena, 3)
    with held(arena.server, "DeleteObjects") as come:
        sleeper = arena.start("worker", "1", "drain")
        assert come.wait(30)
        stop(sleeper, arena.folder)
    arena.drain()
    contents = arena.audit.rows("SELECT * FROM operations")
    os.kill(sleeper.pid, signal.SIGCONT)
    assert sleeper.wait() == 0, sleeper.said()
    assert "came after its lease and was refused" in sleeper.said()
    assert arena.audit.rows("SELECT * FROM operations") == contents
    arena.check()


def test_a_command_that_kills_its_worker_is_dead_after_three_deliveries_o_poison_01(
    arena: Arena,
) -> None:
    """O-POISON-01: counted by deliveries, as nothing in a killed process can count."""
    _planned(arena, 21)
    poison = sorted(arena.due)[10]
    kills = 0
    while True:
        with held(
            arena.server, "DeleteObjects", effect=False, when=lambda r: poison in r.keys
        ) as come:
            worker = arena.start("worker", "1", "drain")
            until(lambda: come.is_set() or not worker.running, 60, "an end")  # noqa: B023
            if not come.is_set():
                break
            worker.kill()
            worker.wait()
        kills += 1
        assert kills <= 3
        arena.clock.step(LAPSED)
    assert kills == 3
    worker.wait()
    (letter,) = arena.cli.json("dlq", "list")
    assert letter["command"]["key"] == poison
    assert letter["failure_class"] == "crashed"
    assert arena.due.keys() & arena.server.keys(BUCKET) == {poison}
    arena.check()


@pytest.mark.parametrize("state", [None, "empty_url"], ids=["sqlite", "postgresql"])
def test_processes_killed_while_they_create_the_schema_leave_one_that_works(
    tmp_path: Path,
    forks: Forks,
    faulty: FaultyS3,
    state: str | None,
    request: pytest.FixtureRequest,
) -> None:
    chance = random.Random(11)
    faulty.put(BUCKET, "exports/a.json")
    url = request.getfixturevalue(state) if state else None
    cli = Cli(tmp_path, forks, faulty.endpoint, state=url)
    cli.policy("exports")
    for _ in range(8):
        children = [cli.spawn("status") for _ in range(2)]
        time.sleep(chance.random() * 0.08)
        for child in children:
            child.kill()
            child.wait()
    assert cli.json("run", "exports")["state"] == "drained"
    assert faulty.keys(BUCKET) == set()
