"""A worker process that stands still in the middle of its work, as on a machine that is paused."""

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, cast

from bestbefore.domain.report import Report
from bestbefore.gate.children import ctrl_c_is_ours
from bestbefore.gate.otherwise import Otherwise
from bestbefore.gate.scenario import Broken
from bestbefore.gate.setup import Setup
from bestbefore.ports.objects import ObjectDeleter
from bestbefore.ports.rows import RowDeleter
from bestbefore.stages.work import Options

_LONGEST_SECONDS = 120


@contextmanager
def stalled_worker(setup: Setup) -> Iterator[Callable[[], Report]]:
    """Have a worker process of its own work on *setup*, and stand still (SIGSTOP) before its first
    effect. What is yielded wakes it, and returns what it did until it was done.

    Raises Broken where it ended before: then there was nothing to do, or it failed.
    """
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    child = context.Process(target=_work, args=(setup, its), daemon=True)
    with ctrl_c_is_ours():
        child.start()
    its.close()  # so that its end is heard

    def hear() -> Any:
        if ours.poll(_LONGEST_SECONDS):
            try:
                return ours.recv()
            except EOFError:
                child.join()
        raise Broken(
            "a worker was to stand still before its effect, and to go on later; it ended with "
            f"{child.exitcode} instead: see what it logged"
        )

    def wake() -> Report:
        os.kill(child.pid or 0, signal.SIGCONT)
        return cast("Report", hear())

    try:
        hear()
        yield wake
    finally:
        if child.is_alive():
            child.kill()
        child.join()


def _work(setup: Setup, parent: "Connection[Any, Any]") -> None:
    logging.disable(logging.WARNING)  # that its results come too late is what is tried here
    halt = _Halt(parent)
    system = setup.open(
        stores=lambda store: replace(
            store, deleter=cast("ObjectDeleter", _Halting(store.deleter, halt))
        ),
        tables=lambda tables: replace(
            tables, deleter=cast("RowDeleter", _Halting(tables.deleter, halt))
        ),
    )
    options = Options(setup.lease, concurrency=1, drain=True)
    report = system.working.worker(options, lambda: False, halt.look, plan_on=lambda: False).run()
    system.close()
    parent.send(report)


class _Halt:
    """Where the process stands still: its threads before an effect, its loop between two looks at
    the ledger, so that no transaction of it is open meanwhile."""

    def __init__(self, parent: "Connection[Any, Any]") -> None:
        self._parent = parent
        self._begun, self._over = threading.Event(), threading.Event()

    def wait(self) -> None:
        """For a thread that is about to delete."""
        self._begun.set()
        self._over.wait()

    def look(self, _: Report) -> None:
        """For the worker's loop."""
        if self._begun.is_set() and not self._over.is_set():
            self._parent.send(None)
            os.kill(os.getpid(), signal.SIGSTOP)
            self._over.set()


class _Halting(Otherwise[Any]):
    """An `ObjectDeleter` or a `RowDeleter` that waits before its effects."""

    def __init__(self, inner: Any, halt: _Halt) -> None:
        super().__init__(inner)
        self._halt = halt

    def delete(self, *given: Any) -> Any:
        self._halt.wait()
        return self._inner.delete(*given)
