"""How many rows a batch should have, so that it holds its locks for about as long as it may.

Shrinks fast, grows slowly, and only as far as batches that were worked on bear it out. A batch
that is planned keeps the size it has.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from statistics import median

from bestbefore.domain.rows import RowSource

SMALLEST, LARGEST = 10, 10_000

RECENT = 20
"""Batches that are looked at."""

_NEWEST = 5
_SHRINK, _GROW = 0.5, 1.2
_COMFORTABLE = 0.9
_TOO_LONG = 2.0
_WEIGHT = 0.3
_ENOUGH = 3

Batches = Sequence[tuple[int, float]]
"""Rows and seconds of batches that were worked on, the newest first."""


def planned_size(
    source: RowSource, recent: Callable[[], Batches], before: int | None = None
) -> int:
    """How many rows the batches of *source* have that are planned next, after those of *before*.

    Always what the policy says, and *recent* is not asked, unless it has a target duration.
    """
    if source.target_duration is None:
        return source.batch_size
    batches = recent()
    size = before or size_in_use(source.batch_size, batches)
    return next_size(size, batches, source.target_duration)


def largest(source: RowSource) -> int:
    """How many rows a batch of *source* has at most; only a partition that goes as a whole has
    more."""
    return source.batch_size if source.target_duration is None else LARGEST


def size_in_use(batch_size: int, recent: Batches) -> int:
    """The size to go on from: that of the newest batches, but for the remainders among them.

    *batch_size* where there are none: what the policy begins with.
    """
    rows = max((rows for rows, _ in recent[:_NEWEST]), default=batch_size)
    return _clamped(rows)


def next_size(size: int, recent: Batches, target: timedelta) -> int:
    """The size of batches that are planned next, after those of *size*.

    Halved, and again where that is not enough, when *recent* batches took longer than *target*:
    most of them, or the newest by a lot. A fifth more when they were done in less than nine tenths
    of it and had about that size.
    """
    goal = target.total_seconds()
    pace = [seconds / rows for rows, seconds in recent if rows > 0]
    if not pace:
        return _clamped(size)
    usual, lately = median(pace), _average(pace)
    if usual * size > goal or lately * size > _TOO_LONG * goal:
        worst = usual if usual * size > goal else lately
        while size > SMALLEST and worst * size > goal:
            size = int(size * _SHRINK)
    elif usual * size < _COMFORTABLE * goal and _borne_out(size, recent):
        size = min(max(size + 1, int(size * _GROW)), int(goal / usual))
    return _clamped(size)


def _average(values: Sequence[float]) -> float:
    """The exponential moving average of *values*, of which the first is the newest."""
    average = values[-1]
    for newer in reversed(values[:-1]):
        average += _WEIGHT * (newer - average)
    return average


def _borne_out(size: int, recent: Batches) -> bool:
    """Whether enough batches were about as large as *size*: it may not run ahead of the work."""
    return sum(rows * _GROW >= size for rows, _ in recent) >= _ENOUGH


def _clamped(size: int) -> int:
    return max(SMALLEST, min(LARGEST, size))
