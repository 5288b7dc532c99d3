"""How long a page of the dashboard takes beside a ledger with a million operations."""

import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

from bench import null, servers
from bestbefore.app.listening import listen
from bestbefore.app.system import System
from bestbefore.app.triggers import Triggers
from bestbefore.domain.access import Scope, Token, token_digest, token_text
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.run import Trigger
from bestbefore.ports.ledger import DeadFilter
from bestbefore.ports.objects import Target
from bestbefore.ports.stores import Store
from bestbefore.stages.work import Options
from bestbefore.web.app import create_app
from bestbefore.web.desk import Desk
from bestbefore.web.server import Server

_SLOT = datetime(2026, 7, 1, tzinfo=UTC)
_TIMES = 7
_CEILING_MS = 300


class _DenyingStore(null.NullStore):
    """Denies every tenth delete."""

    def delete(self, _bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        return [
            Failure(FailureClass.MALFORMED, f"s3://bucket/{target.key}: InvalidRequest")
            if target.key[-6] == "0"
            else Outcome.DELETED
            for target in targets
        ]


def measure(commands: int) -> None:
    """Print the times of every page, on either state database."""
    _measure("SQLite", commands, None)
    if servers.there():
        with servers.database() as url:
            _measure("PostgreSQL", commands, url)


def _measure(name: str, commands: int, url: str | None) -> None:
    """The same on one of them, with some of the commands done, dead and left."""
    print(f"\npages of the dashboard beside {commands:,} operations ({name})")
    with tempfile.TemporaryDirectory() as folder:
        rule = null.policy()
        system = null.system(Path(folder), commands, rule, url)
        store = _DenyingStore(commands)
        system._make_store = lambda *_: Store(store, store)
        system.planner(rule).plan(rule, _SLOT, Trigger.PLAN, approved=True)
        _work(system, commands * 7 // 10)
        (run,) = system.records.runs()
        print(f"  {run.completed:,} completed, {run.dead:,} dead, {run.waiting:,} waiting, "
              f"{run.pending:,} pending")  # fmt: skip
        _ask(system, run.run_id)
        system.close()


def _work(system: System, until: int) -> None:
    done = 0

    def count(report: object) -> None:
        nonlocal done
        done = report.completed + report.dead  # type: ignore[attr-defined]

    system.working.worker(Options(drain=True), lambda: done >= until, count).run()


def _ask(system: System, run: str) -> None:
    now = system.clock.now()
    text = token_text(bytes(32))
    token = Token("bench", frozenset({Scope.OPERATE}), None, "bench", now)
    system.access.add_token(token, token_digest(text))
    (letter,) = system.dead_letters.dead(DeadFilter(), 1, looking_at=1)
    (incident,) = system.records.incidents(None, None, 1)
    front = system.impatient()
    listening = listen("127.0.0.1", 0)
    triggers = Triggers(front, system, Options(), lambda: False, work=False)
    desk = Desk(front, triggers, Options(), lambda: True, lambda: False)
    server = Server(create_app(desk), listening)
    server.start()
    try:
        connection = HTTPConnection(*listening.getsockname()[:2])
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/sign-in", urlencode({"token": text, "next": "/"}), form)
        answer = connection.getresponse()
        answer.read()
        cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]
        found = incident.incident.hex()
        for path in (
            "/", "/runs", f"/runs/{run}", "/dead-letters", f"/dead-letters?incident={found}",
            "/dead-letters?search=customer-00000009", f"/dead-letters?incident={found}&search=zzz",
            f"/dead-letters/{letter.operation_id.hex()}", "/audit", "/holds",
        ):  # fmt: skip
            _time(connection, path, cookie)
    finally:
        server.stop()
        server.join()
        triggers.close(1.0)
        front.close()


def _time(connection: HTTPConnection, path: str, cookie: str) -> None:
    took, busy = [], time.process_time()
    for _ in range(_TIMES):
        began = time.perf_counter()
        connection.request("GET", path, headers={"Cookie": cookie})
        answer = connection.getresponse()
        size = len(answer.read())
        took.append(1000 * (time.perf_counter() - began))
        assert answer.status == 200, (path, answer.status)
    busy = 1000 * (time.process_time() - busy) / _TIMES
    late = "" if max(took) < _CEILING_MS else f"  slower than {_CEILING_MS} ms"
    print(f"  {path[:60]:<62}{statistics.median(took):>6.0f} ms, at most {max(took):>5.0f}, "
          f"{busy:>4.0f} ms of processor time, "
          f"{size / 1000:>4.0f} kB{late}")  # fmt: skip
