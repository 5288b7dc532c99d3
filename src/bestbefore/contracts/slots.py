"""What every place for slots has to do. To run it over one::

class TestMySlots(SlotsContract):
    @pytest.fixture
    def slots(self) -> Slots: ...     # of the same, empty ledger as the fixture ``sides``
"""

import time
from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.contracts.ledger_world import LEASE, ME, POLICY, Ledger, Sides
from bestbefore.domain.run import Trigger
from bestbefore.domain.slots import Slot, SlotState, state_of
from bestbefore.ports.controls import Controls
from bestbefore.ports.slots import LOOK_EVERY, MOST_KEPT, Expected, Jump, Slots, Watched

START = datetime(2026, 7, 1, 1, 59, tzinfo=UTC)
FIRST = datetime(2026, 7, 1, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
GRACE = 15 * MINUTE
NAMES = frozenset({POLICY.name, "another"})

HOURLY = Expected(POLICY.name, "0 * * * *", "UTC")
DAILY = Expected(POLICY.name, "0 2 * * *", "UTC")
NIGHTLY = Expected(POLICY.name, "30 3 * * *", "UTC")


class SlotsContract:
    """Inherit, and give the fixtures ``slots`` and ``sides``."""

    @pytest.fixture
    def ledger(self, sides: Sides) -> Ledger:
        return Ledger(sides)

    @pytest.fixture
    def controls(self, sides: Sides) -> Controls:
        return sides.controls

    # -- what is expected --------------------------------------------------------------------

    def test_a_new_schedule_expects_nothing_before_it_is_known_o_tick_04(
        self, slots: Slots
    ) -> None:
        at = FIRST + 30 * MINUTE
        assert slots.look(HOURLY, GRACE, at) is None
        assert slots.look(HOURLY, GRACE, at + 29 * MINUTE) is None

        assert newest(slots, HOURLY, FIRST + HOUR) == Slot(POLICY.name, FIRST + HOUR)

    def test_the_slot_of_the_very_instant_a_schedule_is_first_seen_is_not_expected(
        self, slots: Slots
    ) -> None:
        assert slots.look(HOURLY, GRACE, FIRST) is None

    def test_a_slot_that_comes_is_due_and_then_missed(self, slots: Slots) -> None:
        slots.look(HOURLY, GRACE, START)

        assert states(slots, FIRST, HOURLY) == ["due"]
        assert states(slots, FIRST + GRACE, HOURLY) == ["due"]
        assert slots.missed(NAMES, START, 9) == []
        late = FIRST + GRACE + timedelta(seconds=1)
        assert states(slots, late, HOURLY) == ["missed"]
        (missed,) = slots.missed(NAMES, START, 9)
        assert missed == (POLICY.name, FIRST, "nobody answered within 15 min", late, None)
        assert slots.missed_counts(NAMES) == {POLICY.name: 1}

    def test_slots_that_came_while_nobody_looked_are_missed_for_that_reason(
        self, slots: Slots
    ) -> None:
        slots.look(HOURLY, GRACE, START)
        back = FIRST + 3 * HOUR + MINUTE

        assert states(slots, back, HOURLY) == ["due", "missed", "missed", "missed"]
        assert {missed.reason for missed in slots.missed(NAMES, START, 9)} == {
            "nobody looked between 2026-07-01T01:59:00Z and 2026-07-01T05:01:00Z "
            "(no bestbefore process was running)"
        }

    def test_a_clock_that_jumps_is_the_reason_where_somebody_saw_it(self, slots: Slots) -> None:
        slots.look(HOURLY, GRACE, START)
        now = FIRST + HOUR + MINUTE
        slots.look(HOURLY, GRACE, now, Jump(START + timedelta(seconds=30), now))

        (missed,) = slots.missed(NAMES, START, 9)
        assert missed.slot == FIRST
        assert missed.reason.startswith(
            "the clock went from 2026-07-01T01:59:30Z to 2026-07-01T03:01:00Z at once"
        )

    def test_looking_again_says_nothing_new(self, slots: Slots) -> None:
        slots.look(HOURLY, GRACE, START)
        for _ in range(3):
            assert states(slots, FIRST + 5 * HOUR, HOURLY) == ["due", *["missed"] * 5]

    def test_an_edited_schedule_expects_nothing_before_the_edit_o_tick_04(
        self, slots: Slots
    ) -> None:
        slots.look(DAILY, GRACE, START)
        edited = FIRST + 6 * HOUR
        assert slots.look(NIGHTLY, GRACE, edited) is None
        assert slots.look(NIGHTLY, GRACE, edited + HOUR) is None
        expected = FIRST + DAY + HOUR + 30 * MINUTE
        assert newest(slots, NIGHTLY, expected).at == expected

        # And back again, long after: what it would have named meanwhile was not expected.
        assert slots.look(DAILY, GRACE, expected + 3 * DAY) is None
        assert [slot.at for slot in slots.history(POLICY.name, START, 9)] == [expected]

    def test_another_time_zone_is_another_schedule(self, slots: Slots) -> None:
        slots.look(DAILY, GRACE, START)
        assert slots.look(DAILY._replace(timezone="Asia/Tokyo"), GRACE, FIRST + 20 * HOUR) is None

    def test_two_files_that_are_in_use_at_once_lose_no_slot(self, slots: Slots) -> None:
        """As while a fleet is restarted with another schedule: each look is by turns."""
        at = START
        while at < FIRST + 2 * HOUR:
            slots.look(DAILY, GRACE, at)
            slots.look(NIGHTLY, GRACE, at + LOOK_EVERY / 2)
            at += LOOK_EVERY

        slots_seen = [slot.at for slot in slots.history(POLICY.name, START, 9)]
        assert slots_seen == [FIRST + HOUR + 30 * MINUTE, FIRST]

    def test_a_schedule_that_was_taken_out_and_put_back_is_new(self, slots: Slots) -> None:
        slots.look(HOURLY, GRACE, START)
        slots.look(HOURLY, GRACE, FIRST)
        assert slots.look(HOURLY._replace(schedule=None), GRACE, FIRST + MINUTE) is None

        assert slots.look(HOURLY, GRACE, FIRST + 5 * HOUR) is None
        assert list(slots.history(POLICY.name, START, 9)) == []

    def test_a_year_without_anybody_is_noted_quickly_and_in_part(self, slots: Slots) -> None:
        minutely = Expected(POLICY.name, "* * * * *", "Europe/Berlin")
        slots.look(minutely, GRACE, START)
        started = time.process_time()
        slots.look(minutely, GRACE, START + 365 * DAY)

        assert time.process_time() - started < 5
        kept = slots.history(POLICY.name, START, 2 * MOST_KEPT)
        assert len(kept) == MOST_KEPT
        assert kept[0].at == START + 365 * DAY
        assert kept[-1].verdict is not None
        assert kept[-1].verdict.reason.endswith("; slots before it are not listed")
        assert kept[-2].verdict is not None
        assert not kept[-2].verdict.reason.endswith("listed")

    def test_a_slot_that_two_schedules_name_keeps_its_verdict(self, slots: Slots) -> None:
        more = HOURLY._replace(schedule="0,30 * * * *")
        slots.look(HOURLY, GRACE, START)
        slots.look(more, GRACE, START)
        slots.look(HOURLY, GRACE, FIRST)
        slots.failed(POLICY.name, FIRST, "no route to s")
        slots.look(more, GRACE, FIRST + MINUTE)

        assert states(slots, FIRST + 20 * MINUTE, more) == ["missed"]
        (missed,) = slots.missed(NAMES, START, 9)
        assert missed.reason == "planning failed: no route to s"

    # -- clocks ------------------------------------------------------------------------------

    def test_a_clock_that_is_a_little_behind_changes_nothing(self, slots: Slots) -> None:
        slots.look(HOURLY, GRACE, START)
        slots.look(HOURLY, GRACE, FIRST)
        assert slots.look(HOURLY, GRACE, FIRST - MINUTE) is None

        assert states(slots, FIRST, HOURLY) == ["due"]

    def test_slots_of_a_clock_that_was_ahead_come_once_more(self, slots: Slots) -> None:
        """O-TICK-03: else nothing would be expected for years."""
        slots.look(HOURLY, GRACE, START)
        slots.look(HOURLY, GRACE, START + 4 * 365 * DAY)
        assert slots.look(HOURLY, GRACE, START) is None

        assert list(slots.history(POLICY.name, START, 9)) == []
        assert states(slots, FIRST, HOURLY) == ["due"]

    # -- answers -----------------------------------------------------------------------------

    def test_an_answered_slot_is_told_by_its_run(self, slots: Slots, ledger: Ledger) -> None:
        slots.look(DAILY, GRACE, START)
        slots.look(DAILY, GRACE, FIRST)
        run = ledger.plan("a", slot=FIRST)
        assert states(slots, FIRST + HOUR, DAILY) == ["planned"]
        ledger.end()
        assert states(slots, FIRST + HOUR, DAILY) == ["drained"]
        (slot,) = slots.history(POLICY.name, START, 9)
        assert slot.run is not None
        assert slot.run.run_id == run.run_id
        assert slots.missed(NAMES, START, 9) == []

    def test_a_slot_that_was_answered_early_is_not_missed(
        self, slots: Slots, ledger: Ledger
    ) -> None:
        slots.look(DAILY, GRACE, START)
        ledger.plan("a", slot=FIRST, now=FIRST - timedelta(seconds=20))

        assert states(slots, FIRST + 5 * HOUR, DAILY) == ["planned"]

    def test_a_missed_slot_that_is_answered_after_all_is_late(
        self, slots: Slots, ledger: Ledger
    ) -> None:
        slots.look(DAILY, GRACE, START)
        slots.look(DAILY, GRACE, FIRST + HOUR)
        ledger.plan("a", slot=FIRST, now=FIRST + 2 * HOUR)

        assert states(slots, FIRST + 2 * HOUR, DAILY) == ["late"]
        assert slots.missed(NAMES, START, 9) == []
        assert slots.missed_counts(NAMES) == {}

    def test_a_later_run_that_drains_makes_up_for_missed_slots(
        self, slots: Slots, ledger: Ledger
    ) -> None:
        slots.look(HOURLY, GRACE, START)
        slots.look(HOURLY, GRACE, FIRST + HOUR + GRACE)
        noticed = FIRST + HOUR + GRACE
        run = ledger.plan("a", slot=FIRST + 2 * HOUR)
        assert [missed.made_up_by for missed in slots.missed(NAMES, START, 9)] == [None]
        ledger.end()

        assert [missed.made_up_by for missed in slots.missed(NAMES, START, 9)] == [run.run_id]
        assert slots.missed(NAMES, noticed + MINUTE, 9) == []
        assert slots.missed_counts(NAMES) == {}

    def test_policies_that_nobody_asks_about_are_left_out(self, slots: Slots) -> None:
        """A policy that is in no file any more would be missed for ever."""
        slots.look(HOURLY, GRACE, START)
        slots.look(HOURLY, GRACE, FIRST + HOUR)

        assert len(slots.missed(NAMES, START, 9)) == 1
        assert slots.missed({"another"}, START, 9) == []
        assert slots.missed_counts({"another"}) == {}
        assert slots.missed_counts([]) == {}

    def test_history_has_runs_of_instants_that_no_schedule_names(
        self, slots: Slots, ledger: Ledger
    ) -> None:
        odd = FIRST + 7 * MINUTE
        ledger.plan("a", slot=odd)
        slots.look(HOURLY, GRACE, odd)
        slots.look(HOURLY, GRACE, FIRST + HOUR)

        found = slots.history(POLICY.name, START, 9)
        assert [slot.at for slot in found] == [FIRST + HOUR, odd]
        assert [slot.at for slot in slots.history(POLICY.name, START, 1)] == [FIRST + HOUR]
        assert [slot.at for slot in slots.history(POLICY.name, FIRST + HOUR, 9)] == [FIRST + HOUR]
        assert list(slots.history("other", START, 9)) == []

    # -- pauses ------------------------------------------------------------------------------

    @pytest.mark.parametrize("policy", [POLICY.name, None])
    def test_what_comes_under_a_pause_is_missed_at_once(
        self, slots: Slots, controls: Controls, policy: str | None
    ) -> None:
        slots.look(HOURLY, GRACE, START)
        controls.pause(policy, "audit", None, ME, START)
        for hours in range(3):
            slots.look(HOURLY, GRACE, FIRST + hours * HOUR)

        assert [missed.reason for missed in slots.missed(NAMES, START, 9)] == ["paused: audit"] * 3
        assert slots.missed_counts(NAMES) == {POLICY.name: 3}

    def test_a_pause_that_ended_before_anybody_looked_is_still_the_reason(
        self, slots: Slots, controls: Controls
    ) -> None:
        slots.look(HOURLY, GRACE, START)
        controls.pause(POLICY.name, "audit", FIRST + HOUR + MINUTE, ME, START)
        slots.look(HOURLY, GRACE, FIRST + 3 * HOUR)

        reasons = {missed.slot: missed.reason for missed in slots.missed(NAMES, START, 9)}
        assert reasons.pop(FIRST + 2 * HOUR).startswith("nobody looked between")
        assert reasons == dict.fromkeys((FIRST, FIRST + HOUR), "paused: audit")

    def test_the_pause_of_another_policy_is_nothing(self, slots: Slots, controls: Controls) -> None:
        controls.pause("other", "audit", None, ME, START)
        slots.look(HOURLY, GRACE, START)
        assert states(slots, FIRST, HOURLY) == ["due"]

    # -- planning that lasts, fails or is left -----------------------------------------------

    def test_a_slot_that_comes_while_an_earlier_one_is_planned_is_skipped(
        self, slots: Slots, ledger: Ledger
    ) -> None:
        slots.look(HOURLY, GRACE, START)
        busy = ledger.answer(slot=FIRST).run
        planner(ledger, FIRST + HOUR)
        watched = slots.look(HOURLY, GRACE, FIRST + HOUR)
        assert watched is not None
        assert watched.seen.ahead == busy.run_id
        planner(ledger, FIRST + HOUR + GRACE)

        slots.look(HOURLY, GRACE, FIRST + HOUR + GRACE + timedelta(seconds=1))

        newest, oldest = slots.history(POLICY.name, START, 9)
        assert state_of(newest, GRACE, FIRST + 2 * HOUR) == (
            SlotState.SKIPPED,
            f"overlap: run {busy.run_id} of an earlier slot was still being planned",
        )
        assert state_of(oldest, GRACE, FIRST + HOUR)[0] is SlotState.PLANNED
        assert slots.missed(NAMES, START, 9) == []

    def test_why_planning_failed_is_why_the_slot_was_missed(self, slots: Slots) -> None:
        slots.look(DAILY, GRACE, START)
        slots.look(DAILY, GRACE, FIRST)
        slots.failed(POLICY.name, FIRST, "no route to s")
        slots.failed(POLICY.name, FIRST, "no route to s at all")
        slots.look(DAILY, GRACE, FIRST + HOUR)

        assert [missed.reason for missed in slots.missed(NAMES, START, 9)] == [
            "planning failed: no route to s at all"
        ]

    def test_a_plan_that_was_begun_and_left_is_missed_until_somebody_ends_it(
        self, slots: Slots, ledger: Ledger
    ) -> None:
        slots.look(DAILY, GRACE, START)
        answer = ledger.answer(slot=FIRST)
        assert states(slots, FIRST, DAILY) == ["planned"]

        assert states(slots, FIRST + HOUR, DAILY) == ["missed"]
        assert "its planner is gone" in slots.missed(NAMES, START, 9)[0].reason
        again = ledger.plans.resume(answer.run.row, FIRST + HOUR, LEASE)
        assert again is not None
        ledger.conclude(again, POLICY, FIRST + HOUR)
        assert states(slots, FIRST + HOUR, DAILY) == ["drained"]
        assert slots.history(POLICY.name, START, 9)[0].late_by(GRACE) == HOUR
        assert slots.missed(NAMES, START, 9) == []

    def test_a_run_takes_the_work_of_slots_before_it(self, slots: Slots, ledger: Ledger) -> None:
        five = Expected(POLICY.name, "*/5 * * * *", "UTC")
        slots.look(five, GRACE, FIRST + MINUTE)
        now = FIRST + 15 * MINUTE
        slots.look(five, GRACE, now)
        ledger.plan("a", slot=now)
        slots.collapse(POLICY.name, now, now, missed=False)

        assert states(slots, now + HOUR, five)[-3:] == ["planned", "skipped", "skipped"]

    def test_missed_slots_collapse_only_into_a_run_that_makes_up_for_them(
        self, slots: Slots, ledger: Ledger
    ) -> None:
        slots.look(HOURLY, GRACE, START)
        for hours in range(6):
            slots.look(HOURLY, GRACE, FIRST + hours * HOUR + GRACE + MINUTE)
        ledger.plan("a", slot=FIRST + HOUR)
        last = FIRST + 5 * HOUR
        ledger.plan("b", slot=last, trigger=Trigger.SCHEDULE, now=last + HOUR)

        slots.collapse(POLICY.name, last, last + HOUR, missed=False)
        assert [missed.slot for missed in slots.missed(NAMES, START, 9)] == [
            FIRST + hours * HOUR for hours in (4, 3, 2, 0)
        ]
        slots.collapse(POLICY.name, last, last + HOUR, missed=True)
        # The first one is behind a slot that was answered.
        assert [missed.slot for missed in slots.missed(NAMES, START, 9)] == [FIRST]


def newest(slots: Slots, expected: Expected, now: datetime) -> Slot:
    """The newest slot there is at *now*, which has to be one."""
    watched: Watched | None = slots.look(expected, GRACE, now)
    assert watched is not None
    return watched.slot


def states(slots: Slots, now: datetime, expected: Expected) -> list[str]:
    """Look, and tell the states of all slots since `START`, newest first."""
    slots.look(expected, GRACE, now)
    return [state_of(slot, GRACE, now)[0].value for slot in slots.history(POLICY.name, START, 99)]


def planner(ledger: Ledger, now: datetime) -> None:
    """Have somebody hold the newest unfinished plan at *now*."""
    (unfinished,) = ledger.plans.unfinished(now)
    assert ledger.plans.resume(unfinished.row, now, LEASE) is not None
