"""Catching a process at an instant: the fault server keeps an answer, the test kills."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from support.faults import Answer, FaultyS3, Request

LAPSED = timedelta(seconds=61)
"""After it, whatever a dead process held is anybody's."""


@contextmanager
def held(
    server: FaultyS3,
    operation: str,
    *,
    effect: bool = True,
    when: Callable[[Request], bool] = lambda _: True,
) -> Iterator[threading.Event]:
    """Keep the answer to the first request *when* chooses until the end, carrying it out or not.

    The event tells that it has come.
    """
    come, release = threading.Event(), threading.Event()

    def hold(truth: Answer) -> Answer:
        come.set()
        release.wait(60)
        return truth

    def chosen(request: Request) -> bool:
        names = (request.key, *request.keys)
        return not any(".bestbefore-probe-" in name for name in names) and when(request)

    server.fail(operation, hold, after_effect=effect, when=chosen)
    try:
        yield come
    finally:
        release.set()
