"""Finish a small run over rows while whoever asked for it waits.

It is the same work as ever, only at once: what is not done in time stays where it is, for any
worker to go on with. Never for somebody who only asked for a plan.
"""

from collections.abc import Callable

from bestbefore.domain.policy import Policy
from bestbefore.domain.report import Report
from bestbefore.domain.run import Run
from bestbefore.domain.states import RunState
from bestbefore.ports.clock import Clock


def finish(
    policy: Policy, run: Run, clock: Clock, work: Callable[[Callable[[], bool]], Report]
) -> Report | None:
    """What *work* did until it was told to stop, which is once the policy's time is over.

    None, and nothing done, unless *run* is planned to its end and released, and has something to
    delete, but fewer rows, those of other tables included, than the policy's
    ``synchronous_below``.
    """
    if not _small(policy, run):
        return None
    until = clock.now() + policy.rows.synchronous_within
    return work(lambda: clock.now() >= until)


def _small(policy: Policy, run: Run) -> bool:
    if not policy.about_rows or policy.action != "delete":
        return False
    undone = run.waiting + run.pending - run.held
    open_ = run.complete and run.state is RunState.OPEN
    return open_ and undone > 0 and run.selected < policy.rows.synchronous_below
