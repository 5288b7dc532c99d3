"""A worker's process that is killed at one of the statements that remove a partition.

child = forks.start("support.partition_kills:work", [url, pack(folder, SOURCE, [task]), "DROP",
                    "after"], cwd=folder)
"""

import os
import pickle
import signal
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters import rows


def work(arguments: list[str]) -> None:
    """Work on batches. *arguments* are the URL, the file of the batches, what the statement begins
    with, and whether to die ``before`` or ``after`` it; ``committed`` is after the COMMIT behind
    it."""
    url, file, beginning, when = arguments
    source, tasks = pickle.loads(Path(file).read_bytes())  # noqa: S301  (we wrote it)
    _reader, deleter = rows.connect(url)
    reached = False

    def before(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if when == "before" and statement.lstrip().startswith(beginning):
            os.kill(os.getpid(), signal.SIGKILL)
        if reached and when == "committed":
            os.kill(os.getpid(), signal.SIGKILL)

    def after(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal reached
        if statement.lstrip().startswith(beginning):
            reached = True
            if when == "after":
                os.kill(os.getpid(), signal.SIGKILL)

    def checked_in(*_: Any) -> None:
        if reached and when == "committed":
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(sa.Engine, "before_cursor_execute", before)
    sa.event.listen(sa.Engine, "after_cursor_execute", after)
    sa.event.listen(sa.pool.Pool, "checkin", checked_in)
    for task in tasks:
        deleter.delete(source, task, "child")
