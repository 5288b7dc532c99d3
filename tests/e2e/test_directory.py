"""A directory store from the command line: what docs/directory.md says to type, mistakes, kills."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.cli import Cli
from support.directory import put
from support.docs import commands, configurations
from support.forks import Forks, until
from support.harness import SharedClock

OLD = datetime.now(UTC) - timedelta(days=400)


@pytest.fixture
def files(tmp_path: Path, forks: Forks) -> Cli:
    """The command line, with a policy ``exports`` over files in ``data/exports``."""
    made = Cli(tmp_path, forks, "http://127.0.0.1:9")
    made.stores["s"] = {"kind": "directory", "root": "data"}
    made.policy("exports", more={"attempts": {"permission": 1, "unknown": 1}})
    (tmp_path / "data" / "exports").mkdir(parents=True)
    return made


def fill(cli: Cli, n: int, *, folders: int = 3, modified: datetime = OLD) -> list[Path]:
    bucket = cli.folder / "data" / "exports"
    return [
        put(bucket, f"exports/{number % folders}/{number:05} ü+%41.json", b"x", modified)
        for number in range(n)
    ]


def left(cli: Cli) -> list[str]:
    bucket = cli.folder / "data" / "exports"
    return sorted(str(p.relative_to(bucket)) for p in bucket.rglob("*") if not p.is_dir())


def test_the_page_in_docs_does_what_it_says(tmp_path: Path, forks: Forks) -> None:
    (configuration,) = configurations("directory.md")
    cli = Cli(tmp_path, forks, "http://127.0.0.1:9")
    (tmp_path / "bestbefore.toml").write_text(configuration)
    reports = tmp_path / "data" / "reports"
    for key in ("2026-01/a.csv", "2026-01/line\nbreak.csv", "2026-02/a.csv", "2026-01/a.txt"):
        put(reports, key, b"x", OLD)
    put(reports, "2026-02/young.csv", b"x", datetime.now(UTC))
    answers = {line[0]: cli(*line, "--json").json for line in commands("directory.md")}
    assert answers["check"]["ok"], answers["check"]
    assert "delete-allowed" in {finding["code"] for finding in answers["check"]["findings"]}
    assert (answers["plan"]["scanned"], answers["plan"]["eligible"]) == (5, 2)
    assert answers["explain"]["eligible"]
    assert answers["run"]["work"]["outcomes"] == {"deleted": 2}
    assert answers["run"]["state"] == "drained"
    assert answers["verify"]["overdue"] == 0
    assert sorted(p.name for p in reports.rglob("*.*")) == ["a.csv", "a.txt", "young.csv"]
    assert cli.audit.problems() == []


def test_a_changed_and_a_missing_file_are_told_apart_from_what_is_deleted(files: Cli) -> None:
    changed, missing, *_ = fill(files, 10)
    files("plan", "exports")
    changed.write_text("newer")
    missing.unlink()
    worked = files.json("work", "--drain")
    assert worked["outcomes"] == {"absent": 1, "changed": 1, "deleted": 8}
    assert left(files) == ["exports/0/00000 ü+%41.json"]
    assert files.json("verify", "exports")["overdue"] == 0


def test_the_same_slot_twice_is_one_run(files: Cli) -> None:
    fill(files, 5)
    slot = ("--slot", "2026-11-01T02:00:00Z")
    first = files.json("run", "exports", *slot)
    again = files.json("run", "exports", *slot)
    assert again["plan"]["run_id"] == first["plan"]["run_id"]
    assert again["plan"]["repeated"]
    assert again["work"]["received"] == 0


def test_a_pointer_and_a_hold_keep_files_as_they_keep_objects(files: Cli, tmp_path: Path) -> None:
    bucket = tmp_path / "data" / "exports"
    for generation in ("2026-01", "2026-02", "2026-03"):
        put(bucket, f"exports/{generation}/a.json", b"x", OLD)
    put(bucket, "exports/current.json", b"exports/2026-02/", OLD)
    pointer = "exports/current.json"
    pattern = r"exports/(?P<generation>\d{4}-\d{2})/"
    files.policy("exports", generation=pattern, current_pointer=pointer)
    files("hold", "add", "--store", "s", "--bucket", "exports", "--prefix", "exports/2026-03/",
          "--reason", "audit")  # fmt: skip
    assert "pointer-read" in {f["code"] for f in files.json("check")["findings"]}
    assert files.json("run", "exports")["work"]["outcomes"] == {"deleted": 1}
    assert left(files) == [
        "exports/2026-02/a.json",
        "exports/2026-03/a.json",
        "exports/current.json",
    ]


def test_names_no_command_can_carry_are_refused_and_their_neighbours_go(files: Cli) -> None:
    (good,) = fill(files, 1)
    odd = os.fsencode(good.parent) + b"/caf\xe9.json"
    os.close(os.open(odd, os.O_CREAT))
    os.utime(odd, (OLD.timestamp(), OLD.timestamp()))
    long = good.parent.joinpath(*["x" * 200] * 6)
    long.parent.mkdir(parents=True)
    long.touch()
    os.utime(long, (OLD.timestamp(), OLD.timestamp()))
    plan = files.json("run", "exports", code=None)["plan"]
    assert (plan["scanned"], plan["eligible"], plan["refused"]) == (3, 3, 2)
    assert not good.exists()
    assert long.exists()
    assert os.path.exists(odd)  # noqa: PTH110  (bytes)


@pytest.fixture
def immutable(files: Cli) -> Iterator[Path]:
    """A folder of six old files that not even root may delete from; ``chattr -i`` ends it."""
    folder = fill(files, 6, folders=1)[0].parent
    done = subprocess.run(["chattr", "+i", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no immutable folders here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["chattr", "-i", folder], check=True)


def test_a_dead_letter_is_redriven_once_its_folder_may_be_written_to(
    files: Cli, immutable: Path, tmp_path: Path
) -> None:
    put(tmp_path / "data" / "exports", "exports/good.json", b"x", OLD)
    ran = files.json("run", "exports", code=1)
    assert ran["work"]["outcomes"] == {"deleted": 1}
    letter, *others = files.json("dlq", "list")
    assert len(others) == 5
    assert letter["failure_class"] == "permission"
    assert "Operation not permitted (EPERM); look for a sticky bit" in letter["error"]
    corrected = ("dlq", "redrive", "--id", letter["operation_id"], "--set")
    assert "no part that is empty" in files(*corrected, "key=../secret.json", code=2).err
    subprocess.run(["chattr", "-i", immutable], check=True)
    files("dlq", "redrive", "--class", "permission")
    assert files.json("work", "--drain")["outcomes"] == {"deleted": 6}
    assert left(files) == []
    assert files.audit.problems() == []


@pytest.mark.parametrize("key", ["../secret", "/etc/passwd", "exports//a", "exports/../../secret"])
def test_a_key_that_is_no_path_in_the_bucket_is_refused_by_name(files: Cli, key: str) -> None:
    fill(files, 1)
    assert 'no part that is empty, "." or ".."' in files("explain", "exports", key, code=2).err


def test_a_disk_that_is_gone_plans_nothing_and_pauses_what_was_planned(
    files: Cli, tmp_path: Path
) -> None:
    fill(files, 20)
    files("plan", "exports")
    (tmp_path / "data").rename(tmp_path / "unmounted")
    reply = files("plan", "exports", code=2)
    assert "is its disk mounted?" in reply.err
    worked = files.json("work", "--drain", code=None)
    assert worked["dead"] <= 1
    assert "is its disk mounted?" in str(files.json("status"))
    (tmp_path / "unmounted").rename(tmp_path / "data")
    files("resume", "exports")
    files("dlq", "redrive", "--all", code=None)
    files("work", "--drain")
    assert left(files) == []
    assert files.audit.problems() == []


def test_a_folder_on_another_disk_under_the_same_name_parks_the_next_run(
    files: Cli, tmp_path: Path
) -> None:
    elsewhere = Path("/dev/shm") / f"bestbefore-test-{os.getpid()}"  # noqa: S108
    if not elsewhere.parent.is_dir() or elsewhere.parent.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system at /dev/shm")
    fill(files, 3)
    files("plan", "exports", "--slot", "2026-11-01T02:00:00Z")
    try:
        shutil.copytree(tmp_path / "data", elsewhere)
        shutil.rmtree(tmp_path / "data")
        (tmp_path / "data").symlink_to(elsewhere)
        worked = files.json("work", "--drain", code=None)
        assert worked["outcomes"] == {}
        assert "planned at fs-" in str(files.json("status"))
        assert len(left(files)) == 3
        files("resume", "exports")
        parked = files.json("run", "exports", "--slot", "2026-11-02T02:00:00Z", code=1)
        assert parked["state"] == "parked"
    finally:
        shutil.rmtree(elsewhere)


@pytest.mark.parametrize("after", [1, 40, 99])
def test_a_worker_killed_in_the_middle_of_a_batch_loses_and_repeats_nothing(
    files: Cli, tmp_path: Path, after: int
) -> None:
    """A real SIGKILL right behind one unlink of a batch: deleted, and not recorded."""
    clock = SharedClock(tmp_path / "clock")
    fill(files, 250)
    put(tmp_path / "data" / "exports", "exports/young.json", b"x", datetime.now(UTC))
    files("plan", "exports")
    files.audit.watch()
    arguments = [str(after), "4"]
    killed = files.forks.start("support.harness:worker_killed_after", arguments, cwd=tmp_path)
    assert killed.wait() == -9
    gone = 251 - len(left(files))
    recorded = files.audit.one("SELECT completed FROM runs")
    assert gone >= after
    assert recorded < gone
    assert files.audit.problems() == []
    clock.step(timedelta(seconds=61))
    again = files.forks.start("support.harness:worker", ["4", "drain"], cwd=tmp_path)
    assert again.wait() == 0, again.said()
    clock.close()
    assert files.audit.problems() == []
    assert files.audit.completed_twice() == []
    assert left(files) == ["exports/young.json"]
    outcomes = dict(
        map(tuple, files.audit.rows("SELECT outcome, count(*) FROM operations GROUP BY outcome"))
    )
    assert outcomes == {"absent": gone - recorded, "deleted": 250 - gone + recorded}


def test_a_plan_that_is_killed_goes_on_behind_its_last_page(files: Cli, tmp_path: Path) -> None:
    clock = SharedClock(tmp_path / "clock")
    fill(files, 3_500, folders=1)
    files("status")  # makes the schema
    first = files.forks.start("support.harness:planner", ["exports"], cwd=tmp_path)
    until(
        lambda: files.audit.one("SELECT coalesce(max(planned), 0) FROM runs") or not first.running,
        what="the first page",
    )
    first.kill()
    first.wait()
    assert files.audit.problems() == []
    clock.step(timedelta(seconds=61))
    again = files.forks.start("support.harness:worker", ["4", "drain"], cwd=tmp_path)
    assert again.wait() == 0, again.said()
    clock.close()
    (run,) = files.json("runs", "list")
    assert run["state"] == "drained"
    assert files.audit.one("SELECT planned FROM runs") == 3_500
    assert files.audit.one("SELECT already_pending FROM runs") == 0
    assert left(files) == []
    assert files.audit.problems() == []
