"""Programs for `support.forks`: the command line, and a planner, a worker and upkeep with a clock
that the test moves.

The product's shortest lease is a minute. Instead of waiting for it, a test turns the clock that
all processes of its world share: a file with an offset, read on every look.
"""

import gc
import itertools
import mmap
import os
import random
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bestbefore.adapters.objects import s3
from bestbefore.adapters.objects.directory import (
    DirectoryDeleter,
    DirectoryFiles,
    DirectoryLister,
)
from bestbefore.adapters.objects.s3 import S3Settings
from bestbefore.adapters.objects.s3.client import plain_client
from bestbefore.adapters.state import move
from bestbefore.adapters.state.database import Database
from bestbefore.app import evidence
from bestbefore.app import upkeep as keeping
from bestbefore.app.connecting import connect_tables
from bestbefore.app.settings import StoreSettings, load
from bestbefore.app.system import System
from bestbefore.cli import main
from bestbefore.domain.run import Trigger
from bestbefore.ports.clock import Clock
from bestbefore.ports.endpoints import EndpointMemory
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.stores import Store
from bestbefore.stages.work import Options

LEASE = timedelta(seconds=60)
_OFFSET = struct.Struct("<q")


class SharedClock:
    """`bestbefore.ports.clock.Clock`: real time plus an offset that every process sees."""

    def __init__(self, file: Path) -> None:
        if not file.exists():
            file.write_bytes(_OFFSET.pack(0))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), _OFFSET.size)

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(microseconds=_OFFSET.unpack(self._memory[:])[0])

    def sleep(self, seconds: float) -> None:
        """Shorter than asked for: who waits here waits for a clock that jumps."""
        time.sleep(min(seconds, 0.02))

    def step(self, by: timedelta) -> None:
        """Jump, in every process at once."""
        offset = _OFFSET.unpack(self._memory[:])[0] + by // timedelta(microseconds=1)
        self._memory[:] = _OFFSET.pack(offset)

    def close(self) -> None:
        self._memory.close()


def warm_up() -> None:
    """What every child would load from disk again."""
    plain_client(S3Settings("http://127.0.0.1:1", "us-east-1", "key", "secret"))
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/state.db")
        database.prepare()
        database.dispose()
        file = Path(folder) / "bestbefore.toml"
        file.touch()
        load(file, {})
    gc.freeze()  # else the first collection of each child copies all of it


def program(arguments: Sequence[str]) -> None:
    """The command line, as the console script runs it."""
    sys.argv = ["bestbefore", *arguments]
    main()


def dying_move(arguments: Sequence[str]) -> None:
    """``bestbefore state move --to URL`` that gets a SIGKILL: ``URL function [n]`` names where.

    It dies when it calls that function of the module for the *n*th time, or with the argument *n*.
    """
    url, name, *more = arguments
    real, calls = getattr(move, name), []

    def dying(*given: object) -> object:
        calls.append(given)
        if more and more[0] not in (str(len(calls)), str(given[-1])):
            return real(*given)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    setattr(move, name, dying)
    program(["state", "move", "--to", url])


def open_world(
    folder: Path, timeout: timedelta = timedelta(seconds=30), lease: timedelta = LEASE
) -> System:
    """The system of ``bestbefore.toml`` in *folder*, on the world's clock."""
    clock = SharedClock(folder / "clock")

    def connected(settings: StoreSettings, clock: Clock, memory: EndpointMemory) -> Store:
        if settings.root is not None:
            root = settings.root
            return Store(DirectoryLister(root), DirectoryDeleter(root), files=DirectoryFiles(root))
        there = S3Settings(
            settings.endpoint_url,
            settings.region,
            settings.access_key_id,
            settings.secret_access_key,
            timeout,
        )
        connection = s3.connect(there, clock, memory)
        return Store(
            s3.S3Lister(there, clock, connection=connection),
            s3.S3Deleter(there, clock, connection=connection),
            s3.S3Copier(there, clock, connection=connection),
            s3.S3Files(there, clock, connection=connection),
        )

    settings = load(folder / "bestbefore.toml", os.environ)
    settings = replace(settings, queue=replace(settings.queue, lease=lease))
    return System(settings, clock, connected, connect_tables)


