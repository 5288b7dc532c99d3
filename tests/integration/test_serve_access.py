"""Who is let in, by a real serving process, and what everybody else is told: nothing."""

import hashlib
import hmac
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.cli import Cli, fill
from support.faults import FaultyS3
from support.forks import until
from support.served import HMAC_KEY, TRIGGER_SECRET, Served, listens_at, signed

ID, RUN = "0" * 64, "0" * 12
BY_SCOPE: dict[str, list[tuple[str, str, Any]]] = {
    "read": [
        ("GET", "/metrics", None),
        ("GET", "/v1/status", None),
        ("GET", "/v1/policies", None),
        ("GET", "/v1/policies/exports", None),
        ("GET", "/v1/runs", None),
        ("GET", f"/v1/runs/{RUN}", None),
        ("GET", f"/v1/operations/{ID}", None),
        ("GET", "/v1/dead-letters", None),
        ("GET", f"/v1/dead-letters/{ID}", None),
        ("GET", "/v1/holds", None),
        ("GET", "/v1/explain?policy=exports&key=a", None),
        ("GET", "/v1/audit", None),
    ],
    "operate": [
        ("POST", f"/v1/runs/{RUN}/approve", None),
        ("POST", f"/v1/runs/{RUN}/cancel", None),
        ("POST", "/v1/dead-letters/redrive", {"all": True, "dry_run": True}),
        ("POST", "/v1/dead-letters/discard", {"all": True, "reason": "x", "dry_run": True}),
        ("POST", "/v1/holds", {"policy": "exports", "reason": "x"}),
        ("DELETE", f"/v1/holds/{RUN}", None),
        ("POST", "/v1/pauses", {"policy": "exports", "reason": "x"}),
        ("DELETE", "/v1/pauses/exports", None),
        ("DELETE", "/v1/pauses", None),
    ],
    "trigger": [
        ("POST", "/cleanup/plan", {"policy": "exports"}),
        ("POST", "/v1/push", {}),
    ],
}
IMPLIED = {"read": {"read", "operate"}, "operate": {"operate"}, "trigger": {"trigger"}}


def test_each_route_takes_its_scope_and_no_other(site: Cli) -> None:
    with Served(site) as there:
        spec = there.json("/openapi.json")
        listed = {(m.upper(), p) for p, routes in spec["paths"].items() for m in routes}
        tried = 0
        for needed, calls in BY_SCOPE.items():
            for method, path, body in calls:
                tried += 1
                nobody = there.ask(method, path, scopes=(), json=body)
                assert nobody.status_code == 401, (path, nobody.text)
                assert nobody.headers["www-authenticate"].startswith("Bearer")
                for scope in ("read", "operate", "trigger"):
                    answer = there.ask(method, path, scopes=(scope,), json=body)
                    let_in = scope in IMPLIED[needed]
                    assert (answer.status_code not in (401, 403)) == let_in, (path, scope)
                    assert answer.status_code < 500, (path, answer.text)
                    if answer.status_code >= 400:
                        assert answer.headers["content-type"] == "application/problem+json"
                        assert answer.json()["status"] == answer.status_code
        everybody = {("GET", "/healthz"), ("GET", "/readyz")}
        secret = {("POST", "/cleanup/plan/{secret}")}
        assert len(listed - everybody - secret) == tried


def test_nobody_is_told_which_paths_there_are(site: Cli) -> None:
    with Served(site) as there:
        answers = [
            there.ask("GET", path, scopes=())
            for path in ("/openapi.json", "/docs", "/nothing", "/v1/runs/", "/cleanup/plan/x")
        ]
        assert {answer.status_code for answer in answers} == {401}
        assert len({answer.text for answer in answers}) == 1
        # The dashboard's own paths lead to its sign-in, whatever is behind them.
        assert there.ask("GET", "/", scopes=()).headers["location"].startswith("/sign-in?")
        assert there.ask("GET", "/healthz", scopes=()).text == "yes"
        assert there.ask("GET", "/readyz", scopes=()).text == "yes"


