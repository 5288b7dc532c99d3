"""The parent's side of a tune: starts its processes, tells them what to do, and kills them.

They are forked from a server that has imported everything, so that a new one after a kill takes
milliseconds.
"""

import multiprocessing
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from typing import Any, Self

from bestbefore.app.tune.children import (
    Broke,
    Deliver,
    Delivered,
    Pipe,
    StopAt,
    TuneFailed,
    Write,
    work,
    write,
)
from bestbefore.ports.tuning import ForegroundWriter
from bestbefore.stages.survey import Stopped

_LOOK_UP_EVERY = 0.2


class Crew:
    """The parent's side. *stopping* is asked while it waits; then everything raises `Stopped`."""

    def __init__(self, url: str, writer: ForegroundWriter, stopping: Callable[[], bool]) -> None:
        self._url = url
        self._writer = writer
        self._stopping = stopping
        self._ending = ExitStack()
        self._context = multiprocessing.get_context("forkserver")
        # A child imports the main module of whoever started it, so that has to be there already.
        ours = [name for name in sys.modules if name.startswith("bestbefore.")]
        self._context.set_forkserver_preload(ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def hire(self, workers: int) -> None:
        """Start *workers* and the foreground, and wait until all are connected."""
        self._foreground = self._start(write, self._writer)
        self.writes_per_second: float = self._foreground.answer(self._stopping)
        self._workers = [self._start(work, self._url) for _ in range(workers)]
        for child in self._workers:
            child.answer(self._stopping)

    def deliver(self, workers: int, order: Deliver) -> Delivered:
        """Have so many *workers* share in *order*."""
        crew = self._workers[:workers]
        for place, child in enumerate(crew):
            child.pipe.send(
                Deliver(
                    order.source,
                    order.tasks[place::workers],
                    order.until,
                    order.pause * workers,
                    order.per_row * workers,
                )
            )
        done: list[Delivered] = [child.answer(self._stopping) for child in crew]
        deliveries = [delivery for each in done for delivery in each.deliveries]
        return Delivered(deliveries, sum(each.statements for each in done))

    def kill_at(self, order: StopAt) -> None:
        """Kill a worker with SIGKILL where *order* says."""
        child = self._start(work, self._url)
        child.answer(self._stopping)
        child.pipe.send(order)
        child.answer(self._stopping)
        child.kill()

    def begin_writing(self) -> None:
        """Let the foreground write."""
        self._foreground.pipe.send(None)

    def end_writing(self) -> list[Write]:
        """Let it rest. Returns what it wrote."""
        self._foreground.pipe.send(None)
        written: list[Write] = self._foreground.answer(self._stopping)
        return written

    def write_for(self, seconds: float) -> list[Write]:
        """Let it write that long, with nobody else there."""
        self.begin_writing()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._stopping():
                raise Stopped
            time.sleep(min(_LOOK_UP_EVERY, max(0.0, end - time.monotonic())))
        return self.end_writing()

    def _start(self, target: Callable[..., None], *given: object) -> "_Child":
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=target, args=(theirs, *given), daemon=True)
        process.start()
        theirs.close()
        child = _Child(process, ours)
        self._ending.callback(child.kill)
        return child


@dataclass(frozen=True, slots=True)
class _Child:
    process: ForkServerProcess
    pipe: Pipe

    def answer(self, stopping: Callable[[], bool]) -> Any:
        """What it says next. Raises TuneFailed where it will say nothing any more."""
        while not self.pipe.poll(_LOOK_UP_EVERY):
            if stopping():
                raise Stopped
        try:
            said = self.pipe.recv()
        except EOFError:
            raise TuneFailed("a process of the tune ended early, without a word") from None
        if isinstance(said, Broke):
            raise TuneFailed(said.why)
        return said

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()
