"""`tune`: which batch size and how many workers suit a table, measured on a copy of its shape.

Of the real table only the definition is read, and what a plan would ask before it begins. Nothing
real is written to, and no batch leaves this package for a queue.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from bestbefore.adapters import rows
from bestbefore.adapters.rows import scratch
from bestbefore.app.settings.model import DatabaseSettings
from bestbefore.app.tune.children import TuneFailed
from bestbefore.app.tune.crew import Crew
from bestbefore.app.tune.matrix import Axes, Matrix
from bestbefore.domain.policy import Policy
from bestbefore.domain.tuning import Ceilings, Cell, Recommendation, Spread, recommend
from bestbefore.ports.rows import RowReader
from bestbefore.ports.tuning import Cost, ScratchRefused
from bestbefore.stages.survey import Stopped

__all__ = ["Axes", "Telling", "TuneFailed", "Tuned", "clean", "tune"]

_TARGET_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Tuned:
    """What came out of it. ``left_out`` is what of the policy was not measured, ``idle`` how long
    the writes of the foreground took without cleanup."""

    policy: Policy
    at: datetime
    rows: int
    axes: Axes
    left_out: Sequence[str]
    cells: Sequence[Cell]
    idle: Spread
    writes_per_second: float
    ceilings: Ceilings
    recommendation: Recommendation


@dataclass(frozen=True, slots=True)
class Telling:
    """Who is told: what it will take, before anything is written, and before each cell how many
    were measured, its size and its workers."""

    begins: Callable[[Cost], None]
    cell: Callable[[int, int, int], None]


def tune(
    database: DatabaseSettings,
    policy: Policy,
    reader: RowReader,
    axes: Axes,
    size: int,
    now: datetime,
    telling: Telling,
    stopping: Callable[[], bool],
) -> Tuned:
    """Measure *axes* on *size* made-up rows, and take all of them away again.

    Raises ScratchRefused, TableRefused and StoreError before anything was written, or TuneFailed,
    StoreError and Stopped afterwards; the copy is gone in any case but that of a database that is.
    """
    if left := scratch.leftovers(database.url):
        names = ", ".join(place.name for place in left)
        raise ScratchRefused(
            f"databases.{database.name}: {names} is there, from a tune that was killed or that "
            f"somebody runs right now; if nobody does: bestbefore tune {policy.name} --clean"
        )
    facts = reader.describe(policy.rows)
    cutoff = policy.older_than.before(now)
    copy = scratch.copy_of(database.url, policy.rows, facts, cutoff, now, size)
    telling.begins(copy.cost)
    try:
        copy.make(lambda: _go_on(stopping))
        on_copy, _ = rows.connect(copy.url)
        with Crew(copy.url, copy.writer, stopping) as crew:
            matrix = Matrix(policy, on_copy, copy, crew, axes, telling.cell)
            measured = matrix.measure()
    finally:
        copy.drop()
    lock_wait = database.throttle.lock_wait
    target = policy.rows.target_duration
    ceilings = Ceilings(
        target.total_seconds() if target else _TARGET_SECONDS,
        lock_wait.total_seconds() if lock_wait else None,
    )
    return Tuned(
        policy=policy,
        at=now,
        rows=size,
        axes=axes,
        left_out=tuple(copy.left_out),
        cells=measured.cells,
        idle=measured.idle,
        writes_per_second=crew.writes_per_second,
        ceilings=ceilings,
        recommendation=recommend(measured.cells, ceilings, measured.idle),
    )


def _go_on(stopping: Callable[[], bool]) -> None:
    if stopping():
        raise Stopped


def clean(database: DatabaseSettings) -> list[str]:
    """Remove copies that were left over; returns their names."""
    left = scratch.leftovers(database.url)
    for place in left:
        place.drop()
    return [place.name for place in left]
