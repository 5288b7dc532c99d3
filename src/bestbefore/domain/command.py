"""The message: one small pointer with intent, never data."""

import json
from dataclasses import dataclass
from datetime import datetime

from bestbefore.domain.identity import instant, object_identity, operation_id

VERSION = 1
MAX_BYTES = 8 * 1024


@dataclass(frozen=True, slots=True)
class ObjectCommand:
    """Delete the object *key* if it is still the one that was seen."""

    policy: str
    policy_version: str
    slot: datetime
    action: str
    bucket: str
    key: str
    etag: str
    last_modified: datetime

    @property
    def operation_id(self) -> str:
        """Hex, 64 characters; see DESIGN "Identity"."""
        identity = object_identity(self.etag, self.last_modified)
        return operation_id(
            "object", self.policy, self.policy_version, self.bucket, self.key, identity
        )

    def message(self) -> dict[str, object]:
        """The message's fields; its JSON Schema is ``docs/command.schema.json``."""
        return {
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

    def encode(self) -> bytes:
        """The message on the wire: ASCII JSON, so that its size in bytes is its length."""
        return json.dumps(self.message(), separators=(",", ":")).encode("ascii")
