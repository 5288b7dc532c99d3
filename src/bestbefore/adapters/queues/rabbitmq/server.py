"""Which RabbitMQ it is, and what that version does: they differ in what they lose, and when."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bestbefore.ports.transport import Capabilities

_MIB = 1024 * 1024
CONSUMER_TIMEOUT = timedelta(minutes=30)
"""How long a consumer may keep a message, unless the broker's `consumer_timeout` says otherwise."""


@dataclass(frozen=True, slots=True)
class Server:
    """What a broker says of itself when one connects. ``version`` is empty if it says nothing."""

    product: str
    version: str
    confirms: bool

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> "Server":
        """Read a connection's server properties."""
        can = properties.get("capabilities") or {}
        return cls(
            _text(properties.get("product")),
            _text(properties.get("version")),
            bool(can.get("publisher_confirms")),
        )

    @property
    def number(self) -> tuple[int, int]:
        """Major and minor version, (0, 0) where they cannot be read."""
        found = re.match(r"(\d+)\.(\d+)", self.version)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @property
    def dead_letters_safely(self) -> bool:
        """Whether a dead letter can be kept until the other queue has it (at-least-once)."""
        return self.number >= (3, 10)

    @property
    def delivery_limit(self) -> int | None:
        """How often a quorum queue without a limit of its own gives a message out again."""
        return 20 if self.number >= (4, 0) else None

    @property
    def max_body(self) -> int:
        """Bytes. The default of `max_message_size`; nobody can be asked what it was set to."""
        return 128 * _MIB if (0, 0) < self.number < (4, 0) else 16 * _MIB

    def capabilities(self, retention: timedelta | None) -> Capabilities:
        """What a queue there promises whose messages last for *retention*."""
        return Capabilities(
            max_body=self.max_body,
            retention=retention,
            leases=False,
            extends=True,
            fences=True,
            deduplicates=False,
            carries_any_bytes=True,
            longest_lease=CONSUMER_TIMEOUT,
        )


UNKNOWN = Server("", "", confirms=True)
"""Before the first connection."""

CAPABILITIES = {
    "before 4.0": Server("RabbitMQ", "3.13", confirms=True).capabilities(None),
    "4.0 and later": Server("RabbitMQ", "4.0", confirms=True).capabilities(None),
}
"""By version, of a queue without a TTL."""


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
