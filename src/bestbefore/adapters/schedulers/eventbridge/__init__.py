"""AWS EventBridge Scheduler: one schedule per policy, in a group of its own."""

import random
import time
from collections.abc import Callable
from dataclasses import replace

from bestbefore.adapters.botocore_errors import NO_CLIENT_ERRORS
from bestbefore.adapters.schedulers.eventbridge.client import Access, Calls
from bestbefore.adapters.schedulers.eventbridge.scheduler import EventBridge
from bestbefore.adapters.schedulers.eventbridge.settings import EventBridgeSettings
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.ports.scheduler import SchedulerFailed

__all__ = ["Access", "EventBridge", "EventBridgeSettings", "connect"]


def connect(
    settings: EventBridgeSettings,
    sleep: Callable[[float], None] = time.sleep,
    spread: Callable[[], float] = random.random,
) -> EventBridge:
    """The schedules of one group. *sleep* waits between tries. Raises SchedulerFailed."""
    access = replace(settings.access, region=settings.region)
    settings = replace(settings, access=access)
    try:
        calls = Calls(access, settings.name, sleep, spread)
    # No region, an endpoint that is no address, or what the environment and its files say.
    except NO_CLIENT_ERRORS as error:
        raise SchedulerFailed(
            Failure(
                FailureClass.MALFORMED,
                f"{settings.name}: {error}; see schedule.region, schedule.endpoint_url and the "
                "AWS_ variables of this process",
            )
        ) from error
    return EventBridge(settings, calls)
