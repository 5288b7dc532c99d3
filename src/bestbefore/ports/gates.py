"""How the gate ended, and for which connections, so that others can tell whether it ever passed."""

from datetime import datetime
from typing import NamedTuple, Protocol


class GateRun(NamedTuple):
    """One whole run of the gate. ``connections`` is a SHA-256 of the kinds and places that it was
    about; ``passed``, ``failed`` and ``not_applicable`` count scenarios."""

    connections: bytes
    at: datetime
    passed: int
    failed: int
    not_applicable: int
    version: str
    by: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether it passed: nothing failed, and not because nothing could be tried."""
        return self.passed > 0 and self.failed == 0


class Gates(Protocol):
    """What is kept of the gate's runs."""

    def remember(self, run: GateRun) -> None:
        """Keep *run*."""
        ...

    def newest(self, connections: bytes) -> GateRun | None:
        """The run about *connections* that was remembered last."""
        ...

    def newest_passed(self, connections: bytes) -> GateRun | None:
        """The last of them that passed."""
        ...
