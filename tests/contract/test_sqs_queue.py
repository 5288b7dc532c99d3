"""The ledger's queue over SQS: the suite that the embedded queue passes too, on moto and fauxqs."""

from collections.abc import Iterator

import pytest

from bestbefore.adapters.state.database import Database
from bestbefore.contracts.ledger_world import Sides
from bestbefore.contracts.queue import QueueContract
from support.carried import carried_sides
from support.sqs import sqs_world
from support.sqs_servers import SqsServer


class TestQueueOverSqs(QueueContract):
    @pytest.fixture
    def sides(self, state_database: Database, sqs: SqsServer) -> Iterator[Sides]:
        with sqs_world(sqs) as world:
            yield from carried_sides(state_database, world.transport)