def planner(arguments: Sequence[str]) -> None:
    """Plan the slot of *policy* that is due, or a new one: ``policy [new]``."""
    name, *more = arguments
    system = open_world(Path.cwd())
    policy = system.policy(name)
    slot = system.slot(policy, None, Trigger.PLAN)
    if "new" in more:
        slot = system.clock.now().replace(microsecond=0)
    try:
        run = system.planner(policy).plan(policy, slot, Trigger.PLAN).run
        sys.stdout.write(f"{run.run_id} {run.state}\n")
    except LedgerError as error:
        sys.stdout.write(f"{type(error).__name__}\n")
    system.close()


def schedule(arguments: Sequence[str]) -> None:
    """Look at schedules and fire them, until told to stop by SIGTERM. Says when it begins."""
    system = open_world(Path.cwd())
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: asked.append(number))
    ticker = system.ticker(lambda: bool(asked))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    ticker.run()
    system.close()


def worker(arguments: Sequence[str]) -> None:
    """Work until told to stop by SIGTERM: ``concurrency [drain] [grace=SECONDS] [lease=SECONDS]``.

    A broker's leases end by its own clock, so where there is one they are short.
    """
    concurrency, *more = arguments
    said = dict(word.split("=") for word in more if "=" in word)
    lease = timedelta(seconds=float(said.get("lease", LEASE.total_seconds())))
    system = open_world(Path.cwd(), lease=lease)
    system.spread = random.Random(1).random
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: asked.append(number))
    grace = timedelta(seconds=float(said.get("grace", 20)))
    options = Options(lease, int(concurrency), "drain" in more, grace)
    report = system.working.worker(options, lambda: bool(asked)).run()
    sys.stdout.write(f"{report.completed} {report.dead} {report.abandoned}\n")
    system.close()
    if report.abandoned:
        sys.stdout.flush()
        os._exit(0)


def worker_killed_after(arguments: Sequence[str]) -> None:
    """`worker`, killed right behind its so many-th unlink: ``unlinks concurrency [drain]``."""
    unlinks, *more = arguments
    left = itertools.count(int(unlinks) - 1, -1)
    unlink = os.unlink

    def last(*given: Any, **named: Any) -> None:
        unlink(*given, **named)
        # Only those of a store go through a folder.
        if "dir_fd" in named and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    os.unlink = last
    worker(more)


def upkeep(arguments: Sequence[str]) -> None:
    """Do upkeep until there is none, or until killed at a seam: ``[seam]``.

    Seams: ``exporting`` (a file is written and has no name yet), ``exported`` (it is whole, and
    nothing is pruned), ``pruning`` (some of it is), ``forgetting`` (batches are gone from the
    ledger, and their database still has the records), ``pruned`` (all of it is, and the ledger does
    not know that the file is done with).
    """

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    system = open_world(Path.cwd())
    ledger = system.upkeep_ledger
    match arguments:
        case ["exporting"]:
            os.fsync = die
        case ["exported"]:
            evidence.read = die  # type: ignore[assignment]
        case ["pruning"]:
            keeping._CHUNK = 3
            prune, calls = ledger.prune_operations, iter(range(9))
            ledger.prune_operations = (  # type: ignore[method-assign]
                lambda *given: prune(*given) if next(calls) < 2 else die()  # type: ignore[return-value]
            )
        case ["forgetting"]:
            system.upkeep._forget = die  # type: ignore[assignment]
        case ["pruned"]:
            ledger.done = die  # type: ignore[method-assign]
    system.upkeep.run(lambda: False)
    system.close()
