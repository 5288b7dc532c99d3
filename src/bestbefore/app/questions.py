"""Questions that take a look at the data as well as at the ledger."""

from collections.abc import Callable

from bestbefore.app import object_questions, row_questions
from bestbefore.app.system import System
from bestbefore.domain.policy import Policy
from bestbefore.domain.run import Run
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.records import OperationFilter, Verification
from bestbefore.read.documents import Document, when
from bestbefore.stages.verify import verify

_SAMPLE = 10


def verification(
    system: System, policy: Policy, on_page: Callable[[Run], None], stopping: Callable[[], bool]
) -> Document:
    """What the newest released run's cutoff selects and a fresh look still finds.

    Of a policy about rows ``overdue`` counts rows, and ``sample`` names the batches they would be.
    """
    newest = system.records.newest_released(policy.name)
    if newest is None:
        raise LedgerError(
            f"policies.{policy.name}: no run was released yet, so nothing can be overdue; "
            f"`bestbefore plan {policy.name}` makes one"
        )
    if newest.policy_version != policy.version:
        raise LedgerError(
            f"policies.{policy.name}: the newest released run is of version "
            f"{newest.policy_version}, and the file has {policy.version}; plan that first"
        )
    at = system.clock.now()
    here = system.survey(policy).target(policy, at)
    if newest.target != here:
        # A look at another place would prove nothing, least of all that nothing is overdue.
        raise LedgerError(
            f"policies.{policy.name}: the newest released run looked at {newest.target}, this "
            f"configuration looks at {here}; take the change back, or plan there first"
        )
    with system.scratch() as scratch:
        drawn = verify(
            system.governed(policy, newest.slot),
            newest.slot,
            system.survey(policy),
            scratch.plans,
            system.clock,
            system.spread,
            on_page,
            stopping,
            system.held(policy),
            system.plans.known,
        )
        sample = [operation.key for operation in scratch.records.operations(
            OperationFilter(), _SAMPLE)]  # fmt: skip
        oldest = scratch.records.oldest(drawn)
    held, overdue = drawn.already_pending, drawn.own_selected
    system.records.save_verification(policy.name, Verification(at, overdue, oldest, held))
    return {
        "policy": policy.name,
        "policy_version": policy.version,
        "run_id": newest.run_id,
        "cutoff": when(drawn.cutoff),
        "unit": "row" if policy.about_rows else "object",
        "scanned": drawn.scanned,
        "overdue": overdue,
        "oldest_overdue": when(oldest),
        "held": held,
        "protected": dict(drawn.protected),
        "sample": sample,
        "at": when(at),
    }


def explanation(
    system: System,
    policy: Policy,
    key: str,
    on_page: Callable[[Run], None],
    stopping: Callable[[], bool],
) -> Document:
    """Why the object, or the row, with *key* stays or goes under *policy*, were it planned now."""
    if policy.about_rows:
        eligible, reasons = row_questions.explained(system, policy, key)
    else:
        eligible, reasons = object_questions.explained(system, policy, key, on_page, stopping)
    return {"policy": policy.name, "key": key, "eligible": eligible, "reasons": reasons}
