"""Peak memory of a plan and its work, at 10,000 and at 1,000,000 listed keys."""

import multiprocessing
import resource
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench import null
from bestbefore.domain.policy import Reach
from bestbefore.domain.run import Trigger
from bestbefore.stages.work import Options

_SLOT = datetime(2026, 7, 1, tzinfo=UTC)


def measure() -> None:
    """Print both peaks, each of a process of its own."""
    print("\npeak memory of plan and work in one process (null store)")
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        peaks = {
            (name, keys): pool.apply(_peak, (keys, caps))
            for name, caps in (("page by page", False), ("decide, then publish", True))
            for keys in (10_000, 1_000_000)
        }
    for (name, keys), peak in peaks.items():
        print(f"  {name:<24}{keys:>12,} keys  {peak / 1024:7.1f} MiB")


def _peak(keys: int, caps: bool) -> int:
    rule = null.policy(Reach(max_deletes=keys) if caps else None)
    with tempfile.TemporaryDirectory() as folder:
        system = null.system(Path(folder), keys, rule)
        system.planner(rule).plan(rule, _SLOT, Trigger.PLAN)
        report = system.working.worker(Options(drain=True), lambda: False).run()
        assert report.completed == keys
        system.close()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
