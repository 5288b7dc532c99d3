"""What is counted of a policy for good, and the buckets that durations are counted in."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from enum import StrEnum


class Count(StrEnum):
    """What a number is a number of. All but `DEAD` only ever grow.

    They outlive runs and pruned operations: what is planned again is counted again, as it is
    worked on again.
    """

    SCANNED = "scanned"  # by unit: object or row
    ELIGIBLE = "eligible"  # by unit, once a scan has ended
    PLANNED = "planned"  # operations created
    PUBLISHED = "published"
    REPUBLISHED = "republished"  # to a broker, which may have them already
    COMPLETED = "completed"  # by outcome; with the bytes that left
    ROWS = "rows"  # by what became of them
    RETRIED = "retried"  # by failure class
    DIED = "died"  # by failure class
    DEAD = "dead"  # by failure class: those that are dead now
    REDRIVEN = "redriven"  # operations, however often
    REDRIVEN_COMPLETED = "redriven_completed"  # by outcome
    BATCH_SECONDS = "batch_seconds"  # by bucket; with the microseconds
    FIRST_PAGE_SECONDS = "first_page_seconds"  # likewise
    PLAN_SECONDS = "plan_seconds"  # likewise


BOUNDS: dict[Count, Sequence[float]] = {
    Count.BATCH_SECONDS: (
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, math.inf,
    ),
    Count.FIRST_PAGE_SECONDS: (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, math.inf),
    Count.PLAN_SECONDS: (
        0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, math.inf,
    ),
}  # fmt: skip
"""The upper ends of the buckets of each duration, in seconds."""


def bucket(count: Count, seconds: float) -> str:
    """The name of the bucket of *count* that *seconds* belongs to: its upper end."""
    bounds = BOUNDS[count]
    return str(bounds[bisect_left(bounds, seconds)])
