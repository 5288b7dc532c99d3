"""Programs for `support.forks` that want all they can get of one database, and write down what they
got. The first two count ticks of a clock each by itself; the others are workers.
"""

import sqlite3
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bestbefore.adapters.rows.deleting import SqlRowDeleter
from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.throttles import SqlThrottles
from bestbefore.domain.throttle import Tempo
from support import harness

START = datetime(2026, 7, 1, 2, tzinfo=UTC)
MOST, HOLDERS = 5, 4
_LEASE = timedelta(seconds=60)


def hold(arguments: Sequence[str]) -> None:
    """Hold as many slots as there are, some in hand and some not: ``url ledger name rounds``.

    In *ledger*, a SQLite file, stands what each holder relies on having; no sum of it may ever be
    above the most. Begins once all holders are there; prints the largest sum it saw.
    """
    url, ledger, name, rounds = arguments
    database = Database(url)
    throttles = SqlThrottles(database)
    relied = sqlite3.connect(ledger, timeout=30, isolation_level=None)
    relied.execute("PRAGMA synchronous = OFF")

    def rely_on(slots: int) -> int:
        relied.execute("BEGIN IMMEDIATE")
        relied.execute("INSERT OR REPLACE INTO relied VALUES (?, ?)", (name, slots))
        (together,) = relied.execute("SELECT sum(slots) FROM relied").fetchone()
        relied.execute("COMMIT")
        return int(together)

    rely_on(0)
    while relied.execute("SELECT count(*) FROM relied").fetchone() != (HOLDERS,):
        time.sleep(0.001)
    out, most = 0, 0
    for n in range(int(rounds)):
        rely_on(out)
        now = START + n * timedelta(milliseconds=200)
        wanted = MOST if n % 4 else out  # now and then the others may have more
        slots = throttles.hold(
            "d", name, wanted=wanted, out=out, done=8, most=MOST, now=now, lease=_LEASE
        )
        most = max(most, rely_on(slots))
        out = (slots * (n % 3)) // 2  # nothing, half of it, or all
        out = min(out, slots)
    rely_on(0)
    throttles.hold("d", name, wanted=0, out=0, done=0, most=MOST, now=START, lease=_LEASE)
    sys.stdout.write(f"{most}\n")
    relied.close()
    database.dispose()


def take_turns(arguments: Sequence[str]) -> None:
    """Ask for a turn of 100 rows, at 1,000 a second, each millisecond of ten seconds: ``url``.

    Prints how many it was given.
    """
    (url,) = arguments
    database = Database(url)
    throttles = SqlThrottles(database)
    tempo, given, tick, again_at = Tempo(1_000), 0, 0, START
    while tick < 10_000:
        now = START + tick * timedelta(milliseconds=1)
        if now >= again_at:
            turns, again_at = throttles.turn("d", 4, 100, tempo, now)
            given += turns
        tick += 1
    sys.stdout.write(f"{given}\n")
    database.dispose()


def worker(arguments: Sequence[str]) -> None:
    """Drain as `support.harness.worker` does, and count who is inside a batch: ``ledger``.

    *ledger* is a SQLite file; a batch there takes at least ten milliseconds.
    """
    (ledger,) = arguments
    real = SqlRowDeleter.delete

    def count(change: int) -> None:
        with closing(sqlite3.connect(ledger, timeout=30)) as connection, connection:
            connection.execute("UPDATE inside SET n = n + ?, most = max(most, n + ?)", [change] * 2)

    def delete(self: SqlRowDeleter, *given: Any) -> Any:
        count(1)
        try:
            time.sleep(0.01)
            return real(self, *given)
        finally:
            count(-1)

    SqlRowDeleter.delete = delete  # type: ignore[method-assign]
    harness.worker(["8", "drain"])


def stuck_worker(arguments: Sequence[str]) -> None:
    """A worker whose first batch never ends; it says in the file *sign* that it is there."""
    (sign,) = arguments

    def delete(*_: Any) -> Any:
        Path(sign).touch()
        threading.Event().wait()

    SqlRowDeleter.delete = delete  # type: ignore[method-assign]
    harness.worker(["8"])
