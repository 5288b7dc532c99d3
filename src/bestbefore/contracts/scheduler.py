"""What every scheduler's adapter has to do, for outside adapters too. To run it over one::

    class TestMyScheduler(SchedulerContract):
        @pytest.fixture
        def world(self) -> Iterator[SchedulerWorld]: ...  # a group, or prefix, of its own

What a vendor cannot do, its `Capabilities` say, and the suite leaves out. Nothing here waits for a
schedule to fire.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from bestbefore.domain.failure import FailureClass
from bestbefore.ports.scheduler import (
    EXPRESSION,
    TARGET,
    TIMEZONE,
    Deployed,
    Inexpressible,
    Scheduler,
    SchedulerFailed,
    Wanted,
)

NIGHTLY = Wanted("weekly-digests", "0 2 * * *", "UTC")
WEEKLY = Wanted("stale.shipment_updates", "30 4 * * 1", "Europe/Berlin")
LATER = NIGHTLY._replace(schedule="15 3 * * *", timezone="America/New_York")


@dataclass(frozen=True, slots=True)
class SchedulerWorld:
    """A place without any schedule. ``another`` opens it once more, as a second process would.

    ``beside`` is the same adapter for another configuration at the same vendor, ``broken`` one
    where nobody answers. ``not_possible`` is what this vendor has no words for; None if it has
    words for everything.
    """

    scheduler: Scheduler
    another: Callable[[], Scheduler]
    beside: Callable[[], Scheduler]
    broken: Callable[[], Scheduler]
    not_possible: Wanted | None = None


def only(scheduler: Scheduler, policy: str) -> Deployed:
    """The one schedule of *policy* that is there."""
    (found,) = [one for one in scheduler.deployed() if one.policy == policy]
    return found


def differing(scheduler: Scheduler, wanted: Wanted, deployed: Deployed) -> set[str]:
    """The terms in which *deployed* is not what *wanted* asks for."""
    terms = scheduler.terms(wanted)
    return {name for name, value in deployed.terms.items() if terms.get(name, "") != value}


class SchedulerContract:
    """Put, list, pause, resume, delete."""

    def test_nothing_is_there_at_first(self, world: SchedulerWorld) -> None:
        assert list(world.scheduler.deployed()) == []

    def test_what_is_put_is_listed_as_it_was_wanted(self, world: SchedulerWorld) -> None:
        put = world.scheduler.put(NIGHTLY)

        found = only(world.another(), NIGHTLY.policy)

        assert found.id == put.id
        assert found.enabled
        assert differing(world.scheduler, NIGHTLY, found) == set()
        assert {EXPRESSION, TARGET} <= found.terms.keys()
        assert found.terms[TARGET] == world.scheduler.target

    def test_names_of_policies_survive_whatever_a_vendor_allows_in_a_name(
        self, world: SchedulerWorld
    ) -> None:
        longest = "a" * 99
        names = [WEEKLY.policy, "a.b", "a_b", "a-b", longest + "b", longest + "c"]

        for name in names:
            world.scheduler.put(NIGHTLY._replace(policy=name))

        assert sorted(one.policy for one in world.scheduler.deployed()) == sorted(names)

    def test_putting_it_twice_has_it_there_once(self, world: SchedulerWorld) -> None:
        """O-TICK-01: two replicas that both bring a scheduler in line."""
        world.scheduler.put(NIGHTLY)
        world.another().put(NIGHTLY)

        assert len(world.scheduler.deployed()) == 1

    def test_a_change_replaces_all_of_it(self, world: SchedulerWorld) -> None:
        before = world.scheduler.put(NIGHTLY)
        assert EXPRESSION in differing(world.scheduler, LATER, before)

        world.scheduler.put(LATER, before)

        after = only(world.another(), LATER.policy)
        assert after.enabled
        assert differing(world.scheduler, LATER, after) == set()

    def test_a_change_says_which_terms_differ(self, world: SchedulerWorld) -> None:
        world.scheduler.put(NIGHTLY)
        found = only(world.scheduler, NIGHTLY.policy)

        if TIMEZONE in found.terms:
            elsewhere = NIGHTLY._replace(timezone="Asia/Tokyo")
            assert TIMEZONE in differing(world.scheduler, elsewhere, found)
        rescheduled = NIGHTLY._replace(schedule="0 5 * * *")
        assert EXPRESSION in differing(world.scheduler, rescheduled, found)

    def test_a_pause_changes_nothing_but_whether_it_fires(self, world: SchedulerWorld) -> None:
        before = world.scheduler.put(WEEKLY)

        world.scheduler.pause(before)

        paused = only(world.another(), WEEKLY.policy)
        assert not paused.enabled
        assert paused == replace(before, enabled=False)

    def test_pausing_twice_is_one_pause_and_resuming_ends_it(self, world: SchedulerWorld) -> None:
        put = world.scheduler.put(WEEKLY)
        world.scheduler.pause(put)
        world.scheduler.pause(put)

        world.scheduler.resume(only(world.another(), WEEKLY.policy))
        world.scheduler.resume(put)

        assert only(world.scheduler, WEEKLY.policy) == put

    def test_putting_what_is_paused_has_it_fire_again(self, world: SchedulerWorld) -> None:
        put = world.scheduler.put(NIGHTLY)
        world.scheduler.pause(put)

        world.scheduler.put(NIGHTLY, only(world.scheduler, NIGHTLY.policy))

        assert only(world.scheduler, NIGHTLY.policy).enabled

    def test_what_is_deleted_is_gone_and_the_others_stay(self, world: SchedulerWorld) -> None:
        gone, _ = world.scheduler.put(NIGHTLY), world.scheduler.put(WEEKLY)

        world.scheduler.delete(gone)
        world.another().delete(gone)

        assert [one.policy for one in world.scheduler.deployed()] == [WEEKLY.policy]

    def test_it_can_be_put_again_once_it_was_deleted(self, world: SchedulerWorld) -> None:
        world.scheduler.delete(world.scheduler.put(NIGHTLY))

        world.scheduler.put(NIGHTLY)

        assert only(world.scheduler, NIGHTLY.policy).enabled

    def test_what_another_configuration_put_is_none_of_ours(self, world: SchedulerWorld) -> None:
        beside = world.beside()
        beside.put(NIGHTLY)

        world.scheduler.put(WEEKLY)

        assert [one.policy for one in world.scheduler.deployed()] == [WEEKLY.policy]
        assert [one.policy for one in beside.deployed()] == [NIGHTLY.policy]
        beside.delete(only(beside, NIGHTLY.policy))

    def test_more_schedules_than_fit_a_page_are_all_listed(self, world: SchedulerWorld) -> None:
        names = [f"policy-{n:03}" for n in range(120)]
        for name in names:
            world.scheduler.put(NIGHTLY._replace(policy=name))

        assert [one.policy for one in world.scheduler.deployed()] == names

    def test_what_the_vendor_has_no_words_for_is_refused_by_name(
        self, world: SchedulerWorld
    ) -> None:
        """O-CRON-01"""
        if world.not_possible is None:
            pytest.skip("everything can be expressed here")
        for call in (world.scheduler.terms, world.scheduler.put):
            with pytest.raises(Inexpressible, match=world.not_possible.policy):
                call(world.not_possible)

        assert list(world.scheduler.deployed()) == []

    def test_firing_by_hand_is_there_where_it_says_so(self, world: SchedulerWorld) -> None:
        put = world.scheduler.put(NIGHTLY)
        if not world.scheduler.capabilities.triggers:
            with pytest.raises(SchedulerFailed, match="by hand"):
                world.scheduler.trigger(put)
            return
        world.scheduler.trigger(put)
        if world.scheduler.capabilities.tells_runs:
            assert len(world.scheduler.runs(put, 10)) == 1

    def test_a_schedule_that_never_fired_has_no_runs(self, world: SchedulerWorld) -> None:
        assert list(world.scheduler.runs(world.scheduler.put(NIGHTLY), 10)) == []

    def test_who_does_not_answer_is_named(self, world: SchedulerWorld) -> None:
        broken = world.broken()
        for call in (broken.deployed, lambda: broken.put(NIGHTLY)):
            with pytest.raises(SchedulerFailed) as caught:
                call()
            assert caught.value.failure.failure_class is FailureClass.TRANSIENT
            assert broken.name in str(caught.value)

    def test_a_place_that_is_in_use_has_no_complaints(self, world: SchedulerWorld) -> None:
        world.scheduler.put(NIGHTLY)

        assert [found for found in world.scheduler.findings() if found.level != "info"] == []
