"""Peak memory of planning and of working on row batches, at two sizes of table."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import servers
from bench.rounds import Bestbefore
from bench.shipments import TABLE, configuration

_SIZE = 1_000
_FILL = (
    f"CREATE TABLE {TABLE} AS SELECT n AS id, "
    "now() - interval '60 days' + n * interval '1 millisecond' AS delivered_at "
    "FROM generate_series(1, {rows}::bigint) n",
    f"ALTER TABLE {TABLE} ADD PRIMARY KEY (id), ALTER delivered_at SET NOT NULL",
    f"CREATE INDEX ON {TABLE} (delivered_at)",
    f"VACUUM (ANALYZE) {TABLE}",
)


def measure(rows: int) -> None:
    """Print the peaks of `plan` and of `work --drain` at *rows* and at a hundredth of them."""
    print(f"\npeak memory over rows that all go, N = {_SIZE:,} (PostgreSQL)")
    if not servers.there():
        return
    for number in (rows // 100, rows):
        planned, worked = _peaks(number)
        print(f"  {number:>12,} rows  plan {planned:6.1f} MiB  work {worked:6.1f} MiB")


def _peaks(rows: int) -> tuple[float, float]:
    with servers.database() as url, tempfile.TemporaryDirectory() as folder:
        with servers.connected(url) as connection:
            for statement in _FILL:
                connection.execute(statement.format(rows=rows))
        bestbefore = Bestbefore(Path(folder) / "state")
        bestbefore.begin(configuration(url, _SIZE))
        planned = _peak(bestbefore.command("plan", "bench", "--yes"))
        worked = _peak(bestbefore.command("work", "--drain"))
        with servers.connected(url) as connection:
            left = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
        assert left == (0,), left
    return planned, worked


def _peak(command: Sequence[str]) -> float:
    """MiB of the process itself."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (command, said[-2000:])
    return usage.ru_maxrss / 1024
