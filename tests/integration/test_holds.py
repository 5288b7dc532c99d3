"""Holds: never planned, never deleted, never lost."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.hold import Hold, Scope
from bestbefore.domain.run import Trigger
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import LedgerError
from support.worlds import World, failing, policy

LATER = timedelta(minutes=10)


def hold(world: World, prefix: str = "exports/", until: datetime | None = None) -> Hold:
    """Put a hold in force on the world's only bucket."""
    scope = Scope(store="s", place="s3", bucket="bucket", prefix=prefix)
    added = Hold(scope, "court case 7", until, "ann", world.clock.now())
    world.system.holds.add(added)
    return added


def hold_policy(world: World, name: str = "exports") -> Hold:
    added = Hold(Scope(policy=name), "audit", None, "ann", world.clock.now())
    world.system.holds.add(added)
    return added


def test_what_is_on_hold_is_not_planned_and_counted_so(tmp_path: Path) -> None:
    """P7"""
    with World(tmp_path, policy()) as world:
        world.put("exports/2026-01/a", "exports/2026-01-b", "exports/2026-02/a")
        hold(world, "exports/2026-01")

        run = world.plan()
        world.work()

        assert (run.planned, run.protected) == (1, {"hold": 2})
        assert set(world.store.objects) == {"exports/2026-01/a", "exports/2026-01-b"}
        world.assert_reconciled()


@pytest.mark.parametrize("whole", [False, True])
def test_a_hold_added_after_the_plan_keeps_everything_and_loses_nothing(
    tmp_path: Path, whole: bool
) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(20)
        run = world.plan()
        added = hold_policy(world) if whole else hold(world)

        report = world.work()

        assert len(world.store.objects) == 20
        assert world.store.attempts == []
        assert report.outcomes == {"protected": 20}
        assert report.protected == {"hold": 20}
        assert world.run(run).state is RunState.DRAINED
        assert {o.reason for o in world.operations()} == {f"hold: {added}"}
        world.assert_reconciled()

        world.clock.step(LATER)
        during = world.plan()
        assert (during.planned, during.protected) == (0, {"hold": 20})

        world.system.holds.remove(added.hold_id, "ann", world.clock.now())
        world.clock.step(LATER)
        after = world.plan()
        assert after.planned == 20
        assert world.work().outcomes == {"deleted": 20}
        world.assert_reconciled()


def test_a_hold_added_while_a_batch_is_in_flight_is_in_force_from_the_next_one(
    tmp_path: Path,
) -> None:
    with World(tmp_path, policy()) as world, world.another() as other:
        world.fill(3_000)
        world.plan()
        refuse = world.store.refuse

        def first_delete(key: str) -> Failure | None:
            world.store.refuse = refuse
            hold(other)
            return None

        world.store.refuse = first_delete

        report = world.work(concurrency=1)

        assert 0 < report.outcomes["deleted"] <= 1_000, "one batch"
        assert report.outcomes.total() == 3_000
        assert (
            len(world.store.objects)
            == report.outcomes["protected"]
            == 3_000 - len(world.store.deleted)
        )
        world.assert_reconciled()


def test_a_hold_that_ends_by_itself_is_over_for_the_next_run(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(2)
        hold(world, until=world.clock.now() + LATER)
        assert world.plan().protected == {"hold": 2}

        world.clock.step(LATER)

        assert world.plan().planned == 2
        assert world.work().outcomes == {"deleted": 2}


def test_every_policy_that_looks_at_the_bucket_respects_a_hold(tmp_path: Path) -> None:
    """Also through another name for the same store."""
    policies = (policy(), policy("others"), policy("aliased", store="t"))
    with World(tmp_path, *policies) as world:
        world.stores["t"] = world.store
        world.fill(3)
        hold(world, "exports/")

        for of in policies:
            assert world.plan(of.name).protected == {"hold": 3}


def test_a_hold_on_one_policy_leaves_the_others_alone(tmp_path: Path) -> None:
    with World(tmp_path, policy(), policy("others")) as world:
        world.fill(3)
        hold_policy(world, "others")

        assert world.plan("others").protected == {"hold": 3}
        assert world.plan().planned == 3


def test_a_redriven_dead_letter_under_a_hold_is_kept(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(1)
        world.store.refuse = failing(FailureClass.MALFORMED)
        world.plan()
        world.work()
        world.store.refuse = lambda key: None
        hold(world)

        world.redrive()

        assert world.work().outcomes == {"protected": 1}
        assert len(world.store.objects) == 1


def test_a_hold_outlives_a_parked_run_and_its_approval(tmp_path: Path) -> None:
    with World(tmp_path, policy(max_deletes=1)) as world:
        world.fill(3)
        run = world.plan()
        hold(world)

        world.system.plans.approve(run.run_id, "boss", world.clock.now())

        assert world.work().outcomes == {"protected": 3}
        assert len(world.store.objects) == 3


def test_a_dry_run_sees_holds_too(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(2)
        hold(world)
        with world.system.scratch() as scratch:
            of = world.system.policy("exports")
            drawn = world.system.planner(of).preview(
                of, world.clock.now(), scratch.plans, Trigger.PLAN
            )

        assert (drawn.planned, drawn.protected) == (0, {"hold": 2})


def test_a_kept_generation_still_counts_while_it_is_on_hold(tmp_path: Path) -> None:
    """What is held does not make the policy keep one generation more, or fewer."""
    pattern = r"exports/(?P<generation>\d{4}-\d{2})/"
    with World(tmp_path, policy(generation=pattern, keep_generations=1)) as world:
        for month in ("2026-01", "2026-02", "2026-03"):
            world.put(f"exports/{month}/a.json")
        hold(world, "exports/2026-03/")

        run = world.plan()

        assert run.protected == {"hold": 1}
        assert world.work().outcomes == {"deleted": 2}


def test_adding_and_removing_is_written_down(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        added = hold(world, "exports/2026-01")
        hold(world, "exports/2026-01")
        world.system.holds.remove(added.hold_id, "eve", world.clock.now())
        with pytest.raises(LedgerError, match="no such hold"):
            world.system.holds.remove(added.hold_id, "eve", world.clock.now())

        events = world.system.records.events(10)

        assert [(event.action, event.by) for event in events] == [
            ("hold removed", "eve"),
            ("hold", "ann"),
        ]
        assert all("s: bucket/exports/2026-01" in event.detail for event in events)
        assert all("court case 7" in event.detail for event in events)
