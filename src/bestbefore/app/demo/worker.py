"""A worker that can be caught at the worst instant: deleted, and not yet recorded.

It is the product's own worker with two differences. Its lease is a few seconds, where a
configuration takes nothing below 60, so that nobody has to watch a minute pass. And once its
second batch has been deleted it says so and waits for a line on its standard input, so that
whoever started it can kill or freeze it right there. SIGUSR1 freezes it, once it is in no
transaction: in one it would keep everybody else from writing to the ledger. With ``--rows before``
or ``--rows after`` it is about a table, and waits just before or just after the COMMIT.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Engine, event

from bestbefore.adapters.objects import s3
from bestbefore.app.clock import SystemClock
from bestbefore.app.connecting import Tables, connect_tables
from bestbefore.app.settings import DatabaseSettings, StoreSettings, load
from bestbefore.app.system import System
from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.report import Report
from bestbefore.domain.rows import Divided, Effect, RowSource
from bestbefore.ports.clock import Clock
from bestbefore.ports.endpoints import EndpointMemory
from bestbefore.ports.objects import ObjectDeleter, Target, Upload
from bestbefore.ports.rows import RowDeleter, RowTask
from bestbefore.ports.stores import Store
from bestbefore.read.documents import work_document
from bestbefore.stages.work import Options

LEASE = timedelta(seconds=4)

_BATCH_TO_STOP_IN = 2
_PATIENCE_SECONDS = 30.0


class _Seam:
    """An `ObjectDeleter` that waits between the effect and its record.

    It begins the batch to stop in only once an earlier one *is_recorded*: the worker does that
    beside it, and two batches would be lost in place of one.
    """

    def __init__(self, inner: ObjectDeleter, is_recorded: threading.Event) -> None:
        self._inner = inner
        self._is_recorded = is_recorded
        self._batches = 0

    def delete(self, bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        if self._batches == _BATCH_TO_STOP_IN - 1:
            self._is_recorded.wait(_PATIENCE_SECONDS)
        results = self._inner.delete(bucket, targets)
        self._batches += 1
        if self._batches == _BATCH_TO_STOP_IN:
            deleted = sum(result is Outcome.DELETED for result in results)
            print(len(results), deleted, flush=True)  # noqa: T201  (to whoever started this)
            if not sys.stdin.readline():
                os._exit(1)  # nobody is there any more
        return results

    def abort(self, bucket: str, uploads: Sequence[Upload]) -> Sequence[Outcome | Failure]:
        return self._inner.abort(bucket, uploads)

    def check(self, bucket: str, prefix: str) -> Sequence[Finding]:
        return self._inner.check(bucket, prefix)


def _store(
    settings: StoreSettings, clock: Clock, _memory: EndpointMemory, is_recorded: threading.Event
) -> Store:
    there = s3.S3Settings(
        endpoint_url=settings.endpoint_url,
        region=settings.region,
        access_key_id=settings.access_key_id,
        secret_access_key=settings.secret_access_key,
    )
    return Store(s3.S3Lister(there, clock), _Seam(s3.S3Deleter(there, clock), is_recorded))


class _RowSeam:
    """A `RowDeleter` that waits around a COMMIT."""

    def __init__(self, inner: RowDeleter, instant: str) -> None:
        self._inner = inner
        self._batches = 0
        self._instant = instant
        if instant == "before":
            event.listen(Engine, "commit", self._commit)

    def delete(self, source: RowSource, task: RowTask, by: str) -> Effect | Divided | Failure:
        self._batches += 1
        end = self._inner.delete(source, task, by)
        if self._instant == "after" and self._batches == _BATCH_TO_STOP_IN:
            _wait()
        return end

    def divide(self, source: RowSource, task: RowTask) -> Divided | Failure:
        return self._inner.divide(source, task)

    def forget(self, source: RowSource, operations: Sequence[bytes]) -> Failure | None:
        return self._inner.forget(source, operations)

    def check(self, source: RowSource) -> Sequence[Finding]:
        return self._inner.check(source)

    def _commit(self, connection: Connection) -> None:
        is_target = str(connection.engine.url.database).endswith("shipments.db")
        if is_target and self._batches == _BATCH_TO_STOP_IN and _has_changed(connection):
            _wait()


def _has_changed(connection: Connection) -> bool:
    return bool(connection.exec_driver_sql("SELECT total_changes()").scalar())


def _wait() -> None:
    print("here", flush=True)  # noqa: T201  (to whoever started this)
    if not sys.stdin.readline():
        os._exit(1)


def _tables(settings: DatabaseSettings) -> Tables:
    tables = connect_tables(settings)
    return Tables(tables.reader, _RowSeam(tables.deleter, sys.argv[-1]))


def main() -> None:
    """Work until nothing is left that could be done; print the report as one line of JSON."""
    is_recorded = threading.Event()
    store = partial(_store, is_recorded=is_recorded)

    to_freeze = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: to_freeze.set())

    def look(report: Report) -> None:
        if report.completed or report.retried or report.dead or report.late:
            is_recorded.set()
        if to_freeze.is_set():
            to_freeze.clear()
            os.kill(os.getpid(), signal.SIGSTOP)

    system = System(load(Path("bestbefore.toml"), os.environ), SystemClock(), store, _tables)
    options = Options(lease=LEASE, concurrency=1, drain=True)
    report = system.working.worker(options, lambda: False, look).run()
    print(json.dumps(work_document(report)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
