"""The second half of the demo: a table of a million rows, and a worker killed around COMMIT."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bestbefore.app.demo.processes import Processes
from bestbefore.app.demo.telling import Summary, Teller, prove
from bestbefore.app.system import open_system
from bestbefore.domain.rows import Effect
from bestbefore.ports.records import OperationFilter
from bestbefore.ports.rows import RowTask

POLICY = "stale-shipment-updates"
UPDATES = 1_000_000
BATCH = 1_000

_CONFIG = f"""
[databases.shipments]
url = "sqlite:///shipments.db"

[policies.{POLICY}]
version = "retain-30d-v1"
owner = "logistics-team"
older_than = "30d"

[policies.{POLICY}.rows]
database = "shipments"
table = "shipment_updates"
timestamp = "delivered_at"
where = "status = 'delivered'"
batch_size = {BATCH}
"""

_TABLE = """
CREATE TABLE shipment_updates (
    id INTEGER PRIMARY KEY, shipment INTEGER NOT NULL, status TEXT NOT NULL,
    delivered_at TEXT NOT NULL, note TEXT NOT NULL
)
"""
_TUNE = ("--rows", "20000", "--sizes", "100,1000,5000", "--workers", "1", "--seconds", "0.5")

_DAYS = 60
_LOST_IN_TRANSIT = 10
"""Every so many updates are about a shipment that never arrived: they stay, however old."""


class Shipments:
    """The table, in the folder of *processes*, and what happens to it. What tune drew goes into
    *keep* as well. Raises Unexpected as a `Story` does."""

    def __init__(
        self, teller: Teller, processes: Processes, summary: Summary, keep: Path | None
    ) -> None:
        self._keep = keep
        self._teller = teller
        self._processes = processes
        self._folder = processes.folder
        self._summary = summary

    def tell(self) -> None:
        """Everything, from the first insert to the replay."""
        self._fill_the_table()
        run_id = self._plan()
        self._lose_two_workers(run_id)
        self._finish(run_id)
        self._replay(run_id)
        self._tune()

    def _fill_the_table(self) -> None:
        self._teller.chapter("A table with a million shipment updates")
        with self._teller.waiting("inserting"), closing(self._connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(_TABLE)
            connection.executemany(
                "INSERT INTO shipment_updates VALUES (?, ?, ?, ?, ?)", _updates()
            )
            connection.execute(
                "CREATE INDEX updates_by_date ON shipment_updates (delivered_at, id)"
            )
            connection.commit()
        (self._folder / "bestbefore.toml").write_text(_CONFIG.lstrip())
        self._summary.rows_before = self._count()
        self._teller.say(
            f"A SQLite file holds {UPDATES:,} updates of {_DAYS} days. Those of delivered "
            "shipments may go after 30 days, those of lost ones never. Each batch of "
            f"{BATCH:,} rows is one transaction, and so is the record that it is done."
        )

    def _plan(self) -> str:
        due = self._count("status = 'delivered' AND delivered_at < ?", _cutoff(datetime.now(UTC)))
        # Exit status 1: the first run of a version parks beyond 10,000 rows.
        self._teller.show(self._processes.run("plan", POLICY, "--dry-run", expect=1), 50)
        self._teller.say(
            "So many rows are approved by hand, once: the later runs of this version go ahead."
        )
        self._teller.show(self._processes.run("plan", POLICY, "--yes"), 20)
        (run,) = self._ask("runs", "list")
        planned = self._ask("plan", POLICY, "--slot", run["slot"])["rows_eligible"]
        run_id: str = run["run_id"]
        self._summary.batches = run["counts"]["planned"]
        self._prove(
            f"{planned:,} rows in {self._summary.batches} batches, as an independent count says",
            # The clock goes on between the count and the plan.
            0 <= planned - due < UPDATES / _DAYS / 24,
        )
        return run_id

    def _lose_two_workers(self, run_id: str) -> None:
        self._teller.chapter("One worker is killed just before its COMMIT, one just after")
        with self._teller.waiting("a worker is deleting"):
            before = self._processes.start_failing_worker("before", "--rows", "before")
            before.stopped()
            before.kill()
            gone_before = self._gone()
            after = self._processes.start_failing_worker("after", "--rows", "after")
            after.stopped()
            after.kill()
        gone, known = self._gone(), self._deleted(run_id)
        self._prove(
            "the transaction that was not committed left nothing behind, and held no lock",
            gone_before % BATCH == 0 and gone > gone_before,
        )
        self._prove(
            f"{gone:,} rows are gone, the ledger knows of {known:,}: one batch is deleted and not "
            "recorded",
            gone - known == BATCH,
        )

    def _finish(self, run_id: str) -> None:
        self._teller.show(self._processes.run("work", "--drain"), 20)
        self._summary.rows_deleted = self._deleted(run_id)
        kept = self._count()
        self._prove(
            f"{self._summary.rows_before:,} rows before = {kept:,} kept + "
            f"{self._summary.rows_deleted:,} deleted; both killed batches changed their rows once",
            self._summary.rows_before == kept + self._summary.rows_deleted,
        )
        self._teller.show(self._processes.run("verify", POLICY), 20)
        self._prove(
            "every update of a lost shipment is still there",
            self._count("status <> 'delivered'") == UPDATES // _LOST_IN_TRANSIT,
        )

    def _replay(self, run_id: str) -> None:
        self._teller.chapter("Every batch once more")
        self._teller.say(
            "A queue may deliver anything twice. So the demo hands every batch of the run to the "
            "part of bestbefore that deletes, as if nobody had ever done so."
        )
        before = self._count()
        system = open_system(self._folder / "bestbefore.toml", os.environ)
        try:
            policy = system.policy(POLICY)
            deleter = system.tables(policy.connection).deleter
            again = [
                deleter.delete(
                    policy.rows,
                    RowTask(one.operation_id, POLICY, policy.version, one.batch, one.cutoff),
                    "replay",
                )
                for one in system.records.operations(OperationFilter(run_id=run_id))
                if one.batch is not None
            ]
        finally:
            system.close()
        replayed = [end for end in again if isinstance(end, Effect) and end.replayed]
        self._summary.replayed = len(replayed)
        self._prove(
            f"{len(replayed)} batches delivered again changed 0 rows, and answered with what the "
            f"first delivery had done: {sum(end.rows for end in replayed):,} rows",
            len(replayed) == len(again) == self._summary.batches
            and self._count() == before
            and sum(end.rows for end in replayed) == self._summary.rows_deleted,
        )

    def _tune(self) -> None:
        self._teller.chapter("How large should a batch be?")
        self._teller.say(
            "That is measured, on made-up rows in a table of the same shape, while an application "
            "writes: each batch delivered twice more, and workers killed around COMMIT."
        )
        with self._teller.waiting("measuring"):
            # Exit status 1 where this machine is too busy for any size to be recommended.
            self._teller.show(self._processes.run("tune", POLICY, *_TUNE, expect=None), 40)
        said = json.loads((self._folder / f"tune-{POLICY}.json").read_text())
        cells = said["cells"]
        again = sum(cell["rows_done_again"]["killed_after_commit"] for cell in cells)
        replays = sum(cell["replays"] for cell in cells)
        self._summary.batch_size = (said["recommended"] or {}).get("batch_size")
        self._prove(
            f"{replays} replays changed 0 rows, and a kill after COMMIT had 0 rows deleted again",
            again == sum(cell["rows_changed_by_replays"] for cell in cells) == 0,
        )
        if self._keep is not None:
            self._keep.mkdir(parents=True, exist_ok=True)
            for file in sorted(self._folder.glob("tune-*")):
                shutil.copy(file, self._keep)
                self._teller.say(f"Kept: {self._keep / file.name}")

    def _gone(self) -> int:
        return self._summary.rows_before - self._count()

    def _deleted(self, run_id: str) -> int:
        deleted: int = self._ask("runs", "show", run_id)["rows"].get("deleted", 0)
        return deleted

    def _count(self, where: str = "true", *values: str) -> int:
        with closing(self._connect()) as connection:
            query = f"SELECT count(*) FROM shipment_updates WHERE {where}"  # noqa: S608
            found: int = connection.execute(query, values).fetchone()[0]
        return found

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._folder / "shipments.db")

    def _ask(self, *arguments: str) -> Any:
        return self._processes.run(*arguments, "--json").document

    def _prove(self, claim: str, holds: bool) -> None:
        prove(self._teller, self._summary, claim, holds)


def _updates() -> Iterator[tuple[int, int, str, str, str]]:
    first = datetime.now(UTC) - timedelta(days=_DAYS)
    step = timedelta(days=_DAYS) / UPDATES
    for number in range(UPDATES):
        status = "lost" if number % _LOST_IN_TRANSIT == 0 else "delivered"
        at = first + number * step
        yield number, number // 3, status, _text(at), "left at the door"


def _cutoff(now: datetime) -> str:
    return _text(now - timedelta(days=30))


def _text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
