"""Every state an operation and a run can be in, and the reason for every step between them."""

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """Of an operation."""

    WAITING = "waiting"
    PENDING = "pending"
    COMPLETED = "completed"
    DEAD = "dead"


class RunState(StrEnum):
    """Of a run."""

    PLANNING = "planning"
    PARKED = "parked"
    OPEN = "open"
    DRAINED = "drained"
    CANCELLED = "cancelled"


NEXT: Mapping[State, Mapping[State, str]] = {
    State.WAITING: {
        State.PENDING: "dispatched to the queue",
        State.COMPLETED: "cancelled with its run, superseded or protected",
    },
    State.PENDING: {
        State.PENDING: "due again after a failure, a give-back or a lost message, or held",
        State.COMPLETED: "its effect is recorded",
        State.DEAD: "its budget is spent",
    },
    State.DEAD: {
        State.PENDING: "redriven by a person",
        State.COMPLETED: "discarded or corrected by a person",
    },
    State.COMPLETED: {
        State.WAITING: "listed again although it ended: planned again",
        State.DEAD: "reappeared after three runs in a row: the store keeps listing it",
    },
}

NEXT_RUN: Mapping[RunState, Mapping[RunState, str]] = {
    RunState.PLANNING: {
        RunState.PARKED: "a cap, a first run, another target, or a row with too many dependents, "
        "needs someone to approve it",
        RunState.OPEN: "released, whole or page by page",
        RunState.CANCELLED: "cancelled by a person or taken over by a newer slot",
    },
    RunState.PARKED: {
        RunState.OPEN: "approved by a person",
        RunState.CANCELLED: "cancelled by a person or taken over by a newer slot",
    },
    RunState.OPEN: {
        RunState.DRAINED: "nothing waits and nothing is pending but held",
        RunState.PARKED: "too many objects reappeared, or a row has too many dependents",
        RunState.CANCELLED: "cancelled by a person",
    },
    RunState.DRAINED: {
        RunState.OPEN: "one of its dead letters was redriven, or what it held may go"
    },
    RunState.CANCELLED: {},
}


def may(before: State, after: State) -> bool:
    """Whether an operation may step from *before* to *after*."""
    return after in NEXT[before]


def run_may(before: RunState, after: RunState) -> bool:
    """Whether a run may step from *before* to *after*."""
    return after in NEXT_RUN[before]
