"""Peak memory of a plan and its work, and of a dry run that lists everything, at 10,000 and at
1,000,000 listed keys."""

import json
import multiprocessing
import os
import resource
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench import null
from bestbefore.app.previewing import gather
from bestbefore.domain.policy import Reach
from bestbefore.domain.run import Trigger
from bestbefore.read.previews import target_document
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
        peaks |= {
            ("dry run with --list", keys): pool.apply(_listed, (keys,))
            for keys in (10_000, 1_000_000)
        }
    for (name, keys), peak in peaks.items():
        print(f"  {name:<24}{keys:>12,} keys  {peak / 1024:7.1f} MiB")


def _listed(keys: int) -> int:
    """Draw a plan, gather what it would remove, and go through all of that."""
    rule = null.policy()
    with tempfile.TemporaryDirectory() as folder:
        system = null.system(Path(folder), keys, rule)
        with system.scratch() as scratch, Path(os.devnull).open("w") as nowhere:
            run = system.planner(rule).preview(rule, _SLOT, scratch.plans, Trigger.PLAN)
            assert gather(system, rule, run, scratch.previews).n == keys
            targets = map(target_document, scratch.previews.selected(run))
            nowhere.writelines(map(json.dumps, targets))
        system.close()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _peak(keys: int, caps: bool) -> int:
    reach = Reach(max_deletes=keys, first_run_limit=keys) if caps else None
    rule = null.policy(reach)
    with tempfile.TemporaryDirectory() as folder:
        system = null.system(Path(folder), keys, rule)
        system.planner(rule).plan(rule, _SLOT, Trigger.PLAN, approved=not caps)
        report = system.working.worker(Options(drain=True), lambda: False).run()
        assert report.completed == keys
        system.close()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