def test_a_token_is_stored_as_a_hash_and_is_over_once_revoked(site: Cli) -> None:
    with Served(site) as there:
        token = there.token("read")
        assert there.ask("GET", "/v1/holds", scopes=("read",)).status_code == 200
        (stored,) = site.audit.rows("SELECT digest, name FROM tokens")
        assert bytes(stored[0]) == hashlib.sha256(token.encode()).digest()
        assert token not in site("token", "list").out

        site("token", "revoke", str(stored[1]))
        assert there.ask("GET", "/v1/holds", scopes=("read",)).status_code == 401
        for wrong in ("", "Bearer", "Bearer bb_", f"Basic {token}", f"Bearer {token}x"):
            answer = there.http.get("/v1/holds", headers={"Authorization": wrong})
            assert answer.status_code == 401


def test_o_hmac_01_and_02_only_a_fresh_signature_over_the_raw_body_starts_anything(
    site: Cli, faulty: FaultyS3
) -> None:
    body = b'{"policy": "exports",  "slot": "2026-06-01T02:00:00Z"}'
    with Served(site, "--no-work") as there:

        def send(headers: dict[str, str], content: bytes = body) -> httpx.Response:
            return there.http.post("/cleanup/plan", content=content, headers=headers)

        now = datetime.now(UTC)
        for off in (-301, 400, 3_600):  # to the second: see the unit test; this takes a while
            answer = send(signed(body, f"off{off}", now + timedelta(seconds=off)))
            assert answer.status_code == 401
            assert "secret" not in answer.text
            assert "time" not in answer.text
        assert send(signed(json.dumps(json.loads(body)).encode(), "m0")).status_code == 401
        headers = signed(body, "m1", now - timedelta(seconds=200))
        assert send({k: v for k, v in headers.items() if "timestamp" not in k}).status_code == 401
        assert site.json("runs", "list") == []

        assert send(headers).status_code in (200, 202)
        assert send(headers).status_code == 409
        assert send(signed(body, "m2")).status_code in (200, 202)
        (run,) = site.json("runs", "list")
        assert run["trigger"] == "http"


def test_a_replay_is_refused_by_every_process_and_what_failed_may_come_again(site: Cli) -> None:
    body = b'{"policy": "exports"}'
    wrong = b'{"policy": "nope"}'
    with Served(site, "--no-work") as one, Served(site, "--no-work") as two:
        headers = signed(body, "m1")
        first = one.http.post("/cleanup/plan", content=body, headers=headers)
        assert first.status_code in (200, 202)
        again = two.http.post("/cleanup/plan", content=body, headers=headers)
        assert again.status_code == 409

        headers = signed(wrong, "m2")
        tries = [
            there.http.post("/cleanup/plan", content=wrong, headers=headers).status_code
            for there in (one, two)
        ]
        assert tries == [404, 404]


def test_a_signature_and_a_secret_in_the_path_can_only_trigger(site: Cli) -> None:
    with Served(site, "--no-work") as there:
        for path in ("/v1/status", "/openapi.json"):
            answer = there.http.get(path, headers=signed(b"", f"get{path}"))
            assert answer.status_code in (403, 200 if path == "/openapi.json" else 403)
        pause = b'{"reason": "x"}'
        refused = there.http.post("/v1/pauses", content=pause, headers=signed(pause, "p"))
        assert refused.status_code == 403

        path = f"/cleanup/plan/{TRIGGER_SECRET}"
        assert there.http.post(path, json={"policy": "exports"}).status_code in (200, 202)
        assert there.http.post(path + "x", json={"policy": "exports"}).status_code == 401
        assert there.http.get(path).status_code == 405
        assert there.http.get(f"/v1/status?secret={TRIGGER_SECRET}").status_code == 401


def test_a_plain_hex_signature_works_where_its_header_is_chosen(site: Cli) -> None:
    site.extra += 'hmac_header = "X-Signature-256"\n'
    site.write()
    body = b'{"policy": "exports"}'
    digest = hmac.digest(HMAC_KEY, body, "sha256").hex()
    with Served(site, "--no-work") as there:
        headers = {"content-type": "application/json"}
        good = headers | {"X-Signature-256": f"sha256={digest}"}
        bad = headers | {"X-Signature-256": f"sha256={digest[::-1]}"}
        assert there.http.post("/cleanup/plan", content=body, headers=bad).status_code == 401
        assert there.http.post("/cleanup/plan", content=body, headers=good).status_code < 300
        standard = signed(body, "m1")
        assert there.http.post("/cleanup/plan", content=body, headers=standard).status_code == 401


