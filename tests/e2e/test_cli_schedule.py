"""Schedules on the command line: what comes, what is missed, and what a pause does."""

from datetime import UTC, datetime, timedelta

import pytest

from support.cli import Cli, fill
from support.faults import FaultyS3

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


@pytest.fixture
def daily(cli: Cli, faulty: FaultyS3) -> Cli:
    """A policy that is due once a day, twelve hours from now."""
    hour = (NOW + DAY / 2).hour
    cli.policy("exports", more={"schedule": f"0 {hour} * * *"})
    fill(faulty, 3)
    return cli


def since(cli: Cli, ago: timedelta) -> None:
    """Have the schedule be known, and last looked at, *ago* before now."""
    cli("status")
    at = int((datetime.now(UTC) - ago).timestamp() * 1_000_000)
    with cli.audit.changing() as connection:
        connection.execute("UPDATE schedules SET since = ?, looked_at = ?", (at, at))


def test_the_next_slots_are_listed_local_and_in_utc_with_clock_changes(cli: Cli) -> None:
    more = {"schedule": "30 2 * * *", "timezone": "Europe/Berlin"}
    cli.policy("exports", more=more)
    cli.policy("by-hand", prefix="other/")

    (listed,) = cli.json("schedule", "list")

    assert {key: listed[key] for key in more} == more
    assert (listed["policy"], listed["catch_up"], listed["paused"]) == ("exports", "next", None)
    slots = [datetime.fromisoformat(slot["slot"]) for slot in listed["next"]]
    assert len(slots) == 5
    assert slots == sorted(set(slots))
    assert slots[0] > NOW
    for slot in listed["next"]:
        local = datetime.fromisoformat(slot["local"])
        assert local == datetime.fromisoformat(slot["slot"])
        assert f"{local:%H:%M}" in ("02:30", "03:00")
    assert sorted(note["kind"] for note in listed["notes"]) == ["doubled", "skipped"]
    text = cli("schedule", "list").out
    assert "exports: 30 2 * * * in Europe/Berlin" in text
    assert "02:30 does not exist in Europe/Berlin: it runs once, at " in text
    assert "02:30 comes twice in Europe/Berlin: it runs once, at " in text


def test_check_warns_of_local_times_that_clock_changes_skip_or_double(cli: Cli) -> None:
    cli.policy("exports", more={"schedule": "30 2 * * *", "timezone": "Europe/Berlin"})
    found = [f for f in cli.json("check")["findings"] if f["code"] == "schedule-clock-change"]
    assert {f["level"] for f in found} == {"warning"}
    assert len(found) == 2

    cli.policy("exports", more={"schedule": "30 2 * * *"})
    codes = [f["code"] for f in cli.json("check")["findings"]]
    assert "schedule-clock-change" not in codes


def test_without_schedules_there_is_nothing_to_list(cli: Cli) -> None:
    assert cli.json("schedule", "list") == []
    assert cli("schedule", "list").out == "no policy has a schedule\n"


def test_slots_that_nobody_answered_are_listed_until_a_run_makes_up_for_them(daily: Cli) -> None:
    """P6: nothing but a crontab calls us, and it was broken for three days."""
    since(daily, 3 * DAY)

    status = daily.json("status")

    assert [missed["policy"] for missed in status["missed"]] == ["exports"] * 3
    assert all("nobody looked between" in missed["reason"] for missed in status["missed"])
    assert status["policies"][0]["missed"] == 3
    text = daily("status").out
    assert text.count("exports missed 20") == 3
    assert "no bestbefore process was running" in text

    run = daily.json("run", "exports")
    after = daily.json("status")
    # The run answered the newest of them, and took the work of the others.
    assert run["plan"]["slot"] == status["missed"][0]["slot"]
    assert after["missed"] == [
        missed | {"made_up_by": run["plan"]["run_id"]} for missed in status["missed"][1:]
    ]
    assert after["policies"][0]["missed"] == 0
    assert "(made up for by run" in daily("status").out


def test_a_dry_run_notes_nothing(daily: Cli) -> None:
    since(daily, 3 * DAY)
    daily("plan", "exports", "--dry-run")
    assert daily.audit.rows("SELECT * FROM slots") == []

    daily("plan", "exports")
    assert len(daily.audit.rows("SELECT * FROM slots")) == 3


def test_a_pause_says_what_is_missed_and_resume_what_comes_first(daily: Cli) -> None:
    coming = daily.json("schedule", "list")[0]["next"]
    until = datetime.fromisoformat(coming[2]["slot"]) + DAY / 2

    paused = daily.json("pause", "exports", "--reason", "audit")
    assert paused["misses"] == [{"policy": "exports", "first": coming[0]["slot"], "slots": None}]
    assert "misses every slot from" in daily("pause", "--reason", "audit").out
    bounded = daily.json("pause", "exports", "--reason", "audit", "--until", until.isoformat())
    assert bounded["misses"][0]["slots"] == 3
    assert daily.json("schedule", "list")[0]["paused"] == "audit"

    still = daily.json("resume", "exports")
    assert still["first"] == [
        {"policy": "exports", "slot": coming[0]["slot"], "now": False, "paused": "audit"}
    ]
    assert "stays paused: audit" in daily("resume", "exports").out
    text = daily("resume").out
    assert f"exports: nothing starts now; its next slot, {coming[0]['slot']}, takes" in text


def test_with_catch_up_now_resume_says_that_a_run_starts_now(daily: Cli) -> None:
    daily.policies["exports"]["catch_up"] = "now"
    daily.write()
    daily("pause", "exports", "--reason", "audit")
    since(daily, 2 * DAY)
    with daily.audit.changing() as connection:
        connection.execute("UPDATE pauses SET at = 0")

    missed = daily.json("status")["missed"]
    assert [slot["reason"] for slot in missed] == ["paused: audit"] * 2
    first = daily.json("resume", "exports")["first"]
    assert first == [{"policy": "exports", "slot": missed[0]["slot"], "now": True, "paused": None}]


def test_run_that_is_called_a_little_early_answers_the_coming_slot(cli: Cli) -> None:
    cli.extra = '[schedule]\nearly_tolerance = "5min"\n'
    soon = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=2)
    cli.policy("exports", more={"schedule": f"{soon.minute} {soon.hour} * * *"})

    assert cli.json("run", "exports")["plan"]["slot"] == f"{soon:%Y-%m-%dT%H:%M}:00Z"
    typed = cli.json("plan", "exports")["slot"]
    assert typed == f"{soon - DAY:%Y-%m-%dT%H:%M}:00Z"
