"""An incident: dead letters with one cause, as far as their class and their error can tell."""

import re
from hashlib import sha256

from bestbefore.domain.failure import FailureClass

_LONGEST = 300

_OWN = "…"
_DIFFERS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?"), "(a time)"),
    (re.compile(r"\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "(an id)"),
    # Longer than any SQLSTATE, status or error number, and so the name of one thing only.
    (re.compile(r"\b(?=[0-9A-Za-z]*\d)[0-9A-Fa-f]{8,}\b|\b\d{6,}\b"), "(an id)"),
    (re.compile(r"=\([^()]*\)"), "=(…)"),
)
"""What differs between two errors with one cause, and what stands in its place."""


def gist(error: str, key: str) -> str:
    """*error* without what is only about the one target *key*: its key, ids and times.

    Codes stay, as they tell causes apart. At most 300 characters.
    """
    if len(key) > 1:
        error = error.replace(key, _OWN)
    for pattern, instead in _DIFFERS:
        error = pattern.sub(instead, error)
    return error if len(error) <= _LONGEST else error[: _LONGEST - 1] + _OWN


def incident_id(failure_class: FailureClass, error: str) -> bytes:
    """The name (16 bytes) of the incident of a class and a gist, whatever the policy."""
    framed = f"{failure_class}\n{error}"
    return sha256(framed.encode("utf-8", "surrogatepass")).digest()[:16]
