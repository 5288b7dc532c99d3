"""A configuration over real parts, as somebody has it who runs the gate on it.

gates.state(postgres_url); gates.rabbitmq(rabbit); gates.objects(seaweed, bucket)
verdicts = gates.play()
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bestbefore.adapters.objects.s3 import S3Settings
from bestbefore.app.system import open_system
from bestbefore.gate.probe import Phase
from bestbefore.gate.run import Gate, chosen
from bestbefore.gate.scenario import Verdict
from bestbefore.gate.scenarios import slots
from bestbefore.gate.stage import Rights
from support.rabbitmq import Rabbit
from support.sqs_servers import SqsServer


class Gates:
    """One configuration in *folder*, section by section."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "bestbefore.toml"
        self._sections: dict[str, Mapping[str, Any]] = {
            "state": {"url": f"sqlite:///{folder / 'bestbefore.db'}"}
        }

    def state(self, url: str) -> None:
        self._sections["state"] = {"url": url}

    def rabbitmq(self, rabbit: Rabbit) -> None:
        self._sections["queue"] = {"kind": "rabbitmq", "url": rabbit.url, "queue": rabbit.name()}

    def sqs(self, server: SqsServer) -> None:
        there = server.settings(server.queue())
        self._sections["queue"] = {
            "kind": "sqs",
            "queue_url": there.queue_url,
            "endpoint_url": there.endpoint_url,
            "access_key_id": there.access_key_id,
            "secret_access_key": there.secret_access_key,
        }

    def objects(self, there: S3Settings, bucket: str, **source: Any) -> None:
        """Have a policy over *bucket*; *source* are more of its keys."""
        self._sections["stores.exports"] = {
            "kind": "s3",
            "endpoint_url": there.endpoint_url,
            "region": there.region,
            "access_key_id": there.access_key_id,
            "secret_access_key": there.secret_access_key,
        }
        self._policy(bucket, source)

    def directory(self, root: Path, bucket: str) -> None:
        """Have a policy over the folder *bucket* in *root*."""
        self._sections["stores.exports"] = {"kind": "directory", "root": str(root)}
        self._policy(bucket, {})

    def _policy(self, bucket: str, source: Mapping[str, Any]) -> None:
        self._sections["policies.digests"] = {"version": "v1", "older_than": "30d"}
        self._sections["policies.digests.objects"] = {
            "store": "exports", "bucket": bucket, "prefix": "exports/", **source,
        }  # fmt: skip

    def rows(self, url: str) -> None:
        self._sections["databases.shop"] = {"url": url}

    def write(self) -> None:
        """Write the file at ``path``."""
        lines = []
        for name, keys in self._sections.items():
            lines.append(f"[{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        self.path.write_text("\n".join(lines))

    def play(self, *only: str, rights: Rights | None = None) -> Sequence[Verdict]:
        """What becomes of the scenarios called *only*, or of all."""
        self.write()
        with closing(open_system(self.path, os.environ)) as system:
            gate = Gate(system, rights)
            verdicts = gate.play(chosen(only), lambda: False)
            assert gate.leftovers() == []
        return verdicts


def failures(verdicts: Collection[Verdict]) -> Mapping[str, str | None]:
    """Why which scenarios failed."""
    return {v.scenario.name: v.reason for v in verdicts if v.ok is False}


@pytest.fixture
def gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gates:
    # How fast a machine is that runs other tests as well says nothing about the product.
    monkeypatch.setattr(Phase, "slower_than", lambda *_: False)
    monkeypatch.setattr(slots, "_ANSWER_SECONDS", 30.0)
    return Gates(tmp_path)
