"""Many small requests side by side."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Generic, TypeVar

from bestbefore.adapters.queues.sqs.errors import CallFailed

SIZE = 16
_ENOUGH = 8
"""So many failures in a row, and what has not been tried yet is not."""

_Thing = TypeVar("_Thing")
_Result = TypeVar("_Result")


class Crew:
    """A few threads that do one thing for each of many, and give up together."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(SIZE, thread_name_prefix="bestbefore-sqs")

    def each(
        self, work: Callable[[_Thing], _Result], things: Sequence[_Thing]
    ) -> list[_Result | CallFailed]:
        """``work(thing)`` for each of *things*, in their order; what it raised, where it did.

        A hundred timeouts, one after the other, would outlast every lease: after a few failures
        in a row the rest fails as they did.
        """
        attempt = _Attempt(work)
        if len(things) == 1:
            return [attempt(things[0])]
        return list(self._threads.map(attempt, things))

    def close(self) -> None:
        """Let what runs end."""
        self._threads.shutdown()


class _Attempt(Generic[_Thing, _Result]):
    """Calls *work* until it has failed too often."""

    def __init__(self, work: Callable[[_Thing], _Result]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._failures = 0
        self._last: CallFailed | None = None

    def __call__(self, thing: _Thing) -> _Result | CallFailed:
        last = self._last
        if last is not None and self._failures >= _ENOUGH:
            error = f"not tried, as before it {last.failure.error}"
            return CallFailed(replace(last.failure, error=error), last.code)
        try:
            result = self._work(thing)
        except CallFailed as failed:
            with self._lock:
                self._last = failed
                self._failures += 1
            return failed
        self._failures = 0
        return result
