"""A worker's process that is killed right before, or right after, one of its COMMITs.

child = forks.start("support.row_crashes:work", [url, pack(folder, source, tasks), "before", "1"],
                    cwd=folder)
"""

import os
import pickle
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultDialect

from bestbefore.adapters import rows
from bestbefore.domain.rows import Effect, RowSource
from bestbefore.ports.rows import RowTask


def pack(folder: Path, source: RowSource, tasks: Sequence[RowTask]) -> str:
    """Write batches where `work` finds them; returns the file's name."""
    file = folder / "batches.pickle"
    file.write_bytes(pickle.dumps((source, list(tasks))))
    return file.name


def work(arguments: list[str]) -> None:
    """Work on batches. *arguments* are the URL, the file of the batches, and at which of them to
    die how: ``before`` or ``after`` its COMMIT."""
    url, file, how, number = arguments
    source, tasks = pickle.loads(Path(file).read_bytes())  # noqa: S301  (we wrote it)
    _reader, deleter = rows.connect(url)
    _die(how, int(number))
    for task in tasks:
        assert isinstance(deleter.delete(source, task, "child"), Effect)


def try_work(arguments: list[str]) -> None:
    """As `work`, whatever becomes of the batches; may also die in the ``middle`` of a transaction,
    right before its DELETE."""
    url, file, how, number = arguments
    source, tasks = pickle.loads(Path(file).read_bytes())  # noqa: S301  (we wrote it)
    _reader, deleter = rows.connect(url)
    _die(how, int(number))
    for task in tasks:
        deleter.delete(source, task, "child")


def _die(how: str, number: int) -> None:
    deletes = 0
    commit = DefaultDialect.do_commit

    def counted(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal deletes
        deletes += statement.startswith("DELETE")
        if how == "middle" and deletes == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def deadly(self: DefaultDialect, connection: Any) -> None:
        if how == "before" and deletes >= number:
            os.kill(os.getpid(), signal.SIGKILL)
        commit(self, connection)
        if how == "after" and deletes >= number:
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(sa.Engine, "before_cursor_execute", counted)
    DefaultDialect.do_commit = deadly  # type: ignore[method-assign]
