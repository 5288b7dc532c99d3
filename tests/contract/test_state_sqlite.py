"""The state database on SQLite keeps the contracts of ledger, queue, upkeep and memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bestbefore.adapters.schedulers.cron import CronCalendar
from bestbefore.adapters.state.access import SqlAccess, SqlAnswers, SqlDeliveries
from bestbefore.adapters.state.dashboard import SqlBacklogs, SqlSessions
from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.endpoints import SqlEndpointMemory
from bestbefore.adapters.state.gates import SqlGates
from bestbefore.adapters.state.holds import SqlHolds
from bestbefore.adapters.state.slots import SqlSlots
from bestbefore.adapters.state.strays import SqlStrays
from bestbefore.adapters.state.throttles import SqlThrottles
from bestbefore.contracts.access import AccessContract
from bestbefore.contracts.asking import AskingContract
from bestbefore.contracts.controls import ControlsContract
from bestbefore.contracts.dashboard import BacklogsContract, SessionsContract
from bestbefore.contracts.endpoints import HERE, LIMIT, NOW, EndpointMemoryContract
from bestbefore.contracts.gates import GatesContract
from bestbefore.contracts.holds import HoldsContract
from bestbefore.contracts.ledger import LedgerContract
from bestbefore.contracts.ledger_world import Sides
from bestbefore.contracts.previews import PreviewsContract
from bestbefore.contracts.queue import QueueContract
from bestbefore.contracts.row_ledger import RowLedgerContract
from bestbefore.contracts.row_planned import RowPlannedContract
from bestbefore.contracts.slots import SlotsContract
from bestbefore.contracts.stacks import StackContract
from bestbefore.contracts.strays import StraysContract
from bestbefore.contracts.throttles import ThrottlesContract
from bestbefore.contracts.upkeep import UpkeepContract
from bestbefore.domain.access import Scope, Token
from bestbefore.ports.holds import Holds
from bestbefore.ports.ledger import LedgerUnavailable
from support.ledgers import all_sides, new_ledger

TOKEN = Token("ops", frozenset({Scope.READ}), None, "eve@here", NOW)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(new_ledger(tmp_path / "state.db"))
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


class TestPreviewsOnSqlite(PreviewsContract):
    pass


class TestGatesOnSqlite(GatesContract):
    @pytest.fixture
    def gates(self, database: Database) -> SqlGates:
        return SqlGates(database)


class TestStraysOnSqlite(StraysContract):
    @pytest.fixture
    def strays(self, database: Database) -> SqlStrays:
        return SqlStrays(database)


class TestRowLedgerOnSqlite(RowLedgerContract):
    pass


class TestRowPlannedOnSqlite(RowPlannedContract):
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


def test_a_file_that_is_gone_is_an_error_and_nothing_begins_in_its_place(tmp_path: Path) -> None:
    there, elsewhere = tmp_path / "state.db", tmp_path / "elsewhere.db"
    database = Database(new_ledger(there))
    with database.read(), database.write():
        pass  # either has a connection that it keeps
    there.rename(elsewhere)
    for use in database.read, database.write:
        with pytest.raises(LedgerUnavailable, match=r"state\.db"), use():
            pass
    assert not there.exists()
    elsewhere.rename(there)
    database.probe()
    database.dispose()


def test_another_file_in_its_place_is_refused_as_it_would_get_what_the_log_holds(
    tmp_path: Path,
) -> None:
    there, restored = tmp_path / "state.db", tmp_path / "restored.db"
    database = Database(new_ledger(there))
    SqlAccess(database).add_token(TOKEN, b"digest")
    new_ledger(restored)
    before = restored.read_bytes()
    restored.replace(there)
    for use in database.read, database.write:
        with pytest.raises(LedgerUnavailable, match="another file was put in its place"), use():
            pass
    database.dispose()
    assert there.read_bytes() == before


def test_no_empty_ledger_begins_beside_the_log_of_one_whose_file_is_away(tmp_path: Path) -> None:
    there, elsewhere = tmp_path / "state.db", tmp_path / "elsewhere.db"
    database = Database(new_ledger(there))
    SqlAccess(database).add_token(TOKEN, b"digest")
    there.rename(elsewhere)
    late = Database(f"sqlite:///{there}")
    with pytest.raises(LedgerUnavailable, match=r"is gone and state\.db-wal is there"):
        late.prepare()
    assert not there.exists()
    elsewhere.rename(there)
    late.prepare()
    for one in late, database:
        assert [token.name for token in SqlAccess(one).tokens()] == [TOKEN.name]
        one.dispose()


@pytest.mark.parametrize("name", ["with space", "100%", "a#b", "sémantique"])
def test_a_ledger_may_be_anywhere(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    database = Database(f"sqlite:////{tmp_path / name / 'state.db'}")  # as of "/${FOLDER}/state.db"
    database.prepare()
    database.probe()
    database.dispose()
    assert (tmp_path / name / "state.db").is_file()
