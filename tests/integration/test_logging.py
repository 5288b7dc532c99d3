"""What a whole path says in the logs, as JSON."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bestbefore.app import logs
from bestbefore.domain.failure import Attempts, FailureClass
from bestbefore.domain.veil import veiled
from support.worlds import World, failing, policy

FORGED = "exports/a\n2026-07-01T00:00:00Z INFO deleted key=secret.json result=ok"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("bestbefore")
    handlers, level = root.handlers[:], ours.level
    yield
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)
    ours.setLevel(level)


def events(text: str) -> Sequence[Mapping[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def path(folder: Path) -> World:
    """A plan and a drain that leave one dead letter, its error naming the key."""
    impatient = Attempts(permission=1)
    with World(folder, policy(attempts=impatient)) as world:
        world.put(FORGED)
        error = f"delete s3://bucket/{FORGED}: denied"
        world.store.refuse = failing(FailureClass.PERMISSION, error=error)
        world.plan()
        world.work()
        return world


def test_events_name_their_run_and_operation_and_a_key_forges_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """O-UI-02"""
    logs.set_up({}, "json")

    path(tmp_path)

    found = events(capsys.readouterr().err)
    (planned,) = [event for event in found if "planned" in event["event"]]
    assert (planned["policy"], len(planned["run_id"])) == ("exports", 12)
    (letter,) = [event for event in found if event["event"].startswith("dead letter")]
    assert len(letter["operation_id"]) == 64
    assert letter["key"] == FORGED
    assert not [event for event in found if event["event"].startswith("deleted")]


def test_redacted_logs_of_the_same_path_name_no_key(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    logs.set_up({}, "json", redact=True)

    path(tmp_path)

    said = capsys.readouterr().err
    assert "secret.json" not in said
    (letter,) = [event for event in events(said) if "dead letter" in event["event"]]
    assert letter["key"] == veiled(FORGED)
    assert veiled(FORGED) in letter["event"]
