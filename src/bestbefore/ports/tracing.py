"""Traces: what happened to a run, from the trigger to the effect, as spans."""

from contextlib import AbstractContextManager
from typing import Protocol

Attribute = str | int


class Span(Protocol):
    """A piece of work that is under way."""

    def say(self, **attributes: Attribute) -> None:
        """Add what is known by now; names are without their prefix."""
        ...


class Tracer(Protocol):
    """Where spans go."""

    def span(self, name: str, run_id: str, **attributes: Attribute) -> AbstractContextManager[Span]:
        """A span of the trace of a run, which follows from *run_id* alone: whoever works on the
        run, whenever, adds to the same trace. What is raised within it fails the span."""
        ...

    def close(self) -> None:
        """Send what was not sent yet."""
        ...
