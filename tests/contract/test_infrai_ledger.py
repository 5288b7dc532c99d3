"""A queue whose messages Infrai, or its stand-in, carries keeps every promise of a queue."""

from collections.abc import Iterator

import pytest

from bestbefore.adapters.queues.infrai import connect
from bestbefore.adapters.state.database import Database
from bestbefore.contracts.ledger_world import Sides
from bestbefore.contracts.queue import QueueContract
from support.carried import carried_sides
from support.infrai import Infrai


@pytest.fixture
def sides(state_database: Database, infrai: Infrai) -> Iterator[Sides]:
    infrai.queue("work")
    broker = connect(infrai.settings("work"))
    yield from carried_sides(state_database, broker.transport)
    broker.close()


class TestQueueOverInfrai(QueueContract):
    ordered = False
