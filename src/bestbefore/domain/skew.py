"""Whether two clocks agree well enough to decide by them what is old."""

from datetime import datetime, timedelta

from bestbefore.domain.identity import instant

MOST_CLOCK_SKEW = timedelta(minutes=5)


def clock_problem(here: datetime, there: datetime | None, endpoint: str) -> str | None:
    """What is wrong with the clock that says *here* where *endpoint*'s says *there*, or None."""
    if there is None or abs(here - there) <= MOST_CLOCK_SKEW:
        return None
    return (
        f"this clock says {instant(here)}, {endpoint} says {instant(there)}; they may differ by "
        f"{MOST_CLOCK_SKEW.seconds // 60} minutes; set the clock right"
    )
