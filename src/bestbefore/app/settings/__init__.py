"""The configuration file: read with `load`, which raises `ConfigError`."""

from bestbefore.app.settings.load import load
from bestbefore.app.settings.model import (
    DatabaseSettings,
    InfraiSettings,
    OutsideSettings,
    QueueSettings,
    ScheduleSettings,
    ServeSettings,
    Settings,
    StateSettings,
    StoreSettings,
    ThrottleSettings,
)
from bestbefore.app.settings.problems import ConfigError, Problem, Unfit
from bestbefore.app.settings.urls import state_url

__all__ = [
    "ConfigError",
    "DatabaseSettings",
    "InfraiSettings",
    "OutsideSettings",
    "Problem",
    "QueueSettings",
    "ScheduleSettings",
    "ServeSettings",
    "Settings",
    "StateSettings",
    "StoreSettings",
    "ThrottleSettings",
    "Unfit",
    "load",
    "state_url",
]
