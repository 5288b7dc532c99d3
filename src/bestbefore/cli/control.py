"""`pause` and `resume`."""

from datetime import datetime
from pathlib import Path

import click

from bestbefore.app import pausing
from bestbefore.cli.context import Moment, emit, opened, verb
from bestbefore.cli.text import printable
from bestbefore.read.documents import Document

_policy = click.argument("policy", required=False)


@click.command()
@_policy
@click.option("--reason", required=True, help="Why, for whoever wonders.")
@click.option("--until", type=Moment(), help="When it ends by itself.")
@verb
def pause(
    config: Path, as_json: bool, policy: str | None, reason: str, until: datetime | None
) -> None:
    """Stop work on POLICY, or on every policy, within one batch, and fire no schedule of it.

    Its slots are missed meanwhile, and reported as such. What somebody plans by hand is planned.
    """
    with opened(config) as system:
        document = pausing.pause(system, policy, reason, until, system.person)
    emit(as_json, document, lambda: _paused(document))


@click.command()
@_policy
@verb
def resume(config: Path, as_json: bool, policy: str | None) -> None:
    """Lift the pause of POLICY, or the one of every policy, and say what comes first."""
    with opened(config) as system:
        document = pausing.resume(system, policy, system.person)
    emit(as_json, document, lambda: _resumed(document, policy))


def _paused(document: Document) -> str:
    what = "every policy" if document["paused"] == "*" else document["paused"]
    lines = [f"paused {what}: {printable(document['reason'])}"]
    for misses in document["misses"]:
        name, first = misses["policy"], misses["first"]
        if misses["slots"] is None:
            lines.append(f"  {name} misses every slot from {first} on, until it is resumed")
        elif misses["slots"]:
            count = "1 slot" if misses["slots"] == 1 else f"{misses['slots']:,} slots"
            lines.append(f"  {name} misses {count} until then, the first at {first}")
        else:
            lines.append(f"  {name} misses nothing until then")
    return "\n".join(lines)


def _resumed(document: Document, policy: str | None) -> str:
    what = policy or "every policy"
    done = f"resumed {what}" if document["resumed"] else f"there was no pause of {what}"
    waiting = sum(document["backlog"].values())
    lines = [f"{done}; {waiting:,} commands are waiting for a worker"]
    for first in document["first"]:
        name, slot = first["policy"], first["slot"]
        if first["paused"]:
            lines.append(f"  {name} stays paused: {printable(first['paused'])}")
        elif first["now"]:
            lines.append(
                f"  {name}: `bestbefore serve` starts one run now, for the missed slot {slot}"
            )
        else:
            lines.append(
                f"  {name}: nothing starts now; its next slot, {slot}, takes everything overdue"
            )
    return "\n".join(lines)
