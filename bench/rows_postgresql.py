"""Delete the same half of the same table on PostgreSQL, in interleaved rounds."""

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

from bench import servers, shipments
from bench.rounds import Bestbefore, hold, timed

_SIZES = (100, 1_000, 5_000)
_USUAL = 1_000


def measure(rows: int, rounds: int) -> None:
    """Print the medians beside one bare DELETE, and ours beside the keyset loop's."""
    if not servers.there():
        return
    with tempfile.TemporaryDirectory() as folder, shipments.on_postgresql(rows) as table:
        contest = _Deleting(Path(folder), table)
        title = f"{rows // 2:,} of {rows:,} rows on PostgreSQL ({servers.durability()})"
        medians = hold(contest, rounds, title, rows // 2)
        loop_starts, we_start = contest.starting(rounds)
        print(
            f"  of that with nothing to delete: keyset loop {loop_starts:.2f} s, "
            f"ours {we_start:.2f} s"
        )
        for size in _SIZES:
            loop, ours = medians[_loop(size)], medians[_ours(size)]
            print(
                f"  ours beside the keyset loop, N = {size:,}: {ours / loop:.2f}x, "
                f"without starting {(ours - we_start) / (loop - loop_starts):.2f}x"
            )
        for name in (_loop(_USUAL), _ours(_USUAL)):
            table.renew()
            with servers.watched(table.url) as waits:
                contest.contestants[name]()
            print(f"  {name} at the server: {servers.shares(waits)}")


class _Deleting:
    """Everything older than 30 days goes."""

    def __init__(self, folder: Path, table: shipments.OnPostgresql) -> None:
        self._table = table
        self._bestbefore = Bestbefore(folder / "state")
        self.contestants = {"one bare DELETE (the limit)": self._bare}
        for size in _SIZES:
            self.contestants[_loop(size)] = partial(self._keyset_loop, size)
            self.contestants[_ours(size)] = partial(self._run, size, 1)
        self.contestants[_by_range(_USUAL)] = partial(self._keyset_loop, _USUAL, way=("range",))
        self.contestants[f"{_ours(_USUAL)}, 4 at a time"] = partial(self._run, _USUAL, 4)
        self.reset = table.renew
        self.expect_done = table.expect_halved

    def _bare(self) -> float:
        statement = f"DELETE FROM {shipments.TABLE} WHERE delivered_at < %s"
        with servers.connected(self._table.url) as connection:
            began = time.perf_counter()
            connection.execute(statement, [shipments.cutoff()])
            return time.perf_counter() - began

    def starting(self, rounds: int) -> tuple[float, float]:
        """The medians of what the keyset loop and we take where nothing is old."""
        self._table.renew()
        nothing = shipments.NOTHING
        return (
            statistics.median(self._keyset_loop(_USUAL, nothing) for _ in range(rounds)),
            statistics.median(self._run(_USUAL, 1, nothing) for _ in range(rounds)),
        )

    def _keyset_loop(
        self, size: int, age: timedelta = shipments.AGE, way: Sequence[str] = ()
    ) -> float:
        words = self._table.url, shipments.cutoff(age).isoformat(), str(size), *way
        return timed(sys.executable, "-m", "bench.keyset_loop", *words)

    def _run(self, size: int, at_a_time: int, age: timedelta = shipments.AGE) -> float:
        lines = f"max_concurrency = {at_a_time}"
        self._bestbefore.begin(shipments.configuration(self._table.url, size, lines, age))
        return self._bestbefore("run", "bench", "--yes")


def _loop(size: int) -> str:
    return f"keyset loop, N = {size:,}"


def _by_range(size: int) -> str:
    return f"keyset loop by range, N = {size:,}"


def _ours(size: int) -> str:
    return f"bestbefore run, N = {size:,}"
