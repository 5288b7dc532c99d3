"""Processes that are killed with SIGKILL at one instant, so that nothing of them is left but what
they had written."""

import copyreg
import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from multiprocessing import resource_tracker
from types import MappingProxyType
from typing import Any, cast

from bestbefore.adapters.rows.seams import Seams
from bestbefore.app.connecting import Tables
from bestbefore.domain.failure import Failure
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Divided, Effect, RowSource
from bestbefore.gate.otherwise import Otherwise
from bestbefore.gate.scenario import Broken
from bestbefore.gate.setup import Setup
from bestbefore.ports.objects import ObjectDeleter, Target
from bestbefore.ports.rows import RowDeleter, RowTask
from bestbefore.ports.transport import Broker, Delivery, Transport
from bestbefore.stages.work import Options

_LONGEST_SECONDS = 120


def _frozen(given: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(given)


# What nobody may change in a configuration can be sent all the same.
copyreg.pickle(MappingProxyType, lambda given: (_frozen, (dict(given),)))


class Instant(StrEnum):
    """When a worker dies."""

    CLAIM = "between claim and effect"
    EFFECT = "between effect and record"
    RECORD = "between record and ack"
    BEFORE_COMMIT = "just before COMMIT"
    AFTER_COMMIT = "just after COMMIT"


def killed_at(setup: Setup, instant: Instant) -> None:
    """Have a worker process of its own work on *setup*, and die at *instant*.

    Raises Broken where it ended any other way: then there was nothing to do, or it failed.
    """
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=_work, args=(setup, instant), daemon=True)
    with ctrl_c_is_ours():
        child.start()
    try:
        child.join(_LONGEST_SECONDS)
        if child.exitcode != -signal.SIGKILL:
            raise Broken(
                f"a worker was to die {instant}, and ended with {child.exitcode} instead: "
                "see what it logged"
            )
    finally:
        if child.is_alive():
            child.kill()
            child.join()


@contextmanager
def ctrl_c_is_ours() -> Iterator[None]:
    """A process that is started within never hears of Ctrl-C, which a terminal sends to it too: we
    end it."""
    resource_tracker.ensure_running()  # started later, it would lift what is blocked here
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(setup: Setup, instant: Instant) -> None:
    system = setup.open(
        stores=lambda store: replace(
            store, deleter=cast("ObjectDeleter", _DyingDeleter(store.deleter, instant))
        ),
        tables=lambda tables: _dying_tables(tables, instant),
        broker=_dying_broker if instant is Instant.RECORD else _same,
    )
    system.working.worker(Options(setup.lease, concurrency=1, drain=True), lambda: False).run()
    system.close()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _same(given: Any) -> Any:
    return given


class _DyingDeleter(Otherwise[ObjectDeleter]):
    """An `ObjectDeleter` that has no first effect, or after it nothing follows."""

    def __init__(self, inner: ObjectDeleter, instant: Instant) -> None:
        super().__init__(inner)
        self._instant = instant

    def delete(self, bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        if self._instant is Instant.CLAIM:
            _die()
        results = self._inner.delete(bucket, targets)
        if self._instant is Instant.EFFECT and Outcome.DELETED in results:
            _die()
        return results


class _DyingRows(Otherwise[RowDeleter]):
    """A `RowDeleter` that is killed before or around the COMMIT of its first batch."""

    def __init__(self, inner: RowDeleter, instant: Instant) -> None:
        super().__init__(inner)
        self._instant = instant

    def delete(self, source: RowSource, task: RowTask, by: str) -> Effect | Divided | Failure:
        if self._instant is Instant.CLAIM:
            _die()
        if self._instant is Instant.BEFORE_COMMIT:
            Seams().before_commit_of_delete = _die
        end = self._inner.delete(source, task, by)
        after = (Instant.AFTER_COMMIT, Instant.EFFECT)  # of rows these are the same
        if self._instant in after and isinstance(end, Effect):
            _die()
        return end


def _dying_tables(tables: Tables, instant: Instant) -> Tables:
    return replace(tables, deleter=cast("RowDeleter", _DyingRows(tables.deleter, instant)))


class _DyingTransport(Otherwise[Transport]):
    """A `Transport` whose process dies instead of acking."""

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            _die()


def _dying_broker(broker: Broker) -> Broker:
    return replace(broker, transport=cast("Transport", _DyingTransport(broker.transport)))
