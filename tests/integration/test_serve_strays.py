"""Messages that execute nothing, as the API and the dashboard show them."""

import json
import re
from base64 import b64decode
from hashlib import sha256

from prometheus_client.parser import text_string_to_metric_families

from support.cli import Cli, fill
from support.faults import FaultyS3
from support.served import SECTION, Served
from support.strays import absorb

SECRET = "exports/anna.berg@example.com.json"
BODIES = (b"hello", b"", b"\xff\xfe", json.dumps({"v": 99, "key": SECRET}).encode())


def name(body: bytes) -> str:
    return sha256(body).hexdigest()


def with_dead_letters(site: Cli, faulty: FaultyS3, n: int) -> None:
    fill(faulty, n)
    faulty.denied.add("exports/")
    site("run", "exports", "--yes", code=1)


def test_the_api_pages_through_dead_letters_and_then_strays(site: Cli, faulty: FaultyS3) -> None:
    with_dead_letters(site, faulty, 3)
    absorb(site, *BODIES)
    with Served(site, "--no-work") as there:
        found, after = [], ""
        while after is not None:
            page = there.json(f"/v1/dead-letters?limit=2{after}")
            found += page["dead_letters"]
            after = page["next"] and f"&after={page['next']}"
        assert [one["policy"] for one in found] == ["exports"] * 3 + [None] * 4
        assert {one["operation_id"] for one in found[3:]} == set(map(name, BODIES))
        shown = there.json(f"/v1/dead-letters/{name(BODIES[2])}")
        assert b64decode(shown["body_base64"]) == b"\xff\xfe"
        assert there.json("/v1/status")["strays"] == 4
        assert there.get(f"/v1/dead-letters?after={'0' * 64}").status_code == 404
        families = text_string_to_metric_families(there.get("/metrics").text)
        (measure,) = [f for f in families if f.name == "bestbefore_stray_messages"]
        assert [sample.value for sample in measure.samples] == [4]


def test_the_api_redrives_none_and_discards_them(site: Cli, faulty: FaultyS3) -> None:
    with_dead_letters(site, faulty, 1)
    absorb(site, *BODIES)
    with Served(site, "--no-work") as there:
        done = there.post("/v1/dead-letters/redrive", json={"all": True, "dry_run": True}).json()
        assert (done["would_redrive"], done["refused"], done["strays"]) == (1, 4, 4)
        which = {"ids": [name(b"hello")], "reason": "ours"}
        dry = there.post("/v1/dead-letters/discard", json=which | {"dry_run": True}).json()
        assert dry == {"discarded": 0, "would_discard": 1}
        done = there.post("/v1/dead-letters/discard", json=which).json()
        assert done == {"discarded": 1, "would_discard": 0}
        (event, *_) = there.json("/v1/audit")["events"]
        assert (event["action"], event["operation_id"]) == ("message discarded", name(b"hello"))
        assert there.get(f"/v1/dead-letters/{name(b'hello')}").status_code == 404


def test_the_dashboard_lists_shows_and_discards_them(site: Cli, faulty: FaultyS3) -> None:
    absorb(site, b"<script>hello", b"")
    with Served(site, "--no-work") as there:
        there.http.post("/sign-in", data={"token": there.token("operate")})
        page = there.http.get("/dead-letters").text
        assert "Messages that execute nothing" in page
        assert "&lt;script&gt;hello" in page
        assert "(empty)" in page
        one = there.http.get(f"/dead-letters/{name(b'<script>hello')}").text
        assert "no operation of this ledger" in one.lower()
        csrf = re.search('name="csrf" value="([0-9a-f]+)"', one)
        assert csrf is not None
        form = {"csrf": csrf[1], "id": name(b""), "reason": "empty"}

        answer = there.http.post("/dead-letters/discard", data=form)
        assert answer.status_code == 303

        assert "Discarded: 1" in there.http.get("/dead-letters").text
        assert there.http.get(f"/dead-letters/{name(b'')}").status_code == 404
        assert "<b>1</b> dead letters" in there.http.get("/").text


def test_with_redacted_keys_no_message_is_quoted(site: Cli) -> None:
    site.extra = f"{SECTION}redact_keys = true\n"
    site.write()
    absorb(site, *BODIES)
    with Served(site, "--no-work") as there:
        there.http.post("/sign-in", data={"token": there.token("operate")})
        shown = [
            there.get("/v1/dead-letters").text,
            there.get(f"/v1/dead-letters/{name(BODIES[3])}").text,
            there.http.get("/dead-letters").text,
            there.http.get(f"/dead-letters/{name(BODIES[3])}").text,
        ]
    assert all("sha256:" in text for text in shown)
    assert all("anna.berg" not in text for text in shown)
