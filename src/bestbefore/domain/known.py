"""What a plan does with an operation it already knows."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from bestbefore.domain.outcome import CLOSED, REPLANNED, Outcome
from bestbefore.domain.states import State

SETTLING = timedelta(minutes=5)
"""How long a listing may still show what was just deleted."""

MOST_REAPPEARANCES = 3


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger holds of one operation. ``reappearances`` counts those running; ``held``
    says that a pending one waits for a lock or for what lies under it."""

    state: State
    outcome: Outcome | None
    completed_at: datetime | None
    reappearances: int
    held: bool = False


class Disposition(StrEnum):
    """How a plan counts one eligible target, and what it writes for it."""

    NEW = "new"
    AGAIN = "again"  # ended without an effect: planned again
    REAPPEARED = "reappeared"
    ALREADY_PENDING = "already_pending"
    ALREADY_COMPLETED = "already_completed"
    ALREADY_DEAD = "already_dead"


def disposition(known: Known | None, page_asked_at: datetime) -> Disposition:
    """The design's table, for a target listed on a page that was asked for at *page_asked_at*."""
    if known is None:
        return Disposition.NEW
    match known.state:
        case State.WAITING | State.PENDING:
            return Disposition.ALREADY_PENDING
        case State.DEAD:
            return Disposition.ALREADY_DEAD
        case State.COMPLETED:
            if known.outcome in CLOSED:
                return Disposition.ALREADY_DEAD
            if known.outcome is Outcome.CANCELLED:
                # Nothing was tried, so no listing can lag behind it; a run that takes over a
                # parked one cancels it right before it lists.
                return Disposition.AGAIN
            if known.completed_at is not None and known.completed_at >= page_asked_at - SETTLING:
                return Disposition.ALREADY_COMPLETED
            if known.outcome in REPLANNED and not known.reappearances:
                return Disposition.AGAIN
            # Cancelling the run that asked about a reappearance does not answer the question.
            return Disposition.REAPPEARED
