"""`hold add|remove|list`."""

from datetime import datetime
from pathlib import Path

import click

from bestbefore.app import holding
from bestbefore.cli.context import Moment, emit, opened, verb
from bestbefore.cli.text import printable
from bestbefore.read.documents import Document, hold_document


@click.group()
def hold() -> None:
    """Keep a policy's objects or rows, or the objects under a prefix, whatever their age."""


@hold.command()
@click.option("--policy", help="Everything that this policy selects; or:")
@click.option("--store", help="A store of the configuration, with --bucket.")
@click.option("--bucket", help="A bucket in that store, whatever policies look there.")
@click.option(
    "--prefix", default="", help="Only keys that begin with this, character by character."
)
@click.option("--reason", required=True, help="Why, for whoever wonders.")
@click.option("--until", type=Moment(), help="When it ends by itself; without it, by hand.")
@verb
def add(
    config: Path,
    as_json: bool,
    policy: str | None,
    store: str | None,
    bucket: str | None,
    prefix: str,
    reason: str,
    until: datetime | None,
) -> None:
    """Put a hold in force: no worker deletes under it once the batch it has in hand is done."""
    with opened(config) as system:
        scope = holding.scope_of(system, policy, store, bucket, prefix)
        added = holding.hold(system, scope, reason, until, system.person)
        concerned = holding.concerned(system, scope)
    document = hold_document(added) | {"policies": concerned}
    emit(as_json, document, lambda: _added_text(document))


@hold.command()
@click.argument("hold_id")
@verb
def remove(config: Path, as_json: bool, hold_id: str) -> None:
    """Lift a hold; the next run plans what was under it."""
    with opened(config) as system:
        removed = system.holds.remove(hold_id, system.person, system.clock.now())
    document = hold_document(removed)
    emit(as_json, document, lambda: f"removed hold {hold_text(document)}")


@hold.command("list")
@verb
def list_(config: Path, as_json: bool) -> None:
    """List the holds in force, oldest first."""
    with opened(config) as system:
        documents = [hold_document(one) for one in system.holds.in_force(system.clock.now())]
    emit(as_json, documents, lambda: "\n".join(map(hold_text, documents)) or "no holds in force")


def hold_text(document: Document) -> str:
    """One hold on one line."""
    scope = document["scope"]
    where = (
        f"policy {scope['policy']}"
        if "policy" in scope
        else f"{scope['store']}: {scope['bucket']}/{scope['prefix']}"
    )
    until = f", until {document['until']}" if document["until"] else ""
    said = f"{document['hold_id']} on {where}: {document['reason']}"
    return printable(f"{said} (by {document['by']}{until})")


def _added_text(document: Document) -> str:
    lines = [
        f"hold {hold_text(document)}",
        "in force for every worker within one batch; what is under it ends as protected",
    ]
    if not document["policies"]:
        lines.append("no policy of this file looks there")
    return "\n".join(lines)
