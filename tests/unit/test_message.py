"""A message from outside is read whole, or refused; what it says hashes to its id."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bestbefore.domain.command import ObjectCommand, RowCommand
from bestbefore.domain.message import Command, Unreadable, read
from bestbefore.domain.rows import RowBatch, Walk
from support.schema import faults

SLOT = datetime(2026, 7, 10, 2, tzinfo=UTC)
OBJECT = ObjectCommand(
    "digests",
    "retain-30d-v2",
    SLOT,
    "delete",
    "weekly-digests",
    "exports/2026-06/größe\n-1842.json",
    "9dd4e461268c8034f5c8564e155c67a6",
    datetime(2026, 6, 7, 2, tzinfo=UTC),
)
UPLOAD = ObjectCommand(
    "digests", "v2", SLOT, "delete", "b", "k", "", datetime(2026, 6, 7, 2, tzinfo=UTC), "upload-1"
)
VERSION = ObjectCommand(
    "digests", "v2", SLOT, "delete", "b", "k", "e", datetime(2026, 6, 7, 2, tzinfo=UTC), None, "v-7"
)
ROWS = RowCommand(
    "updates",
    "v1",
    SLOT,
    "archive",
    "shop.orders",
    datetime(2026, 6, 10, 2, tzinfo=UTC),
    RowBatch('["2026-01-01","9007199254740993"]', '["2026-01-02","ü"]', 100,
             datetime(2026, 6, 10, 2, tzinfo=UTC), Walk.TIMESTAMP, "shape"),
)  # fmt: skip
ALL: list[Command] = [OBJECT, UPLOAD, VERSION, ROWS]


@pytest.mark.parametrize("command", ALL)
def test_what_was_written_is_read(command: Command) -> None:
    assert read(command.encode()) == command


@pytest.mark.parametrize(
    ("command", "field"), [(c, f) for c in ALL for f in c.message()], ids=lambda v: str(v)[:12]
)
def test_o_guard_03_a_field_that_decides_what_goes_cannot_be_changed(
    command: Command, field: str
) -> None:
    message = command.message()
    for other in ("other", "", 7, None, ["x"], {"a": "b"}):
        changed = message | {field: other}
        try:
            found = read(json.dumps(changed).encode())
        except Unreadable:
            continue
        # What is not part of the id describes; the ledger's own is what counts.
        assert field in ("etag", "shape", "rows"), (field, other)
        assert found.operation_id == command.operation_id
    with pytest.raises(Unreadable):
        read(json.dumps({k: v for k, v in message.items() if k != field}).encode() + b" ")
    with pytest.raises(Unreadable, match="no such field"):
        read(json.dumps(message | {"connection": "postgresql://elsewhere"}).encode())


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.sampled_from(ALL), st.dictionaries(st.sampled_from([*OBJECT.message(), *ROWS.message()]),
                                             _json, max_size=3))  # fmt: skip
def test_what_is_read_fits_the_schema_and_hashes_to_its_id(
    command: Command, changes: dict[str, Any]
) -> None:
    message = command.message() | changes
    try:
        found = read(json.dumps(message).encode())
    except Unreadable:
        return
    assert faults(message, message["kind"]) == []
    assert found.operation_id == message["operation_id"]


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_bytes_are_no_message(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read(data)


def test_what_is_too_long_is_not_even_parsed() -> None:
    with pytest.raises(Unreadable, match="at most 8,192 bytes"):
        read(b" " * 8_192 + OBJECT.encode())
