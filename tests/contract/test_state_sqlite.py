"""The state database on SQLite keeps the contracts of ledger, queue, upkeep and memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bestbefore.adapters.schedulers.cron import CronCalendar
from bestbefore.adapters.state.access import SqlAccess, SqlAnswers, SqlDeliveries
from bestbefore.adapters.state.dashboard import SqlBacklogs, SqlSessions
from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.endpoints import SqlEndpointMemory
from bestbefore.adapters.state.holds import SqlHolds
from bestbefore.adapters.state.slots import SqlSlots
from bestbefore.adapters.state.throttles import SqlThrottles
from bestbefore.contracts.access import AccessContract
from bestbefore.contracts.asking import AskingContract
from bestbefore.contracts.controls import ControlsContract
from bestbefore.contracts.dashboard import BacklogsContract, SessionsContract
from bestbefore.contracts.endpoints import HERE, LIMIT, NOW, EndpointMemoryContract
from bestbefore.contracts.holds import HoldsContract
from bestbefore.contracts.ledger import LedgerContract, Sides
from bestbefore.contracts.queue import QueueContract
from bestbefore.contracts.row_ledger import RowLedgerContract
from bestbefore.contracts.slots import SlotsContract
from bestbefore.contracts.stacks import StackContract
from bestbefore.contracts.throttles import ThrottlesContract
from bestbefore.contracts.upkeep import UpkeepContract
from bestbefore.ports.holds import Holds
from support.ledgers import all_sides


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'state.db'}")
    database.prepare()
    yield database
    database.dispose()


@pytest.fixture
def sides(database: Database) -> Sides:
    return all_sides(database)


@pytest.fixture
def holds(database: Database) -> Holds:
    return SqlHolds(database)


class TestLedgerOnSqlite(LedgerContract):
    pass


class TestQueueOnSqlite(QueueContract):
    pass


class TestThrottlesOnSqlite(ThrottlesContract):
    @pytest.fixture
    def throttles(self, database: Database) -> SqlThrottles:
        return SqlThrottles(database)


class TestAccessOnSqlite(AccessContract):
    @pytest.fixture
    def access(self, database: Database) -> SqlAccess:
        return SqlAccess(database)

    @pytest.fixture
    def deliveries(self, database: Database) -> SqlDeliveries:
        return SqlDeliveries(database)

    @pytest.fixture
    def answers(self, database: Database) -> SqlAnswers:
        return SqlAnswers(database)


class TestAskingOnSqlite(AskingContract):
    pass


class TestSessionsOnSqlite(SessionsContract):
    @pytest.fixture
    def sessions(self, database: Database) -> SqlSessions:
        return SqlSessions(database)

    @pytest.fixture
    def access(self, database: Database) -> SqlAccess:
        return SqlAccess(database)


class TestBacklogsOnSqlite(BacklogsContract):
    @pytest.fixture
    def backlogs(self, database: Database) -> SqlBacklogs:
        return SqlBacklogs(database)


class TestControlsOnSqlite(ControlsContract):
    pass


class TestHoldsOnSqlite(HoldsContract):
    pass


class TestSlotsOnSqlite(SlotsContract):
    @pytest.fixture
    def slots(self, database: Database) -> SqlSlots:
        return SqlSlots(database, CronCalendar())


class TestStacksOnSqlite(StackContract):
    pass


class TestRowLedgerOnSqlite(RowLedgerContract):
    pass


class TestEndpointMemoryOnSqlite(EndpointMemoryContract):
    @pytest.fixture
    def memory(self, database: Database) -> SqlEndpointMemory:
        return SqlEndpointMemory(database)

    def test_a_database_that_cannot_be_used_fails_no_delete(
        self, memory: SqlEndpointMemory, database: Database
    ) -> None:
        with database.write() as connection:
            connection.exec_driver_sql("DROP TABLE endpoints")

        memory.remember(HERE, LIMIT)
        memory.forget(HERE)

        assert list(memory.recall(HERE, NOW)) == []


class TestUpkeepOnSqlite(UpkeepContract):
    pass
