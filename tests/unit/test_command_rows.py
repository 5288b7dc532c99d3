"""The message about a batch of rows, and its published schema."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from typing import Any

import pytest

from bestbefore.domain.command import MAX_BYTES, MAX_ENDS, RowCommand, impossible_batch
from bestbefore.domain.names import LONGEST
from bestbefore.domain.rows import RowBatch, Walk
from support.schema import SCHEMA, faults

BATCH = RowBatch(
    first='["2026-01-02 03:04:05.000006","9007199254740993"]',
    last='["2026-01-02 03:04:05.000006","größe"]',
    rows=100,
    oldest=datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    walk=Walk.TIMESTAMP,
    shape="0123456789abcdef",
)
COMMAND = RowCommand(
    policy="stale",
    policy_version="retain-30d-v1",
    slot=datetime(2026, 7, 8, 2, tzinfo=UTC),
    action="delete",
    table='shop."Order"',
    cutoff=datetime(2026, 6, 8, 2, 0, 0, 5, UTC),
    batch=BATCH,
)


def test_the_message_fits_the_published_schema() -> None:
    schema = SCHEMA["$defs"]["rows"]
    assert faults(COMMAND.message(), "rows") == []
    assert list(COMMAND.message()) == schema["required"] == list(schema["properties"])
    assert faults(replace(COMMAND, action="archive").message(), "rows") == []
    assert schema["additionalProperties"] is False
    assert faults(COMMAND.message())  # and is none about an object


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"kind": "object"}, "kind is not const rows"),
        ({"cutoff": "2026-06-08T02:00:00Z"}, "cutoff is not pattern"),
        ({"first": [9007199254740993]}, "first is not items"),
        ({"first": []}, "first is not minItems 1"),
        ({"last": '["1"]'}, "last is not type array"),
        ({"rows": "100"}, "rows is not type integer"),
        ({"walk": "offset"}, "walk is not enum"),
        ({"url": "postgresql://"}, "url is unknown"),
    ],
)
def test_the_schema_refuses_what_is_no_command(change: dict[str, Any], fault: str) -> None:
    found = faults(COMMAND.message() | change, "rows")

    assert any(one.startswith(fault) for one in found)


def test_ids_are_texts_that_no_reader_of_json_can_round() -> None:
    """O-PK-03: whoever reads JSON numbers as floats still gets the exact key."""
    received = json.loads(COMMAND.encode(), parse_int=float, parse_float=float)

    assert received["first"] == ["2026-01-02 03:04:05.000006", "9007199254740993"]
    assert received["last"] == ["2026-01-02 03:04:05.000006", "größe"]


def test_the_id_is_that_of_the_design() -> None:
    """DESIGN "Identity": the parts are "rows", policy, version, table, cutoff, first, last."""
    parts = (
        "rows",
        "stale",
        "retain-30d-v1",
        'shop."Order"',
        "2026-06-08T02:00:00.000005Z",
        '["2026-01-02 03:04:05.000006","9007199254740993"]',
        '["2026-01-02 03:04:05.000006","größe"]',
    )
    framed = "".join(f"{len(part.encode())}:{part}," for part in parts)

    assert COMMAND.operation_id == sha256(framed.encode()).hexdigest()
    assert COMMAND.message()["operation_id"] == COMMAND.operation_id


def test_the_message_says_what_its_id_is_made_of() -> None:
    """What is published has to hash to its id, or it executes nothing."""
    message = json.loads(COMMAND.encode())
    ends = [
        json.dumps(message[end], ensure_ascii=False, separators=(",", ":"))
        for end in ("first", "last")
    ]

    assert ends == [BATCH.first, BATCH.last]
    assert message["cutoff"] == "2026-06-08T02:00:00.000005Z"


@pytest.mark.parametrize(
    "change",
    [
        {"policy": "other"},
        {"policy_version": "v3"},
        {"table": "shop.Order"},
        {"cutoff": COMMAND.cutoff + timedelta(microseconds=1)},
        {"batch": replace(BATCH, first='["a"]')},
        {"batch": replace(BATCH, last='["a"]')},
    ],
)
def test_everything_that_names_the_batch_changes_the_id(change: dict[str, Any]) -> None:
    assert replace(COMMAND, **change).operation_id != COMMAND.operation_id


def test_neither_the_slot_nor_what_was_counted_is_part_of_the_identity() -> None:
    """A batch that is planned again over the same ends is the same operation."""
    again = replace(COMMAND, slot=COMMAND.slot + timedelta(days=1), batch=replace(BATCH, rows=3))

    assert again.operation_id == COMMAND.operation_id


def test_instants_are_written_in_utc_whatever_zone_they_came_in() -> None:
    there = timezone(timedelta(hours=-4))
    same = replace(COMMAND, cutoff=COMMAND.cutoff.astimezone(there))

    assert same.message() == COMMAND.message()


def ends(length: int, letter: str = "a") -> RowBatch:
    """A batch whose two ends take *length* characters each, as JSON."""
    end = json.dumps([letter * (length - 4)], ensure_ascii=False)
    return replace(BATCH, first=end, last=end)


def test_the_largest_command_stays_under_the_limit() -> None:
    """Names and versions have at most 100 characters, each part of a table's name `LONGEST`."""
    largest = replace(
        COMMAND,
        policy="p" * 100,
        policy_version="\U0001f600" * 100,
        table=".".join(2 * ['"' + "\U0001f600" * LONGEST + '"']),
        batch=ends(MAX_ENDS // 2),
    )

    assert impossible_batch(largest.batch) is None
    assert len(largest.encode()) < MAX_BYTES


@pytest.mark.parametrize("batch", [ends(MAX_ENDS // 2 + 1), ends(MAX_ENDS // 6 + 2, "ö")])
def test_a_batch_whose_ends_do_not_fit_is_refused_with_both_numbers(batch: RowBatch) -> None:
    why = impossible_batch(batch)

    assert why is not None
    assert "4,096" in why
