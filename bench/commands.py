"""Commands a second through plan, dispatch, work and ack, with a null store."""

import multiprocessing
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench import null, postgresql
from bestbefore.domain.run import Trigger
from bestbefore.stages.work import Options

_SLOT = datetime(2026, 7, 1, tzinfo=UTC)


def measure(commands: int) -> None:
    """Print the rates of one process after the other, of one process, and of two at once."""
    print(f"\n{commands:,} commands through plan, dispatch, work and ack (SQLite, null store)")
    for name, way in (
        ("plan, then work", _one_after_the_other),
        ("run: one process", _one_process),
        ("plan beside work: two processes", _two_processes),
    ):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            detail = way(Path(folder), commands)
            seconds = time.perf_counter() - began
            size = (Path(folder) / "state.db").stat().st_size
        print(
            f"  {name:<34}{commands / seconds:>8,.0f}/s  {seconds:6.1f} s  "
            f"{size / commands:.0f} bytes each  {detail}"
        )
    postgresql.measure(commands)


def _one_after_the_other(folder: Path, commands: int) -> str:
    rule = null.policy()
    system = null.system(folder, commands, rule)
    began = time.perf_counter()
    system.planner(rule).plan(rule, _SLOT, Trigger.PLAN, approved=True)
    planned = time.perf_counter()
    _work(system)
    worked = time.perf_counter()
    _check(system, commands)
    return (
        f"plan {commands / (planned - began):,.0f}/s, work {commands / (worked - planned):,.0f}/s"
    )


def _one_process(folder: Path, commands: int) -> str:
    rule = null.policy()
    system = null.system(folder, commands, rule)
    system.run(
        rule,
        _SLOT,
        Options(drain=True),
        approved=True,
        on_page=lambda _: None,
        on_progress=lambda _: None,
        stopping=lambda: False,
    )
    _check(system, commands)
    return ""


def _two_processes(folder: Path, commands: int) -> str:
    rule = null.policy()
    system = null.system(folder, commands, rule)
    started = multiprocessing.Event()
    worker = multiprocessing.get_context("fork").Process(
        target=_work_beside, args=(folder, commands, started)
    )
    worker.start()
    planner = system.planner(rule, on_page=lambda _: started.set())
    began = time.perf_counter()
    planner.plan(rule, _SLOT, Trigger.PLAN, approved=True)
    planned = time.perf_counter() - began
    worker.join()
    _check(system, commands)
    return f"planned within {planned:.1f} s"


def _work_beside(folder: Path, commands: int, started) -> None:  # type: ignore[no-untyped-def]
    started.wait()
    _work(null.system(folder, commands, null.policy()))


def _work(system) -> None:  # type: ignore[no-untyped-def]
    system.working.worker(Options(drain=True), lambda: False).run()


def _check(system, commands: int) -> None:  # type: ignore[no-untyped-def]
    (run,) = system.records.runs()
    assert (run.completed, run.waiting, run.pending, run.dead) == (commands, 0, 0, 0)
    system.close()
