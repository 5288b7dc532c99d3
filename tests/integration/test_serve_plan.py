"""`POST /cleanup/plan` by real serving processes: one run per slot, whoever asks how often."""

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.schema import runs
from support.cli import Cli, fill
from support.faults import FaultyS3
from support.forks import until
from support.served import Served

SLOT = "2026-06-01T02:00:00Z"
ROWS = """
[databases.shop]
url = "sqlite:///shop.db"
[policies.stale]
version = "v1"
older_than = "30d"
schedule = "0 2 * * *"
[policies.stale.rows]
database = "shop"
table = "orders"
timestamp = "placed_at"
timestamp_zone = "UTC"
batch_size = 10
"""


@pytest.fixture
def shop(site: Cli) -> Iterator[Path]:
    """A table with 25 old rows behind a second policy, ``stale``."""
    site.extra += ROWS
    site.write()
    file = site.folder / "shop.db"
    with closing(sqlite3.connect(file)) as there, there:
        there.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, placed_at TEXT)")
        there.execute("CREATE INDEX by_date ON orders (placed_at, id)")
        there.executemany(
            "INSERT INTO orders (placed_at) VALUES (?)", [("2026-01-01 00:00:00",)] * 25
        )
    return file


def planned(there: Served, **body: str) -> httpx.Response:
    """The answer to a trigger, asked again until the plan has come to its end."""

    def answer() -> httpx.Response | None:
        got = there.post("/cleanup/plan", json=body)
        assert got.status_code in (200, 202), got.text
        return got if got.json()["complete"] else None

    return until(answer, 60, "a whole plan")  # type: ignore[no-any-return]


def left(file: Path) -> int:
    with closing(sqlite3.connect(file)) as there:
        return int(there.execute("SELECT count(*) FROM orders").fetchone()[0])


def test_a_slot_is_planned_behind_the_answer_and_its_objects_are_deleted(
    site: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 30)
    with Served(site) as there:
        answer = there.post("/cleanup/plan", json={"policy": "exports", "slot": SLOT})
        assert answer.status_code in (200, 202)
        document = answer.json()
        assert len(answer.content) < 4_096
        assert (document["policy"], document["slot"]) == ("exports", SLOT)
        assert planned(there, policy="exports", slot=SLOT).json()["eligible"] == 30
        (run_id,) = document["run_ids"]
        until(lambda: there.json(f"/v1/runs/{run_id}")["state"] == "drained", what="the run")
        assert faulty.keys("exports") == set()

        again = there.post("/cleanup/plan", json={"policy": "exports", "slot": SLOT})
        assert again.status_code == 200  # nothing is left to be done
        assert again.json()["run_ids"] == [run_id]
        assert again.json()["published"] == 0
        (run,) = there.json("/v1/runs")["runs"]
        assert (run["trigger"], run["counts"]["completed"]) == ("http", 30)
    assert site.audit.problems() == []


def test_a_few_rows_are_gone_before_the_call_is_answered(site: Cli, shop: Path) -> None:
    with Served(site) as there:
        answer = there.post("/cleanup/plan", json={"policy": "stale"})

        assert answer.status_code == 200, answer.text
        document = answer.json()
        assert (document["state"], document["created_batches"]) == ("drained", 3)
        assert left(shop) == 0
        again = there.post("/cleanup/plan", json={"policy": "stale"}).json()
        assert (again["run_ids"], again["published"]) == (document["run_ids"], 0)
    assert site.audit.problems() == []


def test_without_a_policy_every_one_with_a_due_slot_is_answered(site: Cli, shop: Path) -> None:
    with Served(site) as there:
        answer = there.post("/cleanup/plan")

        assert answer.status_code == 200, answer.text
        document = answer.json()
        assert len(document["run_ids"]) == 1  # exports has no schedule
        assert document["policy"] == "stale"
        assert left(shop) == 0


def test_a_process_that_does_no_work_deletes_nothing_at_once_either(site: Cli, shop: Path) -> None:
    with Served(site, "--no-work") as there:
        answer = planned(there, policy="stale")

        assert answer.status_code == 202
        assert answer.json()["state"] == "open"
        assert left(shop) == 25


