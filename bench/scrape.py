"""How long a scrape takes while a million operations are in the ledger, and what it asks for."""

import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from bench import null, servers
from bestbefore.app import reporting
from bestbefore.app.system import System
from bestbefore.domain.run import Trigger
from bestbefore.web.metrics import exposition

_SLOT = datetime(2026, 7, 1, tzinfo=UTC)
_SCRAPES = 50


def measure(operations: int) -> None:
    """Print the times of scrapes on either state database, and each query with its plan."""
    print(f"\n/metrics with {operations:,} operations, half of them pending ({_SCRAPES} scrapes)")
    with tempfile.TemporaryDirectory() as folder:
        _measure("SQLite", Path(folder), operations, None)
    if servers.there():
        with servers.database() as url, tempfile.TemporaryDirectory() as folder:
            _measure("PostgreSQL", Path(folder), operations, url)


def _measure(name: str, folder: Path, operations: int, url: str | None) -> None:
    rule = null.policy()
    system = null.system(folder, 1, rule, url)
    system.planner(rule).plan(rule, _SLOT, Trigger.PLAN, approved=True)
    _fill(system, operations)
    times = sorted(_timed(system) for _ in range(_SCRAPES))
    body, _ = exposition(reporting.measures(system, {}))
    print(
        f"  {name:<12} median {statistics.median(times) * 1000:6.1f} ms, "
        f"most {times[-1] * 1000:6.1f} ms, {len(body):,} bytes"
    )
    for statement, plan in _plans(system):
        print(f"    {statement}\n      {plan}")
    system.close()


def _fill(system: System, operations: int) -> None:
    """Beside the one planned: half of them pending, a tenth dead, the others completed."""
    database = system.measuring._db
    numbers = (
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {operations}) "
        if database.is_sqlite
        else f"WITH n AS (SELECT i FROM generate_series(1, {operations}) i) "
    )
    id_ = "randomblob(32)" if database.is_sqlite else "sha256(i::text::bytea)"
    digit = "i - i / 10 * 10"  # a percent sign is PostgreSQL's driver's own
    state = (
        f"CASE WHEN {digit} < 5 THEN 'pending' WHEN {digit} = 5 THEN 'dead' ELSE 'completed' END"
    )
    with database.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO operations (operation_id, run_id, policy_id, state, key, etag, size, "
            "last_modified, seen_at, deliveries, due_at, failure_class, first_failed_at) "
            f"{numbers} SELECT {id_}, 1, 1, {state}, 'exports/' || i, 'e', 100, i, i, 0, "
            f"CASE WHEN {digit} < 5 THEN i END, CASE WHEN {digit} = 5 THEN 'permission' END, "
            f"CASE WHEN {digit} = 5 THEN i END FROM n"
        )
        tenth = operations // 10
        connection.exec_driver_sql(
            f"UPDATE runs SET planned = planned + {operations}, pending = pending + {5 * tenth}, "
            f"dead = dead + {tenth}, completed = completed + {4 * tenth}"
        )
        connection.exec_driver_sql(
            f"INSERT INTO policy_counts VALUES (1, 'dead', 'permission', {tenth}, 0), "
            f"(1, 'completed', 'deleted', {4 * tenth}, 0)"
        )
    if not database.is_sqlite:
        with servers.connected(database.url.render_as_string(hide_password=False)) as connection:
            connection.execute("VACUUM ANALYZE operations")


def _timed(system: System) -> float:
    began = time.perf_counter()
    exposition(reporting.measures(system, {}))
    return time.perf_counter() - began


def _plans(system: System) -> list[tuple[str, str]]:
    """The queries of one scrape that read operations, with how the database goes about them."""
    asked: list[tuple[str, object]] = []
    database = system.measuring._db

    def note(_connection, _cursor, statement, values, *_more):  # type: ignore[no-untyped-def]
        asked.append((statement, values))

    sa.event.listen(database._reader, "before_cursor_execute", note)
    reporting.measures(system, {})
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
