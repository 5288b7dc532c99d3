"""EventBridge Scheduler, as moto's server has it.

moto fires nothing, takes every expression and every role, and forgets ``ActionAfterCompletion`` in
an update. What the real service refuses is tested by what we send: `test_eventbridge_expression`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bestbefore.adapters.schedulers.eventbridge import EventBridge
from bestbefore.contracts.scheduler import SchedulerContract, SchedulerWorld
from bestbefore.ports.scheduler import Wanted
from support.eventbridge import NOWHERE, opened, remove_groups, role, settings
from support.moto import Moto


class TestSchedulerOnEventBridge(SchedulerContract):
    @pytest.fixture
    def world(self, moto: Moto) -> Iterator[SchedulerWorld]:
        there = settings(moto.endpoint, role(moto))
        made = [opened(there)]

        def again(**changed: Any) -> EventBridge:
            made.append(opened(replace(there, **changed)))
            return made[-1]

        elsewhere = replace(there.access, endpoint_url=NOWHERE)
        yield SchedulerWorld(
            made[0],
            another=again,
            beside=lambda: again(group=f"{there.group}-beside"),
            broken=lambda: again(access=elsewhere),
            not_possible=Wanted("either-day", "30 0 1 * 1", "UTC"),
        )
        remove_groups(there, there.group)
        for scheduler in made:
            scheduler.close()
