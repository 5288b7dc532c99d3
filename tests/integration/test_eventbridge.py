"""What is special about EventBridge Scheduler: updates replace everything, names are short, and a
call is patient with what passes."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bestbefore.adapters.schedulers.eventbridge import EventBridgeSettings
from bestbefore.adapters.schedulers.eventbridge.client import TRIES
from bestbefore.adapters.schedulers.eventbridge.scheduler import schedule_name
from bestbefore.domain.failure import FailureClass
from bestbefore.ports.scheduler import Deployed, SchedulerFailed, Wanted
from support.eventbridge import ACCOUNT, REGION, opened, remove_groups, role, settings
from support.moto import Moto
from support.newer_eventbridge import NewerEventBridge

ROLE = f"arn:aws:iam::{ACCOUNT}:role/deliver"
NIGHTLY = Wanted("exports", "0 2 * * *", "Europe/Berlin")


@pytest.fixture
def newer() -> Iterator[NewerEventBridge]:
    schedule = {
        "Arn": f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/bestbefore/bestbefore-exports",
        "Name": "bestbefore-exports",
        "GroupName": "bestbefore",
        "CreationDate": 1.7e9,
        "LastModificationDate": 1.7e9,
        "State": "ENABLED",
        "ScheduleExpression": "cron(0 2 * * ? *)",
        "ScheduleExpressionTimezone": "Europe/Berlin",
        "StartDate": 1.8e9,
        "KmsKeyArn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1",
        "FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 7, "Anchor": "END"},
        "Target": {
            "Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:triggers",
            "RoleArn": ROLE,
            "Input": '{"policy": "exports"}',
            "TracingConfig": {"Mode": "Active"},
        },
        "Concurrency": {"Limit": 1},
    }
    with NewerEventBridge(schedule).listening() as there:
        yield there


@pytest.fixture
def group(moto: Moto) -> Iterator[EventBridgeSettings]:
    there = settings(moto.endpoint, role(moto))
    yield there
    remove_groups(there, there.group)


def on_it(policy: str = "exports") -> Deployed:
    return Deployed(f"bestbefore-{policy}", policy, enabled=True, terms={})


def test_a_pause_puts_every_field_back_also_those_that_no_client_knows(
    newer: NewerEventBridge,
) -> None:
    before = dict(newer.schedule)
    scheduler = opened(settings(newer.url, ROLE, group="bestbefore"))

    scheduler.pause(on_it())

    [written] = newer.written
    assert written.pop("ClientToken")
    read_only = {"Arn", "Name", "CreationDate", "LastModificationDate"}
    assert written == {k: v for k, v in before.items() if k not in read_only} | {
        "State": "DISABLED"
    }

    scheduler.resume(on_it())
    assert newer.schedule == {k: v for k, v in before.items() if k != "LastModificationDate"}


def test_what_is_paused_already_is_not_written_again(newer: NewerEventBridge) -> None:
    newer.schedule["State"] = "DISABLED"

    opened(settings(newer.url, ROLE, group="bestbefore")).pause(on_it())

    assert newer.written == []


def test_a_call_is_patient_with_what_passes_and_repeats_the_same_request(
    newer: NewerEventBridge,
) -> None:
    newer.refusals = [(429, "ThrottlingException"), (500, "InternalServerException")] * 2
    waits: list[float] = []

    opened(settings(newer.url, ROLE, group="bestbefore"), waits.append).pause(on_it())

    assert newer.schedule["State"] == "DISABLED"
    assert len(waits) == 4
    assert all(0.2 <= wait <= 20 for wait in waits)


def test_a_call_gives_up_after_five_tries_and_says_what_was_answered(
    newer: NewerEventBridge,
) -> None:
    newer.refusals = [(429, "ThrottlingException")] * 10

    with pytest.raises(SchedulerFailed, match="HTTP 429 ThrottlingException: not now") as caught:
        opened(settings(newer.url, ROLE)).pause(on_it())

    assert caught.value.failure.failure_class is FailureClass.THROTTLED
    assert newer.asked == TRIES


@pytest.mark.parametrize(
    ("status", "code", "class_"),
    [
        (403, "AccessDeniedException", FailureClass.PERMISSION),
        (403, "ExpiredTokenException", FailureClass.CREDENTIALS),
        (400, "ValidationException", FailureClass.MALFORMED),
        (418, "SomethingNew", FailureClass.UNKNOWN),
    ],
)
def test_any_other_refusal_is_surfaced_at_once(
    newer: NewerEventBridge, status: int, code: str, class_: FailureClass
) -> None:
    newer.refusals = [(status, code)]

    with pytest.raises(SchedulerFailed) as caught:
        opened(settings(newer.url, ROLE)).pause(on_it())

    assert caught.value.failure.failure_class is class_
    assert f"HTTP {status} {code}: not now" in str(caught.value)
    assert newer.asked == 1


def test_keys_are_in_no_text(newer: NewerEventBridge) -> None:
    there = settings(newer.url, ROLE)
    there = replace(there, access=replace(there.access, secret_access_key="s3cr3t-s3cr3t"))
    newer.refusals = [(403, "AccessDeniedException")]

    with pytest.raises(SchedulerFailed) as caught:
        opened(there).pause(on_it())

    assert "s3cr3t" not in str(caught.value) + repr(there) + repr(opened(there).findings())


def test_a_trigger_names_policy_and_scheduled_time_and_is_never_early(
    group: EventBridgeSettings,
) -> None:
    scheduler = opened(replace(group, dead_letter_arn=f"arn:aws:sqs:{REGION}:{ACCOUNT}:lost"))
    scheduler.put(NIGHTLY)

    client = group.access.client("scheduler")
    found = client.get_schedule(GroupName=group.group, Name="bestbefore-exports")

    assert found["ScheduleExpression"] == "cron(0 2 * * ? *)"
    assert found["ScheduleExpressionTimezone"] == "Europe/Berlin"
    assert found["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert found["ActionAfterCompletion"] == "NONE"
    assert found["Target"]["Arn"] == f"arn:aws:sqs:{REGION}:{ACCOUNT}:triggers"
    assert found["Target"]["DeadLetterConfig"] == {"Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:lost"}
    assert found["Target"]["RetryPolicy"]["MaximumEventAgeInSeconds"] == 3600
    assert json.loads(found["Target"]["Input"]) == {
        "v": "1",
        "policy": "exports",
        "slot": "<aws.scheduler.scheduled-time>",
        "schedule": "<aws.scheduler.schedule-arn>",
        "attempt": "<aws.scheduler.attempt-number>",
    }


def test_what_calls_our_endpoint_is_given_the_body_of_the_endpoint(
    group: EventBridgeSettings,
) -> None:
    bus = f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/cleanup"
    opened(replace(group, queue_url=None, target_arn=bus)).put(NIGHTLY)

    client = group.access.client("scheduler")
    target = client.get_schedule(GroupName=group.group, Name="bestbefore-exports")["Target"]

    assert target["Arn"] == bus
    assert target["EventBridgeParameters"] == {
        "DetailType": "bestbefore trigger",
        "Source": "bestbefore",
    }
    assert json.loads(target["Input"]) == {
        "policy": "exports",
        "slot": "<aws.scheduler.scheduled-time>",
    }


def test_an_update_keeps_the_key_that_somebody_else_chose(group: EventBridgeSettings) -> None:
    scheduler = opened(group)
    scheduler.put(NIGHTLY)
    client = group.access.client("scheduler")
    there = {"GroupName": group.group, "Name": "bestbefore-exports"}
    found = client.get_schedule(**there)
    key = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1"
    client.update_schedule(
        **there,
        KmsKeyArn=key,
        ScheduleExpression="rate(1 day)",
        FlexibleTimeWindow=found["FlexibleTimeWindow"],
        Target=found["Target"],
    )

    scheduler.put(NIGHTLY)

    after = client.get_schedule(**there)
    assert after["KmsKeyArn"] == key
    assert after["ScheduleExpression"] == "cron(0 2 * * ? *)"


def test_a_schedule_whose_input_somebody_spoilt_is_still_that_policys(
    group: EventBridgeSettings,
) -> None:
    scheduler = opened(group)
    long = "a" * 80
    for policy in ("exports", long):
        scheduler.put(NIGHTLY._replace(policy=policy))
    client = group.access.client("scheduler")
    for policy in ("exports", long):
        there = {"GroupName": group.group, "Name": schedule_name(policy)}
        found = client.get_schedule(**there)
        client.update_schedule(
            **there,
            Description=found["Description"],
            ScheduleExpression=found["ScheduleExpression"],
            FlexibleTimeWindow=found["FlexibleTimeWindow"],
            Target=found["Target"] | {"Input": "hello"},
        )

    found = scheduler.deployed()

    assert {one.policy for one in found} == {"exports", long}
    assert {one.terms["input"] for one in found} == {"hello"}


def test_names_fit_and_no_two_policies_share_one() -> None:
    short, long = "a" * 53, "a" * 99
    lookalike = schedule_name(long).removeprefix("bestbefore-")
    policies = ["exports", short, short + "a", long, long + "b", lookalike]

    names = [schedule_name(policy) for policy in policies]

    assert names[:2] == ["bestbefore-exports", f"bestbefore-{short}"]
    assert max(map(len, names)) == 64
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("url", "arn"),
    [
        (
            f"https://sqs.eu-west-1.amazonaws.com/{ACCOUNT}/triggers",
            f"arn:aws:sqs:eu-west-1:{ACCOUNT}:triggers",
        ),
        (
            f"https://sqs.us-gov-west-1.amazonaws.com/{ACCOUNT}/triggers",
            f"arn:aws:sqs:us-gov-west-1:{ACCOUNT}:triggers",
        ),
        (f"http://127.0.0.1:5000/{ACCOUNT}/t-1", f"arn:aws:sqs:{REGION}:{ACCOUNT}:t-1"),
    ],
)
def test_the_queue_is_named_by_what_its_url_says(url: str, arn: str) -> None:
    assert settings("http://127.0.0.1:1", ROLE, queue_url=url).target == arn


def test_findings_name_a_group_and_a_role_that_are_not_there(group: EventBridgeSettings) -> None:
    nobody = f"arn:aws:iam::{ACCOUNT}:role/nobody"

    found = opened(replace(group, role_arn=nobody)).findings()

    levels = {finding.code: finding.level for finding in found}
    assert levels["scheduler-group-missing"] == "warning"
    assert levels["scheduler-role-missing"] == "error"
    assert any(nobody in finding.message for finding in found)


def test_findings_name_a_role_that_does_not_trust_the_scheduler(
    moto: Moto, group: EventBridgeSettings
) -> None:
    untrusting = role(moto, '{"Statement": [{"Principal": {"Service": "lambda.amazonaws.com"}}]}')

    found = opened(replace(group, role_arn=untrusting)).findings()

    assert "scheduler-role-untrusting" in {finding.code for finding in found}


def test_a_region_that_is_not_said_anywhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    there = settings("http://127.0.0.1:1", ROLE, queue_url=f"http://127.0.0.1:1/{ACCOUNT}/t")

    with pytest.raises(SchedulerFailed, match=r"schedule\.region"):
        opened(replace(there, access=replace(there.access, region=None)))
