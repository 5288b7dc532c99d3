"""A whole system that cleans up one table of SQLite, in one process or in several.

    with Shop(tmp_path, rows_per_second=1_000) as shop:
        shop.fill(1_000)
        shop.plan()
        report = shop.work()
        assert shop.left() == 0

Keywords are keys of the database's section; ``policy`` has those of the policy's rows.
"""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from bestbefore.app import reporting
from bestbefore.app.connecting import Tables, connect_tables
from bestbefore.app.settings import DatabaseSettings, QueueSettings, Settings, StateSettings
from bestbefore.app.system import System
from bestbefore.domain.policy import Policy
from bestbefore.domain.report import Report
from bestbefore.domain.retention import Age
from bestbefore.domain.rows import RowSource, Walk
from bestbefore.domain.run import Run, Trigger
from bestbefore.ports.clock import Clock
from bestbefore.ports.rows import RowReader, TableFacts
from bestbefore.stages.work import Options, Worker
from support.clock import NOW, ManualClock

TABLE = "shipment_updates"
OLD = (NOW - timedelta(days=180)).isoformat()


class _OnClock:
    """A reader whose database has the clock that the test turns."""

    def __init__(self, reader: RowReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock

    def describe(self, source: RowSource, walk: Walk | None = None) -> TableFacts:
        return replace(self._reader.describe(source, walk), now=self._clock.now())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


class Shop:
    """One process. Several on the same *folder* share state, table and, if given, *clock*."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        policy: Mapping[str, Any] | None = None,
        timezone: str = "UTC",
        tables: Callable[[DatabaseSettings], Tables] = connect_tables,
        **database: Any,
    ) -> None:
        self.file = folder / "shop.db"
        self.clock = clock or ManualClock()
        source = RowSource(
            "shop", TABLE, "delivered_at", **({"batch_size": 10} | dict(policy or {}))
        )
        self.policy = Policy("updates", "v1", "ops", Age(0, 30 * 86_400), source, timezone=timezone)
        given = {"max_concurrency": 4} | database
        self.settings = Settings(
            folder / "bestbefore.toml",
            StateSettings(f"sqlite:///{folder / 'state.db'}"),
            QueueSettings(),
            {},
            {"shop": DatabaseSettings("shop", f"sqlite:///{self.file}", **given)},
            {"updates": self.policy},
        )
        self.ask(f"CREATE TABLE IF NOT EXISTS {TABLE} (id INTEGER PRIMARY KEY, delivered_at TEXT)")
        self.ask(f"CREATE INDEX IF NOT EXISTS by_time ON {TABLE} (delivered_at)")

        def on_our_clock(settings: DatabaseSettings) -> Tables:
            made = tables(settings)
            return replace(made, reader=_OnClock(made.reader, self.clock))

        self.system = System(self.settings, self.clock, None, on_our_clock)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.system.close()

    def ask(self, statement: str, *values: object) -> list[Any]:
        """Run one statement on the data, as whoever owns it does."""
        with closing(sqlite3.connect(self.file, timeout=30)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def fill(self, rows: int) -> None:
        """Add *rows* old rows."""
        with closing(sqlite3.connect(self.file, timeout=30)) as connection, connection:
            connection.executemany(
                f"INSERT INTO {TABLE} (delivered_at) VALUES (?)",  # noqa: S608
                [(OLD,)] * rows,
            )

    def left(self) -> int:
        """How many rows there are."""
        return int(self.ask(f"SELECT count(*) FROM {TABLE}")[0][0])  # noqa: S608

    def plan(self) -> Run:
        """Plan what is old now."""
        slot = self.clock.now().replace(microsecond=0)
        return self.system.planner(self.policy).plan(self.policy, slot, Trigger.PLAN).run

    def worker(
        self,
        *,
        drain: bool = True,
        stopping: Callable[[], bool] = lambda: False,
        on_progress: Callable[[Report], None] = lambda _: None,
        **options: Any,
    ) -> Worker:
        return self.system.working.worker(Options(drain=drain, **options), stopping, on_progress)

    def work(self, **options: Any) -> Report:
        """Drain; see `worker`."""
        return self.worker(**options).run()

    def status(self) -> Mapping[str, Any]:
        """What `status` says."""
        return reporting.status(self.system)
