"""What an operator should know of a schedule group: is it there, and who may deliver for it?"""

import json
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from bestbefore.adapters.schedulers.eventbridge.client import Absent, Calls
from bestbefore.adapters.schedulers.eventbridge.settings import EventBridgeSettings
from bestbefore.domain.finding import Finding, Level

_PRINCIPAL = "scheduler.amazonaws.com"


def findings(settings: EventBridgeSettings, calls: Calls) -> Iterator[Finding]:
    """About the group, the role and the target. Raises SchedulerFailed where nobody answers."""
    yield _group(settings, calls)
    yield from _role(settings)
    if settings.dead_letter_arn is None:
        yield Finding(
            "scheduler-no-dead-letters",
            Level.INFO,
            f"{settings.name}: a trigger that cannot be delivered within an hour is dropped, and "
            "its slot is missed",
            "set schedule.dead_letter_arn to keep what was dropped",
        )


def _group(settings: EventBridgeSettings, calls: Calls) -> Finding:
    try:
        group = calls.ask("get_schedule_group", Name=settings.group)
    except Absent:
        return Finding(
            "scheduler-group-missing",
            Level.WARNING,
            f"{settings.name}: there is no such group, so nothing triggers",
            "run `bestbefore schedule sync`, which makes it, or correct schedule.group",
        )
    if group.get("State", "ACTIVE") != "ACTIVE":
        return Finding(
            "scheduler-group-going",
            Level.ERROR,
            f"{settings.name}: it is being deleted, with every schedule in it",
            "wait until it is gone, then run `bestbefore schedule sync`",
        )
    return Finding("scheduler-group", Level.INFO, f"{settings.name} is there", "")


def _role(settings: EventBridgeSettings) -> Iterator[Finding]:
    """Whether the role exists and may be used; not everybody is allowed to ask that."""
    role = settings.role_arn
    try:
        iam = settings.access.client("iam")
        found = iam.get_role(RoleName=role.rpartition("/")[2])["Role"]
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "NoSuchEntity":
            yield Finding(
                "scheduler-role-missing",
                Level.ERROR,
                f"{settings.name}: there is no role {role}, so nothing can be delivered",
                "create it, or correct schedule.role_arn",
            )
        else:
            yield _unseen(settings)
        return
    except (BotoCoreError, ResponseParserError):  # also: no IAM at a configured endpoint
        yield _unseen(settings)
        return
    if _PRINCIPAL not in _text(found.get("AssumeRolePolicyDocument")):
        yield Finding(
            "scheduler-role-untrusting",
            Level.ERROR,
            f"{settings.name}: the role {role} does not let {_PRINCIPAL} assume it",
            f"allow sts:AssumeRole to {_PRINCIPAL} in its trust policy",
        )


def _unseen(settings: EventBridgeSettings) -> Finding:
    return Finding(
        "scheduler-role-unseen",
        Level.INFO,
        f"{settings.name}: whether the role {settings.role_arn} is there could not be looked at",
        "allow iam:GetRole on it to whoever runs this check",
    )


def _text(document: Any) -> str:
    return document if isinstance(document, str) else json.dumps(document)
