"""How long callers of `POST /cleanup/plan` wait while a million commands are pending."""

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
    system.planner(rule).plan(rule, _SLOT, Trigger.PLAN, approved=True)
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
    at_once = asyncio.run(_calls(address, token, [_SLOT] * _CALLERS, together=True))
    slots = [_SLOT + timedelta(minutes=1 + number) for number in range(_SLOTS)]
    one_by_one = asyncio.run(_calls(address, token, slots, together=False))
    runs = {ids for _, _, ids in at_once}
    _print(f"{_CALLERS} callers for one slot ({len(runs)} run)", at_once)
    _print(f"{_SLOTS} slots, one after the other ({_FILES:,} files each)", one_by_one)


_Answer = tuple[float, int, str]


async def _calls(
    address: str, token: str, slots: Sequence[datetime], *, together: bool
) -> Sequence[_Answer]:
    """One call for each slot, every caller with a connection of its own that is open already.

    Written to the socket, as what is measured is the server: an HTTP library for two hundred
    callers takes as much of the machine as the server does (seen: 1.9 s instead of 0.9 s).
    """
    host, _, port = address.removeprefix("http://").partition(":")
    connections = [await asyncio.open_connection(host, int(port)) for _ in slots]
    asked = [_request(address, token, slot) for slot in slots]
    calls = [_call(*pair, body) for pair, body in zip(connections, asked, strict=True)]
    answers = await asyncio.gather(*calls) if together else [await call for call in calls]
    for _, writer in connections:
        writer.close()
    return answers


def _request(address: str, token: str, slot: datetime) -> bytes:
    body = json.dumps({"policy": "files", "slot": slot.isoformat()})
    head = [
        "POST /cleanup/plan HTTP/1.1",
        f"host: {address.removeprefix('http://')}",
        f"authorization: Bearer {token}",
        "content-type: application/json",
        f"content-length: {len(body)}",
    ]
    return ("\r\n".join(head) + "\r\n\r\n" + body).encode()


async def _call(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> _Answer:
    """How long an answer took, its status, and the runs it names."""
    began = time.perf_counter()
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length:")[2].split()[0])
    answer = json.loads(await reader.readexactly(length))
    seconds = time.perf_counter() - began
    return seconds, int(head.split()[1]), ",".join(answer.get("run_ids", []))


def _print(what: str, answers: Sequence[_Answer]) -> None:
    times = sorted(seconds * 1000 for seconds, _, _ in answers)
    codes = Counter(code for _, code, _ in answers)
    said = ", ".join(f"{n} x {code}" for code, n in sorted(codes.items()))
    p99 = times[int(len(times) * 0.99) - 1]
    print(f"  {what:<58}p50 {statistics.median(times):7.1f} ms  p99 {p99:7.1f} ms  {said}")
