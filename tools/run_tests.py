"""Run pytest with the arguments given, and close with one plain line: N passed, N failed."""

import sys

import pytest


class Closing:
    """Remembers pytest's own numbers and prints them when all else is printed."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._numbers = {name: len(found) for name, found in terminalreporter.stats.items()}

    def line(self) -> str:
        failed = self._numbers.get("failed", 0) + self._numbers.get("error", 0)
        parts = [f"{self._numbers.get('passed', 0)} passed", f"{failed} failed"]
        if skipped := self._numbers.get("skipped", 0):
            parts.append(f"{skipped} skipped")
        return ", ".join(parts)


closing = Closing()
status = pytest.main(sys.argv[1:], plugins=[closing])
print(closing.line(), flush=True)  # noqa: T201
sys.exit(status)
