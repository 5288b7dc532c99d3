"""`gate`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bestbefore.cli.context import FAILING, Stop, emit, fail, opened, verb
from bestbefore.cli.text import table

if TYPE_CHECKING:
    from bestbefore.gate.stage import Rights

_FILE = click.Path(path_type=Path)


@click.command()
@click.option("--only", multiple=True, metavar="NAME",
              help="Play this scenario, or those of a promise: P3. May be repeated.")  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="Only say which scenarios there are.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Write JUnit's XML, for CI.")
@click.option("--html", type=_FILE, metavar="FILE", help="Write one page, for a reviewer to sign.")
@click.option("--clean", "cleaning", is_flag=True,
              help="Only remove what a gate that was killed left behind.")  # fmt: skip
@click.option("--grant-command", "grant", metavar="COMMAND",
              help="What gives the right to delete in BESTBEFORE_GATE_PLACE.")  # fmt: skip
@click.option("--revoke-command", "revoke", metavar="COMMAND",
              help="What takes it away.")  # fmt: skip
@click.option("--denied", multiple=True, metavar="NAME",
              help="A store or database of the file whose credentials may not delete.")  # fmt: skip
@verb
def gate(
    config: Path,
    as_json: bool,
    only: tuple[str, ...],
    listing: bool,
    junit: Path | None,
    html: Path | None,
    cleaning: bool,
    grant: str | None,
    revoke: str | None,
    denied: tuple[str, ...],
) -> None:
    """Play the promises out on this configuration, and say with evidence what holds.

    Works with your stores, databases, queue and credentials, in a prefix, tables and queues of its
    own, which it makes and removes. Exit status 1 if anything failed, if nothing could be shown, or
    if it was stopped.
    """
    # Imported here: no other verb needs all of it.
    from bestbefore.cli import gating
    from bestbefore.gate.run import Gate, GateRefused, UnknownScenario, chosen

    try:
        entries = gating.entries(chosen(only))
        if listing:
            emit(as_json, entries, lambda: _table(entries))
            return
        rights = _rights(grant, revoke, denied)
        with opened(config, warn=True) as system:
            found = Gate(system, rights)
            if cleaning:
                gone = found.clean()
                emit(as_json, {"removed": gone}, lambda: f"removed {'; '.join(gone) or 'nothing'}")
                return
            files = gating.Files(junit, html)
            document = gating.played(system, found, only, Stop)
            files.write(document)
            emit(as_json, document, lambda: gating.text(document, files))
            if not only and not document["stopped"]:
                gating.remember(system, document)
    except (GateRefused, UnknownScenario) as refused:
        fail(str(refused.args[0]))
    raise SystemExit(0 if gating.has_passed(document) else FAILING)


def _rights(grant: str | None, revoke: str | None, denied: tuple[str, ...]) -> "Rights | None":
    from bestbefore.gate.stage import Rights

    if (grant is None) != (revoke is None):
        fail("--grant-command and --revoke-command: expected both, or neither")
    if denied and grant is not None:
        fail("--denied: expected this, or two commands that grant and revoke, but not both")
    if grant is None and not denied:
        return None
    return Rights(revoke, grant, denied)


def _table(entries: list[dict[str, str]]) -> str:
    columns = ("name", "promise", "needs", "title")
    return table(columns, [[entry[column] for column in columns] for entry in entries])