def test_o_guard_02_a_run_that_parks_says_so_and_an_approval_is_for_that_plan(
    site: Cli, faulty: FaultyS3
) -> None:
    site.policy("exports", more={"max_deletes": 10})
    fill(faulty, 20)
    with Served(site) as there:
        answer = planned(there, policy="exports", slot=SLOT)
        document = answer.json()
        assert (answer.status_code, document["state"], document["published"]) == (202, "parked", 0)
        (run_id,) = document["run_ids"]
        shown = there.json(f"/v1/runs/{run_id}")
        assert "max_deletes is 10" in shown["reason"]
        assert len(shown["sample"]) == 10
        assert (shown["would"]["n"], shown["owner"]) == (20, "growth-team")
        assert [one["prefix"] for one in shown["would"]["prefixes"]] == ["exports/"]
        assert len(faulty.keys("exports")) == 20

        approved = there.post(f"/v1/runs/{run_id}/approve", json={"reason": "checked"})
        assert approved.status_code == 200
        (event,) = there.json("/v1/audit?limit=1")["events"]
        assert event["detail"].endswith("approved because checked")
        until(lambda: there.json(f"/v1/runs/{run_id}")["state"] == "drained", what="the run")
        assert faulty.keys("exports") == set()
        assert there.post(f"/v1/runs/{run_id}/approve").status_code == 409
        by = {(event["action"], event["by"]) for event in there.json("/v1/audit")["events"]}
        name = f"token:operate-trigger-{there.child.pid}"
        assert ("approve", name) in by

        fill(faulty, 21, prefix="exports/later/")
        later = planned(there, policy="exports", slot="2026-06-02T02:00:00Z").json()
        assert later["state"] == "parked"
        assert there.post(f"/v1/runs/{run_id}/approve").status_code == 409
        assert len(faulty.keys("exports")) == 21


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"policy": "nope"}, 404, "there is no policy nope"),
        ({"policy": "exports", "slot": "2099-01-01T00:00:00Z"}, 422, "in the future"),
        ({"policy": "exports", "slot": "2026-06-01T02:00:00"}, 422, "zone"),
        ({"policy": "exports", "slot": "soon"}, 422, "body.slot"),
        ({"policy": "a/b"}, 422, "body.policy"),
        ({"polcy": "exports"}, 422, "body.polcy"),
        ([], 422, "body"),
    ],
)
def test_what_cannot_be_planned_is_refused(cli: Cli, body: object, status: int, said: str) -> None:
    """O-UI-03: a name with a slash names no policy, neither here nor when it is created."""
    with Served(cli, "--no-work") as there:
        answer = there.post("/cleanup/plan", json=body)
        assert answer.status_code == status
        assert said in answer.text
        assert answer.json()["status"] == status
        assert there.json("/v1/runs")["runs"] == []


def test_a_paused_policy_says_so_where_it_is_named_and_is_left_out_otherwise(
    site: Cli, shop: Path
) -> None:
    with Served(site) as there:
        until_ = "2099-01-01T00:00:00Z"
        pause = {"policy": "stale", "reason": "audit", "until": until_}
        assert there.post("/v1/pauses", json=pause).status_code == 201

        named = there.post("/cleanup/plan", json={"policy": "stale"})
        assert named.status_code == 409
        assert "audit" in named.text
        assert until_ in named.text
        everything = there.post("/cleanup/plan")
        assert (everything.status_code, everything.json()["run_ids"]) == (200, [])
        assert left(shop) == 25

        assert there.ask("DELETE", "/v1/pauses/stale").json()["resumed"]
        assert there.post("/cleanup/plan").status_code == 200
        assert left(shop) == 0


