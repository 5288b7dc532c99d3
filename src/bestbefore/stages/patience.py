"""Asking a store again that is merely busy or out of reach: five times, ever later."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TypeVar

from bestbefore.domain.failure import Failure, FailureClass, backoff
from bestbefore.ports.clock import Clock
from bestbefore.ports.objects import StoreError

T = TypeVar("T")

TRIES = 5
_LONGEST_SECONDS = 30.0
_STEP_SECONDS = 0.5


def patiently(
    ask: Callable[[], T],
    clock: Clock,
    spread: Callable[[], float],
    stopping: Callable[[], bool],
) -> T:
    """What *ask* answers, which may raise StoreError until it is worth no other try."""
    for attempt in range(1, TRIES):
        try:
            return ask()
        except StoreError as error:
            if not worth_another_try(error.failure) or stopping():
                raise
            wait_after([error.failure], attempt, clock, spread, stopping)
    return ask()


def worth_another_try(failure: Failure) -> bool:
    """Whether the same question may be answered in a moment."""
    return failure.failure_class in (FailureClass.THROTTLED, FailureClass.TRANSIENT)


def wait_after(
    failures: Iterable[Failure],
    attempt: int,
    clock: Clock,
    spread: Callable[[], float],
    stopping: Callable[[], bool],
) -> None:
    """Wait after the *attempt*th try, and for as long as any of *failures* asks for.

    In small steps, so that a stop does not wait as well.
    """
    asked = [f.retry_after.total_seconds() for f in failures if f.retry_after]
    seconds = max([backoff(attempt, spread=spread, cap=_LONGEST_SECONDS), *asked])
    until = clock.now() + timedelta(seconds=seconds)
    while clock.now() < until and not stopping():
        clock.sleep(min(seconds, _STEP_SECONDS))
