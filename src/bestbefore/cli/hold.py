"""`hold add|remove|list`."""

from datetime import datetime
from pathlib import Path

import click

from bestbefore.app.system import System
from bestbefore.cli.context import Moment, emit, fail, opened, verb
from bestbefore.cli.text import printable
from bestbefore.domain.hold import Hold, Scope
from bestbefore.domain.identity import instant
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
        scope = _scope(system, policy, store, bucket, prefix)
        now = system.clock.now()
        if not reason.strip():
            fail("--reason is empty; say why, for whoever wonders")
        if until is not None and until <= now:
            fail(f"--until {instant(until)} has passed; it is {instant(now)} now")
        added = Hold(scope, reason, until, system.person, now)
        system.holds.add(added)
        concerned = [
            name
            for name, one in system.settings.policies.items()
            if scope.concerns(one, system.place(one))
        ]
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


def _scope(
    system: System, policy: str | None, store: str | None, bucket: str | None, prefix: str
) -> Scope:
    if policy is not None:
        if store or bucket or prefix:
            fail("give either --policy, or --store and --bucket")
        return Scope(policy=system.policy(policy).name)
    if not store or not bucket:
        fail("what is to be held? give --policy, or --store and --bucket, with --prefix or without")
    known = system.settings.stores
    if store not in known:
        fail(f"there is no store {store}; stores are: {', '.join(sorted(known)) or 'none'}")
    return Scope(store=store, place=known[store].place, bucket=bucket, prefix=prefix)
