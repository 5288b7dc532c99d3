"""How an operation can end."""

from enum import StrEnum


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


REPLANNED = frozenset({Outcome.PROTECTED, Outcome.SUPERSEDED, Outcome.CANCELLED})
"""Outcomes that a later plan may simply try again."""

CLOSED = frozenset({Outcome.DISCARDED, Outcome.CORRECTED})
"""Outcomes a person gave; planning never undoes them."""
