"""`verify`, `explain` and `export`: what is still there, why, and what was done."""

import json
from collections.abc import Iterable
from pathlib import Path

import click

from bestbefore.app import reporting
from bestbefore.app.formats import evidence_parquet
from bestbefore.app.questions import explanation, verification
from bestbefore.cli.context import FAILING, Stop, emit, fail, opened, verb
from bestbefore.cli.progress import watched
from bestbefore.cli.text import counts, printable
from bestbefore.read.documents import Document
from bestbefore.read.evidence import About, columns, evidence


@click.command()
@click.argument("policy")
@verb
def verify(config: Path, as_json: bool, policy: str) -> None:
    """Scan again and count what should be gone and is still there.

    Trusts the store's listing, or the table, and not the ledger. Exit status 1 if anything is
    overdue.
    """
    with opened(config) as system, watched() as progress:
        document = verification(system, system.policy(policy), progress.page, Stop())
    emit(as_json, document, lambda: _verify_text(document))
    raise SystemExit(FAILING if document["overdue"] else 0)


@click.command()
@click.argument("policy")
@click.argument("key")
@verb
def explain(config: Path, as_json: bool, policy: str, key: str) -> None:
    """Say why the object, or the row, KEY stays or goes under POLICY, right now.

    Of a key with several columns, KEY is a JSON array of texts: '["t1", "42"]'.
    """
    with opened(config) as system, watched() as progress:
        document = explanation(system, system.policy(policy), key, progress.page, Stop())
    emit(as_json, document, lambda: _explain_text(document))


@click.command()
@click.option("--policy", help="Only what is about this policy.")
@click.option("--run", "run_id", help="Only what is about this run.")
@click.option("--runs", "about", flag_value=About.RUNS, help="Runs, with the rule of each.")
@click.option("--events", "about", flag_value=About.EVENTS, help="What people decided: the audit.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "parquet"]),
    default="jsonl",
    show_default=True,
    help="JSON Lines on stdout, or a Parquet file.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The Parquet file; it appears once it is whole, over what may be there.",
)
@verb
def export(
    config: Path,
    as_json: bool,  # noqa: ARG001  (its lines are JSON anyway)
    policy: str | None,
    run_id: str | None,
    about: str | None,
    form: str,
    output: Path | None,
) -> None:
    """Write the evidence: who deleted what, when, why, under which version.

    What upkeep took out of the ledger is in files already; stderr says where.
    """
    if (form == "parquet") != (output is not None):
        raise click.UsageError("--format parquet and --output FILE go together")
    what = About(about or About.OPERATIONS)
    with opened(config) as system:
        if run_id is not None:
            system.records.run(run_id)
        documents = evidence(what, system.records, policy, run_id)
        if output is None:
            for document in documents:
                click.echo(json.dumps(document))
        else:
            _write(output, what, documents)
        state = reporting.state(system)
    if state["evidence"] and what is not About.RUNS:
        click.echo(
            f"evidence of {state['pruned']:,} operations that completed longer ago than "
            f"[state] keep is in {printable(state['evidence'])}: a gzipped file of such lines each",
            err=True,
        )


def _write(output: Path, about: About, documents: Iterable[Document]) -> None:
    try:
        written = evidence_parquet().write(output, columns(about), documents)
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror or error}")
    click.echo(f"{written:,} {about} in {printable(str(output))}", err=True)


def _verify_text(document: Document) -> str:
    where = f"{document['policy']}, cutoff {document['cutoff']}"
    unit = f"{document['unit']}s"
    held = f"; {document['held']:,} held" if document["held"] else ""
    if not document["overdue"]:
        kept = f"; protected: {counts(document['protected'])}" if document["protected"] else ""
        return f"verified {where}: nothing overdue among {document['scanned']:,} {unit}{kept}{held}"
    lines = [
        f"{document['overdue']:,} {unit} overdue ({where}), the oldest of "
        f"{document['oldest_overdue']}{held}; for example:"
    ]
    lines += [f"  {printable(key)}" for key in document["sample"]]
    return "\n".join(lines)


def _explain_text(document: Document) -> str:
    verdict = "goes" if document["eligible"] else "stays"
    lines = [f"{printable(document['key'])} {verdict}:"]
    lines += [f"  - {printable(reason)}" for reason in document["reasons"]]
    return "\n".join(lines)
