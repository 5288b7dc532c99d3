"""What a trigger says that comes through a queue: which policy, and for which time."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from bestbefore.domain.message import Unreadable

_MOST_BYTES = 8 * 1024
_VERSIONS = (None, "1", 1)
_LONGEST = 200


class Fate(StrEnum):
    """What became of a trigger that came through a queue."""

    BEGUN = "begun"  # its run is in the ledger
    PAUSED = "paused"  # its slot is missed, for that reason
    UNREADABLE = "unreadable"  # these four are left to the queue, and come again
    UNKNOWN_POLICY = "unknown_policy"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Triggered:
    """One trigger. ``at`` is the time it was scheduled for, None where it does not say.

    ``source`` and ``attempt`` are for people: who sent it, and how often that was tried.
    """

    policy: str
    at: datetime | None
    source: str = ""
    attempt: str = ""


def read_trigger(body: bytes) -> Triggered:
    """The trigger in *body*, a JSON object ``{"policy", "slot"?, "schedule"?, "attempt"?}``.

    Fields that are not known are left alone: a scheduler may add its own. Raises Unreadable.
    """
    if len(body) > _MOST_BYTES:
        raise Unreadable(f"a trigger has at most {_MOST_BYTES:,} bytes")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise Unreadable('expected a trigger as JSON: {"policy": NAME, "slot": TIME}') from None
    if not isinstance(fields, dict) or fields.get("v") not in _VERSIONS:
        raise Unreadable('expected a trigger, a JSON object with "v": "1" or without "v"')
    policy = fields.get("policy")
    if not isinstance(policy, str) or not policy:
        raise Unreadable("policy: expected the name of a policy")
    return Triggered(
        policy,
        _moment(fields["slot"]) if fields.get("slot") is not None else None,
        str(fields.get("schedule", ""))[:_LONGEST],
        str(fields.get("attempt", ""))[:_LONGEST],
    )


def _moment(value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        if moment is not None and moment.tzinfo is not None and 1970 < moment.year < 9000:
            return moment.astimezone(UTC)
    except ValueError:
        pass
    raise Unreadable("slot: expected a time with its zone, such as 2026-07-01T02:00:00Z")
