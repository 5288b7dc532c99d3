"""The same life as in `test_state_machine`, with a broker in between that may do anything.

Messages come twice, in any order, or never; the broker is down, forgets everything, or another
queue takes over. Everything that has to hold without it has to hold with it.
"""

import os
import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from bestbefore.stages.dispatch import MOST_OUT
from bestbefore.stages.outlook import look_around
from integration import test_state_machine as plain
from support.clock import ManualClock
from support.memory_transport import MemoryBroker
from support.postgresql import Postgres
from support.worlds import World


class CarriedLife(plain.Life):
    """Commands go through a broker, most of the time."""

    def _world(self) -> World:
        clock = ManualClock()
        self.broker = MemoryBroker(clock, retention=None)
        self.broker.shuffle = random.Random(1)
        return World(
            self.folder,
            self._policy(),
            stores={"s": self.store},
            state_url=self.state_url,
            clock=clock,
            broker=self.broker,
        )

    def _check_published(self, published: int, waiting: int) -> None:
        """A broker that is down is left alone for a while."""
        assert published in (0, waiting)
        if self.world.system.carried is None:
            assert published == waiting

    @rule()
    def send_again(self) -> None:
        system, now = self.world.system, self.world.clock.now()
        outlook = look_around(system.work, system.controls, system.settings.policies, now)
        rows = [version.row for version in outlook.workable + outlook.superseded]
        if system.carried is not None:
            system.carried.resend(rows, MOST_OUT, now)

    @rule(seconds=st.sampled_from([0.25, 2.0]))
    def rest(self, seconds: float) -> None:
        """Prefetch, or wait."""
        if self.world.system.carried is not None:
            self.world.system.carried.rest(seconds)
            self.latest = max(self.latest, self.world.clock.now())

    @rule(copies=st.sampled_from([0, 1, 2]))
    def duplicate(self, copies: int) -> None:
        self.broker.duplicate = copies

    @rule(down=st.booleans())
    def go_down(self, down: bool) -> None:
        self.broker.down = down

    @rule(lost=st.booleans())
    def lose_answers(self, lost: bool) -> None:
        self.broker.confirming = not lost

    @rule()
    def forget_everything(self) -> None:
        self.broker.purge()

    @precondition(lambda self: not self.held)
    @rule(elsewhere=st.booleans())
    def use_another_queue(self, elsewhere: bool) -> None:
        self.world.broker = self.broker if elsewhere else None
        self.world.restart()

    def _drain(self) -> None:
        # A drain ends where the broker is down; what it says then is tested elsewhere.
        self.broker.down, self.broker.confirming = False, True
        self.world.clock.step(plain.LEASE)
        super()._drain()


TestCarriedLife = CarriedLife.TestCase
TestCarriedLife.settings = settings(
    plain.TestLife.settings, max_examples=int(os.environ.get("BESTBEFORE_EXAMPLES", "40")) // 5
)


class CarriedLifeOnPostgresql(CarriedLife):
    """The same on PostgreSQL, in a ledger that the test below borrows."""

    server: Postgres
    schema: str

    def _empty_ledger(self) -> str:
        self.server.clear(self.schema)
        return self.server.url(self.schema)


def test_life_with_a_broker_on_postgresql(postgres: Postgres) -> None:
    CarriedLifeOnPostgresql.server = postgres
    CarriedLifeOnPostgresql.schema = postgres.lend_ledger()
    try:
        run_state_machine_as_test(
            CarriedLifeOnPostgresql,
            settings=settings(
                plain.TestLife.settings,
                max_examples=int(os.environ.get("BESTBEFORE_EXAMPLES", "40")) // 13,
                stateful_step_count=30,
            ),
        )
    finally:
        postgres.take_back(CarriedLifeOnPostgresql.schema)
