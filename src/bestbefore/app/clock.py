"""The real clock."""

import time
from datetime import UTC, datetime


class SystemClock:
    """`bestbefore.ports.clock.Clock`."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
