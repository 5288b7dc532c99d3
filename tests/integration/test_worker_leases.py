"""Leases: late results, slow work, crashes, stops. Two processes are two systems on one file."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from bestbefore.domain.failure import FailureClass
from bestbefore.domain.report import Report
from bestbefore.domain.run import RunState
from support.worlds import World, policy

LEASE = timedelta(seconds=60)
PATIENCE = 30


class Gate:
    """Holds whoever deletes until it is opened; ``entered`` says that somebody is there."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys
        self.entered = threading.Event()
        self.open = threading.Event()
        self.inside = 0
        self.most_inside = 0

    def __call__(self, key: str) -> None:
        if self.keys and key not in self.keys:
            return
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.entered.set()
        assert self.open.wait(PATIENCE)
        self.inside -= 1


@contextmanager
def background(world: World, **options: object) -> Iterator[tuple[threading.Event, list[Report]]]:
    """A worker in a thread: an event that stops it, and its report once it has ended."""
    stop, reports = threading.Event(), []
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(world.worker(drain=False, stopping=stop.is_set, **options).run)
        try:
            yield stop, reports
        finally:
            stop.set()
            reports.append(future.result(PATIENCE))


def unlocked(world: World, gate: Gate) -> None:
    """Let the store's deletes wait at *gate* outside its lock, as two processes would."""

    class Unlocked:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    world.store._lock = Unlocked()  # type: ignore[assignment]
    world.store.refuse = gate


def test_a_lease_is_extended_while_the_work_takes_longer(tmp_path: Path) -> None:
    """O-LEASE-01: one effect, one completion, and nobody else got it meanwhile."""
    with World(tmp_path, policy()) as world:
        (key,) = world.fill(1)
        run = world.plan()
        gate = Gate(key)
        unlocked(world, gate)
        rounds = threading.Semaphore(0)
        with background(world, on_progress=lambda _: rounds.release()) as (stop, reports):
            assert gate.entered.wait(PATIENCE)
            with world.another() as other:
                for _ in range(5):
                    world.clock.step(timedelta(seconds=55))
                    _whole_round(rounds)
                    (version,) = other.system.work.versions()
                    for suspects in (False, True):
                        assert not other.system.queue.receive(
                            version.row, 1, world.clock.now(), LEASE, suspects=suspects
                        )
            gate.open.set()
            while not world.outcomes(run):
                assert rounds.acquire(timeout=PATIENCE)
            stop.set()

        assert reports[0].late == 0
        assert world.store.attempts == [key]
        assert world.outcomes(run) == {"deleted": 1}


def test_the_late_finisher_changes_nothing_and_is_no_failure(tmp_path: Path) -> None:
    """O-LEASE-02, P3: A hangs past its lease, B does the work, A's result is refused."""
    with World(tmp_path, policy()) as world:
        (key,) = world.fill(1)
        run = world.plan()
        gate = Gate(key)
        unlocked(world, gate)
        world.system.embedded.extend = lambda *_: []  # type: ignore[method-assign]  # A stands still
        with background(world) as (stop, reports):
            assert gate.entered.wait(PATIENCE)
            world.clock.step(2 * LEASE)
            world.store.refuse = lambda key: None
            with world.another() as other:
                report = other.work()
            stop.set()
            gate.open.set()

        assert report.outcomes == {"deleted": 1}
        assert (reports[0].late, reports[0].completed, reports[0].dead) == (1, 0, 0)
        assert world.outcomes(run) == {"deleted": 1}
        assert world.operation(key).completed_by == world.system.worker_name
        assert world.dead() == []
        world.assert_reconciled()


def test_no_worker_holds_what_hangs_for_ever(tmp_path: Path) -> None:
    """O-LEASE-05: extended for a quarter of an hour, then it is delivered again."""
    with World(tmp_path, policy()) as world:
        (key,) = world.fill(1)
        world.plan()
        gate = Gate(key)
        unlocked(world, gate)
        rounds = threading.Semaphore(0)
        with background(world, on_progress=lambda _: rounds.release()) as (stop, _):
            assert gate.entered.wait(PATIENCE)
            for _ in range(20):
                world.clock.step(timedelta(seconds=55))
                _whole_round(rounds)
            while gate.most_inside < 2:
                _whole_round(rounds)
            stop.set()
            gate.open.set()


def test_what_hangs_in_every_worker_is_dead_after_three_deliveries(tmp_path: Path) -> None:
    """O-LEASE-05: and not started a fourth and fifth time; older copies are fenced."""
    with World(tmp_path, policy()) as world:
        world.fill(1)
        run = world.plan()
        system = world.system
        (version,) = system.work.versions()
        span = system.work.waiting(version.row, 1)
        assert span is not None
        system.queue.publish(span, world.clock.now())
        claims = []
        for delivery in range(3):
            claims += system.queue.receive(
                version.row, 1, world.clock.now(), LEASE, suspects=delivery > 0
            )
            world.clock.step(LEASE)

        report = world.work()

        (letter,) = world.dead()
        assert letter.failure_class is FailureClass.CRASHED
        assert "3 deliveries ended without a result" in letter.error
        assert [claim.deliveries for claim in claims] == [1, 2, 3]
        assert report.received == 0
        assert world.run(run).dead == 1
        assert world.store.attempts == []


