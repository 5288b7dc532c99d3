"""The message: one small pointer with intent, never data."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from bestbefore.domain.identity import (
    exact_instant,
    instant,
    object_identity,
    operation_id,
    row_operation,
    upload_operation,
)
from bestbefore.domain.rows import RowBatch

VERSION = 1
MAX_BYTES = 8 * 1024
MAX_ENDS = 4 * 1024
"""Bytes that the ends of a row batch may take; the longest names there are fit beside them."""


@dataclass(frozen=True, slots=True)
class ObjectCommand:
    """Delete the object *key* if it is still the one that was seen, or just one version of it; or
    abort the unfinished upload *upload_id* of it."""

    policy: str
    policy_version: str
    slot: datetime
    action: str
    bucket: str
    key: str
    etag: str
    last_modified: datetime
    upload_id: str | None = None
    version_id: str | None = None

    @property
    def operation_id(self) -> str:
        """Hex, 64 characters; see DESIGN "Identity"."""
        if self.upload_id is not None:
            return upload_operation(
                self.policy, self.policy_version, self.bucket, self.key, self.upload_id
            )
        identity = object_identity(self.etag, self.last_modified, self.version_id)
        return operation_id(
            "object", self.policy, self.policy_version, self.bucket, self.key, identity
        )

    def message(self) -> dict[str, object]:
        """The message's fields; its JSON Schema is ``docs/command.schema.json``."""
        message: dict[str, object] = {
            "v": VERSION,
            "kind": "object",
            "operation_id": self.operation_id,
            "policy": self.policy,
            "policy_version": self.policy_version,
            "slot": instant(self.slot),
            "action": self.action,
            "bucket": self.bucket,
            "key": self.key,
            "etag": self.etag,
            "last_modified": instant(self.last_modified),
        }
        if self.upload_id is not None:
            message["upload_id"] = self.upload_id
        if self.version_id is not None:
            message["version_id"] = self.version_id
        return message

    def encode(self) -> bytes:
        """The message on the wire: ASCII JSON, so that its size in bytes is its length."""
        return encoded(self.message())


@dataclass(frozen=True, slots=True)
class RowCommand:
    """Delete, or archive, what is between the ends of one *batch* of *table* and still selected."""

    policy: str
    policy_version: str
    slot: datetime
    action: str
    table: str
    cutoff: datetime
    batch: RowBatch

    @property
    def operation_id(self) -> str:
        """Hex, 64 characters; see DESIGN "Identity"."""
        return row_operation(
            self.policy,
            self.policy_version,
            self.table,
            self.cutoff,
            self.batch.first,
            self.batch.last,
        )

    def message(self) -> dict[str, object]:
        """The message's fields, as the same schema has them. Every part of a key is a text: a JSON
        number would round what is above 2**53."""
        return {
            "v": VERSION,
            "kind": "rows",
            "operation_id": self.operation_id,
            "policy": self.policy,
            "policy_version": self.policy_version,
            "slot": instant(self.slot),
            "action": self.action,
            "table": self.table,
            "cutoff": exact_instant(self.cutoff),
            "first": json.loads(self.batch.first),
            "last": json.loads(self.batch.last),
            "rows": self.batch.rows,
            "walk": self.batch.walk.value,
            "shape": self.batch.shape,
        }

    def encode(self) -> bytes:
        """The message on the wire, as of an object's command."""
        return encoded(self.message())


def impossible_batch(batch: RowBatch) -> str | None:
    """Why no command can carry *batch*; None where one can."""
    size = sum(len(encoded(json.loads(end))) for end in (batch.first, batch.last))
    if size <= MAX_ENDS:
        return None
    return f"its keys take {size:,} bytes of a message, more than {MAX_ENDS:,}"


def encoded(content: Mapping[str, object] | list[str]) -> bytes:
    """*content* on the wire: ASCII JSON."""
    return json.dumps(content, separators=(",", ":")).encode("ascii")
