"""Logs: one event is one line, and nothing in it that must not be there."""

import io
import json
import logging
from collections.abc import Callable, Iterator, Sequence

import pytest
import structlog

from bestbefore.app import logs
from bestbefore.domain.veil import veil_within, veiled

FORGED = "a.json\n2026-07-01T00:00:00Z INFO deleted key=secret.json result=ok"
log = logging.getLogger("bestbefore.test")

Logged = Callable[[Callable[[], None]], Sequence[str]]


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Sequence[str]]]:
    """The lines that a call logs, in a style."""
    root, ours = logging.getLogger(), logging.getLogger("bestbefore")
    before = root.handlers[:], ours.level

    def lines(call: Callable[[], None], style: str = "json", *, redact: bool = False) -> list[str]:
        stream = io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
        logs.set_up({logs.VARIABLE: style}, redact=redact)
        call()
        return stream.getvalue().splitlines()

    yield lines
    for handler in [h for h in root.handlers if h not in before[0]]:
        root.removeHandler(handler)
    ours.setLevel(before[1])


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_key_cannot_forge_a_line(logged: Logged, style: str) -> None:
    """O-UI-02: as a field, in the text, and in what an error says."""

    def call() -> None:
        try:
            int(FORGED)
        except ValueError:
            log.exception("failed on %s", FORGED, extra={"key": FORGED})

    lines = logged(call, style)

    if style == "json":
        (line,) = lines
        assert json.loads(line)["key"] == FORGED
    else:
        assert len([line for line in lines if not line.startswith("    ")]) == 1
        assert r"key=a.json\n2026" in lines[0]


def test_a_json_line_has_what_it_is_about_as_fields(logged: Logged) -> None:
    operation_id = "ab" * 32

    def call() -> None:
        with structlog.contextvars.bound_contextvars(run_id="0123456789ab"):
            log.warning("a lease was lost", extra={"operation_id": operation_id})

    (line,) = logged(call)
    event = json.loads(line)

    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "a lease was lost",
        "level": "warning",
        "logger": "bestbefore.test",
        "operation_id": operation_id,
        "run_id": "0123456789ab",
    }


def test_people_are_told_what_they_have_to_know_and_machines_what_happened(logged: Logged) -> None:
    def call() -> None:
        log.info("breaker closed for exports")
        log.warning("breaker open for %s", "exports", extra={"policy": "daily"})

    assert logged(call, "text") == ["WARNING: breaker open for exports  policy=daily"]
    assert [json.loads(line)["level"] for line in logged(call, "json")] == ["info", "warning"]


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://cleanup:hunter2@db/ledger does not answer",
        "postgresql+psycopg://cleanup:hun/ter2@db: no",
        "https://user:hunter2@example.com/x?y=1",
        "https://example.com/?X-Amz-Signature=hunter2&a=b",
        "host=db password=hunter2 user=me",
    ],
)
def test_no_secret_is_logged(logged: Logged, text: str) -> None:
    def call() -> None:
        log.error("it failed: %s", text, extra={"where": text})

    for style in ("text", "json"):
        (line,) = logged(call, style)
        assert "hunter2" not in line
        assert "ter2" not in line


def test_redacted_logs_have_hashes_in_place_of_keys(logged: Logged) -> None:
    key = "exports/größe\n.json"

    def call() -> None:
        log.warning("refused: %r", key, extra={"key": key})
        log.error("delete s3://b/%s: denied", key, extra={"keys": ["other", key]})

    first, second = (json.loads(line) for line in logged(call, redact=True))

    assert first["event"] == f"refused: '{veiled(key)}'"
    assert first["key"] == veiled(key)
    assert second["event"] == f"delete s3://b/{veiled(key)}: denied"
    assert second["keys"] == [veiled("other"), veiled(key)]


def test_setting_up_twice_logs_once(logged: Logged) -> None:
    def call() -> None:
        logs.set_up({logs.VARIABLE: "json"})
        log.warning("once")

    assert len(logged(call)) == 1


def test_a_hash_takes_the_place_of_whole_words_only() -> None:
    assert veil_within("503 for row 5, 5.", ["5"]) == f"503 for row {veiled('5')}, {veiled('5')}."
    assert (
        veil_within("a/b/c and a/b", ["a/b", "a/b/c"]) == f"{veiled('a/b/c')} and {veiled('a/b')}"
    )
    assert veil_within("nothing", [""]) == "nothing"