def test_a_suspect_batch_is_delivered_one_by_one(tmp_path: Path) -> None:
    """A batch whose worker died says nothing about which of its commands did it."""
    with World(tmp_path, policy()) as world:
        keys = world.fill(5)
        run = world.plan()
        system = world.system
        (version,) = system.work.versions()
        span = system.work.waiting(version.row, 10)
        assert span is not None
        system.queue.publish(span, world.clock.now())
        assert len(system.queue.receive(version.row, 10, world.clock.now(), LEASE)) == 5
        sizes: list[int] = []
        delete = world.store.delete

        def watch(bucket: str, targets: list[object]) -> object:
            sizes.append(len(targets))
            return delete(bucket, targets)  # type: ignore[arg-type]

        world.store.delete = watch  # type: ignore[assignment,method-assign]

        report = world.work()

        assert sizes == [1] * 5
        assert report.outcomes == {"deleted": 5}
        assert sorted(world.store.deleted) == keys
        assert world.run(run).state is RunState.DRAINED


def test_a_worker_takes_no_more_than_it_can_start(tmp_path: Path) -> None:
    """O-LEASE-03: nothing waits in a local buffer while its lease runs out."""
    with World(tmp_path, policy()) as world:
        world.fill(3_000)
        world.plan()
        gate = Gate()
        unlocked(world, gate)
        rounds = threading.Semaphore(0)
        with background(world, concurrency=2, on_progress=lambda _: rounds.release()) as (stop, _):
            assert gate.entered.wait(PATIENCE)
            for _ in range(3):
                assert rounds.acquire(timeout=PATIENCE)
            taken = [o for o in world.operations() if o.due_at and o.due_at > world.clock.now()]
            assert 0 < len(taken) <= 2 * 250, "one batch per thread"
            assert gate.most_inside == 2
            gate.open.set()
            stop.set()


def test_a_stop_finishes_what_is_in_hand_and_takes_nothing_new(tmp_path: Path) -> None:
    """O-LEASE-04"""
    with World(tmp_path, policy()) as world:
        world.fill(2_000)
        run = world.plan()
        gate = Gate()
        unlocked(world, gate)
        with background(world, concurrency=2) as (stop, reports):
            assert gate.entered.wait(PATIENCE)
            stop.set()
            gate.open.set()

        report = reports[0]
        assert 0 < report.completed == report.received <= 500
        assert report.abandoned == 0
        stored = world.run(run)
        assert (stored.completed, stored.dead) == (report.completed, 0)
        assert not any(o.due_at and o.due_at > world.clock.now() for o in world.operations())
        world.assert_reconciled()
        assert world.work().outcomes == {"deleted": 2_000 - report.completed}


def test_what_outlasts_the_grace_is_given_back_without_a_charge(tmp_path: Path) -> None:
    """O-LEASE-04: visible again at once, and no suspect, however often it is deployed."""
    with World(tmp_path, policy()) as world:
        (key,) = world.fill(1)
        world.plan()
        gate = Gate(key)
        unlocked(world, gate)
        with background(world, grace=timedelta(0)) as (stop, reports):
            assert gate.entered.wait(PATIENCE)
            stop.set()
            # It ends although the store still has not answered.

        assert (reports[0].abandoned, reports[0].completed) == (1, 0)
        (version,) = world.system.work.versions()
        assert not world.system.work.suspects([version.row], world.clock.now())
        (again,) = world.system.queue.receive(version.row, 1, world.clock.now(), LEASE)
        assert again.deliveries == 1
        world.system.queue.release([again], world.clock.now())
        world.store.refuse = lambda key: None
        assert world.work().outcomes == {"deleted": 1}
        gate.open.set()
        assert world.dead() == []


def _whole_round(rounds: threading.Semaphore) -> None:
    """Wait until the loop went round once from its start, so that it has extended its claims."""
    while rounds.acquire(blocking=False):
        pass
    for _ in range(2):
        assert rounds.acquire(timeout=PATIENCE)


@pytest.mark.parametrize("workers", [2, 4])
def test_several_workers_share_the_work_and_settle_each_command_once(
    tmp_path: Path, workers: int
) -> None:
    """P3"""
    with World(tmp_path, policy()) as world:
        keys = world.fill(3_000)
        run = world.plan()
        others = [world.another() for _ in range(workers)]
        with ThreadPoolExecutor(workers) as pool:
            reports = list(pool.map(lambda other: other.work(concurrency=2), others))
        for other in others:
            other.system.close()

        assert sum(report.completed for report in reports) == 3_000
        assert sum(report.late for report in reports) == 0
        assert sorted(world.store.attempts) == keys
        assert world.outcomes(run) == {"deleted": 3_000}
        world.assert_reconciled()
