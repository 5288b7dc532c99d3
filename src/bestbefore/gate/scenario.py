"""A scenario: one promise, what is done to try it, and the evidence for whether it holds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bestbefore.gate.stage import Stage


class Ground(StrEnum):
    """What a scenario needs to stand on. ``EITHER`` is about the ledger and the queue, and takes
    objects or rows, whichever the configuration has."""

    OBJECTS = "objects"
    ROWS = "rows"
    EITHER = "either"


class NotApplicable(Exception):
    """This setup cannot show the promise; the message says why. Never counted as passed."""


class Broken(Exception):
    """The promise does not hold. The message says what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One piece of evidence: what was done or counted, and what came out. ``expected`` is None
    where it only tells."""

    what: str
    found: Any
    expected: Any = None
    ok: bool = True


@dataclass(slots=True)
class Evidence:
    """What a scenario did and counted, in order."""

    facts: list[Fact] = field(default_factory=list)

    def note(self, what: str, found: Any = None) -> None:
        """Tell what was done, or how something is."""
        self.facts.append(Fact(what, found))

    def expect(self, what: str, found: Any, expected: Any) -> None:
        """Claim that *found* is *expected*; raises Broken where it is not."""
        ok = bool(found == expected)
        self.facts.append(Fact(what, found, expected, ok))
        if not ok:
            raise Broken(f"{what}: expected {expected}, found {found}")

    def claim(self, what: str, found: Any, *, holds: bool, expected: str) -> None:
        """Claim something that equality does not say; *expected* says it in words."""
        self.facts.append(Fact(what, found, expected, holds))
        if not holds:
            raise Broken(f"{what}: expected {expected}, found {found}")


@dataclass(frozen=True, slots=True)
class Scenario:
    """``promise`` is its number in the design (P1 to P12), ``title`` says it in one sentence."""

    name: str
    promise: str
    title: str
    ground: Ground
    play: "Callable[[Stage], None]"


SCENARIOS: list[Scenario] = []
"""In the order in which they are played. `bestbefore.gate.scenarios` fills it."""


def scenario(
    name: str, promise: str, title: str, ground: Ground
) -> "Callable[[Callable[[Stage], None]], Callable[[Stage], None]]":
    """Make a function a scenario. It returns when the promise held, and raises Broken or
    NotApplicable otherwise."""

    def add(play: "Callable[[Stage], None]") -> "Callable[[Stage], None]":
        SCENARIOS.append(Scenario(name, promise, title, ground, play))
        return play

    return add


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one scenario on one place. ``ok`` is None where it is not applicable;
    ``reason`` says why not, or what is broken."""

    scenario: Scenario
    place: str
    ok: bool | None
    reason: str | None
    facts: Sequence[Fact]
    seconds: float
