"""What `gate` tells while it plays, and what it says in the end."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import click

from bestbefore.app.check import capabilities
from bestbefore.app.gate_checks import connections, fingerprint
from bestbefore.app.system import System
from bestbefore.cli.context import Stop, fail
from bestbefore.cli.progress import told as told_while
from bestbefore.cli.text import printable
from bestbefore.gate.promises import PROMISES
from bestbefore.gate.report.document import document, has_passed, shown, told
from bestbefore.gate.report.file import writable, write
from bestbefore.gate.report.junit import junit
from bestbefore.gate.report.page import page
from bestbefore.gate.run import Gate, Part, chosen
from bestbefore.gate.scenario import Ground, Scenario
from bestbefore.ports.gates import GateRun
from bestbefore.read.documents import Document

__all__ = ["Files", "entries", "has_passed", "played", "remember", "text"]

_NEEDS = {Ground.OBJECTS: "objects", Ground.ROWS: "rows", Ground.EITHER: "objects or rows"}
_COLOURS = {"passed": "green", "failed": "red", "not applicable": None}


def entries(scenarios: Sequence[Scenario]) -> list[dict[str, str]]:
    """What `--list` says of each."""
    return [
        {"name": s.name, "promise": s.promise, "title": s.title, "needs": _NEEDS[s.ground]}
        for s in scenarios
    ]


class Files:
    """Where reports go; exits with status 2 where they cannot, before anything is played."""

    def __init__(self, junit_file: Path | None, html_file: Path | None) -> None:
        self._made: list[tuple[Path, Callable[[Document], str]]] = []
        for file, make in ((junit_file, junit), (html_file, page)):
            if file is not None:
                self._made.append((file, make))
                try:
                    writable(file)
                except OSError as error:
                    fail(f"{file} cannot be written: {error.strerror}; name another file")

    @property
    def names(self) -> Sequence[str]:
        """The files."""
        return [str(file) for file, _ in self._made]

    def write(self, found: Document) -> None:
        """Write each of them whole."""
        for file, make in self._made:
            try:
                write(file, make(found))
            except OSError as error:
                fail(f"{file} cannot be written: {error.strerror}")


def played(
    system: System,
    gate: Gate,
    only: Sequence[str],
    stop: Callable[[Callable[[], None]], Stop],
) -> Document:
    """Play those called *only*, or all, with whoever watches told how far it is. *stop* makes what
    listens to Ctrl-C."""
    scenarios = chosen(only)
    gate.refuse_leftovers()
    environment = gate.environment()
    findings = capabilities(system, queue=True, trying=False)
    started_at, began = system.clock.now(), time.monotonic()
    parts = gate.parts(scenarios)
    with told_while() as tell:
        begun = iter(range(1, len(parts) + 1))

        def on_begin(part: Part) -> None:
            tell(f"{next(begun)} of {len(parts)}: {part.scenario.name}")

        verdicts = gate.play(scenarios, stop(gate.interrupt), on_begin)
    seconds = time.monotonic() - began
    left = len(parts) - len(verdicts)
    if gate.not_removed is not None:
        verdicts.append(gate.not_removed)
    return document(verdicts, environment, findings, started_at, seconds, left, only)


def remember(system: System, found: Document) -> None:
    """Have the state database know, for `check`."""
    system.gates.remember(
        GateRun(
            fingerprint(connections(system)),
            system.clock.now(),
            found["passed"],
            found["failed"],
            found["not_applicable"],
            version("bestbefore"),
            system.person,
            found["seconds"],
        )
    )


def text(found: Document, files: Files) -> str:
    """The document for a person."""
    unicode = (sys.stdout.encoding or "").startswith("utf")
    marks = {"passed": "✓" if unicode else "+", "failed": "✗" if unicode else "x"}
    played = [one["name"] for one in found["promises"]]
    lines: list[str] = []
    for promise, title in PROMISES.items():
        of_it = [one for one in found["promises"] if one["promise"] == promise]
        if of_it:
            lines += ["", click.style(f"{promise} {title}", bold=True)]
        for one in of_it:
            word = told(one)
            mark = click.style(marks.get(word, "-"), fg=_COLOURS[word], bold=True)
            several = played.count(one["name"]) > 1
            first, *rest = _scenario(one, at=f" on {one['place']}" if several else "")
            lines += [f"  {mark} {first}", *(f"    {line}" for line in rest)]
    lines += ["", *_end(found)]
    lines += [f"wrote {printable(name)}" for name in files.names]
    return "\n".join(lines).lstrip("\n")


def _scenario(one: Document, *, at: str) -> Iterator[str]:
    """What is said of one scenario: of what failed all there is, up to where it did."""
    took = "" if one["ok"] is None else f", {one['seconds']:.1f} s"
    yield printable(f"{one['title']} ({one['name']}{at}{took})")
    if one["ok"] is None:
        yield f"not applicable: {printable(one['reason'])}"
    elif not one["ok"]:
        yield click.style(f"failed: {printable(one['reason'])}", fg="red")
        yield from (f"  {line}" for line in _evidence(one))
        yield f"alone once more: bestbefore gate --only {one['name']}"


def _evidence(one: Document) -> Iterator[str]:
    for fact in one["evidence"]:
        found = f": {shown(fact['found'])}" if fact["found"] is not None else ""
        wanted = "" if fact["ok"] else f", expected {shown(fact['expected'])}"
        yield printable(f"{fact['what']}{found}{wanted}")


def _end(found: Document) -> Iterator[str]:
    good = has_passed(found)
    counts = (
        f"{found['passed']} passed, {found['failed']} failed, "
        f"{found['not_applicable']} not applicable, in {found['seconds']:.0f} s"
    )
    ended = "passed" if good else "was stopped" if found["stopped"] else "did not pass"
    yield click.style(f"the gate {ended}: {counts}", fg="green" if good else "red", bold=True)
    if found["stopped"]:
        yield f"scenarios that were not played: {found['not_played']}"
    elif not found["passed"] and not found["failed"]:
        yield "nothing could be shown on this setup, so nothing is proven"
