"""What a check has to say about a setup, in one shape for files, connections and rights."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a finding matters: only an `ERROR` makes a check fail."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation: ``code`` stays the same over releases, ``remedy`` is the next step."""

    code: str
    level: Level
    message: str
    remedy: str
