"""What one worker did."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """What one worker did. ``late`` results belonged to a later delivery and were refused."""

    received: int = 0
    completed: int = 0
    dead: int = 0
    late: int = 0
    abandoned: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    retried: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
