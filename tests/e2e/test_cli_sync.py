"""An outside scheduler from the command line: `schedule sync` and `list`, `check`, `serve`."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.cli import Cli, fill
from support.eventbridge import (
    ACCOUNT,
    NOWHERE,
    REGION,
    Service,
    access,
    left_in,
    queue,
    remove_groups,
    role,
    settings,
    sqs,
)
from support.faults import FaultyS3
from support.forks import until
from support.moto import Moto
from support.served import Served


class Site:
    """The command line with EventBridge on moto, and a policy ``exports`` that is due nightly."""

    def __init__(self, cli: Cli, moto: Moto) -> None:
        self.cli = cli
        self.moto = moto
        self.group = f"test-{uuid.uuid4().hex[:12]}"
        self.url = queue(moto)
        self.role = role(moto)
        self.say()
        self.policy("exports", "0 2 * * *")

    def say(self, endpoint: str | None = None, **more: str) -> None:
        keys = {
            "kind": "eventbridge",
            "group": self.group,
            "role_arn": self.role,
            "region": REGION,
            "endpoint_url": endpoint or self.moto.endpoint,
            "access_key_id": "key-id",
            "secret_access_key": "s3cr3t-s3cr3t",
            "trigger_queue_url": self.url,
        } | more
        lines = [f'{key} = "{value}"' for key, value in keys.items()]
        self.cli.extra = "\n".join(["[schedule]", *lines, ""])
        self.cli.write()

    def policy(self, name: str, schedule: str, timezone: str = "UTC") -> None:
        self.cli.policy(name, prefix=f"{name}/", more={"schedule": schedule, "timezone": timezone})

    @property
    def scheduler(self) -> Any:
        return access(self.moto.endpoint).client("scheduler")

    def disable(self, name: str) -> None:
        there = {"GroupName": self.group, "Name": f"bestbefore-{name}"}
        found = self.scheduler.get_schedule(**there)
        kept = ("ScheduleExpression", "ScheduleExpressionTimezone", "Target", "FlexibleTimeWindow")
        self.scheduler.update_schedule(
            **there, **{key: found[key] for key in kept}, State="DISABLED"
        )


@pytest.fixture
def site(cli: Cli, moto: Moto) -> Iterator[Site]:
    made = Site(cli, moto)
    yield made
    remove_groups(settings(moto.endpoint, made.role), made.group)


def drifts(document: Any) -> list[tuple[str, str, str]]:
    return [(one["policy"], one["drift"], one["result"]) for one in document["differences"]]


def test_a_dry_run_says_what_differs_changes_nothing_and_fails_until_it_is_in_line(
    site: Site,
) -> None:
    site.policy("tokens", "30 4 * * 1", "Europe/Berlin")

    before = site.cli.json("schedule", "sync", "--dry-run", code=1)
    assert drifts(before) == [("exports", "missing", "planned"), ("tokens", "missing", "planned")]
    assert before["dry_run"]
    assert not before["in_line"]
    assert site.cli.json("schedule", "sync", "--dry-run", code=1) == before

    done = site.cli.json("schedule", "sync")
    assert drifts(done) == [("exports", "missing", "done"), ("tokens", "missing", "done")]
    assert done["in_line"]

    after = site.cli.json("schedule", "sync", "--dry-run")
    assert after["differences"] == []
    assert site.cli.json("schedule", "sync")["differences"] == []


def test_a_person_reads_what_there_is_and_what_it_should_be(site: Site) -> None:
    site.cli("schedule", "sync")
    site.policy("exports", "15 3 * * 1-5", "Europe/Berlin")

    said = site.cli("schedule", "sync", "--dry-run", code=1).out

    assert "changed       policies.exports: the schedule bestbefore-exports differs in" in said
    assert "expression: cron(0 2 * * ? *) -> cron(15 3 ? * MON-FRI *)" in said
    assert "timezone: UTC -> Europe/Berlin" in said
    assert "nothing was changed" in said
    assert "in line now" in site.cli("schedule", "sync").out
    assert site.cli("schedule", "sync").out.endswith("in line\n")


def test_a_disabled_schedule_is_named_by_sync_list_and_check(site: Site) -> None:
    site.cli("schedule", "sync")
    site.disable("exports")

    planned = site.cli.json("schedule", "sync", "--dry-run", code=1)
    assert drifts(planned) == [("exports", "disabled", "planned")]
    [listed] = site.cli.json("schedule", "list")
    assert listed["deployed"]["state"] == "disabled"
    assert "deployed: disabled (bestbefore-exports)" in site.cli("schedule", "list").out
    found = site.cli.json("check", code=1)["findings"]
    [finding] = [one for one in found if one["code"] == "schedule-disabled"]
    assert finding["level"] == "error"
    assert "policies.exports" in finding["message"]
    assert "schedule sync" in finding["remedy"]

    site.cli("schedule", "sync")
    [listed] = site.cli.json("schedule", "list")
    assert listed["deployed"] == {"state": "in line", "id": "bestbefore-exports", "reason": ""}


def test_a_policy_that_is_removed_takes_its_schedule_along(site: Site) -> None:
    site.policy("tokens", "30 4 * * 1")
    site.cli("schedule", "sync")
    del site.cli.policies["tokens"]
    site.cli.write()

    assert drifts(site.cli.json("schedule", "sync")) == [("tokens", "left over", "done")]
    assert [one["policy"] for one in site.cli.json("schedule", "list")] == ["exports"]


def test_a_schedule_that_they_have_no_words_for_is_refused_and_the_others_are_made(
    site: Site,
) -> None:
    site.policy("tokens", "0 0 1 * 1")

    document = site.cli.json("schedule", "sync", code=1)

    assert drifts(document) == [
        ("exports", "missing", "done"),
        ("tokens", "inexpressible", "refused"),
    ]
    assert "two policies" in document["differences"][1]["text"]
    found = site.cli.json("check", code=1)["findings"]
    assert "schedule-inexpressible" in {one["code"] for one in found}


def test_check_says_what_it_finds_of_group_role_queue_and_an_hour_that_is_not_fired(
    site: Site,
) -> None:
    """O-DST-01"""
    site.policy("tokens", "30 2 * * *", "America/New_York")

    before = {one["code"]: one for one in site.cli.json("check", code=1)["findings"]}
    assert before["scheduler-group-missing"]["level"] == "warning"
    assert before["schedule-missing"]["level"] == "error"
    hour = before["schedule-hour-not-fired"]["message"]
    assert "02:30 does not exist in America/New_York" in hour
    assert "will be missed" in hour
    assert hour.removeprefix("policies.tokens: ") in site.cli("schedule", "list").out

    site.cli("schedule", "sync")
    after = {one["code"]: one["level"] for one in site.cli.json("check", code=None)["findings"]}
    assert after["schedule-in-line"] == "info"
    assert any(code.startswith("trigger-") for code in after)

    site.role = f"arn:aws:iam::{ACCOUNT}:role/nobody"
    site.say()
    gone = {one["code"]: one["level"] for one in site.cli.json("check", code=1)["findings"]}
    assert gone["scheduler-role-missing"] == "error"
    assert gone["schedule-changed"] == "warning"


def test_where_nobody_answers_it_is_named_without_a_secret(site: Site) -> None:
    site.say(endpoint=NOWHERE)

    reply = site.cli("schedule", "sync", code=2)

    assert site.group in reply.err
    assert "nobody answers" in reply.err
    assert "s3cr3t" not in reply.err
    [listed] = site.cli.json("schedule", "list")
    assert listed["deployed"]["state"] == "unknown"
    assert listed["next"]
    found = site.cli.json("check", code=1)["findings"]
    assert "scheduler-unreachable" in {one["code"] for one in found}


def test_there_is_nothing_to_sync_where_nobody_else_schedules(cli: Cli) -> None:
    reply = cli("schedule", "sync", code=2)

    assert 'kind = "embedded"' in reply.err
    assert "eventbridge" in reply.err


def test_a_schedule_fires_into_the_queue_and_serve_deletes(site: Site, faulty: FaultyS3) -> None:
    """End to end: EventBridge's schedule, an SQS queue, and a real process that takes from it."""
    site.policy("exports", "* * * * *")
    fill(faulty, 25)
    site.cli("schedule", "sync")
    service = Service(site.moto, site.group, site.url)
    with Served(site.cli) as there:
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        sent = service.pass_by(now - timedelta(minutes=1), now)
        assert len(sent) == 1
        sqs(site.moto).send_message(QueueUrl=site.url, MessageBody=sent[0])  # it comes twice

        until(lambda: not faulty.keys("exports"), 60, "an empty bucket")
        until(lambda: left_in(site.moto, site.url) == 0, 60, "an empty queue")
        runs = there.json("/v1/runs")["runs"]
        assert there.stop() == 0

    assert [run["slot"] for run in runs] == [f"{now:%Y-%m-%dT%H:%M:%SZ}"]
    assert runs[0]["state"] == "drained"
    assert runs[0]["trigger"] == "schedule"
