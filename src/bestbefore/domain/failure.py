"""Failure classes, what each of them costs, and how long to wait.

A class says why an attempt did not end an operation, and so what happens next: wait, try again
or stop. Budgets live in the ledger because every broker counts something else.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum

LONGEST_WAIT = timedelta(minutes=15)

NEVER = datetime(9999, 12, 31, tzinfo=UTC)
"""When something is due that waits for an event and not for a moment."""

_BASE = timedelta(seconds=1)
_ASK_AGAIN = timedelta(seconds=10)


class FailureClass(StrEnum):
    """See the table in ``docs/failures.md``; each member's fate is in `decide`."""

    THROTTLED = "throttled"
    TRANSIENT = "transient"
    CREDENTIALS = "credentials"
    PERMISSION = "permission"
    MALFORMED = "malformed"
    HELD = "held"
    DEPENDENCY = "dependency"
    CRASHED = "crashed"
    UNKNOWN = "unknown"


PATIENCE: Mapping[FailureClass, timedelta] = {
    FailureClass.THROTTLED: timedelta(hours=24),
    FailureClass.CREDENTIALS: timedelta(days=7),
}
"""Classes that spend time instead of attempts."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that did not end its operation.

    ``retry_after`` is what the other side asked for, already capped. ``whole_source`` means the
    bucket itself cannot be worked on (missing, elsewhere), so its neighbours need not be tried.
    ``until`` is when a lock ends; one without a date lasts until somebody lifts it. ``too_big``
    means that less at a time might succeed: a transaction ran out of time or of room.
    """

    failure_class: FailureClass
    error: str
    retry_after: timedelta | None = None
    whole_source: bool = False
    until: datetime | None = None
    too_big: bool = False


@dataclass(frozen=True, slots=True)
class Attempts:
    """How many attempts each class may spend before an operation is dead."""

    transient: int = 8
    permission: int = 3
    unknown: int = 3
    dependency: int = 3

    def allowed(self, failure_class: FailureClass) -> int:
        match failure_class:
            case FailureClass.TRANSIENT:
                return self.transient
            case FailureClass.PERMISSION:
                return self.permission
            case FailureClass.UNKNOWN:
                return self.unknown
            case FailureClass.DEPENDENCY:
                return self.dependency
            case _:
                return 1


@dataclass(frozen=True, slots=True)
class Budget:
    """What one operation has spent: attempts by class, and since when it has been waiting.

    The same shape is stored in the ledger as JSON.
    """

    spent: Mapping[FailureClass, int]
    waiting_since: Mapping[FailureClass, datetime]

    @classmethod
    def fresh(cls) -> "Budget":
        return cls({}, {})

    @property
    def attempts(self) -> int:
        """Attempts spent over all classes."""
        return sum(self.spent.values())

    def charge(self, failure_class: FailureClass, now: datetime) -> "Budget":
        """This budget after one more failure of *failure_class*."""
        if failure_class in PATIENCE:
            since = {failure_class: now} | dict(self.waiting_since)
            return replace(self, waiting_since=since)
        spent = dict(self.spent)
        spent[failure_class] = spent.get(failure_class, 0) + 1
        return replace(self, spent=spent)

    def tries(self, failure_class: FailureClass, now: datetime) -> int:
        """How often to double the wait after a failure of *failure_class*, already charged.

        Classes that spend time instead of attempts double with the time they have waited.
        """
        if failure_class in PATIENCE:
            waited = now - self.waiting_since[failure_class]
            return max(1, int(waited.total_seconds()).bit_length())
        return self.spent[failure_class]

    def exhausted(self, failure_class: FailureClass, attempts: Attempts, now: datetime) -> bool:
        """Whether a failure of *failure_class*, already charged, was the last one allowed."""
        if patience := PATIENCE.get(failure_class):
            return now - self.waiting_since[failure_class] >= patience
        return self.spent[failure_class] >= attempts.allowed(failure_class)


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The operation stays pending until ``due_at``."""

    failure: Failure
    budget: Budget
    due_at: datetime


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The operation is dead."""

    failure: Failure
    budget: Budget


def decide(
    failure: Failure,
    budget: Budget,
    attempts: Attempts,
    now: datetime,
    spread: Callable[[], float],
) -> TryAgain | GiveUp:
    """What becomes of an operation after *failure*.

    *spread* returns a float in [0, 1) and is called once or not at all.
    """
    if failure.failure_class is FailureClass.HELD:
        due_at = NEVER if failure.until is None else failure.until
        if due_at <= now:  # for us; the two clocks need not agree about when a lock ends
            due_at = now + _ASK_AGAIN
        return TryAgain(failure, budget, due_at)
    charged = budget.charge(failure.failure_class, now)
    if charged.exhausted(failure.failure_class, attempts, now):
        return GiveUp(failure, charged)
    tries = charged.tries(failure.failure_class, now)
    return TryAgain(failure, charged, now + pause(failure, tries, spread))


def pause(failure: Failure, tries: int, spread: Callable[[], float]) -> timedelta:
    """How long to wait after *failure*, the *tries*-th (from 1) in a row.

    *spread* returns a float in [0, 1) and is called once or not at all.
    """
    if failure.retry_after:
        # What the server asks for is a floor; the spread on top keeps a thousand commands that
        # were told the same second from coming back in it together.
        return failure.retry_after + spread() * max(failure.retry_after / 10, _BASE)
    if failure.retry_after is not None and tries == 1:
        # "At once" is believed at first; a server that keeps saying so would be asked in a loop.
        return timedelta(0)
    return timedelta(seconds=backoff(tries, spread=spread))


def backoff(
    attempt: int,
    *,
    spread: Callable[[], float],
    base: float = _BASE.total_seconds(),
    cap: float = LONGEST_WAIT.total_seconds(),
) -> float:
    """Seconds to wait after *attempt* (from 1): exponential with full jitter.

    At least *base* and never above *cap*. The exponent is bounded before it is used, as two to
    the power of a large attempt number is not a float.
    """
    ceiling = min(cap, base * math.ldexp(1.0, min(attempt, 30)))
    return min(cap, base + spread() * (ceiling - base))


def parse_retry_after(value: str | None, now: datetime) -> timedelta | None:
    """Read a Retry-After header: seconds or an HTTP date, capped at 15 minutes.

    Zero is an invitation to come back at once. None, meaning the usual back-off, for what is
    missing, negative, in the past or unreadable (RFC 9110, section 10.2.3).
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        seconds = int(text[:12]) if len(text) <= 12 else int(LONGEST_WAIT.total_seconds())
        return min(timedelta(seconds=min(seconds, 86_400)), LONGEST_WAIT)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    wait = moment.replace(tzinfo=moment.tzinfo or UTC) - now
    return min(wait, LONGEST_WAIT) if wait > timedelta(0) else None
