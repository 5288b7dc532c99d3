"""Many seeds, on many cores."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from simulation.schedules import Schedule, Told, shrunk, simulate

_CHUNK = 50

Failed = tuple[int, str]
"""A seed, and the promise it breaks."""


def failures(seeds: Sequence[int]) -> list[Failed]:
    """Those of *seeds* that break a promise."""
    told = ((seed, simulate(Schedule.of(seed)).broken) for seed in seeds)
    return [(seed, broken) for seed, broken in told if broken is not None]


def soak(first: int, number: int, jobs: int, say: Callable[[str], None]) -> list[Failed]:
    """Simulate *number* seeds from *first* on in *jobs* processes; returns those that failed."""
    chunks = [
        range(start, min(start + _CHUNK, first + number))
        for start in range(first, first + number, _CHUNK)
    ]
    began, done, found = time.monotonic(), 0, list[Failed]()
    said_at = began
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for chunk, some in zip(chunks, pool.map(failures, chunks), strict=True):
            done += len(chunk)
            found += some
            for seed, broken in some:
                say(f"seed {seed}: {broken}\n  {replay(seed)}")
            now = time.monotonic()
            if now - said_at >= 5 or done == number:
                said_at = now
                rate = done / (now - began) * 60
                say(f"{done:,} of {number:,} seeds, {rate:,.0f} a minute, {len(found)} failed")
    return found


def replay(seed: int) -> str:
    """How to run *seed* again."""
    return f"PYTHONPATH=src:tests python -m simulation {seed}"


def story(seed: int) -> Iterator[str]:
    """What *seed* does, line by line; of one that fails, as little of it as it takes."""
    schedule = Schedule.of(seed)
    told = simulate(schedule)
    if told.broken is not None:
        schedule = shrunk(schedule)
        told = simulate(schedule)
    yield from lines(schedule, told)


def lines(schedule: Schedule, told: Told) -> Iterator[str]:
    """*told* for people."""
    yield from told.trace
    yield f"seed {schedule.seed}: {told.broken or 'every promise holds'}"
    if told.broken is not None:
        yield f"steps: {list(schedule.steps)}"


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))
