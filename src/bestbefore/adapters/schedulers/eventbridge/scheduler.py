"""EventBridge Scheduler as a `bestbefore.ports.scheduler.Scheduler`."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any

from bestbefore.adapters.schedulers.eventbridge import checking
from bestbefore.adapters.schedulers.eventbridge.client import Absent, Calls, Taken
from bestbefore.adapters.schedulers.eventbridge.expression import expression
from bestbefore.adapters.schedulers.eventbridge.settings import EventBridgeSettings
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.finding import Finding
from bestbefore.ports.scheduler import (
    EXPRESSION,
    TARGET,
    TIMEZONE,
    Capabilities,
    Deployed,
    Scheduler,
    SchedulerFailed,
    SkippedHour,
    Terms,
    VendorRun,
    Wanted,
)

_PREFIX = "bestbefore-"
_LONGEST_NAME = 64
_PAGE = 100

_KEEPS_TRYING = timedelta(hours=1)
"""For how long a trigger that cannot be delivered is tried again. The slot is late then, and the
next one takes its work if this one never comes."""
_MOST_TRIES = 185  # the service's own limit: time decides

CAPABILITIES = Capabilities(
    skipped_hour=SkippedHour.NEVER,
    precision=timedelta(minutes=1),
    longest_run=None,
    updates=True,
    triggers=False,
    tells_runs=False,
    tells_slot=True,
)


class EventBridge(Scheduler):
    """One schedule per policy in one group. Its input names the policy and the scheduled time."""

    def __init__(self, settings: EventBridgeSettings, calls: Calls) -> None:
        self._settings = settings
        self._calls = calls
        self._group_is_there = False

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def target(self) -> str:
        return self._settings.target

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def terms(self, wanted: Wanted) -> Terms:
        return _terms(self._body(wanted))

    def deployed(self) -> Sequence[Deployed]:
        found = [self._described(name) for name in self._names()]
        return sorted((one for one in found if one is not None), key=lambda one: one.policy)

    def put(self, wanted: Wanted, instead_of: Deployed | None = None) -> Deployed:
        body, name = self._body(wanted), schedule_name(wanted.policy)
        self._have_group()
        token = secrets.token_hex(16)  # one for all tries: a repeated request is the same one
        there = {"GroupName": self._settings.group, "Name": name, "ClientToken": token}
        known = self._found(name)
        if known is None:
            try:
                self._calls.ask("create_schedule", **there, **body)
            except Taken:  # another process was quicker
                known = {}
            except Absent as error:  # the group went a moment ago
                self._group_is_there = False
                raise self._busy(name) from error
        if known is not None:
            # The key that it is encrypted with is none of what a policy wants.
            key = {"KmsKeyArn": known["KmsKeyArn"]} if known.get("KmsKeyArn") else {}
            self._ask("update_schedule", **there | {"ClientToken": f"{token}u"}, **body, **key)
        if instead_of is not None and instead_of.id != name:
            self.delete(instead_of)
        return Deployed(name, wanted.policy, enabled=True, terms=_terms(body))

    def pause(self, deployed: Deployed) -> None:
        self._switch(deployed, "DISABLED")

    def resume(self, deployed: Deployed) -> None:
        self._switch(deployed, "ENABLED")

    def delete(self, deployed: Deployed) -> None:
        try:
            self._calls.ask("delete_schedule", GroupName=self._settings.group, Name=deployed.id)
        except Absent:
            return
        except Taken as error:
            raise self._busy(deployed.id) from error

    def trigger(self, deployed: Deployed) -> None:
        raise SchedulerFailed(
            Failure(
                FailureClass.MALFORMED,
                f"{self.name}: EventBridge fires nothing by hand; plan it with "
                f"`bestbefore run {deployed.policy}`",
            )
        )

    def runs(
        self,
        deployed: Deployed,  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> Sequence[VendorRun]:
        return ()

    def findings(self) -> Sequence[Finding]:
        return list(checking.findings(self._settings, self._calls))

    def close(self) -> None:
        self._calls.close()

    def _body(self, wanted: Wanted) -> dict[str, Any]:
        """Everything about a schedule but its name, its group and its key."""
        there = self._settings
        target: dict[str, Any] = {
            "Arn": there.target,
            "RoleArn": there.role_arn,
            "Input": _input(wanted.policy, by_queue=there.target_arn is None),
            "RetryPolicy": {
                "MaximumEventAgeInSeconds": int(_KEEPS_TRYING.total_seconds()),
                "MaximumRetryAttempts": _MOST_TRIES,
            },
        }
        if there.dead_letter_arn is not None:
            target["DeadLetterConfig"] = {"Arn": there.dead_letter_arn}
        if ":event-bus/" in there.target:
            target["EventBridgeParameters"] = {
                "DetailType": "bestbefore trigger",
                "Source": "bestbefore",
            }
        return {
            "ScheduleExpression": expression(wanted),
            "ScheduleExpressionTimezone": wanted.timezone,
            "State": "ENABLED",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "ActionAfterCompletion": "NONE",
            "Description": f"bestbefore: policy {wanted.policy}",
            "Target": target,
        }

    def _names(self) -> Iterator[str]:
        more: dict[str, Any] = {}
        while True:
            try:
                page = self._calls.ask(
                    "list_schedules",
                    GroupName=self._settings.group,
                    NamePrefix=_PREFIX,
                    MaxResults=_PAGE,
                    **more,
                )
            except Absent:
                return  # there is no such group yet
            yield from (one["Name"] for one in page["Schedules"])
            if not page.get("NextToken"):
                return
            more = {"NextToken": page["NextToken"]}

    def _described(self, name: str) -> Deployed | None:
        found = self._found(name)
        if found is None:
            return None
        enabled = found.get("State", "ENABLED") == "ENABLED"
        return Deployed(name, _policy_of(name, found), enabled, _terms(found))

    def _found(self, name: str) -> Mapping[str, Any] | None:
        try:
            return self._calls.schedule(self._settings.group, name)
        except Absent:
            return None

    def _switch(self, deployed: Deployed, state: str) -> None:
        try:
            self._calls.switch(self._settings.group, deployed.id, state)
        except Absent as error:
            raise SchedulerFailed(
                Failure(
                    FailureClass.MALFORMED,
                    f"{self.name}: there is no schedule {deployed.id} any more; "
                    "run `bestbefore schedule sync`",
                )
            ) from error
        except Taken as error:
            raise self._busy(deployed.id) from error

    def _ask(self, operation: str, **parameters: Any) -> None:
        try:
            self._calls.ask(operation, **parameters)
        except (Absent, Taken) as error:
            raise self._busy(parameters["Name"]) from error

    def _have_group(self) -> None:
        """Have the group there; "default" always is."""
        group = self._settings.group
        if self._group_is_there or group == "default":
            return
        try:
            self._calls.ask("get_schedule_group", Name=group)
        except Absent:
            with suppress(Taken):  # another process was quicker
                self._calls.ask("create_schedule_group", Name=group)
        self._group_is_there = True

    def _busy(self, name: str) -> SchedulerFailed:
        return SchedulerFailed(
            Failure(
                FailureClass.TRANSIENT,
                f"{self.name}: somebody else is changing the schedule {name} at this moment; "
                "try again",
            )
        )


def schedule_name(policy: str) -> str:
    """The name of the schedule of *policy*: at most 64 characters, and no two policies share it."""
    if len(name := _PREFIX + policy) <= _LONGEST_NAME and not _ends_like_a_digest(policy):
        return name
    digest = sha256(policy.encode()).hexdigest()[:10]
    return f"{name[: _LONGEST_NAME - len(digest) - 1]}-{digest}"


def _ends_like_a_digest(policy: str) -> bool:
    """Whether the plain name of *policy* could be the shortened one of another."""
    return len(_PREFIX + policy) == _LONGEST_NAME and policy[-11:-10] == "-"


def _policy_of(name: str, found: Mapping[str, Any]) -> str:
    """The policy that a schedule is of, whatever somebody wrote into it."""
    try:
        said = json.loads(found["Target"].get("Input") or "{}")["policy"]
    except (ValueError, TypeError, KeyError):
        said = None
    for policy in (said, str(found.get("Description", "")).rpartition(" ")[2]):
        if isinstance(policy, str) and schedule_name(policy) == name:
            return policy
    return name.removeprefix(_PREFIX)


def _input(policy: str, *, by_queue: bool) -> str:
    """What a trigger says. The service fills in what stands in angle brackets.

    Over HTTP it is the body of ``POST /cleanup/plan``, which takes nothing else.
    """
    said = {"policy": policy, "slot": "<aws.scheduler.scheduled-time>"}
    if by_queue:
        said |= {
            "v": "1",
            "schedule": "<aws.scheduler.schedule-arn>",
            "attempt": "<aws.scheduler.attempt-number>",
        }
    return json.dumps(said)


def _terms(body: Mapping[str, Any]) -> Terms:
    """What of a schedule is compared, and shown to people."""
    target = body["Target"]
    window, retry = body.get("FlexibleTimeWindow", {}), target.get("RetryPolicy", {})
    minutes = window.get("MaximumWindowInMinutes")
    return {
        EXPRESSION: body["ScheduleExpression"],
        TIMEZONE: body.get("ScheduleExpressionTimezone") or "UTC",
        TARGET: target["Arn"],
        "role": target.get("RoleArn", ""),
        "input": target.get("Input", ""),
        "window": window.get("Mode", "OFF") + (f" {minutes} min" if minutes else ""),
        "retries": f"{retry.get('MaximumRetryAttempts', _MOST_TRIES)} within "
        f"{retry.get('MaximumEventAgeInSeconds', 86_400)} s",
        "dead letters": target.get("DeadLetterConfig", {}).get("Arn", ""),
        "starts": _text(body.get("StartDate")),
        "ends": _text(body.get("EndDate")),
        "afterwards": body.get("ActionAfterCompletion") or "NONE",
    }


def _text(value: object) -> str:
    return "" if value is None else str(value)
