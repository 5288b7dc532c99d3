"""Real processes on one state database: together they get what one alone would."""

import sqlite3
from pathlib import Path

import pytest

from support.forks import Forks
from support.ledgers import new_ledger
from support.throttling import MOST


@pytest.fixture
def url(state: str | None, tmp_path: Path) -> str:
    """Either state database, empty and ready."""
    return state or new_ledger(tmp_path / "state.db")


def printed(forks: Forks, folder: Path, program: str, *arguments: list[str]) -> list[int]:
    """What each of several processes printed, which run at once."""
    children = [forks.start(f"support.throttling:{program}", a, cwd=folder) for a in arguments]
    for child in children:
        assert child.wait() == 0, child.said()
    return [int(child.out.read_text()) for child in children]


def test_four_processes_never_hold_more_than_the_most(
    url: str, tmp_path: Path, forks: Forks
) -> None:
    ledger = tmp_path / "relied.db"
    connection = sqlite3.connect(ledger)
    connection.execute("CREATE TABLE relied (name TEXT PRIMARY KEY, slots INTEGER)")
    connection.commit()
    connection.close()

    seen = printed(forks, tmp_path, "hold", *([url, str(ledger), name, "60"] for name in "abcd"))

    assert max(seen) == MOST


def test_four_processes_together_keep_the_rate(url: str, tmp_path: Path, forks: Forks) -> None:
    given = printed(forks, tmp_path, "take_turns", *([url] for _ in range(4)))

    assert 90 <= sum(given) <= 102
