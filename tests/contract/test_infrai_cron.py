"""Infrai's cron, over a stand-in (`support.infrai`): nobody could look at the vendor."""

import uuid
from collections.abc import Iterator

import pytest

from bestbefore.adapters.schedulers.infrai import (
    InfraiScheduler,
    InfraiSchedulerSettings,
    connect,
)
from bestbefore.contracts.scheduler import SchedulerContract, SchedulerWorld
from bestbefore.ports.scheduler import Wanted
from support.clock import ManualClock
from support.infrai import KEY, Infrai
from support.infrai_documents import CRONS

SECRET = "trigger-" + "0123456789abcdef" * 2


@pytest.fixture(scope="module", params=CRONS)
def vendor(request: pytest.FixtureRequest) -> Iterator[Infrai]:
    """The stand-in, in each form that was seen of it."""
    with Infrai(CRONS[request.param]) as running:
        yield running


class TestSchedulerOverInfrai(SchedulerContract):
    @pytest.fixture
    def world(self, vendor: Infrai) -> Iterator[SchedulerWorld]:
        group = f"test-{uuid.uuid4().hex}"
        made: list[InfraiScheduler] = []
        nowhere = "http://127.0.0.1:1"

        def opened(name: str = group, base_url: str = vendor.base_url) -> InfraiScheduler:
            settings = InfraiSchedulerSettings(KEY, nowhere, SECRET, name, base_url)
            made.append(connect(settings, ManualClock()))
            return made[-1]

        yield SchedulerWorld(
            opened(),
            opened,
            lambda: opened(f"{group}2"),
            lambda: opened(base_url=f"{nowhere}/v1"),
            Wanted("last-day", "0 2 L * *", "UTC"),
        )
        for scheduler in made:
            scheduler.close()
