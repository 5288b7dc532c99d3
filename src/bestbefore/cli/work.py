"""`work`."""

import sys
from pathlib import Path

import click

from bestbefore.app.system import System
from bestbefore.cli.context import FAILING, Stop, emit, leave, opened, verb
from bestbefore.cli.progress import watched
from bestbefore.cli.text import counts, rows_text, size
from bestbefore.read.documents import Document, work_document
from bestbefore.stages.work import Options

_BLOCKING = ("dead", "breaker", "no_client", "unplanned", "queue")


@click.command()
@click.option("--drain", is_flag=True, help="End once nothing is left that could be done.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=32,
    show_default=True,
    help="Requests to stores, and batches in databases, at the same time, at most.",
)
@verb
def work(config: Path, as_json: bool, drain: bool, concurrency: int) -> None:
    """Dispatch what is planned and delete it, until told to stop.

    With --drain, exit status 1 if anything is dead or behind an open breaker. SIGTERM finishes
    the batches in hand and gives the rest back.
    """
    with opened(config) as system:
        with watched(lambda: backlog(system)) as progress:
            stop = Stop()
            report = system.working.worker(
                options(system, concurrency, drain=drain), stop, progress.work
            ).run()
        document = work_document(report)
        system.give_back()
        emit(as_json, document, lambda: work_text(document))
        keep_up(system, stop)
    blocked = any(report.left[name] for name in _BLOCKING)
    leave(report.abandoned, FAILING if blocked or (drain and report.stopped) else 0)


def options(system: System, concurrency: int, *, drain: bool) -> Options:
    """How the configuration and the arguments say that a worker works."""
    return Options(lease=system.settings.queue.lease, concurrency=concurrency, drain=drain)


def keep_up(system: System, stop: Stop) -> None:
    """Verify what drained and do upkeep once the result is out, and tell a person who waits why
    this has not ended."""
    said: set[str] = set()

    def say(what: str) -> None:
        if what not in said and sys.stderr.isatty():
            click.echo(f"{what}; it is safe to interrupt this", err=True)
        said.add(what)

    system.proving.run(stop, lambda: say("looking again whether anything is overdue"))
    system.upkeep.run(stop, lambda: say("keeping the ledger small"))


def backlog(system: System) -> int:
    """Operations that wait or are pending."""
    return sum(record.backlog for record in system.records.policies(system.clock.now()))


def work_text(document: Document) -> str:
    """What a worker did, for a person."""
    lines = [f"worked on {document['received']:,} commands: {counts(document['outcomes'])}"]
    of_rows = [document[name] for name in ("rows", "dependents", "dependents_changed")]
    if any(of_rows):
        lines.append(f"  {rows_text(*of_rows)}")
    if document["freed_bytes"] or (document["outcomes"].get("deleted") and not document["rows"]):
        lines[0] += f"; {size(document['freed_bytes'])} freed"
    if document["protected"]:
        lines.append(f"  kept after all: {counts(document['protected'])}")
    if document["retried"]:
        lines.append(f"  retried after failures: {counts(document['retried'])}")
    if document["dead"]:
        lines.append(f"  {document['dead']:,} went to the dead letters: `bestbefore dlq list`")
    if document["left"]:
        reasons = {name.replace("_", " "): n for name, n in document["left"].items()}
        lines.append(f"  left: {counts(reasons)}")
    return "\n".join(lines)
