"""Commands a second on PostgreSQL with 1, 2 and 4 worker processes, with a null store."""

import multiprocessing
import os
import secrets
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import sqlalchemy as sa

from bench import null
from bestbefore.domain.run import Trigger
from bestbefore.stages.work import Options

SERVER = os.environ.get(
    "BESTBEFORE_TEST_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"
)
_SLOT = datetime(2026, 7, 1, tzinfo=UTC)
_WORKERS = (1, 2, 4)
_SAMPLE_SECONDS = 0.02


def measure(commands: int) -> None:
    """Print what planning and what each number of workers achieves, and what they wait for."""
    print(f"\n{commands:,} commands on PostgreSQL (fsync on, null store, {os.cpu_count()} cores)")
    try:
        _connected(SERVER).close()
    except psycopg.OperationalError as error:
        print(f"  left out: {error}")
        return
    first = 0.0
    for workers in _WORKERS:
        with _database() as url, tempfile.TemporaryDirectory() as folder:
            planned = _plan(Path(folder), commands, url)
            with _watched(url) as waits:
                worked = _work(Path(folder), commands, url, workers)
        first = first or worked
        print(
            f"  plan, then work in {workers}: plan {commands / planned:>7,.0f}/s, "
            f"work {commands / worked:>7,.0f}/s ({first / worked:.2f} times one)  {_shares(waits)}"
        )


def _plan(folder: Path, commands: int, url: str) -> float:
    rule = null.policy()
    system = null.system(folder, commands, rule, url)
    began = time.perf_counter()
    system.planner(rule).plan(rule, _SLOT, Trigger.PLAN)
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
    system.worker(Options(drain=True), lambda: False).run()
    system.close()


@contextmanager
def _database() -> Iterator[str]:
    """A database of its own, dropped at the end."""
    server = sa.make_url(SERVER)
    name = f"bestbefore_bench_{secrets.token_hex(4)}"
    with _connected(SERVER) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        try:
            yield server.set(database=name).render_as_string(hide_password=False)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def _watched(url: str) -> Iterator[Counter[str]]:
    """What the server's sessions are at, looked at all the time."""
    seen: Counter[str] = Counter()
    ended = threading.Event()

    def look() -> None:
        with _connected(url) as connection:
            while not ended.wait(_SAMPLE_SECONDS):
                seen.update(
                    name
                    for (name,) in connection.execute(
                        "SELECT coalesce(wait_event, 'processor') FROM pg_stat_activity "
                        "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                        "AND state <> 'idle'"
                    )
                )

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


def _shares(seen: Counter[str]) -> str:
    """The most frequent ones. ClientRead in a transaction: the server waits for our process."""
    total = seen.total() or 1
    return ", ".join(f"{name} {n / total:.0%}" for name, n in seen.most_common(4))


def _connected(url: str) -> psycopg.Connection:
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)
