"""What a writer to live rows feels of the cleanup of old ones beside it, in interleaved rounds."""

import multiprocessing
import random
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from bench import servers
from bench.rounds import Bestbefore
from bench.shipments import TABLE, OnPostgresql, configuration, on_postgresql

_PER_SECOND = 200
_SECONDS = 20
_RECOMMENDED = 1_000
_CONDITIONS: dict[str, tuple[int, str] | None] = {
    "idle": None,
    # The brakes of the reference configuration.
    f"N = {_RECOMMENDED:,}, with brakes": (
        _RECOMMENDED,
        'rows_per_second = 5000\npause = "20ms"',
    ),
    f"N = {_RECOMMENDED:,}, one after the other": (_RECOMMENDED, "max_concurrency = 1"),
    f"N = {_RECOMMENDED:,}, four at a time": (_RECOMMENDED, "max_concurrency = 4"),
    "N = 5,000, one after the other": (5_000, "max_concurrency = 1"),
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
    felt: dict[str, list[list[float]]] = {name: [] for name in _CONDITIONS}
    gone: dict[str, list[float]] = {name: [] for name in _CONDITIONS}
    with on_postgresql(rows) as table, tempfile.TemporaryDirectory() as folder:
        for number in range(1, rounds + 1):
            for name, condition in _CONDITIONS.items():
                times, per_second = _felt(table, Path(folder), condition)
                felt[name].append(times)
                gone[name].append(per_second)
                line = f"round {number}/{rounds}  {name:<44}p99 {_percentile(times, 99):7.2f} ms"
                print(line, file=sys.stderr, flush=True)
    idle = _median(felt["idle"], 99)
    print(
        f"\n{_PER_SECOND} writes a second to the live half of {rows:,} rows (PostgreSQL), "
        f"milliseconds, median of {rounds} interleaved rounds"
    )
    for name, rounds_ in felt.items():
        shares = "  ".join(f"p{share} {_median(rounds_, share):6.2f}" for share in (50, 95, 99))
        print(
            f"  {name:<32}{shares}  {_median(rounds_, 99) / idle:5.2f}x"
            f"  {statistics.median(gone[name]):>9,.0f} rows/s cleaned"
        )


def _felt(
    table: OnPostgresql, folder: Path, condition: tuple[int, str] | None
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
        bestbefore.begin(configuration(table.url, *condition))
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
    times = []
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
