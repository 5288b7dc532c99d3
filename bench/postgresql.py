"""Commands a second on PostgreSQL with 1, 2 and 4 worker processes, with a null store."""

import multiprocessing
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench import null, servers
from bestbefore.domain.run import Trigger
from bestbefore.stages.work import Options

_SLOT = datetime(2026, 7, 1, tzinfo=UTC)
_WORKERS = (1, 2, 4)


def measure(commands: int) -> None:
    """Print what planning and what each number of workers achieves, and what they wait for."""
    print(f"\n{commands:,} commands on PostgreSQL (fsync on, null store, {os.cpu_count()} cores)")
    if not servers.there():
        return
    first = 0.0
    for workers in _WORKERS:
        with servers.database() as url, tempfile.TemporaryDirectory() as folder:
            planned = _plan(Path(folder), commands, url)
            with servers.watched(url) as waits:
                worked = _work(Path(folder), commands, url, workers)
        first = first or worked
        print(
            f"  plan, then work in {workers}: plan {commands / planned:>7,.0f}/s, "
            f"work {commands / worked:>7,.0f}/s ({first / worked:.2f} times one)  "
            f"{servers.shares(waits)}"
        )


def _plan(folder: Path, commands: int, url: str) -> float:
    rule = null.policy()
    system = null.system(folder, commands, rule, url)
    began = time.perf_counter()
    system.planner(rule).plan(rule, _SLOT, Trigger.PLAN, approved=True)
    took = time.perf_counter() - began
    system.close()
    return took


def _work(folder: Path, commands: int, url: str, workers: int) -> float:
    # Forked before anything is connected; how long Python takes to start is not the question.
    processes = [
        multiprocessing.get_context("fork").Process(target=_drain, args=(folder, commands, url))
        for _ in range(workers)
    ]
    began = time.perf_counter()
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    took = time.perf_counter() - began
    system = null.system(folder, commands, null.policy(), url)
    (run,) = system.records.runs()
    system.close()
    assert (run.completed, run.waiting, run.pending, run.dead) == (commands, 0, 0, 0)
    return took


def _drain(folder: Path, commands: int, url: str) -> None:
    system = null.system(folder, commands, null.policy(), url)
    system.working.worker(Options(drain=True), lambda: False).run()
    system.close()
