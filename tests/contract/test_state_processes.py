"""Real processes on one state database: nobody is locked out, nothing is claimed twice."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from bestbefore.adapters.state import database as module
from bestbefore.adapters.state.database import NEWEST, Database
from bestbefore.adapters.state.schema import operations
from support.worlds import World, policy

TESTS = Path(__file__).parents[1]

CLAIM_ALL = """
import sys
from datetime import timedelta
from pathlib import Path
from support.worlds import World, policy
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.ledger import Completed

with World(Path(sys.argv[1]), policy(), state_url=sys.argv[3] or None) as world:
    print("ready", flush=True)
    sys.stdin.readline()
    now, system = world.clock.now() + timedelta(minutes=1), world.system
    (version,) = system.work.versions()
    while True:
        claimed = system.queue.receive(version.row, 7, now, timedelta(minutes=10))
        if not claimed:
            break
        late = system.work.record(
            [Completed(o, Outcome.DELETED) for o in claimed], sys.argv[2], now
        )
        assert not late, late
        for operation in claimed:
            print(operation.row)
"""

START = """
import sys
from bestbefore.adapters.state import database as module
from bestbefore.adapters.state.database import Database

database = Database(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
database.prepare()
with database.read() as connection:
    print(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar())
database.dispose()
"""


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python process that has said it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said == "ready\n", process.communicate()[1]
    return process


def finish(processes: list[subprocess.Popen[str]]) -> list[list[str]]:
    """Let all of them go at once; returns what each printed."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    printed = []
    for process in processes:
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert errors == ""
        printed.append(out.split())
    return printed


def test_four_processes_claim_800_commands_exactly_once(tmp_path: Path, state: str | None) -> None:
    """O-DBF-03: and no process sees "database is locked"."""
    with World(tmp_path, policy(), state_url=state) as world:
        world.fill(800)
        run = world.plan()
        span = world.system.work.waiting(world.system.work.versions()[0].row, 800)
        assert span is not None
        assert world.system.queue.publish(span, world.clock.now()) == 800

        printed = finish(
            [start(CLAIM_ALL, str(tmp_path), f"worker-{n}", state or "") for n in range(4)]
        )

        rows = [row for rows in printed for row in rows]
        assert len(rows) == len(set(rows)) == 800
        assert world.outcomes(run) == {"deleted": 800}
        world.assert_reconciled()
        engine = sa.create_engine(world.state_url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            recorded = dict(
                connection.execute(
                    sa.select(operations.c.completed_by, sa.func.count()).group_by(
                        operations.c.completed_by
                    )
                ).fetchall()
            )
        # One of them may have come when all was taken.
        assert recorded == {f"worker-{n}": len(printed[n]) for n in range(4) if printed[n]}


def test_a_transaction_holds_the_write_lock_from_its_start(tmp_path: Path) -> None:
    """O-DBF-03, the replay: A begins and reads, B writes, A writes.

    Had A begun as a reader, B's write would have gone through and A's would fail at once.
    """
    with World(tmp_path, policy()) as world:
        world.fill(1)
        world.plan()
        other = sqlite3.connect(tmp_path / "state.db", timeout=0, isolation_level=None)
        with world.system.plans._db.write() as connection:
            connection.execute(sa.select(sa.func.count()).select_from(operations)).scalar()
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("UPDATE operations SET size = 1")
            assert other.execute("SELECT state FROM operations").fetchall() == [("waiting",)]
            connection.execute(sa.update(operations).values(size=2))
        assert other.execute("SELECT size FROM operations").fetchall() == [(2,)]
        other.close()


def test_a_new_file_that_somebody_writes_to_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first switch to write-ahead logging is the one statement that SQLite fails at once."""
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE theirs (x)")
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        other.execute("COMMIT")

    monkeypatch.setattr(module.time, "sleep", sleep)
    database = Database(f"sqlite:///{tmp_path / 'state.db'}")
    with database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    database.dispose()
    other.close()

    assert len(waits) == 1


def test_processes_that_start_together_for_the_first_time_agree_on_the_schema(
    tmp_path: Path, empty_url: str
) -> None:
    for url in (f"sqlite:///{tmp_path / 'state.db'}", empty_url):
        assert finish([start(START, url) for _ in range(3)]) == [[NEWEST]] * 3
