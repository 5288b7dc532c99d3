"""What state machines over a ledger share."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from bestbefore.adapters.state.database import Database
from bestbefore.domain.states import RunState

CANCELLABLE = (RunState.PLANNING, RunState.PARKED, RunState.OPEN)


class After:
    """Says stop after *n* questions; never, without."""

    def __init__(self, n: int | None) -> None:
        self.n = n

    def __call__(self) -> bool:
        if self.n is None:
            return False
        self.n -= 1
        return self.n <= 0


_folders: list[Any] = []  # removed when the process ends


@cache
def empty_ledger() -> Path:
    """An empty state database, migrated once per process: copying is a hundred times quicker."""
    folder = tempfile.TemporaryDirectory(prefix="bestbefore-template-")
    _folders.append(folder)
    template = Path(folder.name) / "state.db"
    database = Database(f"sqlite:///{template}")
    database.prepare()
    database.dispose()
    return template
