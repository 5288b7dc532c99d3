"""How long a scrape takes while a million operations are in the ledger, and what it asks for."""

import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from bench import null, servers
from bestbefore.app.system import System
from bestbefore.domain.run import Trigger
from bestbefore.web.metrics import exposition

_SLOT = datetime(2026, 7, 1, tzinfo=UTC)
_SCRAPES = 50


def measure(operations: int) -> None:
    """Print the times of scrapes on either state database, and each query with its plan."""
    print(f"\n/metrics with {operations:,} operations pending ({_SCRAPES} scrapes)")
    with tempfile.TemporaryDirectory() as folder:
        _measure("SQLite", Path(folder), operations, None)
    if servers.there():
        with servers.database() as url, tempfile.TemporaryDirectory() as folder:
            _measure("PostgreSQL", Path(folder), operations, url)


def _measure(name: str, folder: Path, operations: int, url: str | None) -> None:
    rule = null.policy()
    system = null.system(folder, operations, rule, url)
    system.planner(rule).plan(rule, _SLOT, Trigger.PLAN)
    while system.work.waiting(1, 10_000) is not None:
        span = system.work.waiting(1, 10_000)
        system.queue.publish(span, datetime.now(UTC))
    # Some of them dead, as their age is what could take a look at many.
    with system.measuring._db.write() as connection:
        connection.execute(
            sa.text(
                "UPDATE operations SET state = 'dead', due_at = NULL, error = '', "
                f"failure_class = 'permission', first_failed_at = id WHERE id <= {operations // 10}"
            )
        )
        connection.execute(sa.text(
            f"INSERT INTO policy_counts VALUES (1, 'dead', 'permission', {operations // 10}, 0)"
        ))  # fmt: skip
    times = sorted(_timed(system) for _ in range(_SCRAPES))
    body, _ = exposition(system.measures({}))
    print(
        f"  {name:<12} median {statistics.median(times) * 1000:6.1f} ms, "
        f"most {times[-1] * 1000:6.1f} ms, {len(body):,} bytes"
    )
    for statement, plan in _plans(system):
        print(f"    {statement}\n      {plan}")
    system.close()


def _timed(system: System) -> float:
    began = time.perf_counter()
    exposition(system.measures({}))
    return time.perf_counter() - began


def _plans(system: System) -> list[tuple[str, str]]:
    """The queries of one scrape that read operations, with how the database goes about them."""
    asked: list[tuple[str, object]] = []
    database = system.measuring._db

    def note(_connection, _cursor, statement, values, *_more):  # type: ignore[no-untyped-def]
        asked.append((statement, values))

    sa.event.listen(database._reader, "before_cursor_execute", note)
    system.measures({})
    sa.event.remove(database._reader, "before_cursor_execute", note)
    how = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
    found = []
    with database.read() as connection:
        for statement, values in asked:
            if "FROM operations" in statement and statement.startswith("SELECT"):
                plan = connection.exec_driver_sql(f"{how} {statement}", values).fetchall()
                said = "; ".join(str(line[-1]).strip() for line in plan)
                found.append((" ".join(statement.split())[:140], said[:300]))
    print(f"    {len(asked)} queries, {len(found)} of them about operations:")
    return found
