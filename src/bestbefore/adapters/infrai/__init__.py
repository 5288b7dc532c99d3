"""What the adapters to Infrai's queue and to its cron share: plain REST, as discovery has it."""

from bestbefore.adapters.infrai.client import CONTROL_TRIES, InfraiClient, InfraiSettings
from bestbefore.adapters.infrai.errors import Drift, InfraiError
from bestbefore.adapters.infrai.shapes import Shape, Use, Value
from bestbefore.adapters.infrai.targets import DEFAULT_BASE_URL, base_url_problem, place, refused

__all__ = [
    "CONTROL_TRIES",
    "DEFAULT_BASE_URL",
    "Drift",
    "InfraiClient",
    "InfraiError",
    "InfraiSettings",
    "Shape",
    "Use",
    "Value",
    "base_url_problem",
    "place",
    "refused",
]
