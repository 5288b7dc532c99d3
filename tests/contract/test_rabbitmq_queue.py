"""The ledger's queue over RabbitMQ."""

from collections.abc import Iterator

import pytest

from bestbefore.adapters.state.database import Database
from bestbefore.contracts.ledger_world import Sides
from bestbefore.contracts.queue import QueueContract
from support.carried import carried_sides
from support.rabbitmq import Rabbit


class TestQueueOverRabbit(QueueContract):
    ordered = False

    @pytest.fixture
    def sides(self, state_database: Database, rabbit: Rabbit) -> Iterator[Sides]:
        yield from carried_sides(state_database, rabbit.broker(rabbit.name()).transport)
