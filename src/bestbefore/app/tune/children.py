"""The children's side of a tune: workers that can be killed, and a foreground that shall not feel
them.

Each ends when its pipe closes, that is with whoever started it, and leaves Ctrl-C to that one.
"""

import multiprocessing
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TypeAlias

from bestbefore.adapters import rows
from bestbefore.adapters.rows.seams import Seams
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.rows import Divided, RowSource
from bestbefore.ports.rows import RowDeleter, RowTask
from bestbefore.ports.tuning import ForegroundWriter

Pipe: TypeAlias = "Connection[Any, Any]"

_MOST_WRITES_PER_SECOND = 100
_BUSY = 0.25
"""The share of its time that the foreground spends on writing when nobody else is there: one that
is at its limit already would only show that."""

_REHEARSED = 25

_TRIES = 20
_BY = "bestbefore tune"


class TuneFailed(Exception):
    """Something did not happen as it has to. The message says what."""


class Delivery(NamedTuple):
    """One delivery of the task with that *number*: how long it took, how long its transaction held
    locks (0 where it failed), and how many rows it deleted. ``settled`` says that it did not
    fail."""

    number: int
    seconds: float
    held: float
    rows: int
    settled: bool


class Write(NamedTuple):
    """One write of the foreground: how long after it was due it was done, and how long its
    statement took; None where the database refused it."""

    seconds: float
    statement: float | None


@dataclass(frozen=True, slots=True)
class Deliver:
    """Deliver *tasks*, each with a number, one after the other; begin none after ``until``, on the
    clock that all processes share. After each rest for ``pause``, and ``per_row`` per row of it at
    least (seconds)."""

    source: RowSource
    tasks: tuple[tuple[int, RowTask], ...]
    until: float
    pause: float = 0.0
    per_row: float = 0.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of a `Deliver`."""

    deliveries: list[Delivery]
    statements: int


@dataclass(frozen=True, slots=True)
class StopAt:
    """Deliver *task* and wait to be killed: just before COMMIT, or just after it."""

    source: RowSource
    task: RowTask
    committed: bool


@dataclass(frozen=True, slots=True)
class Broke:
    """A process that cannot go on, and why."""

    why: str


_REACHED = "reached"


def work(pipe: Pipe, url: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _, deleter = rows.connect(url)
        seams = Seams()
        pipe.send(None)
        while True:
            match pipe.recv():
                case Deliver() as order:
                    pipe.send(_deliver(deleter, seams, order))
                case StopAt() as order:
                    _stop_at(pipe, deleter, seams, order)
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001  (for the parent to say)
        pipe.send(Broke(f"a worker: {type(error).__name__}: {error}"))


def _deliver(deleter: RowDeleter, seams: Seams, order: Deliver) -> Delivered:
    before = seams.statements
    deliveries: list[Delivery] = []
    for number, task in order.tasks:
        if time.monotonic() >= order.until or not _has_a_parent():
            break
        for _ in range(_TRIES):
            deliveries.append(_once(deleter, order.source, number, task))
            if deliveries[-1].settled:
                break
        else:
            raise TuneFailed(
                f"a batch of {task.batch.rows:,} rows met locks {_TRIES} times running"
            )
        if rest := max(order.pause, order.per_row * task.batch.rows):
            time.sleep(rest)
    return Delivered(deliveries, seams.statements - before)


def _has_a_parent() -> bool:
    parent = multiprocessing.parent_process()
    return parent is not None and parent.is_alive()


def _once(deleter: RowDeleter, source: RowSource, number: int, task: RowTask) -> Delivery:
    began = time.monotonic()
    end = deleter.delete(source, task, _BY)
    took = time.monotonic() - began
    if isinstance(end, Failure):
        if end.failure_class is not FailureClass.TRANSIENT:
            raise TuneFailed(f"a batch could not be deleted ({end.failure_class}): {end.error}")
        return Delivery(number, took, 0.0, 0, False)
    if isinstance(end, Divided):
        raise TuneFailed(f"a batch that nobody added to was divided: {end.why}")
    return Delivery(number, took, end.seconds, 0 if end.replayed else end.rows, True)


def _stop_at(pipe: Pipe, deleter: RowDeleter, seams: Seams, order: StopAt) -> None:
    def reached() -> None:
        pipe.send(_REACHED)
        pipe.recv()  # nobody answers

    if not order.committed:
        seams.before_commit_of_delete = reached
    _once(deleter, order.source, 0, order.task)
    if not order.committed:
        raise TuneFailed("a batch was deleted without a COMMIT")
    reached()


def write(pipe: Pipe, writer: ForegroundWriter) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        write = writer.connect()
        number = _REHEARSED
        per_second = min(_MOST_WRITES_PER_SECOND, _BUSY / _usual(write))
        pipe.send(per_second)
        while True:
            pipe.recv()
            written: list[Write] = []
            # A write that has to wait for the one before it counts that as well: it was due.
            due = time.monotonic()
            while not pipe.poll(max(0.0, due - time.monotonic())):
                statement = write(number)
                written.append(Write(time.monotonic() - due, statement))
                number += 1
                due += 1 / per_second
            pipe.recv()
            pipe.send(written)
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001  (for the parent to say)
        pipe.send(Broke(f"the foreground: {type(error).__name__}: {error}"))


def _usual(write: Callable[[int], float | None]) -> float:
    """How long a write usually takes, COMMIT included (seconds)."""
    took = []
    for number in range(_REHEARSED):
        began = time.monotonic()
        write(number)
        took.append(time.monotonic() - began)
    return statistics.median(took)
