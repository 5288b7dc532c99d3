"""Every step between states, allowed with a reason or not at all."""

from itertools import product

import pytest

from bestbefore.domain.states import NEXT, NEXT_RUN, RunState, State, may, run_may

ALLOWED = {
    (State.WAITING, State.PENDING): "dispatched",
    (State.WAITING, State.COMPLETED): "cancelled",
    (State.PENDING, State.PENDING): "due again",
    (State.PENDING, State.COMPLETED): "effect is recorded",
    (State.PENDING, State.DEAD): "budget is spent",
    (State.DEAD, State.PENDING): "redriven by a person",
    (State.DEAD, State.COMPLETED): "by a person",
    (State.COMPLETED, State.WAITING): "planned again",
    (State.COMPLETED, State.DEAD): "keeps listing it",
}

ALLOWED_RUN = {
    (RunState.PLANNING, RunState.PARKED): "a row with too many dependents",
    (RunState.PLANNING, RunState.OPEN): "released",
    (RunState.PLANNING, RunState.CANCELLED): "taken over",
    (RunState.PARKED, RunState.OPEN): "approved by a person",
    (RunState.PARKED, RunState.CANCELLED): "taken over",
    (RunState.OPEN, RunState.DRAINED): "nothing waits",
    (RunState.OPEN, RunState.PARKED): "reappeared, or a row has too many dependents",
    (RunState.OPEN, RunState.CANCELLED): "cancelled by a person",
    (RunState.DRAINED, RunState.OPEN): "redriven",
}


@pytest.mark.parametrize(("before", "after"), list(product(State, State)))
def test_every_pair_of_operation_states_is_decided(before: State, after: State) -> None:
    assert may(before, after) == ((before, after) in ALLOWED)
    if may(before, after):
        assert ALLOWED[before, after] in NEXT[before][after]


@pytest.mark.parametrize(("before", "after"), list(product(RunState, RunState)))
def test_every_pair_of_run_states_is_decided(before: RunState, after: RunState) -> None:
    assert run_may(before, after) == ((before, after) in ALLOWED_RUN)
    if run_may(before, after):
        assert ALLOWED_RUN[before, after] in NEXT_RUN[before][after]


def test_nothing_leaves_a_cancelled_run() -> None:
    assert not NEXT_RUN[RunState.CANCELLED]
