"""When a connection, rather than one operation, is what is sick.

A sick environment must not drain into the dead letters: its breaker opens, and its commands wait
without spending attempts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bestbefore.domain.failure import Failure, FailureClass


@dataclass(frozen=True, slots=True)
class Limit:
    """So many different operations failed in one class, with no success for so long."""

    operations: int
    without_success: timedelta


LIMITS: Mapping[FailureClass, Limit] = {
    FailureClass.PERMISSION: Limit(100, timedelta(minutes=15)),
    # Shorter than the eight attempts of one operation last, so that an outage spends a few only.
    FailureClass.TRANSIENT: Limit(20, timedelta(seconds=30)),
}


@dataclass(slots=True)
class Health:
    """One connection as one worker has seen it since the last success."""

    _failed: dict[FailureClass, set[int]] = field(default_factory=dict)
    _since: datetime | None = None

    def succeeded(self) -> None:
        """Something worked: whatever else fails, the connection is well."""
        self._failed.clear()
        self._since = None

    def failed(self, failures: Iterable[tuple[int, Failure]], now: datetime) -> Failure | None:
        """Note failures by operation. Returns the one to open the breaker for, if any.

        Different operations are counted, not attempts: one that fails for ever is poison and
        says nothing about its connection.
        """
        self._since = self._since or now
        tripping = None
        for operation, failure in failures:
            if failure.failure_class is FailureClass.CREDENTIALS:
                return failure
            limit = LIMITS.get(failure.failure_class)
            if limit is None:
                continue
            failed = self._failed.setdefault(failure.failure_class, set())
            failed.add(operation)
            lasted = now - self._since
            if len(failed) >= limit.operations and lasted >= limit.without_success:
                tripping = failure
        return tripping
