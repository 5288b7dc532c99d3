"""What state machines over a ledger share."""

from bestbefore.domain.states import RunState

CANCELLABLE = (RunState.PLANNING, RunState.PARKED, RunState.OPEN)


class After:
    """Says stop after *n* questions; never, without."""

    def __init__(self, n: int | None) -> None:
        self.n = n

    def __call__(self) -> bool:
        if self.n is None:
            return False
        self.n -= 1
        return self.n <= 0
