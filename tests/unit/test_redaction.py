"""Documents with hashes in place of keys."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from bestbefore.domain.veil import veiled
from bestbefore.read.redaction import redacted

KEY = "exports/2026-06/anna.berg@example.com.json"


def test_a_dead_letter_shows_no_key_anywhere() -> None:
    letter = {
        "operation_id": "ab" * 32,
        "command": {"kind": "object", "bucket": "exports", "key": KEY},
        "error": f"delete s3://exports/{KEY}: AccessDenied",
        "archive": {"store": "cold", "key": f"digests/abababababab/{KEY}"},
        "history": [{"error": f"{KEY!r} is locked", "by": "host:1"}],
        "attempts": 3,
    }

    found = redacted([letter])

    assert "anna.berg" not in json.dumps(found)
    assert found[0]["command"] == {"kind": "object", "bucket": "exports", "key": veiled(KEY)}
    assert found[0]["error"] == f"delete s3://exports/{veiled(KEY)}: AccessDenied"
    assert found[0]["operation_id"] == "ab" * 32
    assert found[0]["attempts"] == 3


def test_the_ends_of_a_row_batch_are_keys() -> None:
    batch = {
        "key": '["4711"]..["4720"]',
        "batch": {"first": ["4711"], "last": ["4720"], "rows": 10},
        "error": "row 4711 is referenced",
    }

    found = redacted(batch)

    assert found["batch"] == {"first": [veiled("4711")], "last": [veiled("4720")], "rows": 10}
    assert found["error"] == f"row {veiled('4711')} is referenced"


def test_what_a_run_would_remove_shows_neither_keys_nor_the_folders_they_are_in() -> None:
    would = {
        "prefixes": [{"prefix": "exports/acme/", "n": 1}, {"prefix": None, "n": 2}],
        "stays": [{"reason": "young", "prefixes": [{"prefix": "exports/acme/", "n": 3}]}],
        "sample": [{"kind": "object", "key": KEY, "why": "oldest"}],
        "first_batch": [["4711"], ["4720", None]],
        "statement": "DELETE FROM people WHERE name <= 'O''Neill'",
        "triggers": ["people: tell"],
    }

    found = redacted(would)

    assert found == {
        "prefixes": [{"prefix": veiled("exports/acme/"), "n": 1}, {"prefix": None, "n": 2}],
        "stays": [{"reason": "young", "prefixes": [{"prefix": veiled("exports/acme/"), "n": 3}]}],
        "sample": [{"kind": "object", "key": veiled(KEY), "why": "oldest"}],
        "first_batch": [[veiled("4711")], [veiled("4720"), None]],
        "statement": veiled(would["statement"]),
        "triggers": ["people: tell"],
    }


def test_samples_and_reasons_show_no_key() -> None:
    found = redacted({"key": KEY, "eligible": True, "sample": [KEY], "reasons": [f"{KEY} is old"]})

    assert found["sample"] == [veiled(KEY)]
    assert found["reasons"] == [f"{veiled(KEY)} is old"]


@settings(deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=8))
def test_no_key_survives(key: str) -> None:
    found = redacted({"command": {"key": key}, "error": f"failed: {key}; {key!r}", "sample": [key]})

    shown = json.dumps(found, ensure_ascii=False).replace(veiled(key), "")
    assert found["command"]["key"] == veiled(key)
    assert key not in shown or key in '{"command": {"key": ""}, "error": "failed: ; \'\'", "sample"'
