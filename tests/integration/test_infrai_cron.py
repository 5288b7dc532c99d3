"""Infrai's cron over a stand-in: what it is told, what it says, and a real `serve` it calls."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bestbefore.adapters.schedulers.infrai import (
    InfraiScheduler,
    InfraiSchedulerSettings,
    connect,
)
from bestbefore.contracts.scheduler import LATER, NIGHTLY, only
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.finding import Level
from bestbefore.ports.scheduler import TARGET, Inexpressible, SchedulerFailed, Wanted
from bestbefore.stages.sync import Drift, compare, settle_all
from support.cli import Cli, fill
from support.clock import ManualClock
from support.faults import FaultyS3
from support.forks import until
from support.infrai import KEY, Infrai, no_credit, refusal, throttled
from support.infrai_documents import CRONS
from support.served import SECTION, TRIGGER_SECRET, Served

NOWHERE = "http://127.0.0.1:9"
Opened = Callable[..., InfraiScheduler]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def opened(infrai: Infrai, clock: ManualClock) -> Iterator[Opened]:
    made: list[InfraiScheduler] = []

    def open_(**more: Any) -> InfraiScheduler:
        said = {"public_url": NOWHERE, "base_url": infrai.base_url} | more
        settings = InfraiSchedulerSettings(api_key=KEY, trigger_secret=TRIGGER_SECRET, **said)
        made.append(connect(settings, clock))
        return made[-1]

    yield open_
    for scheduler in made:
        scheduler.close()


@pytest.fixture
def scheduler(opened: Opened) -> InfraiScheduler:
    return opened()


# -- changing ------------------------------------------------------------------------------------


def test_a_change_creates_the_new_one_before_the_old_one_goes(
    infrai: Infrai, scheduler: InfraiScheduler
) -> None:
    before = scheduler.put(NIGHTLY)
    infrai.requests.clear()

    scheduler.put(LATER, before)

    writes = [
        one.capability
        for one in infrai.requests
        if one.capability in ("cron.create", "cron.delete")
    ]
    assert writes == ["cron.create", "cron.delete"]


def test_a_change_that_breaks_off_leaves_two_and_the_next_one_puts_that_right(
    infrai: Infrai, scheduler: InfraiScheduler
) -> None:
    before = scheduler.put(NIGHTLY)
    infrai.answer("cron.delete", refusal(403, "FORBIDDEN", "not now"))
    with pytest.raises(SchedulerFailed, match="not now"):
        scheduler.put(LATER, before)
    assert len(scheduler.deployed()) == 2

    scheduler.put(LATER, before)

    assert len(scheduler.deployed()) == 1


def test_going_back_and_forth_within_a_day_is_not_swallowed(scheduler: InfraiScheduler) -> None:
    for _ in range(3):
        scheduler.put(NIGHTLY, next(iter(scheduler.deployed()), None))
        scheduler.put(LATER, only(scheduler, NIGHTLY.policy))

    assert scheduler.put(LATER) == only(scheduler, LATER.policy)


def test_a_schedule_whose_answer_was_lost_is_there_once(
    infrai: Infrai, scheduler: InfraiScheduler
) -> None:
    infrai.answer("cron.create", None, after_effect=True)

    scheduler.put(NIGHTLY)

    first, second = infrai.asked("cron.create")
    assert first.key == second.key
    assert second.replayed
    assert len(infrai.crons.crons) == 1


def test_pausing_and_resuming_again_and_again_is_never_swallowed(
    scheduler: InfraiScheduler,
) -> None:
    put = scheduler.put(NIGHTLY)
    for _ in range(3):
        scheduler.pause(put)
        assert not only(scheduler, put.policy).enabled
        scheduler.resume(put)
        assert only(scheduler, put.policy).enabled


def test_what_was_deleted_there_cannot_be_paused_and_says_what_to_do(
    scheduler: InfraiScheduler,
) -> None:
    put = scheduler.put(NIGHTLY)
    scheduler.delete(put)

    with pytest.raises(SchedulerFailed, match="schedule sync"):
        scheduler.pause(put)


# -- refusing ------------------------------------------------------------------------------------


def test_a_target_that_they_cannot_call_is_refused_with_the_remedy(clock: ManualClock) -> None:
    for url in ("http://127.0.0.1:8080", "https://10.0.0.1", "http://cleanup.internal"):
        settings = InfraiSchedulerSettings(KEY, url, TRIGGER_SECRET)
        scheduler = connect(settings, clock)
        with pytest.raises(SchedulerFailed, match=r"serve\.public_url") as caught:
            scheduler.put(NIGHTLY)
        assert caught.value.failure.failure_class is FailureClass.MALFORMED
        scheduler.close()


@pytest.mark.parametrize("schedule", ["0 2 L * *", "0 2 * * 1#2", "0 2 1 * 1", "0 2 */2 * */3"])
def test_o_cron_01_what_plain_cron_cannot_say_is_refused_with_the_remedy(
    scheduler: InfraiScheduler, schedule: str
) -> None:
    with pytest.raises(Inexpressible, match=r"policies\.exports: .*; "):
        scheduler.put(Wanted("exports", schedule, "UTC"))


def test_names_of_days_and_months_are_written_as_numbers(scheduler: InfraiScheduler) -> None:
    terms = scheduler.terms(Wanted("exports", "0 2 * JAN,mar MON-fri", "UTC"))

    assert terms["expression"] == "0 2 * 1,3 1-5"


def test_a_schedule_that_has_no_timezone_there_is_not_put_into_the_wrong_one(
    infrai: Infrai, scheduler: InfraiScheduler
) -> None:
    del infrai.documents["cron.create"]["params"]["properties"]["timezone"]

    with pytest.raises(SchedulerFailed, match="America/New_York"):
        scheduler.put(LATER)
    assert scheduler.put(NIGHTLY).enabled
    assert "infrai-no-timezone" in {one.code for one in scheduler.findings()}


@pytest.mark.parametrize("field", ["group", "public_url", "trigger_secret", "api_key", "base_url"])
def test_settings_that_cannot_be_right_are_refused_where_they_are_made(field: str) -> None:
    said = {"api_key": KEY, "public_url": NOWHERE, "trigger_secret": TRIGGER_SECRET}
    said |= {field: {"group": "a--b", "base_url": "http://example.com"}.get(field, "")}

    with pytest.raises(ValueError, match=field):
        InfraiSchedulerSettings(**said)


def test_no_secret_is_ever_shown(infrai: Infrai, scheduler: InfraiScheduler) -> None:
    put = scheduler.put(NIGHTLY)
    infrai.answer("cron.list", refusal(400, "ODD", f"the key {KEY} is odd"))
    with pytest.raises(SchedulerFailed) as caught:
        scheduler.deployed()

    shown = f"{caught.value} {put} {scheduler.target} {scheduler.name} {scheduler.findings()}"
    assert TRIGGER_SECRET not in shown
    assert KEY not in shown
    assert put.terms[TARGET].startswith(f"{NOWHERE}/cleanup/plan/sha256:")
    (stored,) = infrai.crons.crons.values()
    assert stored.url == f"{NOWHERE}/cleanup/plan/{TRIGGER_SECRET}"


def test_a_secret_that_was_replaced_is_a_change(scheduler: InfraiScheduler, infrai: Infrai) -> None:
    scheduler.put(NIGHTLY)
    (stored,) = infrai.crons.crons.values()
    stored.url = stored.url.replace(TRIGGER_SECRET, "x" * 40)

    assert only(scheduler, NIGHTLY.policy).terms[TARGET] != scheduler.target


def test_control_calls_wait_as_they_are_told_and_give_up_after_five_tries(
    infrai: Infrai, scheduler: InfraiScheduler, clock: ManualClock
) -> None:
    infrai.answer("cron.list", throttled("30"), times=5)

    with pytest.raises(SchedulerFailed, match="5 tries") as caught:
        scheduler.deployed()

    assert caught.value.failure.failure_class is FailureClass.THROTTLED
    assert all(30 <= waited <= 33 for waited in clock.slept)
    assert len(clock.slept) == 4


def test_a_used_up_balance_is_named_with_the_remedy(
    infrai: Infrai, scheduler: InfraiScheduler
) -> None:
    infrai.answer("cron.create", no_credit())

    with pytest.raises(SchedulerFailed, match="topup"):
        scheduler.put(NIGHTLY)


def test_drift_is_named_and_nothing_is_written(infrai: Infrai, scheduler: InfraiScheduler) -> None:
    params = infrai.documents["cron.create"]["params"]
    params["properties"] = {"when": {"type": "string"}, "where": {"type": "string"}}
    params["required"] = ["when", "where"]

    with pytest.raises(SchedulerFailed, match=r"cron\.create: expected a request such as"):
        scheduler.put(NIGHTLY)

    assert infrai.crons.crons == {}
    drifts = {one.code: one.level for one in scheduler.findings()}
    assert drifts["infrai-drift"] is Level.ERROR


def test_lists_that_come_in_pages_are_read_to_their_end(
    infrai: Infrai, scheduler: InfraiScheduler, opened: Opened
) -> None:
    """No paper of theirs knows pages; a server that has them says where to go on."""
    scheduler.put(NIGHTLY)
    every = infrai.crons.every

    def paged(said: Any) -> dict[str, Any]:
        if not said:
            return {"items": [], "next_cursor": "second"}
        assert said == {"cursor": "second"}
        return every(said)

    infrai.do["cron.list"] = paged

    with pytest.raises(SchedulerFailed, match="a way to ask for the rest"):
        scheduler.deployed()
    infrai.documents["cron.list"]["params"] = {
        "type": "object", "properties": {"cursor": {"type": "string"}},
    }  # fmt: skip
    assert [one.policy for one in opened().deployed()] == [NIGHTLY.policy]


@pytest.mark.parametrize("kind", CRONS)
def test_a_sync_brings_it_in_line_and_finds_nothing_more(kind: str, clock: ManualClock) -> None:
    with Infrai(CRONS[kind]) as infrai:
        settings = InfraiSchedulerSettings(KEY, NOWHERE, TRIGGER_SECRET, base_url=infrai.base_url)
        scheduler = connect(settings, clock)

        def synced(*wanted: Wanted) -> list[str]:
            """What differed; afterwards only what cannot be said does."""
            differences = compare(wanted, scheduler)
            assert settle_all(differences, scheduler) == {}
            assert {one.drift for one in compare(wanted, scheduler)} <= {Drift.INEXPRESSIBLE}
            return [one.drift for one in differences]

        a, b = Wanted("a", "0 2 * * *", "UTC"), Wanted("b", "5 3 * * 1", "Europe/Berlin")
        last_day = Wanted("c", "0 2 L * *", "UTC")
        assert synced(a, b, last_day) == [Drift.MISSING, Drift.MISSING, Drift.INEXPRESSIBLE]
        changed = a._replace(timezone="Asia/Tokyo"), b._replace(schedule="5 4 * * 1")
        assert synced(*changed) == [Drift.CHANGED, Drift.CHANGED]
        scheduler.pause(only(scheduler, "a"))
        assert synced(changed[0]) == [Drift.DISABLED, Drift.LEFT_OVER]
        scheduler.close()


# -- end to end ----------------------------------------------------------------------------------


def daily() -> tuple[str, datetime]:
    """A schedule whose latest slot was some hours ago, so that the next one is far away, and it."""
    slot = (datetime.now(UTC) - timedelta(hours=6)).replace(minute=0, second=0, microsecond=0)
    return f"0 {slot.hour} * * *", slot


@pytest.mark.parametrize("kind", CRONS)
def test_their_cron_calls_a_real_service_which_plans_and_deletes(
    cli: Cli, faulty: FaultyS3, clock: ManualClock, kind: str
) -> None:
    """P5: fired twice, as it may, a slot has one run. P6: paused over one, nothing is called."""
    keys = set(fill(faulty, 3))
    cli.extra = SECTION
    schedule, slot = daily()
    cli.policy("exports", more={"schedule": schedule})
    with Infrai(CRONS[kind]) as infrai, Served(cli, "--no-schedule") as there:
        settings = InfraiSchedulerSettings(
            KEY, there.url, TRIGGER_SECRET, f"test-{uuid.uuid4().hex}", infrai.base_url
        )
        scheduler = connect(settings, clock)
        put = scheduler.put(Wanted("exports", schedule, "UTC"))
        scheduler.pause(put)
        assert infrai.crons.tick(slot) == []
        scheduler.resume(put)
        assert infrai.crons.tick(slot + timedelta(minutes=1)) == []
        assert faulty.keys("exports") == keys

        (fired,) = infrai.crons.tick(slot)

        assert fired["status"] == "success", fired
        until(lambda: faulty.keys("exports") == set(), what="three deletes")
        (again,) = infrai.crons.tick(slot)
        assert again["status"] == "success"
        scheduler.trigger(put)
        (run,) = there.json("/v1/runs")["runs"]
        assert run["slot"] == f"{slot:%Y-%m-%dT%H:%M:%SZ}"
        told = scheduler.runs(put, 10)
        assert [one.ok for one in told] == [True] * 3
        assert run["run_id"] in told[-1].output
        assert len(scheduler.runs(put, 2)) == 2
        scheduler.close()


def test_their_runs_say_when_we_refused(infrai: Infrai, scheduler: InfraiScheduler) -> None:
    put = scheduler.put(NIGHTLY)  # where nobody listens

    scheduler.trigger(put)

    (told,) = scheduler.runs(put, 10)
    assert told.ok is False
    assert told.output == "ConnectError"
