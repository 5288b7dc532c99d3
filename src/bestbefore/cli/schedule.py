"""`schedule`."""

from pathlib import Path

import click

from bestbefore.cli.context import emit, opened, verb
from bestbefore.cli.text import printable
from bestbefore.read.documents import Document
from bestbefore.read.slots import schedule_documents


@click.group()
def schedule() -> None:
    """See when policies are due."""


@schedule.command("list")
@verb
def list_(config: Path, as_json: bool) -> None:
    """The next slots of every policy, local and in UTC, and what clock changes do to them."""
    with opened(config) as system:
        now = system.clock.now()
        documents = schedule_documents(
            system.settings.policies, system.calendar, system.controls.pauses(now), now
        )
    emit(as_json, documents, lambda: _text(documents))


def _text(documents: list[Document]) -> str:
    if not documents:
        return "no policy has a schedule"
    return "\n".join(line for document in documents for line in _lines(document))


def _lines(document: Document) -> list[str]:
    head = f"{document['policy']}: {document['schedule']} in {document['timezone']}"
    if document["paused"]:
        head += f", paused: {printable(document['paused'])}"
    lines = [head]
    lines += [f"  {slot['slot']}  {slot['local']}" for slot in document["next"]]
    lines += [f"  note: {note['text']}" for note in document["notes"]]
    return lines
