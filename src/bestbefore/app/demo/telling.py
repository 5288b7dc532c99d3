"""How the demo is told, and the numbers that it ends with."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from bestbefore.app.demo.processes import Answer, Unexpected


class Teller(Protocol):
    """Whoever tells the story to a person."""

    def chapter(self, title: str) -> None:
        """A new part begins."""

    def say(self, text: str) -> None:
        """A sentence or two."""

    def show(self, answer: Answer, lines: int) -> None:
        """A command as it was typed, and what it said: of a long table the first *lines*."""

    def proven(self, claim: str) -> None:
        """*claim* was checked, and it holds."""

    def waiting(self, what: str) -> AbstractContextManager[object]:
        """Something takes a moment."""


@dataclass(slots=True)
class Summary:
    """The numbers at the end: of the bucket, then of the table."""

    seconds: float = 0.0
    uploaded: int = 0
    odd_keys: int = 0
    kept: int = 0
    planned: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    taken_twice: int = 0
    late_results_refused: int = 0
    dead_letters: int = 0
    redriven: int = 0
    overdue: int = 0
    evidence: int = 0
    left_in_store: int = 0
    rows_before: int = 0
    rows_deleted: int = 0
    batches: int = 0
    replayed: int = 0
    batch_size: int | None = None
    proven: list[str] = field(default_factory=list)


def prove(teller: Teller, summary: Summary, claim: str, holds: bool) -> None:
    """Tell that *claim* holds; raises Unexpected if it does not."""
    if not holds:
        raise Unexpected(f"this does not hold: {claim}")
    summary.proven.append(claim)
    teller.proven(claim)
