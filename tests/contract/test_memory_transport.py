"""The broker in memory that other tests use: it does what every adapter has to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bestbefore.adapters.state.database import Database
from bestbefore.contracts.ledger import LedgerContract
from bestbefore.contracts.ledger_world import Sides
from bestbefore.contracts.queue import QueueContract
from bestbefore.contracts.row_ledger import RowLedgerContract
from bestbefore.contracts.stacks import StackContract
from bestbefore.contracts.transport import TransportContract, TransportWorld
from support.carried import carried_sides
from support.ledgers import new_ledger
from support.memory_transport import MemoryBroker


class TestTransportInMemory(TransportContract):
    @pytest.fixture
    def world(self) -> TransportWorld:
        broker, broken = MemoryBroker(), MemoryBroker()
        broken.down = True
        return TransportWorld(broker.transport(), broker.transport, broken.transport, broker.put)


@pytest.fixture
def sides(state_database: Database) -> Iterator[Sides]:
    yield from carried_sides(state_database, MemoryBroker().transport())


class TestQueueOverMemory(QueueContract):
    pass


@pytest.fixture
def sqlite_sides(tmp_path: Path) -> Iterator[Sides]:
    database = Database(new_ledger(tmp_path / "state.db"))
    yield from carried_sides(database, MemoryBroker().transport())
    database.dispose()


class OnSqlite:
    """What is a ledger's own is the same on either database."""

    @pytest.fixture
    def sides(self, sqlite_sides: Sides) -> Sides:
        return sqlite_sides


class TestLedgerOverMemory(OnSqlite, LedgerContract):
    pass


class TestRowLedgerOverMemory(OnSqlite, RowLedgerContract):
    pass


class TestStacksOverMemory(OnSqlite, StackContract):
    pass
