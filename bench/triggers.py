"""How long callers of `POST /cleanup/plan` wait while a million commands are pending."""

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from bench import null, servers
from bench.rounds import HERE
from bestbefore.domain.run import Trigger

_SLOT = datetime(2026, 7, 1, tzinfo=UTC)
_CALLERS = 200
_SLOTS = 200
_FILES = 1_000
_OLD = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def measure(commands: int) -> None:
    """Print what callers wait for, on either state database."""
    with tempfile.TemporaryDirectory() as folder:
        _measure("SQLite", Path(folder), commands, None)
    if servers.there():
        with servers.database() as url, tempfile.TemporaryDirectory() as folder:
            _measure("PostgreSQL", Path(folder), commands, url)


def _measure(name: str, folder: Path, commands: int, url: str | None) -> None:
    _fill(folder, commands, url)
    _write_files(folder)
    _configure(folder, url)
    token = json.loads(_bestbefore(folder, "token", "add", "bench", "--scope", "trigger"))["token"]
    print(f"\nPOST /cleanup/plan beside {commands:,} commands that wait ({name})")
    with _serving(folder) as address:
        _trigger(address, token)


def _fill(folder: Path, commands: int, url: str | None) -> None:
    """A policy whose commands wait for a worker."""
    rule = null.policy()
    system = null.system(folder, commands, rule, url)
    system.planner(rule).plan(rule, _SLOT, Trigger.PLAN)
    system.close()


def _write_files(folder: Path) -> None:
    bucket = folder / "data" / "files"
    bucket.mkdir(parents=True)
    for number in range(_FILES):
        path = bucket / f"{number:05}.json"
        path.write_bytes(b"old")
        os.utime(path, (_OLD, _OLD))


def _configure(folder: Path, url: str | None) -> None:
    rule = null.policy()
    (folder / "bestbefore.toml").write_text(
        f"""
[state]
url = {json.dumps(url or "sqlite:///state.db")}
[stores.null]
kind = "s3"
endpoint_url = "http://127.0.0.1:9"
region = "us-east-1"
[stores.disk]
kind = "directory"
root = "data"
[policies.{rule.name}]
version = "{rule.version}"
owner = "{rule.owner}"
older_than = "30d"
[policies.{rule.name}.objects]
store = "null"
bucket = "bucket"
prefix = "exports/"
[policies.files]
version = "v1"
older_than = "30d"
[policies.files.objects]
store = "disk"
bucket = "files"
whole_bucket = true
"""
    )


def _bestbefore(folder: Path, *words: str) -> str:
    command = [HERE / "bestbefore", *words, "--config", folder / "bestbefore.toml", "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextmanager
def _serving(folder: Path) -> Iterator[str]:
    command = [HERE / "bestbefore", "serve", "--no-work", "--port", "0", "--json", "--config"]
    with subprocess.Popen(
        [*command, folder / "bestbefore.toml"],
        stdout=subprocess.PIPE,
        stderr=(folder / "log").open("w"),
        text=True,
    ) as process:
        assert process.stdout is not None
        said = ""
        while "}" not in said:
            line = process.stdout.readline()
            assert line, (folder / "log").read_text()
            said += line
        try:
            yield json.loads(said)["url"]
        finally:
            process.terminate()


def _trigger(address: str, token: str) -> None:
    """Everybody for one slot at once, and then one slot after the other."""
    head = {"authorization": f"Bearer {token}"}
    with httpx.Client(
        base_url=address, headers=head, timeout=60, limits=httpx.Limits(max_connections=_CALLERS)
    ) as client:

        def call(minutes: int) -> tuple[float, int, str]:
            slot = (_SLOT + timedelta(minutes=minutes)).isoformat()
            began = time.perf_counter()
            answer = client.post("/cleanup/plan", json={"policy": "files", "slot": slot})
            ids = ",".join(answer.json().get("run_ids", []))
            return time.perf_counter() - began, answer.status_code, ids

        with ThreadPoolExecutor(_CALLERS) as callers:
            at_once = list(callers.map(call, [0] * _CALLERS))
        one_by_one = [call(1 + number) for number in range(_SLOTS)]
    runs = {ids for _, _, ids in at_once}
    _print(f"{_CALLERS} callers for one slot ({len(runs)} run)", at_once)
    _print(f"{_SLOTS} slots, one after the other ({_FILES:,} files each)", one_by_one)


def _print(what: str, answers: Sequence[tuple[float, int, str]]) -> None:
    times = sorted(seconds * 1000 for seconds, _, _ in answers)
    codes = Counter(code for _, code, _ in answers)
    said = ", ".join(f"{n} x {code}" for code, n in sorted(codes.items()))
    p99 = times[int(len(times) * 0.99) - 1]
    print(f"  {what:<58}p50 {statistics.median(times):7.1f} ms  p99 {p99:7.1f} ms  {said}")
