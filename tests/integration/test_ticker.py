"""A ticker over a whole system, with a clock that the test turns: what runs, and what is missed."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from bestbefore.app.settings import ScheduleSettings
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.run import Trigger
from bestbefore.ports.objects import StoreError
from bestbefore.read.slots import calendar_document
from bestbefore.stages.ticker import Ticker
from support.clock import ManualClock
from support.forks import until
from support.worlds import World, policy

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Night:
    """A world, a ticker in it, and what came of every slot."""

    def __init__(
        self,
        folder: Path,
        start: str,
        schedule: str,
        settings: ScheduleSettings | None = None,
        **more: Any,
    ) -> None:
        self.world = World(
            folder,
            policy(schedule=schedule, **more),
            clock=ManualClock(at(start)),
            schedule=settings,
        )
        self.clock = self.world.clock
        self.ticker = self.tickers(self.world)

    def tickers(self, world: World) -> Ticker:
        return world.system.ticker(lambda: False)

    def pass_by(self, end: str, step: timedelta = 30 * SECOND) -> None:
        """Let time pass, a tick at each step, until each plan that is begun has ended."""
        while self.clock.now() < at(end):
            self.clock.step(min(step, at(end) - self.clock.now()))
            self.tick()

    def tick(self, ticker: Ticker | None = None) -> None:
        ticker = ticker or self.ticker
        ticker.tick()
        until(lambda: not ticker.busy)
        ticker.tick()

    def restart(self, **more: Any) -> None:
        """Another process, with another policy if given."""
        self.world.restart(*([policy(**more)] if more else []))
        self.ticker = self.tickers(self.world)

    def slots(self) -> dict[str, str]:
        """The state of every slot by its time, oldest first."""
        return {slot: state for slot, (state, _) in self.reasons().items()}

    def reasons(self) -> dict[str, tuple[str, str]]:
        document = calendar_document(
            self.world.system.policy("exports"),
            self.world.system.schedule.slots,
            self.world.system.schedule.grace,
            self.clock.now(),
            days=30,
        )
        return {
            slot["slot"][5:16]: (slot["state"], slot["reason"])
            for slot in reversed(document["slots"])
        }

    def runs(self) -> list[str]:
        """The slots of all runs, oldest first."""
        found = self.world.system.records.runs(None, 1_000)
        return sorted(f"{run.slot:%m-%dT%H:%M}" for run in found)


MakeNight = Callable[..., Night]


@pytest.fixture
def night(tmp_path: Path) -> Iterator[MakeNight]:
    made: list[Night] = []

    def make(*given: Any, **more: Any) -> Night:
        made.append(Night(tmp_path, *given, **more))
        return made[-1]

    yield make
    for one in made:
        one.world.system.close()


def test_each_slot_has_one_run_and_nothing_is_fired_at_the_start(night: MakeNight) -> None:
    here = night("2026-07-01T07:30:00", "0 * * * *")
    here.tick()
    assert here.runs() == []

    here.pass_by("2026-07-01T10:01:00")

    assert here.runs() == ["07-01T08:00", "07-01T09:00", "07-01T10:00"]
    found = here.world.system.records.runs(None, 9)
    assert {run.trigger for run in found} == {Trigger.SCHEDULE}
    assert all(run.created_at - run.slot <= 30 * SECOND for run in found)


def test_two_schedulers_have_one_run_a_slot(night: MakeNight) -> None:
    """O-TICK-01: both wake in the same instant, ten times."""
    here = night("2026-07-01T07:59:30", "* * * * *")
    other = here.world.another()
    second = here.tickers(other)
    here.ticker.tick()
    second.tick()
    for _ in range(21):
        here.clock.step(30 * SECOND)
        here.ticker.tick()
        second.tick()
        until(lambda: not here.ticker.busy and not second.busy)

    assert here.runs() == [f"07-01T08:{minute:02}" for minute in range(11)]
    other.system.close()


def test_slots_under_a_pause_are_missed_and_the_next_one_takes_their_work(
    night: MakeNight,
) -> None:
    """O-TICK-02: four slots, five more objects each day; nothing fires at resume."""
    here = night("2026-06-09T12:00:00", "0 2 * * *")
    here.tick()
    here.pass_by("2026-06-10T00:00:00", step=HOUR)
    schedule = here.world.system.schedule
    misses = schedule.pause("exports", "audit", None, "eve")
    assert misses["exports"] == (at("2026-06-10T02:00:00"), None)
    for day in range(10, 14):
        here.world.put(*(f"exports/{day}-{n}.json" for n in range(5)))
        here.pass_by(f"2026-06-{day}T12:00:00", step=HOUR)

    assert here.runs() == []
    paused = [
        missed.slot for missed in schedule.slots.missed(["exports"], at("2026-06-01T00:00:00"), 99)
    ]
    assert paused == [at(f"2026-06-{day}T02:00:00") for day in (13, 12, 11, 10)]
    lifted, coming = schedule.resume("exports", "eve")
    assert lifted
    assert coming["exports"] == (at("2026-06-14T02:00:00"), False, None)
    here.pass_by("2026-06-14T01:59:00", step=HOUR)
    assert here.runs() == []

    here.pass_by("2026-06-14T02:01:00")

    (run,) = here.world.system.records.runs(None, 9)
    assert (run.slot, run.planned) == (at("2026-06-14T02:00:00"), 20)
    assert set(here.reasons().values()) == {
        ("missed", "paused: audit"),
        ("planned", f"run {run.run_id} is open"),
    }
    here.world.work()
    assert schedule.slots.missed_counts(["exports"]) == {}


def test_with_catch_up_now_one_run_makes_up_for_a_pause(night: MakeNight) -> None:
    """O-TICK-02"""
    here = night("2026-06-09T12:00:00", "0 2 * * *", catch_up=True)
    here.world.put("exports/a.json")
    here.tick()
    schedule = here.world.system.schedule
    schedule.pause(None, "audit", None, "eve")
    here.pass_by("2026-06-13T12:00:00", step=HOUR)
    assert here.runs() == []

    _, coming = schedule.resume(None, "eve")
    assert coming["exports"] == (at("2026-06-13T02:00:00"), True, None)
    here.pass_by("2026-06-13T12:01:00")

    assert here.runs() == ["06-13T02:00"]
    assert here.slots() == {
        "06-10T02:00": "skipped",
        "06-11T02:00": "skipped",
        "06-12T02:00": "skipped",
        "06-13T02:00": "late",
    }
    here.pass_by("2026-06-14T01:59:00", step=HOUR)
    assert len(here.runs()) == 1


def test_a_slot_that_has_run_does_not_run_again_when_the_clock_is_set_back(
    night: MakeNight,
) -> None:
    """O-TICK-03"""
    here = night("2026-07-01T01:50:00", "0 2 * * *")
    here.tick()
    here.pass_by("2026-07-01T02:00:05", step=5 * SECOND)
    assert here.runs() == ["07-01T02:00"]

    here.clock.set(at("2026-07-01T01:55:00"))
    here.tick()
    here.pass_by("2026-07-01T02:06:00", step=5 * SECOND)
    assert here.runs() == ["07-01T02:00"]

    here.pass_by("2026-07-02T01:59:30", step=HOUR)
    here.pass_by("2026-07-02T02:00:30")
    assert here.runs() == ["07-01T02:00", "07-02T02:00"]
    assert "missed" not in here.slots().values()


def test_a_clock_that_jumps_ahead_gives_one_run_and_the_others_are_missed(
    night: MakeNight,
) -> None:
    """O-TICK-03: from 03:00 to 06:00 by the hour, 04:00 and 05:00 are missed."""
    here = night("2026-07-01T02:59:00", "0 * * * *")
    here.tick()
    here.pass_by("2026-07-01T03:00:30", step=SECOND)
    here.clock.set(at("2026-07-01T06:00:00"))
    here.tick()
    here.pass_by("2026-07-01T06:59:00")

    assert here.runs() == ["07-01T03:00", "07-01T06:00"]
    reasons = here.reasons()
    for hour in ("04", "05"):
        state, reason = reasons[f"07-01T{hour}:00"]
        assert state == "missed"
        assert reason.startswith("the clock went from 2026-07-01T03:00:30Z to")


def test_creating_or_editing_a_schedule_fires_nothing(night: MakeNight) -> None:
    """O-TICK-04"""
    here = night("2026-07-01T07:59:41", "0 8 * * *")
    here.tick()
    assert here.runs() == []
    here.pass_by("2026-07-01T08:00:01", step=SECOND)
    assert here.runs() == ["07-01T08:00"]

    here.clock.set(at("2026-07-01T23:59:30"))
    here.restart(schedule="0 0 * * *")
    here.tick()
    here.pass_by("2026-07-02T00:00:30", step=SECOND)
    here.pass_by("2026-07-02T16:20:00", step=HOUR)
    here.restart(schedule="0 1 * * *")
    here.tick()
    assert here.runs() == ["07-01T08:00", "07-02T00:00"]

    here.pass_by("2026-07-03T00:59:30", step=HOUR)
    here.pass_by("2026-07-03T01:00:30")
    assert here.runs() == ["07-01T08:00", "07-02T00:00", "07-03T01:00"]
    assert "missed" not in here.slots().values()


@pytest.mark.parametrize(("catch_up", "runs"), [(False, []), (True, ["07-01T02:00"])])
def test_after_a_crash_a_missed_slot_waits_for_the_next_one_or_runs_once(
    night: MakeNight, catch_up: bool, runs: list[str]
) -> None:
    """O-TICK-05: down from 01:00 to 05:00."""
    here = night("2026-07-01T00:30:00", "0 2 * * *", catch_up=catch_up)
    here.tick()
    here.pass_by("2026-07-01T01:00:00")
    here.clock.set(at("2026-07-01T05:00:00"))
    here.restart()
    here.tick()
    here.pass_by("2026-07-01T05:10:00")
    assert here.runs() == runs
    here.pass_by("2026-07-02T01:59:00", step=HOUR)
    assert here.runs() == runs

    here.pass_by("2026-07-02T02:00:30")
    assert here.runs() == [*runs, "07-02T02:00"]


def test_a_restart_within_the_grace_still_answers_the_slot(night: MakeNight) -> None:
    here = night("2026-07-01T01:30:00", "0 2 * * *")
    here.tick()
    here.clock.set(at("2026-07-01T02:10:00"))
    here.restart()
    here.tick()

    assert here.runs() == ["07-01T02:00"]
    assert here.slots() == {"07-01T02:00": "drained"}


def test_a_trigger_a_few_seconds_early_answers_the_coming_slot(night: MakeNight) -> None:
    here = night("2026-07-01T01:30:00", "0 2 * * *")
    here.tick()
    here.pass_by("2026-07-01T01:59:40", step=10 * SECOND)
    found = here.world.system.policy("exports")
    slot = here.world.system.slot(found, None, Trigger.HTTP)
    assert slot == at("2026-07-01T02:00:00")
    here.world.plan(slot=slot, trigger=Trigger.HTTP)

    here.pass_by("2026-07-01T03:00:00")

    assert here.runs() == ["07-01T02:00"]
    assert here.slots() == {"07-01T02:00": "drained"}


def test_a_store_that_is_back_within_the_grace_costs_no_slot(
    night: MakeNight, caplog: pytest.LogCaptureFixture
) -> None:
    here = night("2026-07-01T01:59:00", "0 2 * * *")
    here.world.put("exports/a.json")
    here.tick()
    broken(here.world)
    here.pass_by("2026-07-01T02:05:00")
    tries = caplog.text.count("could not be planned: no route to host")
    assert 3 <= tries <= 9, "it is tried again, ever more rarely"
    here.world.store.listing = lambda: None

    here.pass_by("2026-07-01T02:10:00")

    (run,) = here.world.system.records.runs(None, 9)
    assert (run.complete, run.planned) == (True, 1)
    assert here.slots() == {"07-01T02:00": "planned"}


@pytest.mark.parametrize("catch_up", [False, True])
def test_a_store_that_stays_away_is_why_a_slot_was_missed(night: MakeNight, catch_up: bool) -> None:
    here = night("2026-07-01T01:59:00", "0 2 * * *", catch_up=catch_up)
    here.world.put("exports/a.json")
    here.tick()
    broken(here.world)
    here.pass_by("2026-07-01T03:00:00")

    ((state, reason),) = here.reasons().values()
    assert state == "missed"
    assert "was begun and not planned to its end: " in reason
    assert "no route to host" in reason
    here.world.store.listing = lambda: None
    here.pass_by("2026-07-01T03:10:00")
    assert here.slots() == {"07-01T02:00": "late" if catch_up else "missed"}


def test_a_process_that_fires_nothing_still_sees_what_is_missed(night: MakeNight) -> None:
    settings = ScheduleSettings(kind="none")
    here = night("2026-07-01T01:59:00", "0 2 * * *", settings=settings)
    here.tick()
    here.pass_by("2026-07-01T02:20:00")

    assert here.runs() == []
    assert here.reasons() == {"07-01T02:00": ("missed", "nobody answered within 15 min")}


def test_one_long_plan_delays_no_other_policy_and_a_stop_ends_it(tmp_path: Path) -> None:
    slow, quick = policy("slow", store="t", schedule="0 2 * * *"), policy(schedule="0 2 * * *")
    clock = ManualClock(at("2026-07-01T01:59:30"))
    with World(tmp_path, slow, quick, clock=clock) as world:
        stop: list[bool] = []
        ticker = world.system.ticker(lambda: bool(stop))
        ticker.tick()
        world.fill(3, store="t")
        held, release = Event(), Event()

        def hold() -> None:
            held.set()
            release.wait(60)

        world.stores["t"].listing = hold
        clock.step(MINUTE)
        ticker.tick()
        until(held.is_set)
        until(lambda: [run for run in world.system.records.runs("exports", 9) if run.complete])
        assert not [run for run in world.system.records.runs("slow", 9) if run.complete]
        stop.append(True)
        release.set()
        ticker.run()  # ends, as it was told to stop, once the plan has
        assert not ticker.busy


def broken(world: World) -> None:
    """Have every listing fail."""

    def fail() -> None:
        raise StoreError(Failure(FailureClass.TRANSIENT, "no route to host"))

    world.store.listing = fail
