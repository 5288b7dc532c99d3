"""What a scrape says: the same from every process, and never less than it said before."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from bestbefore.app import reporting
from bestbefore.domain.failure import Attempts, FailureClass
from bestbefore.domain.retention import Age
from bestbefore.read.families import FAMILIES
from bestbefore.web.metrics import exposition
from support.clock import NOW
from support.shops import Shop
from support.worlds import World, failing, policy

IMPATIENT = Attempts(transient=1, permission=1, unknown=1)


def scrape(world: World | Shop, **missed: int) -> Mapping[str, float]:
    """Every sample of one scrape, by name and labels as they are written, labels sorted."""
    body, content_type = exposition(reporting.measures(world.system, missed))
    assert content_type.startswith("text/plain")
    return {
        sample.name
        + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def counters(found: Mapping[str, float]) -> Mapping[str, float]:
    ends = ("_total", "_count", "_sum", "_bucket")
    return {name: value for name, value in found.items() if name.split()[0].endswith(ends)}


def test_a_scrape_counts_what_was_found_published_and_ended(
    tmp_path: Path, state: str | None
) -> None:
    with World(tmp_path, policy(), state_url=state) as world:
        world.fill(25)
        world.put("exports/gone.json")
        world.plan()
        del world.store.objects["exports/gone.json"]
        before = scrape(world)
        world.work()
        after = scrape(world)

    assert before["bestbefore_backlog policy=exports state=waiting"] == 26
    assert before["bestbefore_operations_published_total policy=exports"] == 0
    assert after["bestbefore_scanned_total policy=exports unit=object"] == 26
    assert after["bestbefore_eligible_total policy=exports unit=object"] == 26
    assert after["bestbefore_operations_planned_total policy=exports unit=object"] == 26
    assert after["bestbefore_operations_published_total policy=exports"] == 26
    assert after["bestbefore_operations_completed_total outcome=deleted policy=exports"] == 25
    assert after["bestbefore_operations_completed_total outcome=absent policy=exports"] == 1
    assert after["bestbefore_removed_bytes_total policy=exports"] == 2_500
    assert after["bestbefore_backlog policy=exports state=waiting"] == 0
    assert after["bestbefore_plan_seconds_count policy=exports"] == 1
    assert after["bestbefore_plan_first_page_seconds_count policy=exports"] == 1


def test_a_policy_that_never_ran_shows_zeros(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        found = scrape(world, exports=3)

    assert found["bestbefore_operations_completed_total outcome=deleted policy=exports"] == 0
    assert found["bestbefore_dead_letters class=permission policy=exports"] == 0
    assert found["bestbefore_missed_slots policy=exports"] == 3


def test_two_processes_say_the_same(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world, world.another() as other:
        world.fill(10)
        world.plan()
        world.work()

        assert scrape(world) == scrape(other)


def test_dead_letters_are_told_by_class_with_the_age_of_the_oldest(
    tmp_path: Path, state: str | None
) -> None:
    with World(tmp_path, policy(attempts=IMPATIENT), state_url=state) as world:
        world.fill(3)
        world.plan()
        world.store.refuse = failing(FailureClass.PERMISSION, "exports/000000.json")
        world.work()
        first = world.clock.now()
        found = scrape(world)

        assert found["bestbefore_dead_letters class=permission policy=exports"] == 1
        assert found["bestbefore_operations_died_total class=permission policy=exports"] == 1
        age = "bestbefore_dead_letter_oldest_timestamp_seconds class=permission policy=exports"
        oldest = found[age]
        assert NOW.timestamp() <= oldest <= first.timestamp()

        (letter,) = world.dead()
        world.system.dead_letters.discard([letter.row], "not needed", "tester", first)
        found = scrape(world)
        assert found["bestbefore_dead_letters class=permission policy=exports"] == 0
        assert found["bestbefore_operations_died_total class=permission policy=exports"] == 1
        assert found["bestbefore_operations_completed_total outcome=discarded policy=exports"] == 1
        assert not any(name.startswith("bestbefore_dead_letter_oldest") for name in found)


def test_redrive_success_is_the_share_of_redriven_operations_that_completed(
    tmp_path: Path, state: str | None
) -> None:
    with World(tmp_path, policy(attempts=IMPATIENT), state_url=state) as world:
        stubborn, *_ = world.fill(3)
        world.plan()
        world.store.refuse = failing(FailureClass.PERMISSION)
        world.work()
        world.store.refuse = failing(FailureClass.PERMISSION, stubborn)
        for _ in range(2):  # the second time only what died again: it is not counted twice
            world.redrive()
            world.work()
        found = scrape(world)

        assert found["bestbefore_operations_redriven_total policy=exports"] == 3
        assert found["bestbefore_redriven_completed_total outcome=deleted policy=exports"] == 2
        assert found["bestbefore_dead_letters class=permission policy=exports"] == 1
        assert found["bestbefore_operations_died_total class=permission policy=exports"] == 5
        world.assert_reconciled()


def test_counters_never_fall_when_objects_are_planned_again_or_the_ledger_is_pruned(
    tmp_path: Path, state: str | None
) -> None:
    with World(tmp_path, policy(), state_url=state, keep=Age(0, 86_400)) as world:
        keys = world.fill(5)
        world.plan()
        world.work()
        seen = counters(scrape(world))
        for key in keys:  # a lagging store lists again what it deleted
            world.put(key)
        world.clock.step(timedelta(hours=1))
        world.plan()
        again = counters(scrape(world))
        world.work()
        world.clock.step(timedelta(days=3))
        world.system.upkeep.run(lambda: False)
        pruned = counters(scrape(world))

    assert all(again[name] >= value for name, value in seen.items())
    assert all(pruned[name] >= value for name, value in again.items())
    assert pruned["bestbefore_operations_completed_total outcome=deleted policy=exports"] == 10


def test_a_run_that_waits_for_approval_is_no_good_one(tmp_path: Path) -> None:
    """O-GUARD-02: it counts as parked, and as nothing drained."""
    with World(tmp_path, policy(max_fraction=0.5)) as world:
        world.fill(96)
        world.put(*(f"exports/young-{n}.json" for n in range(4)), age=NOW)
        run = world.plan()
        found = scrape(world)

        assert found["bestbefore_parked_runs policy=exports"] == 1
        assert found["bestbefore_backlog policy=exports state=parked"] == 96
        assert found["bestbefore_backlog policy=exports state=waiting"] == 0
        assert "bestbefore_last_drained_timestamp_seconds policy=exports" not in found

        world.system.plans.approve(run.run_id, "tester", world.clock.now())
        world.work()
        found = scrape(world)
        assert found["bestbefore_parked_runs policy=exports"] == 0
        drained = found["bestbefore_last_drained_timestamp_seconds policy=exports"]
        assert drained >= NOW.timestamp()


def test_pauses_and_retries_are_told(tmp_path: Path) -> None:
    with World(tmp_path, policy(attempts=Attempts(transient=5))) as world:
        world.fill(1)
        world.plan()
        world.store.refuse = failing(FailureClass.TRANSIENT)
        rounds = iter(range(10))
        world.worker(stopping=lambda: next(rounds, None) is None).run()
        world.system.controls.pause(None, "audit", None, "tester", world.clock.now())
        found = scrape(world)

    assert found["bestbefore_paused policy=exports"] == 1
    assert found["bestbefore_retries_total class=transient policy=exports"] >= 1


def test_row_batches_are_timed_and_their_rows_counted(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.fill(250)
        shop.plan()
        shop.work()
        found = scrape(shop)
        (name,) = shop.system.settings.policies

    batches = found[f"bestbefore_operations_planned_total policy={name} unit=batch"]
    assert batches > 1
    assert found[f"bestbefore_batch_seconds_count policy={name}"] == batches
    assert found[f"bestbefore_batch_seconds_bucket le=+Inf policy={name}"] == batches
    assert found[f"bestbefore_batch_seconds_sum policy={name}"] > 0
    deleted = found[f"bestbefore_rows_total fate=deleted policy={name}"]
    assert deleted == found[f"bestbefore_eligible_total policy={name} unit=row"] > 0


def test_every_family_is_exposed_under_its_own_name_and_kind(tmp_path: Path) -> None:
    with World(tmp_path, policy()) as world:
        world.fill(1)
        world.plan()
        body, _ = exposition(reporting.measures(world.system, {}))

    there = {
        line.split()[2]: line.split()[3]
        for line in body.decode().splitlines()
        if line.startswith("# TYPE ")
    }
    assert there == {family.name: family.kind for family in FAMILIES}
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind == "counter")
