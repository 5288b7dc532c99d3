"""The state database on PostgreSQL keeps the contracts of ledger and queue."""

from collections.abc import Iterator

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
def sides(ledger_url: str) -> Iterator[Sides]:
    database = Database(ledger_url)
    yield Sides(
        SqlPlanLedger(database),
        SqlWorkLedger(database),
        StateQueue(database),
        SqlDeadLetters(database),
        SqlRecords(database),
    )
    database.dispose()


class TestLedgerOnPostgresql(LedgerContract):
    pass


class TestQueueOnPostgresql(QueueContract):
    pass
