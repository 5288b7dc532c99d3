"""What a scenario stands on, as plain values: it is sent to the processes that get killed too."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from bestbefore.app.connecting import Tables, connect_store, connect_tables
from bestbefore.app.scratch import scratch_queue, scratch_state
from bestbefore.app.settings import DatabaseSettings, Settings, StateSettings, StoreSettings
from bestbefore.app.system import System
from bestbefore.domain.policy import Policy
from bestbefore.ports.clock import Clock
from bestbefore.ports.endpoints import EndpointMemory
from bestbefore.ports.stores import Store
from bestbefore.ports.transport import Broker

Stores = Callable[[Store], Store]
"""What a scenario puts around a store, as to have it fail or to end the process after a delete."""

Deleters = Callable[[Tables], Tables]
Brokers = Callable[[Broker], Broker]


class ShiftedClock:
    """`bestbefore.ports.clock.Clock`: the real time, and what a scenario has jumped."""

    def __init__(self, ahead: timedelta = timedelta(0)) -> None:
        self.ahead = ahead

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def jump(self, by: timedelta) -> None:
        """Have it be later for everybody who uses this clock from now on."""
        self.ahead += by


@dataclass(frozen=True, slots=True)
class Setup:
    """The user's *settings*, secrets included, with scratch in place of all that is theirs.

    ``lease`` replaces the configured one; a configuration takes nothing below a minute, which
    nobody has to wait for here. ``denied`` is a store or database of the same configuration whose
    credentials may not delete, to be used in place of the real one.
    """

    settings: Settings
    policies: Mapping[str, Policy]
    lease: timedelta
    ahead: timedelta = timedelta(0)
    denied: str | None = None

    def scratch(self) -> Settings:
        """The configuration that the scenario's processes work by.

        Without the databases' windows: a gate is played when a person is there.
        """
        settings = self.settings
        databases = settings.databases.items()
        return replace(
            settings,
            state=StateSettings(scratch_state(settings).url),
            queue=replace(settings.queue, lease=self.lease),
            databases={name: replace(database, window=None) for name, database in databases},
            policies=self.policies,
            warnings=(),
        )

    def open(
        self,
        *,
        stores: Stores = lambda store: store,
        tables: Deleters = lambda tables: tables,
        broker: Brokers = lambda broker: broker,
        clock: ShiftedClock | None = None,
    ) -> System:
        """A process's view of it. Close it after use."""

        def connected(store: StoreSettings, clock: Clock, memory: EndpointMemory) -> Store:
            there = self.settings.stores[self.denied] if self.denied else store
            return stores(connect_store(there, clock, memory))

        def joined(database: DatabaseSettings) -> Tables:
            there = self.settings.databases[self.denied] if self.denied else database
            return tables(connect_tables(there))

        def carried(settings: Settings) -> Broker:
            queue = scratch_queue(settings)
            if queue is None:
                raise TypeError("no scratch queue, and so the gate refuses to begin")
            return broker(queue.connect())

        return System(
            self.scratch(), clock or ShiftedClock(self.ahead), connected, joined, broker=carried
        )
