"""The message, and its published schema."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestbefore.domain.command import MAX_BYTES, ObjectCommand
from bestbefore.domain.identity import ObjectIds
from bestbefore.domain.selection import MAX_KEY_BYTES
from support.schema import SCHEMA, faults

COMMAND = ObjectCommand(
    policy="digests",
    policy_version="retain-30d-v2",
    slot=datetime(2026, 7, 8, 2, tzinfo=UTC),
    action="delete",
    bucket="weekly-digests",
    key="exports/2026-06/customer-1842.json",
    etag="9dd4e461268c8034f5c8564e155c67a6",
    last_modified=datetime(2026, 6, 7, 2, tzinfo=UTC),
)


UPLOAD = replace(COMMAND, etag="", upload_id="2~abc")


def test_the_message_fits_the_published_schema() -> None:
    schema = SCHEMA["$defs"]["object"]
    assert faults(COMMAND.message()) == []
    assert list(COMMAND.message()) == schema["required"]
    assert [*UPLOAD.message(), "version_id"] == list(schema["properties"])
    assert faults(UPLOAD.message()) == []
    assert faults(replace(COMMAND, action="archive").message()) == []
    assert schema["additionalProperties"] is False
    assert SCHEMA["oneOf"] == [{"$ref": "#/$defs/object"}, {"$ref": "#/$defs/rows"}]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"v": 2}, "v is not const 1"),
        ({"v": True}, "v is not const 1"),
        ({"kind": "rows"}, "kind is not const object"),
        ({"operation_id": "abc"}, "operation_id is not pattern"),
        ({"action": "drop"}, "action is not enum"),
        ({"upload_id": ""}, "upload_id is not minLength 1"),
        ({"slot": "2026-07-08"}, "slot is not pattern"),
        ({"key": ""}, "key is not minLength 1"),
        ({"secret": "x"}, "secret is unknown"),
    ],
)
def test_the_schema_refuses_what_is_no_command(change: dict[str, object], fault: str) -> None:
    assert any(found.startswith(fault) for found in faults(COMMAND.message() | change))


def test_the_message_names_its_operation_by_the_id_of_the_design() -> None:
    message = COMMAND.message()

    assert message["operation_id"] == (
        "9783c7f13d5e634d7642896032b3915dbf0471bcd0c08c4637a40108858c7fae"
    )
    assert message["slot"] == "2026-07-08T02:00:00Z"
    assert message["last_modified"] == "2026-06-07T02:00:00Z"


def test_an_unfinished_upload_is_named_by_its_id_and_not_by_its_date() -> None:
    """DESIGN "Identity": the parts are "upload", policy, version, bucket, key, upload id."""
    parts = ("upload", "digests", "retain-30d-v2", "weekly-digests", UPLOAD.key, "2~abc")
    framed = "".join(f"{len(part.encode())}:{part}," for part in parts)

    assert UPLOAD.operation_id == sha256(framed.encode()).hexdigest()
    later = replace(UPLOAD, last_modified=UPLOAD.last_modified + timedelta(days=1))
    assert later.operation_id == UPLOAD.operation_id
    assert replace(UPLOAD, upload_id="3~abc").operation_id != UPLOAD.operation_id


def test_the_slot_is_not_part_of_the_identity() -> None:
    """Two runs that select the same object mean the same operation."""
    later = replace(COMMAND, slot=COMMAND.slot + timedelta(days=1))

    assert later.operation_id == COMMAND.operation_id


def test_joined_fields_do_not_collide() -> None:
    """O-IDEM-01"""
    first = replace(COMMAND, bucket="b", key="k\nv1", policy_version="v2")
    second = replace(COMMAND, bucket="b", key="k", policy_version="v1\nv2")

    assert first.operation_id != second.operation_id


@pytest.mark.parametrize(
    "change",
    [
        {"policy": "other"},
        {"policy_version": "v3"},
        {"bucket": "other"},
        {"key": "other"},
        {"etag": "other"},
        {"last_modified": COMMAND.last_modified + timedelta(seconds=1)},
    ],
)
def test_everything_that_names_the_target_changes_the_id(change: dict[str, Any]) -> None:
    assert replace(COMMAND, **change).operation_id != COMMAND.operation_id


def test_instants_are_written_in_utc_whatever_zone_they_came_in() -> None:
    there = timezone(timedelta(hours=-4))
    same = replace(
        COMMAND,
        slot=COMMAND.slot.astimezone(there),
        last_modified=COMMAND.last_modified.astimezone(there) + timedelta(milliseconds=999),
    )

    assert same.message() == COMMAND.message()


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_keys_survive_the_wire_byte_by_byte(key: str) -> None:
    """O-KEY-01 to O-KEY-04: nothing decodes, tidies, unescapes or normalises."""
    command = replace(COMMAND, key=key)

    received = json.loads(command.encode())

    assert received == command.message()
    assert received["key"] == key
    assert command.operation_id == (
        ObjectIds(command.policy, command.policy_version, command.bucket)
        .of(key, command.etag, command.last_modified)
        .hex()
    )


@pytest.mark.parametrize("letter", ["a", "\x10", '"', "\u00f6", "\u65e5", "\U0001f600"])
def test_the_largest_command_stays_under_the_limit(letter: str) -> None:
    """Names and versions are at most 100 characters, buckets 63; a key has 1,024 bytes."""
    command = replace(
        COMMAND,
        policy="p" * 100,
        policy_version="\U0001f600" * 100,
        bucket="b" * 63,
        key=letter * (MAX_KEY_BYTES // len(letter.encode())),
    )

    assert len(command.encode()) < MAX_BYTES


def test_a_version_is_named_and_is_the_identity() -> None:
    version = replace(COMMAND, version_id="3sL4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY")
    message = version.message()
    assert faults(message) == []
    assert message["version_id"] == version.version_id
    assert message["operation_id"] == (
        "e4e43bf153f48412539a7b40327b0b923128a28bb6ec46213f7cca2e3d9af14f"
    )
    # What was seen beside it tells nothing more.
    assert replace(version, etag="another").operation_id == version.operation_id
    ids = ObjectIds(version.policy, version.policy_version, version.bucket)
    assert (
        ids.of(version.key, version.etag, version.last_modified, version.version_id).hex()
        == version.operation_id
    )


def test_the_version_null_is_no_identity_as_it_can_be_overwritten() -> None:
    null = replace(COMMAND, version_id="null")
    assert null.operation_id == COMMAND.operation_id
    assert replace(null, etag="another").operation_id != null.operation_id
