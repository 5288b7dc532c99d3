"""What a writer to live rows feels of the cleanup of old ones beside it, in interleaved rounds."""

import multiprocessing
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from bench import servers
from bench.rounds import Bestbefore
from bench.shipments import TABLE, OnPostgresql, configuration, on_postgresql

_PER_SECOND = 200
_SECONDS = 20
_RECOMMENDED = 1_000


class Condition(NamedTuple):
    """How a cleanup is done: its batch size, and more lines of the database and of the source."""

    size: int
    database: str
    source: str = ""


# The brakes of the reference configuration.
BRAKES = Condition(_RECOMMENDED, 'rows_per_second = 5000\npause = "20ms"')
ONE_AT_A_TIME = Condition(_RECOMMENDED, "max_concurrency = 1")

_CONDITIONS: dict[str, Condition | None] = {
    "idle": None,
    f"N = {_RECOMMENDED:,}, with brakes": BRAKES,
    f"N = {_RECOMMENDED:,}, one after the other": ONE_AT_A_TIME,
    f"N = {_RECOMMENDED:,}, four at a time": Condition(_RECOMMENDED, "max_concurrency = 4"),
    "N = 5,000, one after the other": Condition(5_000, "max_concurrency = 1"),
}

_INSERT = (
    f"INSERT INTO {TABLE} (id, delivered_at, shipment_id, carrier, payload) "
    "VALUES (%s, now(), %s, 'carrier-1', repeat('x', 200))"
)
_UPDATE = f"UPDATE {TABLE} SET payload = repeat('y', 200) WHERE id = %s"


def measure(rows: int, rounds: int) -> None:
    """Print how long the writer's statements take, beside what they take when nothing else is."""
    if not servers.there():
        return
    with on_postgresql(rows) as table:
        compare({name: (table, one) for name, one in _CONDITIONS.items()}, rounds)


def compare(conditions: Mapping[str, tuple[OnPostgresql, Condition | None]], rounds: int) -> None:
    """Print how long the writer's statements take under each of *conditions*: a table, and how it
    is cleaned up, None for not at all. The first is what the others are held against."""
    felt: dict[str, list[list[float]]] = {name: [] for name in conditions}
    gone: dict[str, list[float]] = {name: [] for name in conditions}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, rounds + 1):
            for name, (table, condition) in conditions.items():
                times, per_second = _felt(table, Path(folder), condition)
                felt[name].append(times)
                gone[name].append(per_second)
                line = f"round {number}/{rounds}  {name:<44}p99 {_percentile(times, 99):7.2f} ms"
                print(line, file=sys.stderr, flush=True)
    first, (table, _) = next(iter(conditions.items()))
    idle = _median(felt[first], 99)
    print(
        f"\n{_PER_SECOND} writes a second to the live half of {table.rows:,} rows (PostgreSQL), "
        f"milliseconds, median of {rounds} interleaved rounds"
    )
    for name, rounds_ in felt.items():
        shares = "  ".join(f"p{share} {_median(rounds_, share):6.2f}" for share in (50, 95, 99))
        print(
            f"  {name:<32}{shares}  {_median(rounds_, 99) / idle:5.2f}x"
            f"  {statistics.median(gone[name]):>9,.0f} rows/s cleaned"
        )


def _felt(
    table: OnPostgresql, folder: Path, condition: Condition | None
) -> tuple[list[float], float]:
    """The milliseconds of each write, while a cleanup goes on if there is one, and its speed."""
    table.renew()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    writer = context.Process(target=_write, args=(table.url, table.rows, theirs))
    writer.start()
    ours.recv()  # it is connected
    began = time.perf_counter()
    if condition is None:
        time.sleep(_SECONDS)
    else:
        bestbefore = Bestbefore(folder / "state")
        size, database, source = condition
        bestbefore.begin(configuration(table.url, size, database, source=source))
        _clean(bestbefore.command("run", "bench", "--yes"))
    seconds = time.perf_counter() - began
    ours.send("enough")
    times: list[float] = ours.recv()
    writer.join()
    left = table.old()
    assert condition is None or left < table.rows // 2
    return times, (table.rows // 2 - left) / seconds


def _clean(command: list[str]) -> None:
    """Clean up until it is done, or as long as is looked at."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()


def _write(url: str, rows: int, parent: Connection) -> None:
    """Write at a fixed rate, as long as the other side is silent.

    A write is late from when it was due, not from when the one before it was over: who waits
    behind a slow one has waited as well.
    """
    choose = random.Random(1842)
    times: list[float] = []
    with servers.connected(url) as connection:
        connection.prepare_threshold = 0
        parent.send("connected")
        began = time.perf_counter()
        while not parent.poll():
            number = len(times)
            due = began + number / _PER_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
            if number % 2:
                connection.execute(_UPDATE, [choose.randint(rows // 2 + 1, rows)])
            else:
                connection.execute(_INSERT, [rows + number + 1, number])
            times.append((time.perf_counter() - due) * 1000)
    parent.send(times)


def _median(rounds: list[list[float]], share: int) -> float:
    return statistics.median(_percentile(times, share) for times in rounds)


def _percentile(times: list[float], share: int) -> float:
    return statistics.quantiles(times, n=100)[share - 1]
