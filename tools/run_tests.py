"""Run pytest with the arguments given, and close with one plain line: N passed, N failed."""

import os
import sys

import pytest

# Hundreds of processes are started: they shall find compiled modules, as those of an installed
# package do, whatever the machine says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


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


if __name__ == "__main__":  # a process that a test spawns imports this file
    closing = Closing()
    status = pytest.main(sys.argv[1:], plugins=[closing])
    print(closing.line(), flush=True)  # noqa: T201
    sys.exit(status)
