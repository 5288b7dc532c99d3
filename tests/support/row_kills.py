"""Worker processes that are killed between two steps of archiving a batch.

child = forks.start("support.row_kills:work", ["written", "2"], cwd=folder)
"""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultDialect

from bestbefore.adapters.objects.directory import DirectoryFiles
from bestbefore.adapters.objects.s3 import S3Files
from bestbefore.adapters.rows.deleting import SqlRowDeleter
from bestbefore.adapters.state.work import SqlWorkLedger
from support.harness import worker

SEAMS = ("read", "writing", "written", "recorded", "deleting", "deleted", "told")
"""What was done last: the rows are read; half of the file is on the disk (of a directory store);
all of it is; it is on record; the rows are gone but for the COMMIT; with it; the ledger knows."""


def work(arguments: Sequence[str]) -> None:
    """`support.harness.worker`, killed when it reaches a seam for the so many-th time."""
    seam, number = arguments
    left = int(number)

    def reached() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    match seam:
        case "read":
            _after(SqlRowDeleter, "read", reached)
        case "writing":
            _before_move(reached)
        case "written":
            _after(DirectoryFiles, "put", reached)
            _after(S3Files, "put", reached)
        case "recorded":
            _after(SqlWorkLedger, "record_copies", reached)
        case "deleting" | "deleted":
            _around_commit(seam, reached)
        case "told":
            _after(SqlWorkLedger, "record", reached)
        case _:
            raise ValueError(seam)
    worker(["1", "drain"])


def _after(of: type, name: str, reached: Callable[[], None]) -> None:
    """Each time a method of *of* returns that was given something."""
    real = getattr(of, name)

    def wrapped(self: Any, *given: Any, **named: Any) -> Any:
        result = real(self, *given, **named)
        if given[0]:
            reached()
        return result

    setattr(of, name, wrapped)


def _before_move(reached: Callable[[], None]) -> None:
    move = os.replace

    def moved(*given: Any, **named: Any) -> None:
        if "dst_dir_fd" in named:
            reached()
        move(*given, **named)

    os.replace = moved


def _around_commit(seam: str, reached: Callable[[], None]) -> None:
    """Of a transaction that deletes orders: another thread commits to the ledger meanwhile."""
    deleting = threading.local()
    commit = DefaultDialect.do_commit

    def counted(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("DELETE") and "orders" in statement:
            deleting.orders = True

    def seen(self: DefaultDialect, connection: Any) -> None:
        meant, deleting.orders = getattr(deleting, "orders", False), False
        if meant and seam == "deleting":
            reached()
        commit(self, connection)
        if meant and seam == "deleted":
            reached()

    sa.event.listen(sa.Engine, "before_cursor_execute", counted)
    DefaultDialect.do_commit = seen  # type: ignore[method-assign]
