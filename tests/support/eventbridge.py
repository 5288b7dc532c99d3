"""EventBridge Scheduler as moto's server has it, and a group of schedules to test with."""

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

from bestbefore.adapters.schedulers.eventbridge import EventBridge, EventBridgeSettings, connect
from bestbefore.adapters.schedulers.eventbridge.client import Access
from support.aws_cron import fires
from support.moto import Moto

ACCOUNT = "123456789012"
REGION = "eu-central-1"
TRUST = '{"Statement": [{"Principal": {"Service": "scheduler.amazonaws.com"}}]}'
NOWHERE = "http://127.0.0.1:9"


def access(endpoint: str) -> Access:
    """Keys that moto takes."""
    return Access(REGION, endpoint, "key-id", "secret")


def role(moto: Moto, trust: str = TRUST) -> str:
    """The ARN of a new role on *moto*."""
    iam = access(moto.endpoint).client("iam")
    name = f"deliver-{uuid.uuid4().hex}"
    arn: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    return arn


def settings(endpoint: str, role_arn: str, **more: str) -> EventBridgeSettings:
    """A group of its own, and a queue that need not be there."""
    return EventBridgeSettings(
        role_arn,
        access(endpoint),
        **{
            "group": f"test-{uuid.uuid4().hex[:12]}",
            "queue_url": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/triggers",
            **more,
        },
    )


def opened(
    there: EventBridgeSettings, sleep: Callable[[float], None] = lambda _: None
) -> EventBridge:
    """The scheduler, which loses no time between its tries."""
    return connect(there, sleep)


def remove_groups(there: EventBridgeSettings, prefix: str) -> None:
    """Remove the groups whose names begin with *prefix*, with everything in them."""
    client = there.access.client("scheduler")
    for page in client.get_paginator("list_schedule_groups").paginate():
        for group in page["ScheduleGroups"]:
            if group["Name"].startswith(prefix):
                client.delete_schedule_group(Name=group["Name"])
    client.close()


def queue(moto: Moto) -> str:
    """The URL of a new queue on *moto*."""
    url: str = sqs(moto).create_queue(QueueName=f"triggers-{uuid.uuid4().hex}")["QueueUrl"]
    return url


def sqs(moto: Moto) -> Any:
    """A client of *moto*'s queues."""
    return access(moto.endpoint).client("sqs")


def left_in(moto: Moto, url: str) -> int:
    """How many messages are in the queue at *url*, taken or not."""
    kinds = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    said = sqs(moto).get_queue_attributes(QueueUrl=url, AttributeNames=kinds)["Attributes"]
    return sum(int(said[kind]) for kind in kinds)


class Service:
    """What moto leaves out: it fires the schedules of a group as the real service does.

    Only those that are enabled, at the times their expression names, with the words in angle
    brackets filled in, into the queue that they name.
    """

    def __init__(self, moto: Moto, group: str, queue_url: str) -> None:
        self._group = group
        self._url = queue_url
        self._scheduler = access(moto.endpoint).client("scheduler")
        self._sqs = sqs(moto)

    def pass_by(self, after: datetime, until: datetime) -> list[str]:
        """Fire what comes after *after* and not after *until*; returns what was sent."""
        sent = []
        for one in self._scheduler.list_schedules(GroupName=self._group)["Schedules"]:
            found = self._scheduler.get_schedule(GroupName=self._group, Name=one["Name"])
            assert found["Target"]["Arn"].rpartition(":")[2] == self._url.rpartition("/")[2]
            if found["State"] != "ENABLED":
                continue
            zone = found["ScheduleExpressionTimezone"]
            times = fires(found["ScheduleExpression"], zone, after, until)
            sent += [self._send(found, moment) for moment in times if moment > after]
        return sent

    def _send(self, found: dict[str, Any], moment: datetime) -> str:
        body: str = found["Target"]["Input"]
        for name, value in {
            "scheduled-time": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
            "schedule-arn": found["Arn"],
            "execution-id": uuid.uuid4().hex[:16],
            "attempt-number": "1",
        }.items():
            body = body.replace(f"<aws.scheduler.{name}>", value)
        self._sqs.send_message(QueueUrl=self._url, MessageBody=body)
        return body
