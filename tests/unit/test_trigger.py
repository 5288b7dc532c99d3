"""Which slot a trigger means."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bestbefore.adapters.schedulers.cron import CronCalendar
from bestbefore.domain.run import Trigger
from bestbefore.stages.trigger import SlotRefused, choose_slot
from support.worlds import policy

EARLY = timedelta(seconds=60)


class NoRuns:
    """A ledger as far as a trigger asks it: there is no run."""

    def open_run_slot(self, _policy: object) -> None:
        return None


def chosen(
    schedule: str | None, now: str, trigger: Trigger = Trigger.RUN, wanted: str | None = None
) -> str:
    ledger: Any = NoRuns()
    slot = choose_slot(
        policy(schedule=schedule),
        at(wanted) if wanted else None,
        CronCalendar(),
        ledger,
        at(now),
        trigger,
        EARLY,
    )
    return slot.strftime("%dT%H:%M:%S")


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-07-{text}").replace(tzinfo=UTC)


@pytest.mark.parametrize("trigger", [Trigger.RUN, Trigger.HTTP, Trigger.SCHEDULE])
@pytest.mark.parametrize(
    ("schedule", "now", "slot"),
    [
        ("0 2 * * *", "01T02:00:00", "01T02:00:00"),
        ("0 2 * * *", "01T01:59:57", "01T02:00:00"),
        ("0 2 * * *", "01T01:59:00", "01T02:00:00"),
        ("0 2 * * *", "01T01:58:59", "30T02:00:00"),  # of June
        ("0 2 * * *", "01T02:00:30", "01T02:00:00"),
        ("* * * * *", "01T02:00:05", "01T02:00:00"),
        ("* * * * *", "01T02:00:30", "01T02:01:00"),
        ("* * * * *", "01T02:00:55", "01T02:01:00"),
        (None, "01T02:00:55", "01T02:00:55"),
    ],
)
def test_a_trigger_that_is_a_little_early_answers_the_coming_slot_if_that_is_nearer(
    schedule: str | None, now: str, slot: str, trigger: Trigger
) -> None:
    assert chosen(schedule, now, trigger) == slot


@pytest.mark.parametrize("now", ["01T01:59:57", "01T01:00:00"])
def test_a_typed_plan_means_the_latest_slot_that_is_due(now: str) -> None:
    assert chosen("0 2 * * *", now, Trigger.PLAN) == "30T02:00:00"


def test_a_slot_that_is_named_may_be_as_early_and_no_earlier() -> None:
    assert chosen("0 2 * * *", "01T01:59:00.5", Trigger.PLAN, "01T02:00:00") == "01T02:00:00"
    with pytest.raises(SlotRefused, match="the slot 2026-07-01T02:00:00Z is in the future"):
        chosen("0 2 * * *", "01T01:58:59", Trigger.HTTP, "01T02:00:00")
