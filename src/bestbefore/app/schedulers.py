"""Schedulers of somebody else's: the only place that knows their names."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bestbefore.app import plugins
from bestbefore.app.settings import ScheduleSettings, Settings
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.scheduler import Scheduler
from bestbefore.ports.transport import Broker
from bestbefore.stages.sync import Difference, Drift

_EXTRA = 'schedule.kind = "{}" needs {}: pip install "bestbefore[{}]"'


@contextmanager
def scheduler_of(settings: Settings) -> Iterator[Scheduler]:
    """The scheduler that *settings*, which name one of somebody else's, lead to.

    Raises LedgerError without its library, and SchedulerFailed.
    """
    scheduler = _connected(settings)
    try:
        yield scheduler
    finally:
        scheduler.close()


def trigger_queue_of(settings: Settings) -> Broker | None:
    """Where triggers are taken from; None where none come through a queue.

    Raises LedgerError without its library, and TransportFailed.
    """
    kind, there = settings.schedule.kind, settings.schedule.outside
    if there.trigger_queue_url is None:
        return None
    # Imported here: the vendor's client is an extra, and takes a while to import.
    try:
        from bestbefore.adapters.queues import sqs
    except ImportError as error:
        raise LedgerError(_EXTRA.format(kind, error.name, "sqs")) from error
    return sqs.connect(
        sqs.SqsSettings(
            queue_url=there.trigger_queue_url,
            region=there.region,
            endpoint_url=there.endpoint_url,
            access_key_id=there.access_key_id,
            secret_access_key=there.secret_access_key,
        )
    )


def _connected(settings: Settings) -> Scheduler:
    schedule = settings.schedule
    if schedule.kind == "eventbridge":
        return _eventbridge(schedule)
    if schedule.kind == "infrai":
        return _infrai(settings)
    made: Scheduler = plugins.connect(
        plugins.SCHEDULERS,
        schedule.kind,
        schedule.outside.options,
        "schedule",
        Scheduler,  # type: ignore[type-abstract]  # asked whether it is one, never made
    )
    return made


def _eventbridge(settings: ScheduleSettings) -> Scheduler:
    try:
        from bestbefore.adapters.schedulers import eventbridge
    except ImportError as error:
        raise LedgerError(_EXTRA.format(settings.kind, error.name, "sqs")) from error
    there = settings.outside
    return eventbridge.connect(
        eventbridge.EventBridgeSettings(
            role_arn=there.role_arn,
            access=eventbridge.Access(
                there.region, there.endpoint_url, there.access_key_id, there.secret_access_key
            ),
            group=there.group,
            queue_url=there.trigger_queue_url,
            target_arn=there.http_target_arn,
            dead_letter_arn=there.dead_letter_arn,
        )
    )


def _infrai(settings: Settings) -> Scheduler:
    try:
        from bestbefore.adapters.schedulers import infrai
    except ImportError as error:
        raise LedgerError(_EXTRA.format("infrai", error.name, "infrai")) from error
    try:
        there = infrai.InfraiSchedulerSettings(
            api_key=settings.infrai.api_key or "",
            public_url=settings.serve.public_url or "",
            trigger_secret=next(iter(settings.serve.trigger_secrets), ""),
            group=settings.schedule.outside.group,
            base_url=settings.infrai.base_url or infrai.DEFAULT_BASE_URL,
        )
        return infrai.connect(there)
    except ValueError as error:
        raise LedgerError(f"{settings.path}: {error}") from error


LEVELS = {
    Drift.MISSING: Level.ERROR,
    Drift.DISABLED: Level.ERROR,
    Drift.INEXPRESSIBLE: Level.ERROR,
    Drift.CHANGED: Level.WARNING,
    Drift.LEFT_OVER: Level.WARNING,
    Drift.REPEATED: Level.WARNING,
    Drift.FOREIGN: Level.INFO,
}
"""An error keeps a policy from running."""

_IN_LINE = "run `bestbefore schedule sync`"


def findings(differences: Sequence[Difference], scheduler: Scheduler) -> Iterator[Finding]:
    """*differences* as `check` reports them."""
    for one in differences:
        remedy = _IN_LINE if one.drift.settled else "see docs/schedulers.md"
        yield Finding(
            f"schedule-{one.drift.replace(' ', '-')}",
            LEVELS[one.drift],
            f"{scheduler.name}: {told(one)}",
            remedy,
        )


def told(difference: Difference) -> str:
    """*difference* as a sentence."""
    name, there = f"policies.{difference.policy}", difference.deployed
    match difference.drift:
        case Drift.MISSING:
            return f"{name}: there is no schedule, so nothing triggers it"
        case Drift.DISABLED if there is not None:
            return f"{name}: the schedule {there.id} is disabled, so nothing triggers it"
        case Drift.CHANGED if there is not None:
            terms = ", ".join(difference.changes or ())
            off = "" if there.enabled else ", and is disabled"
            return f"{name}: the schedule {there.id} differs in {terms}{off}"
        case Drift.LEFT_OVER if there is not None:
            return f"the schedule {there.id} is of a policy without one, {difference.policy}"
        case Drift.REPEATED if there is not None:
            return f"{name}: the schedule {there.id} is there once more"
        case Drift.FOREIGN if there is not None:
            return (
                f"the schedule {there.id}, of {difference.policy}, which is no policy here, calls "
                f"something else; it is left as it is"
            )
        case _:
            return difference.why
