"""The state database keeps what is at a broker, on both servers."""

import pytest

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.outbox import SqlOutbox
from bestbefore.contracts.ledger_world import Sides
from bestbefore.contracts.outbox import OutboxContract
from bestbefore.ports.outbox import Outbox
from support.ledgers import all_sides


@pytest.fixture
def sides(state_database: Database) -> Sides:
    return all_sides(state_database)


class TestOutbox(OutboxContract):
    @pytest.fixture
    def outbox(self, state_database: Database) -> Outbox:
        return SqlOutbox(state_database)
