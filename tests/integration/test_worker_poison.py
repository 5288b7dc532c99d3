"""Commands that kill their worker, and outages that must not look like bad commands."""

import random
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from bestbefore.adapters.state.schema import operations
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.run import RunState
from bestbefore.ports.ledger import Operation
from support.clock import NOW
from support.worlds import World, policy

TESTS = Path(__file__).parents[1]
POISON = "exports/000013.json"

WORKER = """
import os, sys
from datetime import timedelta
from pathlib import Path
from support.worlds import World, policy, listed

folder, poison, minutes = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with World(folder, policy()) as world:
    world.clock.step(timedelta(minutes=minutes))
    gone = folder / "gone"
    for n in range(21):
        key = f"exports/{n:06}.json"
        if not (gone / f"{n:06}").exists():
            world.put(key)

    def deliver(key):
        with (folder / "deliveries").open("a") as log:
            log.write(key + "\\n")
        if key == poison:
            os._exit(137)
        gone.mkdir(exist_ok=True)
        (gone / Path(key).stem).touch()

    world.store.refuse = deliver
    world.work()
"""


def test_a_command_that_kills_its_process_is_dead_after_three_deliveries(tmp_path: Path) -> None:
    """O-POISON-01, with real processes and a supervisor that starts them again."""
    with World(tmp_path, policy()) as world:
        world.fill(21)
        run = world.plan()
        codes = []
        for life in range(6):
            ended = subprocess.run(
                [sys.executable, "-c", WORKER, str(tmp_path), POISON, str(2 * life)],
                cwd=TESTS,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            codes.append(ended.returncode)
            if ended.returncode == 0:
                break
            assert ended.returncode == 137, ended.stderr

        assert codes == [137, 137, 137, 0]
        deliveries = Counter((tmp_path / "deliveries").read_text().split())
        assert deliveries[POISON] == 3
        (letter,) = world.dead()
        assert (letter.key, letter.failure_class) == (POISON, FailureClass.CRASHED)
        assert "the worker died or hung" in letter.error
        stored = world.run(run)
        assert (stored.completed, stored.dead, stored.state) == (20, 1, RunState.DRAINED)
        assert len(list((tmp_path / "gone").iterdir())) == 20
        world.assert_reconciled()


def test_a_crash_is_counted_in_the_ledger_and_the_healthy_are_done(tmp_path: Path) -> None:
    """O-POISON-01 within one process: what a worker that dies leaves behind is a lapsed claim."""
    with World(tmp_path, policy()) as world:
        world.fill(21)
        run = world.plan()
        system = world.system
        (version,) = system.work.versions()
        span = system.work.waiting(version.row, 100)
        assert span is not None
        system.queue.publish(span, world.clock.now())
        lease = timedelta(seconds=60)
        assert len(system.queue.receive(version.row, 100, world.clock.now(), lease)) == 21
        poison = world.operation(POISON).row
        for _ in range(2):
            world.clock.step(lease)
            suspects: list[Operation] = []
            while poison not in {suspect.row for suspect in suspects}:
                suspects += system.queue.receive(
                    version.row, 1, world.clock.now(), lease, suspects=True
                )
            system.queue.release(
                [suspect for suspect in suspects if suspect.row != poison], world.clock.now()
            )

        report = world.work()

        assert report.outcomes == {"deleted": 20}
        assert [letter.key for letter in world.dead()] == [POISON]
        assert POISON not in world.store.attempts
        assert world.run(run).state is RunState.DRAINED
        world.assert_reconciled()


def test_a_redriven_crasher_has_three_deliveries_again(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        (key,) = world.fill(1)
        run = world.plan()
        _crash_until_dead(world)

        assert world.redrive().redriven == 1
        report = world.work()

        assert report.outcomes == {"deleted": 1}
        assert world.store.attempts == [key]
        assert world.run(run).state is RunState.DRAINED


def _crash_until_dead(world: World) -> None:
    system, lease = world.system, timedelta(seconds=60)
    (version,) = system.work.versions()
    while (span := system.work.waiting(version.row, 10)) is not None:
        system.queue.publish(span, world.clock.now())
    for delivery in range(3):
        system.queue.receive(version.row, 10, world.clock.now(), lease, suspects=delivery > 0)
        world.clock.step(lease)
    assert system.work.bury_crashed([version.row], 3, world.clock.now()) == 1


@pytest.mark.parametrize("of", [FailureClass.TRANSIENT, FailureClass.THROTTLED])
def test_two_hours_of_503_bury_nobody(tmp_path: Path, of: FailureClass) -> None:
    """O-POISON-02: 1,000 good ones are done without a person, the malformed one is dead."""
    with World(tmp_path, policy()) as world:
        world.fill(1_000)
        bad = "exports/bad.json"
        world.put(bad)
        world.clock.stride = timedelta(seconds=6)
        world.spread = random.Random(1).random
        over = NOW + timedelta(hours=2)

        def refuse(key: str) -> Failure | None:
            if key == bad:
                return Failure(FailureClass.MALFORMED, "the store cannot take this key")
            return Failure(of, "503") if world.clock.now() < over else None

        world.store.refuse = refuse
        run = world.plan()
        # As `serve` does, or a crontab: a drain that met an open breaker is started again.
        done = 0
        while world.clock.now() < over + timedelta(hours=2):
            done += world.work().completed
            stored = world.run(run)
            if not stored.pending and not stored.waiting:
                break

        by_class = Counter(letter.failure_class for letter in world.dead())
        assert by_class == {FailureClass.MALFORMED: 1}
        assert done == 1_000
        assert world.store.objects.keys() == {bad}
        world.assert_reconciled()


def test_what_an_outage_did_bury_comes_back_with_one_filtered_redrive(tmp_path: Path) -> None:
    """O-POISON-02: fewer commands than tell an outage from poison; a person redrives the class."""
    with World(tmp_path, policy()) as world:
        keys = world.fill(5)
        bad = keys[0]
        world.store.refuse = lambda key: Failure(
            FailureClass.MALFORMED if key == bad else FailureClass.TRANSIENT, "503"
        )
        world.clock.stride = timedelta(seconds=5)
        run = world.plan()
        assert world.work().dead == 5
        world.store.refuse = lambda key: None

        assert world.redrive(failure_class=FailureClass.TRANSIENT).redriven == 4
        report = world.work()

        assert report.outcomes == {"deleted": 4}
        assert [letter.key for letter in world.dead()] == [bad]
        assert world.run(run).state is RunState.DRAINED
        engine = sa.create_engine(world.state_url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            assert connection.scalar(sa.select(sa.func.sum(operations.c.redriven))) == 4
        world.assert_reconciled()
