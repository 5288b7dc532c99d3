"""The message: one small pointer with intent, never data."""

import json
from dataclasses import dataclass
from datetime import datetime

from bestbefore.domain.identity import (
    instant,
    object_identity,
    operation_id,
    upload_operation,
)

VERSION = 1
MAX_BYTES = 8 * 1024


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
        return json.dumps(self.message(), separators=(",", ":")).encode("ascii")
