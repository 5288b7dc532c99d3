"""Scan again and count what should be gone and is still there."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from bestbefore.domain.hold import Held
from bestbefore.domain.known import Known
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Run, Trigger
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import PlanLedger
from bestbefore.stages.survey import LEASE, Errand, Survey


def verify(
    policy: Policy,
    slot: datetime,
    survey: Survey,
    scratch: PlanLedger,
    clock: Clock,
    spread: Callable[[], float],
    on_page: Callable[[Run], None],
    stopping: Callable[[], bool],
    held: Held,
    known: Callable[[Sequence[bytes]], Mapping[bytes, Known]],
) -> Run:
    """Draw the plan of *slot* into *scratch* as if nothing had ever been done about it.

    What that run selects is overdue, but what *known* says is held: it counts as already pending.
    Trusts no record of what was deleted, only the listing.
    Raises StoreError, and Stopped when it was asked to stop: a part is no proof.
    """
    answer = scratch.answer(
        policy,
        slot,
        "verification",
        Trigger.PLAN,
        approved=True,
        by="verify",
        now=clock.now(),
        lease=LEASE,
    )
    if answer.claim is None:
        raise ValueError("a verification needs an empty scratch ledger")

    def waiting(operation_ids: Sequence[bytes]) -> Mapping[bytes, Known]:
        return {id_: one for id_, one in known(operation_ids).items() if one.held}

    scan = survey.scan(
        Errand(
            policy, scratch, waiting, lambda _: [], clock, spread, on_page, stopping, held,
            verifies=True,
        )
    )  # fmt: skip
    scan.run(answer.claim, answer.run, None)
    pointer = scan.pointer()
    return scratch.conclude(
        answer.claim, policy.keep_generations, lambda _: None, clock.now(), pointer
    )
