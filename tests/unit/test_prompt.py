"""Which runs are finished while whoever asked for them waits, and for how long."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bestbefore.domain.policy import ObjectSource, Policy
from bestbefore.domain.report import Report
from bestbefore.domain.retention import Age
from bestbefore.domain.rows import DependentRows, RowSource
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.states import RunState
from bestbefore.stages.prompt import finish
from support.clock import NOW, ManualClock

SOURCE = RowSource("shop", "updates", "at", synchronous_below=100)
POLICY = Policy("stale", "v1", "", Age(1, 0), SOURCE)
RUN = Run(
    row=1,
    run_id="0123456789ab",
    policy="stale",
    policy_version="v1",
    slot=NOW,
    first_slot=NOW,
    cutoff=NOW,
    state=RunState.OPEN,
    trigger=Trigger.HTTP,
    early=False,
    complete=True,
    target="here",
    reason=None,
    created_at=NOW,
    scanned=500,
    in_scope=500,
    protected={},
    already_pending=0,
    already_completed=0,
    already_dead=0,
    reappeared=0,
    refused=0,
    planned=4,
    waiting=3,
    pending=1,
    completed=0,
    dead=0,
    about_rows=True,
    rows=99,
)


def worked(late: Callable[[], bool]) -> Report:
    return Report(stopped=late())


def test_a_run_of_few_rows_is_worked_on_at_once() -> None:
    assert finish(POLICY, RUN, ManualClock(), worked) == Report()


@pytest.mark.parametrize(
    "run",
    [
        {"rows": 100},
        {"state": RunState.PARKED},
        {"state": RunState.DRAINED},
        {"complete": False},
        {"waiting": 0, "pending": 0, "completed": 4},
        {"waiting": 0, "held": 1},
    ],
)
def test_any_other_run_is_left_to_the_workers(run: dict[str, Any]) -> None:
    assert finish(POLICY, replace(RUN, **run), ManualClock(), worked) is None


def test_rows_are_archived_by_workers_alone() -> None:
    assert finish(replace(POLICY, action="archive"), RUN, ManualClock(), worked) is None


def test_nobody_waits_for_objects() -> None:
    objects = replace(POLICY, source=ObjectSource("s", "b", "p/"))

    assert finish(objects, replace(RUN, about_rows=False, rows=0), ManualClock(), worked) is None


def test_who_set_the_limit_to_nothing_never_waits() -> None:
    never = replace(POLICY, source=replace(SOURCE, synchronous_below=0))

    assert finish(never, replace(RUN, rows=1), ManualClock(), worked) is None


def test_nobody_waits_longer_than_the_policy_says() -> None:
    clock = ManualClock()
    asked = []

    def work(late: Callable[[], bool]) -> Report:
        for _ in range(3):
            asked.append(late())
            clock.step(timedelta(seconds=5))
        return Report()

    finish(POLICY, RUN, clock, work)

    assert asked == [False, False, True]


def test_rows_of_other_tables_count_for_how_small_a_run_is() -> None:
    notes = DependentRows("notes", changed=1)
    small = replace(RUN, rows=98, dependents=(notes,))

    assert finish(POLICY, small, ManualClock(), worked) == Report()
    assert finish(POLICY, replace(small, rows=99), ManualClock(), worked) is None
