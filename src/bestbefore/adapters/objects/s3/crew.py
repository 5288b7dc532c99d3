"""Many small requests side by side."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from bestbefore.domain.failure import Failure, FailureClass

SIZE = 16
_Result = TypeVar("_Result")
_HOPELESS = frozenset({FailureClass.CREDENTIALS, FailureClass.THROTTLED, FailureClass.TRANSIENT})


class Crew:
    """A few threads that do one thing for each of many keys, and give up together."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="bestbefore-s3")

    def each(
        self, bucket: str, keys: Sequence[str], work: Callable[[str], _Result]
    ) -> dict[str, _Result | Failure]:
        """``work(key)`` by key.

        When a whole round of keys fails for a reason that is not theirs, the remaining ones are
        not tried: a thousand timeouts in a row would outlast every lease.
        """
        done: dict[str, _Result | Failure] = {}
        for start in range(0, len(keys), self._size):
            batch = keys[start : start + self._size]
            results = list(self._threads.map(work, batch)) if len(keys) > 1 else [work(keys[0])]
            done.update(zip(batch, results, strict=True))
            last = results[-1]
            if isinstance(last, Failure) and all(map(_hopeless, results)):
                for key in keys[start + self._size :]:
                    error = f"s3://{bucket}/{key}: not tried, as before it {last.error}"
                    done[key] = replace(last, error=error)
                break
        return done


def _hopeless(result: object) -> bool:
    return isinstance(result, Failure) and (
        result.whole_source or result.failure_class in _HOPELESS
    )
