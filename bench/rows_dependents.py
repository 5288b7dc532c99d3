"""What it costs to count the rows that refer to a batch: planning with and without, and what a
writer to live rows feels of a cleanup that removes them too, in interleaved rounds."""

import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from bench import servers, shipments
from bench.rounds import Bestbefore
from bench.rows_foreground import BRAKES, ONE_AT_A_TIME, compare

_SIZE = 1_000
_TELLS = 1.2
"""How much longer than a start a plan has to take, for a ratio without starting to say anything."""

_AUTO = 'dependents = "auto"'
_NONE = 'dependents = "none"'

# Under dependents = "none" what is referred to stays, and no batch is cut of it: as much is planned
# without counting only where no table refers to the rows, or the others' rows refer to young ones.
_COUNTED = "dependents auto, all rows are referred to"
_ALONE = "dependents none, no other table"
_YOUNG = "dependents none, only young are referred to"
_KEPT = "dependents none, all are referred to and stay"
_START = "nothing is old, no other table"


def measure(rows: int, rounds: int) -> None:
    """Print what planning takes, and what a writer feels, with three tables that refer to the
    table and with none."""
    if not servers.there():
        return
    children = shipments.CHILDREN
    with (
        shipments.on_postgresql(rows) as alone,
        shipments.on_postgresql(rows, children) as referred,
        shipments.on_postgresql(rows, children, rows // 2 + 1) as young,
        tempfile.TemporaryDirectory() as folder,
    ):
        _print(_Planning(Path(folder), alone, referred, young).hold(rounds), rows)
        compare(
            {
                "idle": (referred, None),
                "with brakes, no other table": (alone, BRAKES),
                "with brakes, dependents auto": (referred, BRAKES._replace(source=_AUTO)),
                "one by one, no other table": (alone, ONE_AT_A_TIME),
                "one by one, dependents auto": (referred, ONE_AT_A_TIME._replace(source=_AUTO)),
            },
            rounds,
        )


class _Planning:
    """`bestbefore plan` of the same old half, with a new ledger each time. Planning changes no row,
    so that all rounds have the same copies."""

    def __init__(
        self,
        folder: Path,
        alone: shipments.OnPostgresql,
        referred: shipments.OnPostgresql,
        young: shipments.OnPostgresql,
    ) -> None:
        self._bestbefore = Bestbefore(folder / "state")
        self._old = old = alone.rows // 2
        for table in (alone, referred, young):
            table.renew()
        children = len(shipments.CHILDREN)
        self._contestants: Mapping[str, Callable[[], float]] = {
            _COUNTED: partial(self._plan, referred.url, _AUTO, old, children * old),
            _ALONE: partial(self._plan, alone.url, _NONE, old, 0),
            _YOUNG: partial(self._plan, young.url, _NONE, old, 0),
            _KEPT: partial(self._plan, referred.url, _NONE, 0, 0, kept=old),
            _START: partial(self._plan, alone.url, _NONE, 0, 0, age=shipments.NOTHING),
        }

    def hold(self, rounds: int) -> dict[str, list[float]]:
        """The seconds of each contestant, by round; a round before them fills the caches."""
        times: dict[str, list[float]] = {name: [] for name in self._contestants}
        for number in range(rounds + 1):
            for name, plan in self._contestants.items():
                seconds = plan()
                if number:
                    times[name].append(seconds)
                line = f"round {number}/{rounds}  {name:<44}{seconds:7.2f} s"
                print(line, file=sys.stderr, flush=True)
        return times

    def _plan(
        self,
        url: str,
        source: str,
        rows: int,
        dependents: int,
        *,
        kept: int = 0,
        age: timedelta = shipments.AGE,
    ) -> float:
        """Plan, and fail unless it selects, counts and keeps so many rows."""
        self._bestbefore.begin(shipments.configuration(url, _SIZE, age=age, source=source))
        seconds, planned = self._bestbefore.answer("plan", "bench", "--yes")
        found = planned["rows_eligible"], _counted(planned), sum(planned["referenced"].values())
        assert found == (rows, dependents, kept), (found, (rows, dependents, kept))
        return seconds


def _counted(planned: Mapping[str, Any]) -> int:
    return sum(table["removed"] + table["changed"] for table in planned["planned_dependents"])


def _print(times: Mapping[str, list[float]], rows: int) -> None:
    rounds = len(times[_COUNTED])
    children = len(shipments.CHILDREN) * rows
    print(
        f"\nplanning {rows // 2:,} of {rows:,} rows, N = {_SIZE:,} (PostgreSQL), to which "
        f"{children:,} rows of three tables refer, seconds, {rounds} interleaved rounds"
    )
    for name, seconds in times.items():
        print(f"  {name:<46}{_spread(seconds)}")
    print("  times as long as, round by round")
    for name in (_ALONE, _YOUNG, _KEPT):
        print(f"  {name:<46}{_spread(_ratios(times, name))}")
    counted, alone, started = (statistics.median(times[n]) for n in (_COUNTED, _ALONE, _START))
    if alone > _TELLS * started:
        without = (counted - started) / (alone - started)
        print(f"  the first of these, without starting, by medians: {without:.2f}x")
    print(
        f"  for the table of speed: counting {children // 2:,} rows that refer to a plan's "
        f"{rows // 2:,} makes it take {statistics.median(_ratios(times, _ALONE)):.2f} times as long"
    )


def _ratios(times: Mapping[str, list[float]], peer: str) -> list[float]:
    pairs = zip(times[_COUNTED], times[peer], strict=True)
    return [counted / other for counted, other in pairs]


def _spread(numbers: list[float]) -> str:
    low, middle, high = min(numbers), statistics.median(numbers), max(numbers)
    return f"min {low:6.2f}  median {middle:6.2f}  max {high:6.2f}"
