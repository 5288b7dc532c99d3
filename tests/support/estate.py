"""A real `bestbefore serve` with something to see: an S3 server, a table, dead letters, a parked
run; and a real browser in front of it.

Keys are what others chose: scripts, line breaks, marks that turn the direction of writing; row ids
are beyond 2**53.
"""

import json
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from bestbefore.app.system import open_system
from bestbefore.ports.slots import Expected
from support.cli import Cli
from support.faults import FaultyS3
from support.forks import Forks
from support.served import Served

CHROMIUM = os.environ.get("BESTBEFORE_TEST_CHROMIUM", "/usr/bin/chromium")

SCRIPTS = (
    '"><svg onload=alert(1)>.ext',
    "x');alert(1)//.csv",
    "<img src=x onerror=alert(1)>.json",
    "</title><script>alert(1)</script>",
    "{{ 7 * 7 }}.txt",
)
BROKEN = "line\nbreak\r.json"
TURNED = "\u202egnp.exe"
HOSTILE = (*SCRIPTS, BROKEN, TURNED)
ORDERS = (844197938335842304, 844197938335842305)
"""Row ids that JavaScript's numbers cannot tell apart."""

PARKED, SCHEDULED = "logs", "nightly"
_PREFIX = "exports/"


class Estate:
    """The service at ``url``, and tokens to sign in with."""

    def __init__(self, folder: Path, forks: Forks, s3: FaultyS3) -> None:
        self.s3 = s3
        self.cli = Cli(folder, forks, s3.endpoint)
        self.orders = folder / "orders.db"
        self._configure()
        self._fill()
        self.operator = self._token("boss", "operate")
        self.reader = self._token("auditor", "read")
        self.trigger = self._token("cron", "trigger")
        for policy in ("exports", PARKED, "orders"):
            self.plan(policy)
        self.cli("work", "--drain", code=1)
        self.url = ""
        self.cookies: dict[str, Any] = {}

    def plan(self, policy: str) -> Any:
        """Plan a slot that nobody has answered yet."""
        self.cli.new_slot()
        slot = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # or an open run would go on
        return self.cli.json("plan", policy, "--slot", slot, code=None)

    def key(self, name: str) -> str:
        return _PREFIX + name

    def repair(self, *names: str) -> None:
        """Let the objects called *names* be deleted."""
        for name in names:
            self.s3.refuse(self.key(name), "AccessDenied", times=0)

    def refuse(self, *names: str) -> None:
        """Have the store deny the deletes of old objects called *names*."""
        for name in names:
            self.s3.put("exports", self.key(name), name.encode())
            self.s3.refuse(self.key(name), "AccessDenied")

    def fill_logs(self, keep: str | None = None) -> None:
        """Have five objects, and nothing else but *keep*, where `PARKED` looks."""
        for key in self.s3.keys("logs") - {keep}:
            del self.s3.objects["logs", key]
        for number in range(5):
            self.s3.put("logs", f"old/{number}.log", secrets.token_bytes(8))

    def let_orders_go(self) -> None:
        self._sql("DROP TRIGGER kept")

    def orders_left(self) -> list[int]:
        return [row[0] for row in self._sql("SELECT id FROM orders ORDER BY id")]

    def events(self, action: str) -> list[tuple[str, str]]:
        """Who did *action*, and with which detail, oldest first."""
        found = self.cli.audit.rows(
            'SELECT "by", detail FROM events WHERE action = ? ORDER BY id', action
        )
        return [tuple(row) for row in found]

    def states(self) -> dict[str, int]:
        """Operations by state."""
        found = self.cli.audit.rows("SELECT state, count(*) FROM operations GROUP BY state")
        return {row[0]: row[1] for row in found}

    def dead(self, part: str) -> int:
        """How many commands whose key contains *part* are dead."""
        found: int = self.cli.audit.one(
            "SELECT count(*) FROM operations WHERE state = 'dead' AND key LIKE ?", f"%{part}%"
        )
        return found

    def order(self, number: int) -> tuple[str, int]:
        """The state of the command about an order, and how often it was redriven."""
        (found,) = self.cli.audit.rows(
            "SELECT state, redriven FROM operations WHERE key LIKE ?", f'%"{number}"]'
        )
        return tuple(found)

    def miss_slots(self, days: int) -> None:
        """Have the schedule of `SCHEDULED` known for so many days in which nobody was there."""
        policy = self.cli.policies[SCHEDULED]
        now = datetime.now(UTC)
        system = open_system(self.cli.folder / "bestbefore.toml", {})
        try:
            for day in range(days, -1, -1):
                system.schedule.slots.look(
                    Expected(SCHEDULED, policy["schedule"], "UTC"),
                    timedelta(minutes=15),
                    now - timedelta(days=day),
                )
        finally:
            system.close()

    def _token(self, name: str, scope: str) -> str:
        text: str = self.cli.json("token", "add", name, "--scope", scope)["token"]
        return text

    def _configure(self) -> None:
        attempts = {"attempts": {"permission": 1, "unknown": 1}}
        self.cli.policy("exports", more=attempts)
        self.cli.policy(
            PARKED,
            bucket="logs",
            prefix="old/",
            more={"max_deletes": 2},
        )
        self.cli.policy(SCHEDULED, bucket="logs", prefix="new/", more={"schedule": "0 2 * * *"})
        # Of no interest here, and its own: rows are not what `Cli` writes.
        self.cli.extra = (
            f"[databases.shop]\nurl = {json.dumps(f'sqlite:///{self.orders}')}\n\n"
            '[policies.orders]\nversion = "v1"\nowner = "shop"\nolder_than = "30d"\n\n'
            '[policies.orders.rows]\ndatabase = "shop"\ntable = "orders"\n'
            'timestamp = "placed_at"\ntimestamp_zone = "UTC"\nbatch_size = 1\n'
        )
        self.cli.write()

    def _fill(self) -> None:
        self.refuse(*HOSTILE)
        for number in range(5):
            self.s3.put("exports", self.key(f"plain-{number}.json"))
        self.fill_logs()
        self._sql(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, placed_at TIMESTAMP)",
            *(f"INSERT INTO orders VALUES ({order}, '2026-01-01')" for order in (1, *ORDERS)),  # noqa: S608
            "CREATE INDEX by_date ON orders (placed_at, id)",
            "CREATE TRIGGER kept BEFORE DELETE ON orders WHEN OLD.id > 1 "
            "BEGIN SELECT RAISE(ABORT, 'an invoice refers to it'); END",
        )

    def _sql(self, *statements: str) -> list[Any]:
        with closing(sqlite3.connect(self.orders)) as connection, connection:
            return [row for one in statements for row in connection.execute(one).fetchall()]