def test_secrets_reach_no_log_and_no_answer(site: Cli, faulty: FaultyS3) -> None:
    fill(faulty, 2)
    with Served(site) as there:
        secrets = [TRIGGER_SECRET, there.token("operate", "trigger")]
        paths = [
            f"/cleanup/plan/{TRIGGER_SECRET}",
            f"/cleanup/plan/{TRIGGER_SECRET}/",
            f"/cleanup/plann/{TRIGGER_SECRET}",
            f"/v1/runs/{TRIGGER_SECRET}",
        ]
        answers = [there.post(path, json={"policy": "exports"}) for path in paths]
        answers += [there.get(path) for path in paths]
        assert there.stop() == 0
        said = there.child.said() + "".join(answer.text for answer in answers)
        assert not [secret for secret in secrets if secret in said]


def test_every_answer_is_guarded_and_none_is_for_another_origin(cli: Cli) -> None:
    with Served(cli) as there:
        origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        for answer in (
            there.http.get("/healthz", headers=origin),
            there.http.options("/v1/pauses", headers=origin),
            there.ask("OPTIONS", "/v1/pauses", headers=origin),
            there.get("/v1/status", headers=origin),
            there.get("/nothing", headers=origin),
        ):
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert not [name for name in answer.headers if name.startswith("access-control")]
            assert "server" not in answer.headers


def test_who_proves_nothing_is_slowed_down_and_nobody_else(cli: Cli) -> None:
    with Served(cli) as there:
        there.token("read")
        answers = [there.ask("GET", "/v1/status", scopes=()) for _ in range(130)]
        assert {answer.status_code for answer in answers} == {401, 429}
        assert int(answers[-1].headers["retry-after"]) in range(1, 61)
        assert answers[-1].headers["content-type"] == "application/problem+json"
        assert there.ask("GET", "/v1/status", scopes=("read",)).status_code == 200


def test_a_body_that_is_too_large_is_not_even_read(cli: Cli) -> None:
    with Served(cli) as there:
        for more in ({"content": b" " * 70_000}, {"content": iter([b" " * 40_000] * 2)}):
            answer = there.post("/cleanup/plan", **more)
            assert answer.status_code == 413
            assert answer.json()["status"] == 413


def test_without_the_extra_serve_names_it(cli: Cli, tmp_path: Path) -> None:
    """A library that is not there, as far as this process can see."""
    for name in ("fastapi", "uvicorn"):
        (tmp_path / "hidden" / name).mkdir(parents=True)
        (tmp_path / "hidden" / name / "__init__.py").write_text(
            f"raise ModuleNotFoundError('No module named {name}', name='{name}')"
        )
    path = os.pathsep.join([str(tmp_path / "hidden"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "bestbefore", "serve"],
        cwd=cli.folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install 'bestbefore[web]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_beyond_this_machine_it_only_listens_where_somebody_could_be_let_in(site: Cli) -> None:
    site.extra = ""
    site.write()
    refused = site("serve", "--host", "0.0.0.0", "--port", "0", code=2)
    assert "token add" in refused.err

    site("token", "add", "ops", "--scope", "read")
    with site.start("serve", "--host", "0.0.0.0", "--port", "0", "--json") as child:
        until(lambda: listens_at(child), 60, "a server that listens")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('hmac_secret = "short"', "at least 32 bytes"),
        ('hmac_secret = "whsec_!!"', "base64"),
        ('trigger_secret = "short"', "at least 32"),
        ('trigger_secret = "with/slash-and-more-than-32-characters"', "letters, digits"),
        ('hmac_secret_env = "NOT_SET_ANYWHERE"', "is not set"),
        ('hmac_tolerance = "1d"', "1s to 1h"),
        ("port = 70000", "at most 65535"),
        ('public_url = "cleanup.example.com"', "HTTP address"),
    ],
)
def test_a_bad_setting_names_itself_and_shows_no_secret(cli: Cli, line: str, said: str) -> None:
    cli.extra = f"[serve]\n{line}\n"
    cli.write()
    refused = cli("serve", code=2)
    assert f"serve.{line.partition(' ')[0]}" in refused.err
    assert said in refused.err
    if "_secret =" in line:
        assert line.partition('"')[2].rstrip('"') not in refused.err
