"""The configuration file: read with `load`, which raises `ConfigError`."""

from bestbefore.app.settings.load import load, state_url
from bestbefore.app.settings.model import QueueSettings, Settings, StateSettings, StoreSettings
from bestbefore.app.settings.problems import ConfigError, Problem, Unfit

__all__ = [
    "ConfigError",
    "Problem",
    "QueueSettings",
    "Settings",
    "StateSettings",
    "StoreSettings",
    "Unfit",
    "load",
    "state_url",
]
