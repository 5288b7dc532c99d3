"""`state move`."""

import os
from pathlib import Path

import click

from bestbefore.app.clock import SystemClock
from bestbefore.app.moving import moved_state
from bestbefore.app.settings import load
from bestbefore.app.system import person
from bestbefore.cli.context import emit, verb
from bestbefore.read.documents import Document


@click.group()
def state() -> None:
    """Take care of the state database."""


@state.command()
@click.option(
    "--to",
    required=True,
    envvar="BESTBEFORE_MOVE_TO",
    help="The URL of an empty database on PostgreSQL (or the variable BESTBEFORE_MOVE_TO).",
)
@verb
def move(config: Path, as_json: bool, to: str) -> None:
    """Move the ledger from SQLite to PostgreSQL; nothing may be working on it.

    All of it goes in one transaction. The old file stays as it is, and refuses every process from
    then on. Interrupted, it can be repeated.
    """
    document = moved_state(load(config, os.environ), to, person(), SystemClock())
    emit(as_json, document, lambda: _text(document, config))


def _text(document: Document, config: Path) -> str:
    lines = [f"moved {document['moved_from']} to {document['moved_to']}"]
    lines += [f"  {name:<18}{n:>12,}" for name, n in document["rows"].items() if n]
    return "\n".join(
        [
            *lines,
            f"now name it in {config} instead (with its password, or by url_env):",
            "  [state]",
            f'  url = "{document["moved_to"]}"',
            "the old file refuses every process from now on; keep it until you trust the new one",
        ]
    )
