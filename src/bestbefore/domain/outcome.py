"""How an operation can end."""

from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    """Why an operation is completed. Only ``deleted`` and ``archived`` changed anything."""

    DELETED = "deleted"
    ARCHIVED = "archived"
    ABSENT = "absent"  # somebody else was first
    CHANGED = "changed"  # not what the plan saw: kept
    PROTECTED = "protected"  # the policy's protection applied at execution: kept
    SUPERSEDED = "superseded"  # planned under a version that is no longer current: kept
    CANCELLED = "cancelled"  # its run was cancelled or taken over: kept
    DISCARDED = "discarded"  # a person closed the dead letter: kept
    CORRECTED = "corrected"  # a person replaced it by a corrected operation
    SPLIT = "split"  # a row batch continued as smaller ones


class Spared(NamedTuple):
    """Why one operation ends as ``protected``: the name of what kept it, and more about it."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


REPLANNED = frozenset({Outcome.PROTECTED, Outcome.SUPERSEDED, Outcome.CANCELLED})
"""Outcomes that a later plan may simply try again."""

REMOVED = frozenset({Outcome.DELETED, Outcome.ARCHIVED})
"""Outcomes that took an object, and its bytes, out of its bucket."""

CLOSED = frozenset({Outcome.DISCARDED, Outcome.CORRECTED})
"""Outcomes a person gave; planning never undoes them."""
