"""``bestbefore serve`` as a user runs it: a process on a port that the system chose.

with Served(cli) as there:
    assert there.post("/cleanup/plan", json={"policy": "exports"}).status_code == 202

Unless told otherwise, a request carries a token that may do everything.
"""

import json
import signal
from datetime import UTC, datetime
from typing import Any, Self

import httpx
import pytest
from standardwebhooks import Webhook

from support.cli import Cli
from support.faults import FaultyS3
from support.forks import Child, Forks, until

HMAC_KEY = bytes(range(32))
HMAC_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
TRIGGER_SECRET = "trigger-" + "0123456789abcdef" * 2
SECTION = f'[serve]\nhmac_secret = "{HMAC_SECRET}"\ntrigger_secret = "{TRIGGER_SECRET}"\n'


class Served:
    """One serving process on *cli*'s configuration. *words* are more of its arguments."""

    def __init__(self, cli: Cli, *words: str) -> None:
        self.cli = cli
        self._words = words
        self.tokens: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.child: Child = self.cli.spawn("serve", "--port", "0", "--json", *self._words)

        self.url = until(lambda: listens_at(self.child), 60, "a server that listens")
        self.http = httpx.Client(base_url=self.url, timeout=60)
        until(lambda: self.http.get("/readyz").status_code == 200, what="readiness")
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.child.kill()
        self.child.wait()

    def stop(self) -> int:
        """Ask it to end; returns its exit status."""
        self.child.kill(signal.SIGTERM)
        return self.child.wait()

    def token(self, *scopes: str) -> str:
        """A token with these scopes."""
        name = "-".join(scopes)
        if name not in self.tokens:
            words = [word for scope in scopes for word in ("--scope", scope)]
            self.tokens[name] = self.cli(
                "token", "add", f"{name}-{self.child.pid}", *words
            ).out.strip()
        return self.tokens[name]

    def ask(
        self,
        method: str,
        path: str,
        scopes: tuple[str, ...] = ("operate", "trigger"),
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> httpx.Response:
        """Send one request; without *scopes* it says nothing of who sends it."""
        said = {"Authorization": f"Bearer {self.token(*scopes)}"} if scopes else {}
        return self.http.request(method, path, headers=said | (headers or {}), **more)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("POST", path, **more)

    def json(self, path: str) -> Any:
        """The document at *path*."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


def listens_at(child: Child) -> str | None:
    """Where *child* says that it listens, once it does."""
    assert child.running, child.said()
    text = child.out.read_text() if child.out.exists() else ""
    return str(json.loads(text)["url"]) if text.endswith("}\n") else None


def signed(body: bytes, sender_id: str, at: datetime | None = None) -> dict[str, str]:
    """Headers of Standard Webhooks, by an independent signer."""
    at = at or datetime.now(UTC)
    return {
        "webhook-id": sender_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(HMAC_KEY).sign(sender_id, at, body.decode()),
        "content-type": "application/json",
    }


@pytest.fixture
def site(tmp_path: Any, forks: Forks, faulty: FaultyS3, state: str | None) -> Cli:
    """The command line with secrets, on either state database, and a policy ``exports``."""
    made = Cli(tmp_path, forks, faulty.endpoint, state=state)
    made.extra = SECTION
    made.policy("exports", more={"attempts": {"permission": 1, "unknown": 1}})
    faulty.buckets.add("exports")
    return made
