"""Ledgers on SQLite, empty ones, and every side of a ledger as the contracts want it."""

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from bestbefore.adapters.state.controls import SqlControls
from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.dead_letters import SqlDeadLetters
from bestbefore.adapters.state.plans import SqlPlanLedger
from bestbefore.adapters.state.previews import SqlPreviews
from bestbefore.adapters.state.queue import StateQueue
from bestbefore.adapters.state.records import SqlRecords
from bestbefore.adapters.state.upkeep import SqlUpkeepLedger
from bestbefore.adapters.state.work import SqlWorkLedger
from bestbefore.contracts.ledger_world import Sides


def all_sides(database: Database) -> Sides:
    return Sides(
        SqlPlanLedger(database),
        SqlWorkLedger(database),
        StateQueue(database),
        SqlDeadLetters(database),
        SqlRecords(database),
        SqlUpkeepLedger(database),
        SqlControls(database),
        SqlPreviews(database),
    )


def new_ledger(file: Path) -> str:
    """The URL of an empty state database, made at *file*."""
    shutil.copy(empty_ledger(), file)
    return f"sqlite:///{file}"


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
