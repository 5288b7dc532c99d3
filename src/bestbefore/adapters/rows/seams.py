"""Where a process talks to databases: how often it does, and the moment before a COMMIT."""

import threading
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa


class Seams:
    """Listens to every engine of this process, for good.

    ``statements`` counts what was sent, the ends of transactions as well.
    ``before_commit_of_delete`` is called when rows have been deleted and COMMIT is about to be
    sent, by the thread that deleted them: others may commit something else meanwhile.
    """

    def __init__(self) -> None:
        self.statements = 0
        self.before_commit_of_delete: Callable[[], None] = lambda: None
        self._thread = threading.local()
        sa.event.listen(sa.Engine, "after_cursor_execute", self._executed)
        sa.event.listen(sa.Engine, "commit", self._commits)
        sa.event.listen(sa.Engine, "rollback", self._rolls_back)

    def _executed(self, _connection: object, cursor: Any, statement: str, *_: object) -> None:
        self.statements += 1
        if "DELETE" in statement.upper() and cursor.rowcount > 0:
            self._thread.deleted = True

    def _commits(self, _connection: object) -> None:
        self.statements += 1
        if getattr(self._thread, "deleted", False):
            self._thread.deleted = False
            self.before_commit_of_delete()

    def _rolls_back(self, _connection: object) -> None:
        self.statements += 1
        self._thread.deleted = False
