"""The configuration file: read with `load`, which raises `ConfigError`."""

from bestbefore.app.settings.load import load
from bestbefore.app.settings.model import QueueSettings, Settings, StateSettings, StoreSettings
from bestbefore.app.settings.problems import ConfigError, Problem

__all__ = [
    "ConfigError",
    "Problem",
    "QueueSettings",
    "Settings",
    "StateSettings",
    "StoreSettings",
    "load",
]
