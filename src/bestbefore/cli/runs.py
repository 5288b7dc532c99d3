"""`runs list|show|approve|cancel`."""

from collections.abc import Mapping
from pathlib import Path

import click

from bestbefore.app.previewing import preview_of
from bestbefore.app.system import System
from bestbefore.cli.context import emit, opened, verb
from bestbefore.cli.dependents import dependents_lines
from bestbefore.cli.previewed import would_text
from bestbefore.cli.text import counts, printable, rows_text, size, table
from bestbefore.domain.states import RunState
from bestbefore.read.documents import Document, run_document
from bestbefore.read.runs import shown_run_document


@click.group()
def runs() -> None:
    """Look at runs, and decide about those that are parked."""


@runs.command("list")
@click.option("--policy", help="Only runs of this policy.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@verb
def list_(config: Path, as_json: bool, policy: str | None, limit: int) -> None:
    """List runs, newest slot first."""
    with opened(config) as system:
        documents = [run_document(run) for run in system.records.runs(policy, limit)]
    emit(as_json, documents, lambda: _list_text(documents))


@runs.command()
@click.argument("run_id")
@verb
def show(config: Path, as_json: bool, run_id: str) -> None:
    """Show one run: its rule, its counts, what came of it; of a parked one what it would remove."""
    with opened(config) as system:
        document = _shown(system, run_id)
        rule = system.records.rule(system.records.run(run_id))
    emit(as_json, document, lambda: _show_text(document, rule))


@runs.command()
@click.argument("run_id")
@click.option("--reason", help="Why, for the record.")
@verb
def approve(config: Path, as_json: bool, run_id: str, reason: str | None) -> None:
    """Release a parked run exactly as `runs show` shows it."""
    with opened(config) as system:
        system.plans.approve(run_id, system.person, system.clock.now(), reason or None)
        document = _shown(system, run_id)
    emit(as_json, document, lambda: f"run {run_id} is {document['state']}")


@runs.command()
@click.argument("run_id")
@click.option("--reason", default="cancelled by a person", help="Why, for the record.")
@verb
def cancel(config: Path, as_json: bool, run_id: str, reason: str) -> None:
    """End a run: what no worker has in hand stays where it is."""
    with opened(config) as system:
        system.plans.cancel(run_id, reason, system.person, system.clock.now())
        document = _shown(system, run_id)
    emit(as_json, document, lambda: f"run {run_id} is {document['state']}")


def _shown(system: System, run_id: str) -> Document:
    run = system.records.run(run_id)
    return shown_run_document(system.records, run, preview_of(system, run))


def _list_text(documents: list[Document]) -> str:
    if not documents:
        return "no runs yet; `bestbefore plan POLICY` makes one"
    return table(
        ("run", "policy", "version", "slot", "state", "planned", "done", "dead"),
        [
            (d["run_id"], d["policy"], d["policy_version"], d["slot"], d["state"],
             d["counts"]["planned"], d["counts"]["completed"], d["counts"]["dead"])
            for d in documents
        ],
    )  # fmt: skip


def _show_text(document: Document, rule: Mapping[str, object]) -> str:
    numbers = document["counts"]
    lines = [
        f"run {document['run_id']}: {document['policy']} ({document['policy_version']})",
        f"  slot {document['slot']}, cutoff {document['cutoff']}, started by "
        f"{document['trigger']} at {document['created_at']}",
        f"  looks at {printable(document['target'])}",
        f"  owner {printable(document['owner'] or '-')}",
        *(f"  {printable(sentence)}" for sentence in document["rule"]),
        f"  state {document['state']}" + _because(document),
        f"  scanned {numbers['scanned']:,}, in scope {numbers['in_scope']:,}, "
        f"planned {numbers['planned']:,}"
        + (f" batches of {numbers['rows']:,} rows" if document["unit"] == "batch" else ""),
        "  now "
        + counts({n: numbers[n] for n in ("waiting", "pending", "completed", "dead")})
        + (f" ({numbers['held']:,} of the pending held)" if numbers["held"] else ""),
        f"  protected: {counts(document['protected'])}",
        *dependents_lines(document, rule),
        f"  outcomes: {counts(document['outcomes'])}; {_effects(document)}",
    ]
    if numbers["pruned"]:
        lines.append(f"  {numbers['pruned']:,} of the completed are only in exported evidence")
    if document["would"] is not None:
        lines += would_text(document["would"]) + _decision(document)
    elif document["sample"]:
        lines.append("  for example:")
        lines += [f"    {printable(name)}" for name in document["sample"]]
    return "\n".join(lines)


def _decision(document: Document) -> list[str]:
    """What to type next about a run that is parked still."""
    if document["state"] != RunState.PARKED:
        return []
    run_id = document["run_id"]
    return [
        f"next: `bestbefore runs approve {run_id}` releases exactly this, "
        f"`bestbefore runs cancel {run_id}` ends it"
    ]


def _effects(document: Document) -> str:
    if document["unit"] == "batch":
        return rows_text(document["rows"], document["dependents"], document["dependents_changed"])
    moved = document["archived_bytes"]
    archived = f", {size(moved)} archived" if moved else ""
    return f"{size(document['freed_bytes'])} freed{archived}"


def _because(document: Document) -> str:
    if not document["reason"]:
        return ""
    was = "" if document["state"] in (RunState.PARKED, RunState.CANCELLED) else "; it was parked"
    return f"{was}: {printable(document['reason'])}"
