"""Dispatch: fair between connections, bounded, by priority."""

from datetime import timedelta
from pathlib import Path

from bestbefore.domain.failure import FailureClass
from bestbefore.stages.dispatch import MOST_OUT, dispatch
from support.worlds import World, failing, policy

LEASE = timedelta(seconds=60)


def send(world: World, **priorities: int) -> int:
    system = world.system
    return dispatch(
        system.work, system.queue, system.work.versions(), priorities, world.clock.now(), LEASE
    )


def pending(world: World) -> dict[str, int]:
    return {run.policy: run.pending for run in world.system.records.runs()}


def test_at_most_ten_thousand_are_out_per_connection(tmp_path: Path) -> None:
    with World(tmp_path, policy("a"), policy("b"), policy("c", store="t")) as world:
        world.fill(7_000)
        world.fill(3_000, store="t")
        for name in "abc":
            world.plan(name)

        assert send(world) == MOST_OUT + 3_000
        assert send(world) == 0

        out = pending(world)
        assert out["a"] + out["b"] == MOST_OUT
        assert out["c"] == 3_000
        assert out["a"] == out["b"] == 5_000, "policies of one connection take turns"
        world.assert_reconciled()


def test_what_is_settled_makes_room_and_what_is_delayed_takes_none(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(MOST_OUT + 2_000)
        world.plan(approved=True)
        send(world)
        world.store.refuse = failing(FailureClass.THROTTLED, retry_after=timedelta(minutes=14))
        (version,) = world.system.work.versions()
        world.work(stopping=lambda: len(world.store.attempts) >= 250)
        delayed = len(world.store.attempts)
        assert 0 < delayed <= 2_000

        send(world)

        assert world.system.work.out([version.row], world.clock.now(), LEASE) == MOST_OUT
        assert pending(world) == {"exports": MOST_OUT + delayed}


def test_a_higher_priority_goes_first(tmp_path: Path) -> None:
    low, high = policy("low"), policy("high", priority=5)
    with World(tmp_path, low, high) as world:
        world.fill(8_000)
        world.plan("low")
        world.plan("high")

        send(world, high=5)

        assert pending(world) == {"high": 8_000, "low": 2_000}


def test_a_sick_store_does_not_stand_before_a_healthy_one(tmp_path: Path) -> None:
    with World(tmp_path, policy("sick"), policy("healthy", store="t")) as world:
        world.fill(12_000)
        world.fill(500, store="t")
        world.store.refuse = failing(FailureClass.THROTTLED, retry_after=timedelta(minutes=15))
        world.plan("sick")
        world.plan("healthy")
        begun = world.clock.now()

        world.work(stopping=lambda: not world.stores["t"].objects)

        assert world.stores["t"].objects == {}
        assert world.clock.now() - begun < timedelta(seconds=5)
