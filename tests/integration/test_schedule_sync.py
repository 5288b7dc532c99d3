"""`schedule sync` against moto: what differs is named, put right, and nothing else is touched."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bestbefore.adapters.schedulers.eventbridge import EventBridge, EventBridgeSettings
from bestbefore.ports.scheduler import Deployed, Wanted
from bestbefore.stages.sync import Change, Difference, Drift, compare, settle_all, wanted_by
from support.eventbridge import ACCOUNT, REGION, opened, remove_groups, role, settings
from support.moto import Moto
from support.worlds import policy

NIGHTLY = Wanted("exports", "0 2 * * *", "UTC")
WEEKLY = Wanted("tokens", "30 4 * * 1", "Europe/Berlin")
BOTH = [NIGHTLY, WEEKLY]


@pytest.fixture
def there(moto: Moto) -> Iterator[EventBridgeSettings]:
    made = settings(moto.endpoint, role(moto))
    yield made
    remove_groups(made, made.group)


@pytest.fixture
def scheduler(there: EventBridgeSettings) -> EventBridge:
    return opened(there)


def drifts(differences: list[Difference]) -> list[tuple[str, str]]:
    return [(one.policy, one.drift.value) for one in differences]


def settled(wanted: list[Wanted], scheduler: EventBridge) -> list[Difference]:
    found = list(compare(wanted, scheduler))
    assert settle_all(found, scheduler) == {}
    return found


def test_only_policies_with_a_schedule_want_one() -> None:
    policies = [policy(), policy("tokens", schedule="0 4 * * *", timezone="Asia/Tokyo")]

    assert wanted_by({one.name: one for one in policies}) == [
        Wanted("tokens", "0 4 * * *", "Asia/Tokyo")
    ]


def test_what_is_missing_is_made_and_then_all_is_in_line(scheduler: EventBridge) -> None:
    assert drifts(settled(BOTH, scheduler)) == [("exports", "missing"), ("tokens", "missing")]

    assert list(compare(BOTH, scheduler)) == []
    assert [one.policy for one in scheduler.deployed()] == ["exports", "tokens"]


def test_comparing_changes_nothing(scheduler: EventBridge) -> None:
    compare(BOTH, scheduler)

    assert list(scheduler.deployed()) == []


def test_every_term_that_differs_is_named_and_corrected(
    there: EventBridgeSettings, scheduler: EventBridge
) -> None:
    elsewhere = f"arn:aws:sqs:{REGION}:{ACCOUNT}:elsewhere"
    opened(replace(there, queue_url=None, target_arn=elsewhere)).put(
        NIGHTLY._replace(schedule="0 3 * * *")
    )

    [found] = settled([NIGHTLY], scheduler)

    assert found.drift is Drift.CHANGED
    assert found.changes is not None
    assert found.changes["expression"] == Change("cron(0 3 * * ? *)", "cron(0 2 * * ? *)")
    assert found.changes["target"] == Change(elsewhere, scheduler.target)
    assert compare([NIGHTLY], scheduler) == []


def test_what_is_off_is_switched_on_again_also_where_it_was_changed(
    scheduler: EventBridge,
) -> None:
    for wanted in BOTH:
        scheduler.pause(scheduler.put(wanted))
    rescheduled = WEEKLY._replace(schedule="0 5 * * 1")

    found = settled([NIGHTLY, rescheduled], scheduler)

    assert drifts(found) == [("exports", "disabled"), ("tokens", "changed")]
    assert all(one.enabled for one in scheduler.deployed())


def test_what_a_removed_policy_left_is_removed(scheduler: EventBridge) -> None:
    settled(BOTH, scheduler)

    assert drifts(settled([WEEKLY], scheduler)) == [("exports", "left over")]
    assert [one.policy for one in scheduler.deployed()] == ["tokens"]


def test_what_calls_somebody_else_is_named_and_left(
    there: EventBridgeSettings, scheduler: EventBridge
) -> None:
    """Two configurations that share a group by mistake do not take each other's schedules away."""
    elsewhere = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/elsewhere"
    opened(replace(there, queue_url=elsewhere)).put(WEEKLY)

    assert drifts(settled([NIGHTLY], scheduler)) == [("exports", "missing"), ("tokens", "foreign")]
    assert [one.policy for one in scheduler.deployed()] == ["exports", "tokens"]
    assert drifts(list(compare([NIGHTLY], scheduler))) == [("tokens", "foreign")]


def test_what_cannot_be_expressed_is_refused_and_what_is_there_of_it_stays(
    scheduler: EventBridge,
) -> None:
    """O-CRON-01"""
    settled(BOTH, scheduler)
    impossible = NIGHTLY._replace(schedule="0 2 1 * 1")

    [found] = settled([impossible, WEEKLY], scheduler)

    assert found.drift is Drift.INEXPRESSIBLE
    assert "policies.exports" in found.why
    assert [one.policy for one in scheduler.deployed()] == ["exports", "tokens"]


def test_one_failure_keeps_none_of_the_others(
    there: EventBridgeSettings, scheduler: EventBridge
) -> None:
    settled([NIGHTLY], scheduler)
    scheduler.pause(scheduler.deployed()[0])
    found = list(compare(BOTH, scheduler))
    client = there.access.client("scheduler")
    client.delete_schedule(GroupName=there.group, Name="bestbefore-exports")

    failed = settle_all(found, scheduler)

    assert [(one.policy, one.drift) for one in failed] == [("exports", Drift.DISABLED)]
    assert [one.policy for one in scheduler.deployed()] == ["tokens"]
    assert drifts(settled(BOTH, scheduler)) == [("exports", "missing")]


def test_a_schedule_that_is_there_twice_is_there_once_afterwards() -> None:
    """Of vendors whose schedules have names of their own: the one that is right stays."""
    vendor = Twice()

    found = compare([NIGHTLY], vendor)

    assert drifts(list(found)) == [("exports", "repeated")]
    assert settle_all(found, vendor) == {}
    assert [one.id for one in vendor.there] == ["right"]


class Twice(EventBridge):
    """A vendor that has two schedules of one policy, as after a create whose answer was lost."""

    def __init__(self) -> None:
        super().__init__(settings("http://127.0.0.1:1", f"arn:aws:iam::{ACCOUNT}:role/r"), None)  # type: ignore[arg-type]
        terms = self.terms(NIGHTLY)
        wrong = {**terms, "expression": "rate(1 day)"}
        self.there = [
            Deployed("wrong", "exports", enabled=True, terms=wrong),
            Deployed("right", "exports", enabled=True, terms=terms),
        ]

    def deployed(self) -> list[Deployed]:
        return self.there

    def delete(self, deployed: Deployed) -> None:
        if deployed.id != "wrong":
            raise AssertionError(deployed.id)
        self.there = [one for one in self.there if one.id != deployed.id]