def test_o_idem_03_a_key_gives_the_same_answer_again_and_no_other(site: Cli) -> None:
    a = {"policy": "exports", "slot": SLOT}
    b = {"policy": "exports", "slot": "2026-06-02T02:00:00Z"}
    with Served(site, "--no-work") as one, Served(site, "--no-work") as two:
        token = {"Authorization": f"Bearer {one.token('trigger')}"}

        def send(there: Served, key: str, body: object) -> httpx.Response:
            headers = token | {"Idempotency-Key": key}
            return there.http.post("/cleanup/plan", json=body, headers=headers)

        first = send(one, "K1", a)
        assert first.status_code < 300
        assert send(two, "K1", b).status_code == 422
        again = send(two, "K1", a)
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert again.headers["idempotency-replayed"] == "true"
        assert len(one.json("/v1/runs")["runs"]) == 1

        assert send(one, "K2", {"policy": "nope"}).status_code == 404
        failed = send(one, "K2", {"policy": "nope"})
        assert failed.status_code == 404
        assert "idempotency-replayed" not in failed.headers
        # A key is its caller's own.
        other = one.post("/cleanup/plan", json=b, headers={"Idempotency-Key": "K1"})
        assert other.status_code < 300


def test_two_hundred_calls_at_once_are_one_run(site: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 300)
    faulty.page_size = 50
    with Served(site) as one, Served(site) as two:
        token = {"Authorization": f"Bearer {one.token('trigger')}"}
        body = {"policy": "exports", "slot": SLOT}

        def call(n: int) -> tuple[int, tuple[str, ...]]:
            url = f"{(one, two)[n % 2].url}/cleanup/plan"
            # Each with a connection of its own, as of a hundred callers.
            with httpx.Client(timeout=60, headers=token, verify=False) as http:  # noqa: S501
                answer = http.post(url, json=body)
                while answer.status_code == 503:  # too many at once for this machine: come again
                    time.sleep(int(answer.headers["retry-after"]))
                    answer = http.post(url, json=body)
            return answer.status_code, tuple(answer.json().get("run_ids", ()))

        with ThreadPoolExecutor(100) as pool:
            answers = list(pool.map(call, range(200)))
        assert {status for status, _ in answers} <= {200, 202}
        (ids,) = {ids for _, ids in answers}
        assert len(ids) == 1
        until(lambda: one.json(f"/v1/runs/{ids[0]}")["state"] == "drained", what="the run")
        assert len(one.json("/v1/runs")["runs"]) == 1
        assert faulty.keys("exports") == set()
    assert site.audit.problems() == []


def test_a_planner_that_was_killed_is_taken_over_by_another_process(
    site: Cli, faulty: FaultyS3
) -> None:
    fill(faulty, 30)
    faulty.page_size = 10
    url = site.state or f"sqlite:///{site.folder / 'bestbefore.db'}"
    with Served(site, "--no-work") as one:
        one.token("operate", "trigger")
        with faulty.stall("ListObjectsV2"):
            answer = one.post("/cleanup/plan", json={"policy": "exports", "slot": SLOT})
            assert answer.status_code == 202
            document = answer.json()
            assert (document["complete"], document["state"]) == (False, "planning")
            one.child.kill()
            one.child.wait()
    database = Database(url)
    with database.write() as connection:  # as if its lease had run out
        connection.execute(sa.update(runs).values(planner_until=0))
    database.dispose()

    with Served(site) as two:
        (run_id,) = document["run_ids"]
        until(lambda: two.json(f"/v1/runs/{run_id}")["state"] == "drained", what="the run")
        assert faulty.keys("exports") == set()
    assert site.audit.problems() == []


def test_a_store_that_hangs_keeps_the_caller_waiting_no_longer_than_a_second(
    cli: Cli, faulty: FaultyS3
) -> None:
    with Served(cli, "--no-work") as there:
        there.token("operate", "trigger")
        with faulty.stall("ListObjectsV2"):
            began = datetime.now(UTC)
            answer = there.post("/cleanup/plan", json={"policy": "exports", "slot": SLOT})
            assert datetime.now(UTC) - began < timedelta(seconds=20)  # this machine is busy
            assert answer.status_code in (202, 503)
            if answer.status_code == 503:
                assert int(answer.headers["retry-after"]) >= 1
