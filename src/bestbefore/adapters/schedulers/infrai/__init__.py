"""Infrai's cron, over plain HTTP: docs/infrai.md."""

from bestbefore.adapters.infrai import DEFAULT_BASE_URL
from bestbefore.adapters.schedulers.infrai.scheduler import (
    CAPABILITIES,
    InfraiScheduler,
    InfraiSchedulerSettings,
    connect,
)

__all__ = [
    "CAPABILITIES",
    "DEFAULT_BASE_URL",
    "InfraiScheduler",
    "InfraiSchedulerSettings",
    "connect",
]
