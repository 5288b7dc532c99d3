"""`restore`."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import click

from bestbefore.app.formats import row_format
from bestbefore.app.system import System
from bestbefore.cli.context import FAILING, Stop, emit, fail, opened, verb
from bestbefore.cli.progress import watched
from bestbefore.cli.text import printable
from bestbefore.domain.report import Report
from bestbefore.ports.records import OperationFilter, OperationRecord
from bestbefore.read.documents import Document
from bestbefore.read.operations import id_range, whereabouts
from bestbefore.stages.restore import NotRestored, Restore, Restored
from bestbefore.stages.row_restore import RowRestore, RowsRestored

_SHOWN = 10


@click.command()
@click.option("--id", "operation_id", help="What this operation archived (its start is enough).")
@click.option("--run", "run_id", help="All that this run archived.")
@click.option("--policy", help="Of these, only what this policy archived.")
@click.option("--dry-run", is_flag=True, help="Look at both places, but bring nothing back.")
@verb
def restore(
    config: Path,
    as_json: bool,
    operation_id: str | None,
    run_id: str | None,
    policy: str | None,
    dry_run: bool,
) -> None:
    """Bring archived objects, or rows, back to where they were.

    An archive keeps its copies; rows that were moved to another table move back. What is there now
    is never overwritten; twice is harmless. Exit status 1 if anything could not be brought back.
    """
    if (operation_id is None) == (run_id is None):
        raise click.UsageError("say which: either --id or --run")
    with opened(config) as system:
        which = OperationFilter(
            policy=policy,
            run_id=run_id,
            ids=id_range(operation_id) if operation_id is not None else None,
            copied=True,
        )
        total = _expected(system, which, operation_id)
        # What an operation, or a run, is about is all of one kind.
        operations = system.records.operations(which)
        first = next(operations, None)
        found = chain([] if first is None else [first], operations)
        if first is not None and first.batch is not None:
            document = _rows(system, found, total, dry_run=dry_run)
        else:
            document = _objects(system, found, total, dry_run=dry_run)
    emit(as_json, document, lambda: _text(document))
    failing = any(document[name] for name in ("conflicts", "missing", "failed"))
    raise SystemExit(FAILING if failing or not document["complete"] else 0)


def _objects(
    system: System, operations: Iterator[OperationRecord], total: int, *, dry_run: bool
) -> Document:
    ended = Restored()
    with watched(lambda: total - ended.done) as progress:
        stage = Restore(
            system.depot,
            system.archives,
            system.clock,
            system.spread,
            system.person,
            lambda so_far: progress.work(Report(completed=so_far.done)),
            Stop(),
        )
        stage.run(operations, ended, dry_run=dry_run)
    return _document(ended, "object", dry_run=dry_run)


def _rows(
    system: System, operations: Iterator[OperationRecord], total: int, *, dry_run: bool
) -> Document:
    ended = RowsRestored()
    with watched(lambda: total - ended.batches) as progress:
        stage = RowRestore(
            system.restorer,
            system.files,
            row_format,
            system.archives,
            system.clock,
            system.spread,
            system.person,
            lambda so_far: progress.work(Report(completed=so_far.batches)),
            Stop(),
        )
        stage.run(operations, ended, dry_run=dry_run)
    return _document(ended, "row", dry_run=dry_run) | {"selected_again": sorted(ended.policies)}


def _expected(system: System, which: OperationFilter, named: str | None) -> int:
    """How many operations are meant, about; fails where it is none, or not the one that was
    named."""
    if named is not None:
        found = list(system.records.operations(which, 2))
        if len(found) != 1:
            problem = "has no copy in an archive" if not found else "fits several operations"
            fail(f"operation {printable(named)} {problem}; `bestbefore export` shows them")
        return 1
    if which.run_id is not None:
        run = system.records.run(which.run_id)
        archived = system.records.tallies(run, "outcome").get("archived")
        return archived.n if archived else 0
    return 0


def _document(ended: Restored | RowsRestored, unit: str, *, dry_run: bool) -> Document:
    return {
        "unit": unit,
        "restored": 0 if dry_run else ended.restored,
        "would_restore": ended.restored if dry_run else 0,
        "already_there": ended.already_there,
        "conflicts": _entries(ended.conflicts),
        "missing": _entries(ended.missing),
        "failed": _entries(ended.failed),
        "complete": ended.complete,
        "dry_run": dry_run,
    }


def _entries(not_restored: Sequence[NotRestored]) -> list[Document]:
    return [
        {
            "operation_id": operation.operation_id.hex(),
            "bucket": operation.bucket,
            "key": operation.key,
            "archive": whereabouts(operation),
            "error": error,
        }
        for operation, error in not_restored
    ]


def _text(document: Document) -> str:
    rows = document["unit"] == "row"
    what = " rows" if rows else ""
    if document["dry_run"]:
        lines = [f"dry run: {document['would_restore']:,}{what} would be brought back"]
    else:
        kept = "" if rows else "; the archive keeps its copies"
        lines = [f"brought back {document['restored']:,}{what}{kept}"]
    if document["already_there"]:
        lines.append(f"already there: {document['already_there']:,}{what}")
    in_batches = " (batches)" if rows else ""
    for name, said in (
        ("conflicts", "something else is there now"),
        ("missing", "not in the archive any more"),
        ("failed", "failed"),
    ):
        if found := document[name]:
            lines.append(f"{said}: {len(found):,}{in_batches}")
            lines += [f"  {printable(entry['error'])}" for entry in found[:_SHOWN]]
            if len(found) > _SHOWN:
                lines.append(f"  and {len(found) - _SHOWN:,} more: --json names all of them")
    for policy in document.get("selected_again", ()):
        lines.append(
            f"rows are as old as before, so the next run of {policy} takes them again: "
            f'`bestbefore hold add --policy {policy} --reason "…"` keeps them'
        )
    if not document["complete"]:
        lines.append("stopped before the end; the same command goes on")
    return "\n".join(lines)
