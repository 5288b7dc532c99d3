"""A run a person cancelled: what was in hand may end, nothing is begun again."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from bestbefore.domain.failure import Failure, FailureClass, TryAgain
from bestbefore.domain.run import Run, RunState
from bestbefore.ports.ledger import Operation, Retried
from support.worlds import World, failing, policy

LEASE = timedelta(seconds=60)


def give_back(world: World, held: list[Operation]) -> None:
    """As a worker does that is stopped."""
    world.system.queue.release(held, world.clock.now())


def fail(world: World, held: list[Operation]) -> None:
    failure = Failure(FailureClass.TRANSIENT, "timeout")
    now = world.clock.now()
    for operation in held:
        budget = operation.budget.charge(FailureClass.TRANSIENT, now)
        world.system.work.record(
            [Retried(operation, TryAgain(failure, budget, now + LEASE))], "me", now
        )


def die(world: World, held: list[Operation]) -> None:
    world.clock.step(LEASE)


def begun(world: World) -> tuple[Run, list[Operation]]:
    world.fill(5)
    run = world.plan()
    (version,) = world.system.work.versions()
    span = world.system.work.waiting(version.row, 10)
    assert span is not None
    world.system.queue.publish(span, world.clock.now())
    return run, list(world.system.queue.receive(version.row, 3, world.clock.now(), LEASE))


@pytest.mark.parametrize("end", [give_back, fail, die])
def test_what_was_in_hand_and_did_not_end_is_cancelled_too(
    tmp_path: Path, end: Callable[[World, list[Operation]], None]
) -> None:
    with World(tmp_path, policy()) as world:
        run, held = begun(world)
        world.system.plans.cancel(run.run_id, "wrong policy", "boss", world.clock.now())

        end(world, held)
        report = world.work()

        assert world.store.attempts == []
        assert len(world.store.objects) == 5
        assert world.outcomes(run) == {"cancelled": 5}
        assert report.left == {}
        stored = world.run(run)
        assert (stored.state, stored.pending) == (RunState.CANCELLED, 0)
        world.assert_reconciled()


def test_what_was_in_hand_is_no_probe_either(tmp_path: Path) -> None:
    """Behind an open breaker one operation at a time is tried; not one of a cancelled run."""
    with World(tmp_path, policy()) as world:
        run, held = begun(world)
        world.system.plans.cancel(run.run_id, "wrong policy", "boss", world.clock.now())
        give_back(world, held)
        world.system.controls.trip("s", "expired", world.clock.now())

        world.work()

        assert world.store.attempts == []
        assert world.outcomes(run)["cancelled"] >= 3


def test_a_dead_letter_of_a_cancelled_run_can_still_be_redriven(tmp_path: Path) -> None:
    """That is a later decision of a person."""
    with World(tmp_path, policy()) as world:
        keys = world.fill(2)
        world.store.refuse = failing(FailureClass.MALFORMED, keys[0])
        run = world.plan()
        world.system.controls.pause("exports", "look first", None, "boss", world.clock.now())
        world.system.controls.resume_work("exports", "boss", world.clock.now())
        world.work(stopping=lambda: bool(world.dead()))
        assert world.dead()
        if world.run(run).state is RunState.OPEN:
            world.system.plans.cancel(run.run_id, "stop", "boss", world.clock.now())
        world.store.refuse = lambda key: None

        assert world.redrive().redriven == 1
        report = world.work()

        assert report.outcomes == {"deleted": 1}
        world.assert_reconciled()
