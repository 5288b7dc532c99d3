"""Which of the reported cases are covered: every one in reach is named by a test."""

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
SUITES = TESTS.parent / "src" / "bestbefore" / "contracts"
_NAME = re.compile(r"[oO][-_]([A-Za-z0-9]+)[-_](\d\d)\b(?:\s*(?:to|_to_)_?(\d\d))?|"
                   r"o_([a-z0-9]+)_(\d\d)(?:_to_(\d\d))?")  # fmt: skip

IN_REACH = frozenset(
    f"O-{kind}-{number:02}"
    for kind, numbers in {
        "KEY": (1, 2, 3, 4, 5),
        "SCOPE": (1, 2, 3),
        "BULK": (1, 2, 3, 4),
        "RACE": (1, 2, 3),
        "LIST": (1, 2, 3, 4, 5),
        "TSCOL": (1, 2, 3, 4, 5),
        "PK": (1, 2, 3, 4),
        "FK": (1, 2, 3),
        "DBF": (1, 2, 3, 4),
        "SCHEMA": (1, 2, 3),
        "S3ERR": (1, 2),
        "VERS": (1, 2, 3),
        "LEASE": (1, 2, 3, 4, 5),
        "POISON": (1, 2),
        "RETRY": (1, 2, 3, 4),
        "IDEM": (1, 2, 3),
        "HMAC": (1, 2),
        "CONF": (1, 2, 3, 4, 5),
        "GUARD": (1, 2, 3, 4),
        "MSG": (1, 2, 3),
        "DLQ": (1, 2, 3),
        "CRON": (1, 2, 3, 4, 5),
        "DST": (1, 2, 3, 4),
        "TICK": (1, 2, 3, 4, 5),
        "UI": (1, 2),
    }.items()
    for number in numbers
)


def _named() -> dict[str, set[str]]:
    """The cases that tests name, in a docstring, a comment or the name of a test; and where."""
    found: dict[str, set[str]] = {}
    for path in [*TESTS.rglob("test_*.py"), *SUITES.glob("*.py")]:
        if path == Path(__file__):
            continue
        for match in _NAME.finditer(path.read_text(encoding="utf-8")):
            kind, first, last, kind2, first2, last2 = match.groups()
            kind, first, last = kind or kind2, first or first2, last or last2
            for number in range(int(first), int(last or first) + 1):
                found.setdefault(f"O-{kind.upper()}-{number:02}", set()).add(path.name)
    return found


def test_every_case_in_reach_is_named_by_a_test() -> None:
    assert sorted(IN_REACH - _named().keys()) == []
