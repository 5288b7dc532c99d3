"""Catching a process at an instant: the fault server keeps an answer, the test kills."""

import fcntl
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path

from support.faults import Answer, FaultyS3, Request
from support.forks import Child, until

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


def stop(child: Child, folder: Path) -> None:
    """SIGSTOP *child*, while it is not in the middle of a write to the ledger in *folder*: as on
    any SQLite, nobody could write until it goes on."""
    turn = folder / "bestbefore.db-turn"
    with turn.open("rb+") if turn.exists() else nullcontext() as file:
        if file is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        child.kill(signal.SIGSTOP)
        stat = Path(f"/proc/{child.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", what="its stop")


def random_instant(
    chance: random.Random, server: FaultyS3, children: Sequence[Child], requests: Sequence[int]
) -> None:
    """Let *children* run for a random while: for some of *requests*, so that a busy machine does
    not have them all killed at their start, and then for a moment of no meaning."""
    wanted = len(server.requests) + chance.choice(requests)
    gives_up = time.monotonic() + 1.0  # a worker may have nothing to do
    until(
        lambda: (
            len(server.requests) >= wanted
            or not any(child.running for child in children)
            or time.monotonic() > gives_up
        )
    )
    time.sleep(chance.random() ** 2 * 0.06)
