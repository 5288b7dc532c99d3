"""Commands on their way through BullMQ: the suite of every queue, with its ledger beside it."""

from collections.abc import Iterator

import pytest

from bestbefore.adapters.state.database import Database
from bestbefore.contracts.ledger_world import Sides
from bestbefore.contracts.queue import QueueContract
from support.bull import Bull
from support.carried import carried_sides


class TestQueueOverBullmq(QueueContract):
    @pytest.fixture
    def sides(self, state_database: Database, bull: Bull) -> Iterator[Sides]:
        yield from carried_sides(state_database, bull.connect().transport)
