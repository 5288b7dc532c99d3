"""What `check` says of a scheduler of somebody else's: of its place, and of what differs there."""

from collections.abc import Sequence

from bestbefore.app.schedulers import findings, scheduler_of, trigger_queue_of
from bestbefore.app.system import System
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.scheduler import SchedulerFailed, SkippedHour
from bestbefore.ports.transport import TransportFailed
from bestbefore.stages.sync import compare, wanted_by

_REMEDIES = {
    FailureClass.CREDENTIALS: "correct its credentials",
    FailureClass.PERMISSION: "allow it, see docs/schedulers.md",
    FailureClass.TRANSIENT: "see whether it can be reached from here",
}


def checked(system: System) -> tuple[bool, Sequence[Finding]]:
    """Whether it leaves out a local time that does not exist, and everything worth saying.

    Changes nothing. Nothing to say without an outside scheduler.
    """
    if not system.settings.schedule.is_outside:
        return False, ()
    skips, found = False, list[Finding]()
    try:
        with scheduler_of(system.settings) as scheduler:
            skips = scheduler.capabilities.skipped_hour is SkippedHour.NEVER
            found += scheduler.findings()
            differences = compare(wanted_by(system.settings.policies), scheduler)
            found += findings(differences, scheduler)
            if not differences:
                said = f"{scheduler.name}: every schedule is as the policies want it"
                found.append(Finding("schedule-in-line", Level.INFO, said, ""))
    except SchedulerFailed as error:
        remedy = _REMEDIES.get(error.failure.failure_class, "see docs/schedulers.md")
        found.append(Finding("scheduler-unreachable", Level.ERROR, str(error), remedy))
    except LedgerError as error:
        said, _, remedy = str(error).partition(": ")
        found.append(Finding("scheduler-not-installed", Level.ERROR, said, remedy))
    return skips, [*found, *_trigger_queue(system)]


def _trigger_queue(system: System) -> Sequence[Finding]:
    """What its own adapter says of the queue that triggers come through."""
    try:
        broker = trigger_queue_of(system.settings)
    except (LedgerError, TransportFailed) as error:
        remedy = "correct schedule.trigger_queue_url, or install what is missing"
        return [Finding("trigger-queue-unusable", Level.ERROR, str(error), remedy)]
    if broker is None:
        return ()
    try:
        return [
            Finding(
                f"trigger-{one.code}",
                one.level,
                f"trigger queue: {one.message}",
                # Which speaks of the section that its queue usually stands in.
                one.remedy.replace("[queue]", "[schedule]").replace(
                    "queue_url", "trigger_queue_url"
                ),
            )
            for one in broker.findings()
        ]
    finally:
        broker.close()