class Visitor:
    """Somebody with a browser. Notes what a page must never do: log an error, ask elsewhere, open a
    dialog, break the content security policy."""

    def __init__(self, browser: Browser, estate: Estate, **options: Any) -> None:
        self.estate = estate
        self.context: BrowserContext = browser.new_context(base_url=estate.url, **options)
        self.context.set_default_timeout(10_000)
        self.wrong: list[str] = []
        self.page: Page = self.context.new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._asked)

    def come_back(self, token: str) -> None:
        """Be signed in, in the session that an earlier visitor began with *token*."""
        if token not in self.estate.cookies:
            self.sign_in(token)
            self.estate.cookies[token] = self.context.cookies()
        self.context.add_cookies(self.estate.cookies[token])
        self.page.goto("/")

    def sign_in(self, token: str) -> None:
        self.page.goto("/sign-in")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()

    def close(self) -> None:
        self.context.close()

    def _said(self, message: Any) -> None:
        # An answer of 4xx is logged as an error by the browser itself.
        if message.type == "error" and "the server responded with a status" not in message.text:
            self.wrong.append(f"console: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.estate.url, "data:")):
            self.wrong.append(f"request: {request.url}")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, headless."""
    if not Path(CHROMIUM).exists():
        absent = f"no Chromium at {CHROMIUM}; install Debian's, or set BESTBEFORE_TEST_CHROMIUM"
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def estate(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Iterator[Estate]:
    """One for a whole module: each test has to leave what others need."""
    with FaultyS3() as s3:
        made = Estate(tmp_path_factory.mktemp("estate"), forks, s3)
        with Served(made.cli) as there:
            made.url = there.url
            yield made
