"""Real workers, each a process, that keep together to what one database may be asked for."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from bestbefore.adapters.state.schema import operations, row_slots
from bestbefore.app.system import System
from bestbefore.domain.run import Trigger
from support.forks import Child, Forks, until
from support.harness import SharedClock, open_world

FILE = """
[state]
url = "sqlite:///state.db"

[databases.shop]
url = "sqlite:///shop.db"
{database}

[policies.updates]
version = "v1"
older_than = "30d"
  [policies.updates.rows]
  database = "shop"
  table = "updates"
  timestamp = "delivered_at"
  timestamp_kind = "iso_text"
  batch_size = 10
"""


class Place:
    """A folder with a configuration, a table of old rows, and a plan for them."""

    def __init__(self, folder: Path, forks: Forks, rows: int, database: str) -> None:
        self.folder = folder
        self._forks = forks
        self.clock = SharedClock(folder / "clock")
        (folder / "bestbefore.toml").write_text(FILE.format(database=database))
        with closing(sqlite3.connect(folder / "shop.db")) as connection, connection:
            connection.execute("CREATE TABLE updates (id INTEGER PRIMARY KEY, delivered_at TEXT)")
            connection.execute("CREATE INDEX by_time ON updates (delivered_at)")
            connection.executemany(
                "INSERT INTO updates (delivered_at) VALUES (?)", [("2020-01-01T00:00:00Z",)] * rows
            )
        self.system: System = open_world(folder)
        policy = self.system.policy("updates")
        slot = self.clock.now().replace(microsecond=0)
        self.system.planner(policy).plan(policy, slot, Trigger.PLAN)

    def start(self, program: str, *arguments: str) -> Child:
        return self._forks.start(program, list(arguments), cwd=self.folder)

    def left(self) -> int:
        with closing(sqlite3.connect(self.folder / "shop.db")) as connection:
            return int(connection.execute("SELECT count(*) FROM updates").fetchone()[0])

    def read(self, query: sa.Select[Any]) -> list[Any]:
        """What the state database holds."""
        with self.system.database.read() as connection:
            return [tuple(row) for row in connection.execute(query)]


@pytest.fixture
def place(
    request: pytest.FixtureRequest, tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    monkeypatch.chdir(tmp_path)
    made = Place(tmp_path, forks, *request.param)
    yield made
    made.system.close()
    made.clock.close()


@pytest.mark.parametrize("place", [(600, "max_concurrency = 3")], indirect=True)
def test_three_processes_run_no_more_batches_at_a_time_than_one_may(place: Place) -> None:
    ledger = place.folder / "inside.db"
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("CREATE TABLE inside (n INTEGER, most INTEGER)")
        connection.execute("INSERT INTO inside VALUES (0, 0)")

    workers = [place.start("support.throttling:worker", str(ledger)) for _ in range(3)]

    for child in workers:
        assert child.wait() == 0, child.said()
    assert place.left() == 0
    with closing(sqlite3.connect(ledger)) as connection:
        ((inside, most),) = connection.execute("SELECT n, most FROM inside").fetchall()
    # Whether three ever meet is up to the scheduler of a busy machine.
    assert (inside, most in (2, 3)) == (0, True)
    assert place.read(sa.select(row_slots)) == [], "and they leave nothing behind"


@pytest.mark.parametrize(
    "place", [(600, "rows_per_second = 200\nmax_concurrency = 2")], indirect=True
)
def test_two_processes_together_keep_the_rate(place: Place) -> None:
    """By the moments at which the ledger says that batches of 10 rows ended."""
    workers = [place.start("support.harness:worker", "8", "drain") for _ in range(2)]
    for child in workers:
        assert child.wait() == 0, child.said()

    assert place.left() == 0
    ended = place.read(sa.select(operations.c.completed_at).order_by("completed_at"))
    span = (ended[-1][0] - ended[0][0]) / 1e6
    assert len(ended) == 60
    assert span >= 59 * 10 / 200 - 0.25, "no faster, but for a tenth of a second and a late record"
    done = [int(child.out.read_text().split()[0]) for child in workers]
    assert sum(done) == 60
    assert min(done) > 0


@pytest.mark.parametrize("place", [(100, "max_concurrency = 1")], indirect=True)
def test_a_killed_worker_frees_its_slot_when_its_lease_runs_out(place: Place) -> None:
    sign = place.folder / "inside"
    killed = place.start("support.throttling:stuck_worker", str(sign))
    until(sign.exists, what="a batch")
    killed.kill()
    assert killed.wait() == -9

    other = place.start("support.harness:worker", "8", "drain")
    until(
        lambda: place.read(sa.select(row_slots.c.holder).where(row_slots.c.slots == 0)),
        what="the other in line",
    )
    assert place.left() == 100
    place.clock.step(timedelta(seconds=61))

    assert other.wait() == 0, other.said()
    assert place.left() == 0
