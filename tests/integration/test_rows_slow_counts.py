"""A table that is counted for longer than a planner's lease."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bestbefore.app.connecting import Tables, connect_tables
from bestbefore.app.settings import DatabaseSettings
from bestbefore.domain.run import RunState
from bestbefore.ports.rows import RowReader
from bestbefore.stages import row_scan
from bestbefore.stages.survey import LEASE
from support.clock import ManualClock
from support.forks import until
from support.shops import Shop

PATIENCE = 30


class SlowReader:
    """A reader that takes *counting* before it counts anything."""

    def __init__(self, reader: RowReader, counting: Callable[[], None]) -> None:
        self._reader = reader
        self._counting = counting

    def kept(self, *given: Any) -> Any:
        self._counting()
        return self._reader.kept(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def test_a_planner_that_counts_for_minutes_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_scan, "_RENEW_SECONDS", 0.01)
    clock = ManualClock()
    free: list[int] = []
    renewed: list[datetime] = []

    def count_for_minutes() -> None:
        """Half a lease at a time, and after each a planner looks for work."""
        for _ in range(10):
            clock.step(LEASE / 2)
            until(lambda: renewed[-1:] == [clock.now()], PATIENCE, "that the claim is renewed")
            free.append(len(shop.system.plans.unfinished(clock.now() + LEASE / 2)))

    def tables(settings: DatabaseSettings) -> Tables:
        made = connect_tables(settings)
        return replace(made, reader=SlowReader(made.reader, count_for_minutes))  # type: ignore[arg-type]

    with Shop(tmp_path, clock=clock, tables=tables) as shop:
        shop.fill(25)
        renew = shop.system.plans.renew

        def renewing(claim: Any, now: datetime, lease: timedelta) -> None:
            renew(claim, now, lease)
            renewed.append(now)

        monkeypatch.setattr(shop.system.plans, "renew", renewing)
        began = clock.now()

        run = shop.plan()

        assert clock.now() - began >= timedelta(minutes=5)
        assert free == [0] * 10
        assert (run.state, run.planned) == (RunState.OPEN, 3)
