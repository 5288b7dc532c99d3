"""A queue over somebody's broker, for the suites of queue and ledger. The whole file of a test::

@pytest.fixture
def transport() -> Iterator[Transport]: ...     # a fresh, empty queue

@pytest.fixture
def sides(state_database: Database, transport: Transport) -> Iterator[Sides]:
    yield from carried_sides(state_database, transport)

class TestQueueOverMine(QueueContract):
    ordered = False
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.outbox import SqlOutbox
from bestbefore.app.clock import SystemClock
from bestbefore.contracts.ledger_world import LEASE, Sides
from bestbefore.ports.clock import Clock
from bestbefore.ports.strays import Stray
from bestbefore.ports.transport import Transport
from bestbefore.stages.carry import Carried
from support.ledgers import all_sides, new_ledger


class Kept:
    """Where strays end; ``strays`` has them."""

    def __init__(self) -> None:
        self.strays: list[Stray] = []

    def absorb(self, strays: Sequence[Stray], now: datetime) -> None:
        self.strays += strays


def carried(
    database: Database,
    transport: Transport,
    clock: Clock | None = None,
    kept: Kept | None = None,
) -> Carried:
    """A queue over *transport*, with its ledger in *database*."""
    return Carried(
        SqlOutbox(database),
        all_sides(database).queue,
        transport,
        kept or Kept(),
        clock or SystemClock(),
        lambda: 0.5,
        "tester",
        LEASE,
    )


def carried_sides(
    database: Database, transport: Transport, clock: Clock | None = None
) -> Iterator[Sides]:
    """Every side of a ledger whose queue is over *transport*."""
    queue = carried(database, transport, clock)
    yield replace(all_sides(database), queue=queue, resend=queue.resend)
    queue.give_back()


@pytest.fixture(params=["sqlite", "postgresql"])
def state_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty state database, of each kind in turn."""
    if request.param == "sqlite":
        url = new_ledger(tmp_path / "state.db")
    else:
        url = request.getfixturevalue("ledger_url")
    database = Database(url)
    yield database
    database.dispose()
