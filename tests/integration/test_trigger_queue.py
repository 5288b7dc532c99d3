"""An outside scheduler, a queue of triggers and a whole system, with a clock that the test turns.

moto holds the schedules and the queue, and `support.eventbridge.Service` fires.
"""

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bestbefore.app import reporting
from bestbefore.app.schedulers import scheduler_of, trigger_queue_of
from bestbefore.app.settings import OutsideSettings, ScheduleSettings
from bestbefore.app.syncing import synced
from bestbefore.app.trigger_queue import TriggerQueue
from bestbefore.app.triggers import Triggers
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Trigger
from bestbefore.ports.objects import StoreError
from bestbefore.stages.work import Options
from support.clock import ManualClock
from support.eventbridge import (
    REGION,
    Service,
    left_in,
    queue,
    remove_groups,
    role,
    settings,
    sqs,
)
from support.forks import until
from support.moto import Moto
from support.worlds import World, policy

HOURLY = policy(schedule="0 * * * *")
IN_NEW_YORK = policy("tokens", schedule="30 1 * * *", timezone="America/New_York")
START = datetime(2026, 7, 1, 7, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NOW = timedelta(0)


class Fleet:
    """One process of ours, its triggers, and the service that sends them."""

    def __init__(self, folder: Path, moto: Moto, *policies: Policy) -> None:
        self.moto = moto
        self.url = queue(moto)
        self.outside = OutsideSettings(
            group=f"test-{uuid.uuid4().hex[:12]}",
            role_arn=role(moto),
            region=REGION,
            endpoint_url=moto.endpoint,
            access_key_id="key-id",
            secret_access_key="secret",
            trigger_queue_url=self.url,
        )
        self.schedule = ScheduleSettings(kind="eventbridge", outside=self.outside)
        self.world = World(folder, *policies, clock=ManualClock(START), schedule=self.schedule)
        self.clock = self.world.clock
        self.system = self.world.system
        self.triggers = Triggers(
            self.system, self.system, Options(drain=True), lambda: False, work=False
        )
        broker = trigger_queue_of(self.system.settings)
        assert broker is not None
        self.broker = broker
        self.queue = TriggerQueue(
            broker.transport, self.triggers, self.system, lambda: False, lambda _: None
        )
        self.service = Service(moto, self.outside.group, self.url)
        self.ticker = self.system.ticker(lambda: False)

    def close(self) -> None:
        self.triggers.close(10)
        self.broker.close()
        self.world.system.close()
        remove_groups(settings(self.moto.endpoint, self.outside.role_arn), self.outside.group)

    def say(self, body: bytes | dict[str, Any]) -> None:
        text = body.decode() if isinstance(body, bytes) else json.dumps(body)
        sqs(self.moto).send_message(QueueUrl=self.url, MessageBody=text)

    def answer(self) -> None:
        """Take what is in the queue until nothing new is there and all of it is begun."""
        self.queue.turn(NOW)
        until(self._turned)

    def _turned(self) -> bool:
        if self.queue.busy:
            self.queue.turn(NOW)
        return not self.queue.busy

    def pass_by(self, end: str, step: timedelta = 5 * MINUTE) -> None:
        """Let time pass: the service fires, we answer and look."""
        stop = datetime.fromisoformat(end).replace(tzinfo=UTC)
        while self.clock.now() < stop:
            before = self.clock.now()
            self.clock.step(min(step, stop - before))
            self.service.pass_by(before, self.clock.now())
            self.answer()
            self.ticker.tick()

    def runs(self) -> list[str]:
        found = self.system.records.runs(None, 1_000)
        return sorted(f"{run.policy} {run.slot:%m-%dT%H:%M}" for run in found)

    def counts(self) -> dict[str, float]:
        """What a scrape says of triggers; nothing of those that there were none of."""
        (measure,) = [
            one
            for one in reporting.measures(self.system, {})
            if one.family.name == "bestbefore_triggers_total"
        ]
        return {sample.labels[0]: sample.value for sample in measure.samples if sample.value}

    def missed(self) -> list[tuple[str, str]]:
        document = reporting.status(self.system)
        return [(one["slot"][5:16], one["reason"]) for one in document["missed"]]


@pytest.fixture
def fleet(tmp_path: Path, moto: Moto) -> Iterator[Fleet]:
    made = Fleet(tmp_path, moto, HOURLY, IN_NEW_YORK)
    yield made
    made.close()


def drifts(fleet: Fleet) -> list[str]:
    document, _ = synced(fleet.system, dry_run=True)
    return [f"{one['policy']}: {one['drift']}" for one in document["differences"]]


def test_each_time_the_scheduler_fires_is_the_run_of_that_slot(fleet: Fleet) -> None:
    synced(fleet.system, dry_run=False)

    fleet.pass_by("2026-07-01T10:10:00")

    assert fleet.runs() == ["exports 07-01T08:00", "exports 07-01T09:00", "exports 07-01T10:00"]
    assert fleet.missed() == []
    assert left_in(fleet.moto, fleet.url) == 0
    found = fleet.system.records.runs(None, 9)
    assert {run.trigger for run in found} == {Trigger.SCHEDULE}
    assert {run.created_by for run in found} == {"bestbefore-exports"}


def test_a_schedule_that_is_disabled_over_a_slot_shows_as_a_missed_slot(fleet: Fleet) -> None:
    """O-TICK-02, P6: whoever switched it off, and although nobody tells."""
    synced(fleet.system, dry_run=False)
    fleet.pass_by("2026-07-01T08:10:00")
    with scheduler_of(fleet.system.settings) as scheduler:
        scheduler.pause(scheduler.deployed()[0])

    fleet.pass_by("2026-07-01T10:20:00")

    late = "nobody answered within 15 min"
    assert fleet.missed() == [("07-01T10:00", late), ("07-01T09:00", late)]
    assert fleet.runs() == ["exports 07-01T08:00"]
    assert drifts(fleet) == ["exports: disabled"]

    document, in_line = synced(fleet.system, dry_run=False)
    assert in_line
    assert [one["result"] for one in document["differences"]] == ["done"]
    assert drifts(fleet) == []

    fleet.pass_by("2026-07-01T11:10:00")
    assert fleet.runs() == ["exports 07-01T08:00", "exports 07-01T11:00"]


def test_a_policy_that_is_paused_here_is_not_paused_there_and_its_slots_say_why(
    fleet: Fleet,
) -> None:
    synced(fleet.system, dry_run=False)
    fleet.pass_by("2026-07-01T08:10:00")
    fleet.system.schedule.pause("exports", "audit", None, "ada")

    assert drifts(fleet) == []
    fleet.pass_by("2026-07-01T09:10:00")

    assert fleet.missed() == [("07-01T09:00", "paused: audit")]
    assert left_in(fleet.moto, fleet.url) == 0
    assert fleet.counts() == {"paused": 1, "begun": 1}


def test_a_trigger_that_comes_twice_is_one_run(fleet: Fleet) -> None:
    """P5"""
    fleet.clock.step(timedelta(hours=1))
    for _ in range(3):
        fleet.say({"policy": "exports", "slot": "2026-07-01T08:00:00Z"})

    fleet.answer()

    assert fleet.runs() == ["exports 07-01T08:00"]
    assert left_in(fleet.moto, fleet.url) == 0


def test_a_trigger_that_was_long_under_way_answers_the_slot_it_names(fleet: Fleet) -> None:
    fleet.clock.step(timedelta(hours=5))
    fleet.say({"policy": "exports", "slot": "2026-07-01T08:00:00Z"})

    fleet.answer()

    assert fleet.runs() == ["exports 07-01T08:00"]


def test_a_time_that_is_no_slot_of_ours_answers_the_one_before_it(fleet: Fleet) -> None:
    """Clocks and schedules differ, and so does what is done in an hour that comes twice."""
    fleet.clock.step(timedelta(hours=1))
    fleet.say({"policy": "exports", "slot": "2026-07-01T08:00:43Z"})
    fleet.say({"policy": "exports", "slot": "2026-07-01T08:20:00Z"})

    fleet.answer()

    assert fleet.runs() == ["exports 07-01T08:00"]


@pytest.mark.parametrize("fired", ["05:30:00", "06:30:00"])
def test_an_hour_that_comes_twice_is_one_slot_whenever_they_fire(fleet: Fleet, fired: str) -> None:
    """O-DST-01: 01:30 in New York is at 05:30 and at 06:30 that day, and the first is the slot."""
    fleet.clock.step(datetime(2026, 11, 1, 6, 31, tzinfo=UTC) - fleet.clock.now())
    fleet.say({"policy": "tokens", "slot": f"2026-11-01T{fired}Z"})

    fleet.answer()

    assert fleet.runs() == ["tokens 11-01T05:30"]


def test_a_trigger_without_a_time_answers_the_latest_slot(fleet: Fleet) -> None:
    fleet.clock.step(timedelta(hours=1))
    fleet.say({"policy": "exports"})

    fleet.answer()

    assert fleet.runs() == ["exports 07-01T08:00"]


def test_what_cannot_be_read_or_names_nobody_stays_in_the_queue_and_is_told_once(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """O-MSG-01: its own dead letters take it, with every byte; the others are answered."""
    fleet.clock.step(timedelta(hours=1))
    fleet.say(b"hello")
    fleet.say({"policy": "unheard-of", "slot": "2026-07-01T08:00:00Z"})
    fleet.say({"policy": "exports", "slot": "2027-07-01T08:00:00Z"})
    fleet.say({"policy": "exports", "slot": "2026-07-01T08:00:00Z"})

    fleet.answer()

    assert fleet.runs() == ["exports 07-01T08:00"]
    assert left_in(fleet.moto, fleet.url) == 3
    assert fleet.counts() == {"unreadable": 1, "unknown_policy": 1, "refused": 1, "begun": 1}
    told = [record.message for record in caplog.records if "dead letters" in record.message]
    assert len(told) == 3

    fleet.say(b"hello")
    fleet.answer()
    assert fleet.counts()["unreadable"] == 2
    assert len([r for r in caplog.records if "dead letters" in r.message]) == 3


def test_a_trigger_whose_run_cannot_be_begun_is_kept_and_its_slot_says_why(fleet: Fleet) -> None:
    """P4, P6: here as the clocks of this machine and of the store do not agree."""
    fleet.ticker.tick()
    fleet.clock.step(timedelta(minutes=30))
    fleet.ticker.tick()
    fleet.world.store.server_time = fleet.clock.now() + timedelta(hours=1)
    fleet.say({"policy": "exports", "slot": "2026-07-01T08:00:00Z"})

    fleet.answer()

    assert fleet.runs() == []
    assert left_in(fleet.moto, fleet.url) == 1
    assert fleet.counts() == {"failed": 1}
    fleet.clock.step(timedelta(minutes=20))
    fleet.ticker.tick()
    [(slot, reason)] = fleet.missed()
    assert slot == "07-01T08:00"
    assert reason.startswith("planning failed: ")


def test_a_trigger_whose_plan_cannot_go_on_is_done_once_its_run_is_in_the_ledger(
    fleet: Fleet,
) -> None:
    """Any process goes on with a plan that was begun."""
    fleet.clock.step(timedelta(minutes=30))

    def fail() -> None:
        raise StoreError(Failure(FailureClass.TRANSIENT, "no route to host"))

    fleet.world.store.listing = fail
    fleet.say({"policy": "exports", "slot": "2026-07-01T08:00:00Z"})

    fleet.answer()

    assert fleet.runs() == ["exports 07-01T08:00"]
    assert left_in(fleet.moto, fleet.url) == 0
    fleet.world.store.listing = lambda: None
    fleet.clock.step(timedelta(minutes=2))
    assert fleet.system.plan_on(lambda: False)
    [run] = fleet.system.records.runs(None, 9)
    assert run.complete


def test_at_the_end_what_is_not_begun_is_given_back(fleet: Fleet) -> None:
    stopped = TriggerQueue(
        fleet.broker.transport, fleet.triggers, fleet.system, lambda: True, lambda _: None
    )
    fleet.say({"policy": "exports", "slot": "2026-07-01T07:00:00Z"})

    stopped.run()
    fleet.answer()

    assert fleet.runs() == ["exports 07-01T07:00"]


def test_a_ticker_beside_it_only_looks(fleet: Fleet) -> None:
    fleet.clock.step(timedelta(hours=1))
    fleet.ticker.tick()
    fleet.clock.step(timedelta(hours=1))
    fleet.ticker.tick()

    assert fleet.runs() == []
