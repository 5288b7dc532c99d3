"""`check`: would each policy run, and what can it rely on?"""

from collections.abc import Iterator

from bestbefore.app.system import System
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.policy import Policy
from bestbefore.ports.objects import KeyRange, StoreError
from bestbefore.stages.plan import PlanRefused


def findings(system: System, *, queue: bool) -> list[Finding]:
    """Everything worth saying about this setup, in the order of the file. Deletes nothing."""
    found = list(system.settings.warnings)
    if queue:
        found.append(_queue(system))
    for policy in system.settings.policies.values():
        found += _policy(system, policy)
    return found


def _queue(system: System) -> Finding:
    lease = system.settings.queue.lease.total_seconds()
    return Finding(
        "queue-in-state",
        Level.INFO,
        f"the queue is the state database; a command is leased for {lease:.0f} s",
        "",
    )


def _policy(system: System, policy: Policy) -> Iterator[Finding]:
    place = f"policies.{policy.name}"
    store = system.store(policy.connection)
    try:
        target = system.planner(policy).target(policy)
        store.lister.page(policy.source.bucket, policy.source.prefix, KeyRange(None, None))
    except PlanRefused as error:
        yield Finding("plan-refused", Level.ERROR, str(error), "")
        return
    except StoreError as error:
        yield Finding(
            f"store-{error.failure.failure_class}",
            Level.ERROR,
            f"{place}: {error}",
            f"look at stores.{policy.connection} and at the rights of its keys",
        )
        return
    yield Finding("store-listed", Level.INFO, f"{place}: {target} can be listed", "")
    for finding in store.deleter.check(policy.source.bucket, policy.source.prefix):
        yield Finding(finding.code, finding.level, f"{place}: {finding.message}", finding.remedy)
