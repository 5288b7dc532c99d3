"""`bestbefore serve` as a process: ready when it is, goes on by itself, ends when it is told."""

import signal
import threading
import time
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from bestbefore.app.service import Service
from support.cli import Cli, fill
from support.faults import FaultyS3
from support.forks import Forks, until
from support.proxy import Proxy
from support.served import SECTION, Served

SLOT = "2026-06-01T02:00:00Z"


def test_it_works_on_what_another_process_planned_and_ends_in_peace(
    site: Cli, faulty: FaultyS3
) -> None:
    keys = fill(faulty, 5)
    with Served(site) as there:
        site("plan", "exports", "--slot", SLOT)
        until(lambda: not faulty.keys("exports") & set(keys), what="objects that are gone")
        assert there.stop() == 0
        assert "Traceback" not in there.child.said()
        with pytest.raises(httpx.ConnectError):
            there.http.get("/healthz")


def test_a_second_signal_insists(cli: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 1)
    with Served(cli) as there, faulty.stall("DeleteObjects"), faulty.stall("DeleteObject"):
        cli("plan", "exports", "--slot", SLOT)
        until(
            lambda: any(r.operation.startswith("Delete") for r in faulty.requests),
            what="a delete that hangs",
        )
        there.child.kill(signal.SIGTERM)
        began = time.monotonic()
        until(lambda: "stopping" in there.child.said() or time.monotonic() - began > 1, what="it")
        there.child.kill(signal.SIGTERM)
        assert there.child.wait() == 128 + signal.SIGTERM


def test_without_the_server_behind_its_state_it_is_not_ready_and_says_so_at_once(
    tmp_path: Path, forks: Forks, faulty: FaultyS3, ledger_url: str
) -> None:
    url = sa.make_url(ledger_url)
    with Proxy((str(url.host), int(url.port or 5432))) as proxy:
        through = url.set(host="127.0.0.1", port=proxy.port)
        state = through.render_as_string(hide_password=False)
        cli = Cli(tmp_path, forks, faulty.endpoint, state=state)
        cli.extra = SECTION
        cli.policy("exports")
        faulty.buckets.add("exports")
        with Served(cli) as there:
            there.token("operate", "trigger")
            proxy.go()
            until(lambda: there.http.get("/readyz").status_code == 503, what="not ready")
            assert there.http.get("/readyz").text == "no"
            assert there.http.get("/healthz").text == "yes"
            began = time.monotonic()
            answer = there.get("/v1/status")
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
            assert str(proxy.port) not in answer.text
            assert time.monotonic() - began < 15

            proxy.come()
            until(lambda: there.http.get("/readyz").status_code == 200, 60, "ready again")
            keys = fill(faulty, 3)
            answer = there.post("/cleanup/plan", json={"policy": "exports", "slot": SLOT})
            assert answer.status_code in (200, 202)
            until(lambda: not faulty.keys("exports") & set(keys), 60, "objects that are gone")


def test_a_state_file_that_is_gone_is_noticed(cli: Cli) -> None:
    with Served(cli) as there:
        (cli.folder / "bestbefore.db").rename(cli.folder / "elsewhere.db")
        until(lambda: there.http.get("/readyz").status_code == 503, what="not ready")
        assert not (cli.folder / "bestbefore.db").exists(), "nothing begins in its place"
        (cli.folder / "elsewhere.db").rename(cli.folder / "bestbefore.db")
        until(lambda: there.http.get("/readyz").status_code == 200, 60, "ready again")


def test_a_loop_that_fails_begins_again_and_is_not_well_meanwhile() -> None:
    stopping, failing, runs = threading.Event(), threading.Event(), []
    failing.set()

    def loop() -> None:
        runs.append(time.monotonic())
        if failing.is_set():
            raise OSError("no more of it")
        stopping.wait()

    service = Service({"worker": loop}, lambda: None, stopping)
    service.start()
    until(lambda: len(runs) >= 2, what="a second beginning")
    assert not service.ready()
    failing.clear()
    until(service.ready, what="a loop that goes on")
    stopping.set()
    service.join(5)
    assert not service.ready(), "nothing goes on any more"


def test_a_port_that_is_taken_is_an_error_that_names_it(cli: Cli) -> None:
    with Served(cli) as there:
        port = there.url.rpartition(":")[2]
        refused = cli("serve", "--port", port, code=2)
        assert f"127.0.0.1:{port}: cannot listen there" in refused.err
