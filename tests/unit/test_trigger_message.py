"""Triggers that come through a queue."""

import json
from datetime import UTC, datetime

import pytest

from bestbefore.domain.message import Unreadable
from bestbefore.domain.trigger import Triggered, read_trigger

TWO = datetime(2026, 7, 1, 2, tzinfo=UTC)


def test_a_trigger_names_a_policy_and_the_time_it_was_scheduled_for() -> None:
    said = {"v": "1", "policy": "exports", "slot": "2026-07-01T02:00:00Z", "schedule": "arn"}

    assert read_trigger(json.dumps(said | {"attempt": "2"}).encode()) == Triggered(
        "exports", TWO, "arn", "2"
    )


@pytest.mark.parametrize(
    "text",
    ["2026-07-01T04:00:00+02:00", "2026-07-01T02:00:00.000Z", "2026-07-01T02:00Z"],
)
def test_a_time_is_one_instant_however_it_is_written(text: str) -> None:
    assert read_trigger(json.dumps({"policy": "p", "slot": text}).encode()).at == TWO


def test_a_trigger_without_a_time_is_for_the_latest_slot() -> None:
    assert read_trigger(b'{"policy": "exports"}') == Triggered("exports", None)


@pytest.mark.parametrize(
    "body",
    [
        b"hello",
        b"",
        b'{"policy": ',
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 5_000,
        b'{"v": "2", "policy": "exports"}',
        b'{"slot": "2026-07-01T02:00:00Z"}',
        b'{"policy": ""}',
        b'{"policy": 7}',
        b'{"policy": "p", "slot": "<aws.scheduler.scheduled-time>"}',
        b'{"policy": "p", "slot": "2026-07-01T02:00:00"}',
        b'{"policy": "p", "slot": 1782871200}',
        b'{"policy": "p", "slot": "0001-01-01T00:00:00+14:00"}',
        b'{"policy": "p", "filling": "' + b"." * 9_000 + b'"}',
    ],
)
def test_anything_else_is_unreadable(body: bytes) -> None:
    """O-MSG-01, O-MSG-03"""
    with pytest.raises(Unreadable):
        read_trigger(body)
