"""Messages that turn up elsewhere, on both state databases."""

import pytest

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.outbox import SqlOutbox
from bestbefore.adapters.state.rerouting import SqlRerouting
from bestbefore.contracts.ledger_world import Sides
from bestbefore.contracts.rerouting import ReroutingContract
from support.ledgers import all_sides


@pytest.fixture
def sides(state_database: Database) -> Sides:
    return all_sides(state_database)


class TestRerouting(ReroutingContract):
    @pytest.fixture
    def outbox(self, state_database: Database) -> SqlOutbox:
        return SqlOutbox(state_database)

    @pytest.fixture
    def rerouting(self, state_database: Database) -> SqlRerouting:
        return SqlRerouting(state_database)
