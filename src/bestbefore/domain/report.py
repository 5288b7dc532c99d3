"""What one worker did."""

from collections import Counter
from dataclasses import dataclass, field

from bestbefore.domain.rows import Effect


@dataclass(slots=True)
class Report:
    """What one worker did.

    ``late`` results belonged to a later delivery and were refused; ``abandoned`` operations were
    given back with a thread still at them. ``stopped`` says that it was told to end, ``left`` what
    a drain that ended by itself could not do, by reason. ``protected`` says what kept those that
    ended so. ``freed`` counts bytes. ``rows`` is what became of rows (``deleted``, ``archived``,
    ``blocked``); by table, ``dependents`` were removed with them, and ``changed`` are rows that
    lost their reference to one of them.
    """

    received: int = 0
    completed: int = 0
    dead: int = 0
    late: int = 0
    abandoned: int = 0
    freed: int = 0
    stopped: bool = False
    outcomes: Counter[str] = field(default_factory=Counter)
    protected: Counter[str] = field(default_factory=Counter)
    retried: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    dependents: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)

    def add(self, effect: Effect) -> None:
        """Count what a row batch changed."""
        self.rows.update(effect.counts())
        self.dependents.update(effect.dependents)
        self.changed.update(effect.changed)
