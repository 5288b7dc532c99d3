"""What `tune` tells while it measures, and what it says in the end."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bestbefore.app.system import System
from bestbefore.app.tune import Axes, Telling, Tuned, TuneFailed
from bestbefore.app.tune import tune as measure
from bestbefore.app.tune.report import document, draw
from bestbefore.cli.context import FAILING, Stop, fail
from bestbefore.cli.text import printable
from bestbefore.cli.text import size as readable
from bestbefore.domain.policy import Policy
from bestbefore.domain.tuning import workers as counted
from bestbefore.ports.rows import TableRefused
from bestbefore.ports.tuning import Cost, ScratchRefused
from bestbefore.read.documents import Document

_WIDTH = 140


def measured(system: System, policy: Policy, axes: Axes, rows: int) -> Tuned:
    """What a tune of *policy* says, with whoever watches told how far it is."""
    reader = system.tables(policy.connection).reader
    database = system.settings.databases[policy.connection]
    with _watched(len(axes.pairs())) as telling:
        try:
            return measure(
                database, policy, reader, axes, rows, system.clock.now(), telling, Stop()
            )
        except (ScratchRefused, TableRefused) as error:
            fail(f"policies.{policy.name}.rows: {error}")
        except TuneFailed as error:
            click.echo(f"bestbefore: the tune failed: {printable(str(error))}", err=True)
            raise SystemExit(FAILING) from None


@contextmanager
def _watched(cells: int) -> Iterator[Telling]:
    """What is told on stderr: the cost to everybody, what is going on to whoever watches."""

    def begins(cost: Cost) -> None:
        click.echo(
            f"making up rows apart from the real ones: about {readable(cost.disk)} on disk, and "
            f"{readable(cost.filling)} written again every few seconds, for {cells} measurements",
            err=True,
        )

    if not sys.stderr.isatty():
        yield Telling(begins, lambda *_: None)
        return
    console = Console(stderr=True)
    with console.status("filling") as status:
        yield Telling(
            begins,
            lambda number, size, count: status.update(
                f"{number + 1} of {cells}: batches of {size:,}, {counted(count)}"
            ),
        )


def prepare(folder: Path) -> None:
    """Have *folder* before anything is measured for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{folder} cannot be made: {error.strerror}")
    if not os.access(folder, os.W_OK):
        fail(f"{folder} cannot be written to; name another folder with --out")


def write(tuned: Tuned, folder: Path) -> Document:
    """Write the document, and the pictures if they can be drawn. Returns it with its ``files``."""
    answer = document(tuned)
    data, *pictures = (
        folder / f"tune-{tuned.policy.name}.{ending}" for ending in ("json", "png", "svg")
    )
    try:
        data.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
        draw(tuned, pictures)
    except OSError as error:
        fail(f"{folder} cannot be written to: {error.strerror}")
    except ImportError as error:
        said = f'no picture was drawn, as that needs {error.name}: pip install "bestbefore[tune]"'
        click.echo(said, err=True)
        pictures = []
    return answer | {"files": [str(file) for file in (data, *pictures)]}


def show(answer: Document) -> None:
    """The document for a person."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    console.print(_table(answer))
    for line in _remarks(answer):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _table(answer: Document) -> Table:
    felt = answer["ceilings"]["foreground"] == "p99_ms"
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for title in (
        "batch\nsize", "workers", "rows/s", "batch, ms\np50 / p95 / p99", "locks held\np95, ms",
        "foreground\np99, ms", "lock wait\nmax, ms", "statements\nper 1M rows",
        "messages\nper 1M rows", "rows again\nafter a kill", "",
    ):  # fmt: skip
        table.add_column(title, justify="right" if title else "left", no_wrap="/" in title)
    best = answer["recommended"]
    for cell in answer["cells"]:
        pair = {"batch_size": cell["batch_size"], "max_concurrency": cell["workers"]}
        again = cell["rows_done_again"]
        table.add_row(
            f"{cell['batch_size']:,}",
            str(cell["workers"]),
            f"{cell['rows_per_second']:,}",
            " / ".join(_digits(cell["batch"][name]) for name in ("p50_ms", "p95_ms", "p99_ms")),
            _digits(cell["locks_held"]["p95_ms"]),
            _digits(cell["foreground"]["p99_ms"]),
            _digits(cell["foreground_lock_wait"]["max_ms"]),
            f"{cell['statements_per_million_rows']:,}",
            f"{cell['messages_per_million_rows']:,}",
            f"{again['killed_before_commit']:,} / {again['killed_after_commit']:,}",
            "best" if pair == best else "over" if cell["breaks"] else "",
            style="bold green" if pair == best else "dim" if cell["breaks"] else "",
        )
    idle, ceilings = answer["foreground_without_cleanup"], answer["ceilings"]
    over = f"{ceilings['foreground_ms']:,.0f}"
    table.add_section()
    table.add_row("no cleanup", "", "", "", "", _digits(idle["p99_ms"]))
    table.add_row("ceiling", "", "", f"p95 {ceilings['batch_p95_ms']:,.0f}", "",
                  over if felt else "", "" if felt else over)  # fmt: skip
    return table


def _digits(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _remarks(answer: Document) -> Iterator[str]:
    cells = answer["cells"]
    replays, changed = (
        sum(cell[name] for cell in cells) for name in ("replays", "rows_changed_by_replays")
    )
    yield f"replays: {replays:,} batches delivered again changed {changed:,} rows"
    for left_out in answer["not_measured"]:
        yield f"not measured: {printable(left_out)}"
    if best := answer["recommended"]:
        yield (
            f"recommended: batch_size = {best['batch_size']} for policies.{answer['policy']}.rows, "
            f"max_concurrency = {best['max_concurrency']} for its database"
        )
    yield printable(answer["reason"])
    yield f"written: {', '.join(answer['files'])}"
