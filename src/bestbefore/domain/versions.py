"""What a bucket that keeps versions holds under one key, and which of it a policy is about.

An entry is a version or a delete marker. The newest entry decides what readers see: a version is
the current object, a marker hides everything under it.
"""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

NULL = "null"
"""The id of what was written without versioning, or while it is suspended. It names a place, not
a version: the next write without an id of its own replaces what is there."""


class Versions(StrEnum):
    """What a policy does in a bucket that keeps versions."""

    MARKER = "marker"  # hides the current version
    NONCURRENT = "noncurrent"  # removes what is no longer current, and lone markers
    PURGE = "purge"  # removes everything old under a key, the newest entry last


class Version(NamedTuple):
    """What tells one entry from the others under its key.

    ``since`` is when it stopped being the newest, None for the newest itself. Of the newest,
    ``others`` counts the entries under it and ``kept`` those of them that stay.
    """

    id: str
    marker: bool
    since: datetime | None = None
    others: int = 0
    kept: int = 0

    @property
    def newest(self) -> bool:
        return self.since is None

    @property
    def last_to_go(self) -> bool:
        """Whether removing it too early would bring what is under it back to life."""
        return self.since is None and self.others > 0
