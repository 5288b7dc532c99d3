"""The state database on SQLite keeps the contracts of ledger and queue."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.dead_letters import SqlDeadLetters
from bestbefore.adapters.state.plans import SqlPlanLedger
from bestbefore.adapters.state.queue import StateQueue
from bestbefore.adapters.state.records import SqlRecords
from bestbefore.adapters.state.work import SqlWorkLedger
from bestbefore.contracts.ledger import LedgerContract, Sides
from bestbefore.contracts.queue import QueueContract


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[Sides]:
    database = Database(f"sqlite:///{tmp_path / 'state.db'}")
    database.prepare()
    yield Sides(
        SqlPlanLedger(database),
        SqlWorkLedger(database),
        StateQueue(database),
        SqlDeadLetters(database),
        SqlRecords(database),
    )
    database.dispose()


class TestLedgerOnSqlite(LedgerContract):
    pass


class TestQueueOnSqlite(QueueContract):
    pass
