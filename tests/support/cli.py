"""The command line as a user has it: a folder with a ``bestbefore.toml``, commands, answers.

    cli = Cli(tmp_path, forks, faulty.endpoint)
    cli.policy("exports", bucket="exports", prefix="exports/", older_than="30d")
    assert cli("plan", "exports", "--json").json["eligible"] == 3
    with cli.start("work") as worker: ...

Each command is a process of its own. Python's start-up is saved by forking (`support.forks`);
``executable=True`` pays for it and runs the console script.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.audit import Audit, PostgresAudit
from support.faults import FaultyS3
from support.forks import Child, Forks, until
from support.ledgers import new_ledger

EXECUTABLE = Path(sys.executable).with_name("bestbefore")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
PARTS = (
    "published",
    "waiting",
    "already_pending",
    "already_completed",
    "already_dead",
    "reappeared",
    "refused",
)
"""What ``eligible`` is the sum of."""


@dataclass(frozen=True)
class Reply:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The documents of JSON Lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """One configuration in *folder*, and the commands that are run with it."""

    def __init__(
        self,
        folder: Path,
        forks: Forks,
        endpoint: str,
        identity: tuple[str, str] = ("key-id", "secret"),
        state: str | None = None,
    ) -> None:
        self.folder = folder
        self.forks = forks
        self.stores: dict[str, dict[str, Any]] = {}
        self.policies: dict[str, dict[str, Any]] = {}
        self.extra = ""
        self.audit = PostgresAudit(state) if state else Audit(folder / "bestbefore.db")
        self.state = state
        self.store("s", endpoint, identity)

    def store(self, name: str, endpoint: str, identity: tuple[str, str]) -> None:
        """Set a store."""
        self.stores[name] = {
            "kind": "s3",
            "endpoint_url": endpoint,
            "region": "us-east-1",
            "access_key_id": identity[0],
            "secret_access_key": identity[1],
        }
        self.write()

    def policy(
        self,
        name: str,
        *,
        version: str = "v1",
        owner: str = "growth-team",
        older_than: str = "30d",
        more: Mapping[str, Any] | None = None,
        **objects: Any,
    ) -> None:
        """Set a policy; *more* are keys of the policy, the others of its ``objects``."""
        source = {"store": "s", "bucket": "exports", "prefix": "exports/"} | objects
        self.policies[name] = {
            "version": version,
            "owner": owner,
            "older_than": older_than,
            **(more or {}),
            "objects": {key: value for key, value in source.items() if value is not None},
        }
        self.write()

    def write(self) -> None:
        """Write the file."""
        parts = [self.extra]
        parts += [_section("state", {"url": self.state})] if self.state else []
        parts += [_section(f"stores.{name}", keys) for name, keys in self.stores.items()]
        for name, keys in self.policies.items():
            objects = keys["objects"]
            rest = {key: value for key, value in keys.items() if key != "objects"}
            parts.append(_section(f"policies.{name}", rest))
            parts.append(_section(f"policies.{name}.objects", objects))
        (self.folder / "bestbefore.toml").write_text("\n".join(parts), encoding="utf-8")

    def __call__(
        self,
        *arguments: str,
        code: int | None = 0,
        executable: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> Reply:
        """Run a command to its end; it must exit with *code* (anything of 0, 1, 2 if None)."""
        if executable:
            done = subprocess.run(
                [EXECUTABLE, *arguments],
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            reply = Reply(done.returncode, done.stdout, done.stderr)
        else:
            reply = finish(self.spawn(*arguments, env=env))
        check_output(reply, arguments)
        if code is None:
            assert reply.code in (0, 1, 2), (arguments, reply)
        else:
            assert reply.code == code, (arguments, reply)
        return reply

    def json(self, *arguments: str, code: int | None = 0) -> Any:
        """The JSON document a command prints with ``--json``."""
        document = self(*arguments, "--json", code=code).json
        plan = document.get("plan", document) if isinstance(document, dict) else {}
        if "eligible" in plan and "published" in plan:
            assert plan["eligible"] == sum(plan[part] for part in PARTS), plan
        return document

    def new_slot(self) -> None:
        """Wait for a second that no run has answered yet: without a schedule it is the slot."""
        newest = self.audit.one("SELECT coalesce(max(slot), 0) FROM runs") // 1_000_000
        until(lambda: int(time.time()) > newest, what="the next second")

    def spawn(self, *arguments: str, env: Mapping[str, str] | None = None) -> Child:
        """Start a command and leave it running."""
        return self.forks.start("support.harness:program", arguments, cwd=self.folder, env=env)

    @contextmanager
    def start(self, *arguments: str) -> Iterator[Child]:
        """A command that runs in the background while inside; killed at the end if need be."""
        child = self.spawn(*arguments)
        try:
            yield child
        finally:
            child.kill()
            child.wait()


def finish(child: Child, within: float = 90.0) -> Reply:
    """Wait for a command's end."""
    code = child.wait(within)
    return Reply(code, child.out.read_text(), child.said())


def check_output(reply: Reply, what: object = "") -> None:
    """Nothing a user may never see: a traceback, or a control character that reaches a terminal."""
    assert "Traceback" not in reply.out + reply.err, (what, reply.err, reply.out)
    assert not _CONTROL.search(reply.out), (what, reply.out)
    assert not _CONTROL.search(reply.err), (what, reply.err)


def _section(name: str, keys: Mapping[str, Any]) -> str:
    lines = [f"[{name}]"]
    lines += [f"{key} = {_value(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(v)}" for key, v in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


@pytest.fixture
def cli(tmp_path: Path, forks: Forks, faulty: FaultyS3) -> Cli:
    """The command line on `faulty`, with a policy ``exports`` whose commands fail at once."""
    new_ledger(tmp_path / "bestbefore.db")
    made = Cli(tmp_path, forks, faulty.endpoint)
    made.policy("exports", more={"attempts": {"permission": 1, "unknown": 1}})
    faulty.buckets.add("exports")
    return made


def fill(server: FaultyS3, n: int, prefix: str = "exports/", bucket: str = "exports") -> list[str]:
    """*n* old objects; returns their keys."""
    keys = [f"{prefix}{number:05}.json" for number in range(n)]
    for key in keys:
        server.put(bucket, key, key.encode())
    return keys
