"""`schedule`: when policies are due, and what an outside scheduler has of that."""

from pathlib import Path

import click

from bestbefore.app.syncing import deployed_documents, lines, synced
from bestbefore.cli.context import FAILING, emit, fail, opened, verb
from bestbefore.cli.text import printable
from bestbefore.read.documents import Document
from bestbefore.read.slots import schedule_documents


@click.group()
def schedule() -> None:
    """See when policies are due, and bring an outside scheduler in line."""


@schedule.command("list")
@verb
def list_(config: Path, as_json: bool) -> None:
    """The next slots of every policy, local and in UTC, and what clock changes do to them.

    With an outside scheduler, also what is deployed there.
    """
    with opened(config) as system:
        now = system.clock.now()
        skips, deployed = deployed_documents(system)
        documents = schedule_documents(
            system.settings.policies,
            system.calendar,
            system.controls.pauses(now),
            now,
            skips=skips,
        )
        documents = [one | {"deployed": deployed.get(one["policy"])} for one in documents]
    emit(as_json, documents, lambda: _text(documents))


@schedule.command()
@click.option("--dry-run", is_flag=True, help="Only say what differs; exit status 1 if anything.")
@verb
def sync(config: Path, as_json: bool, dry_run: bool) -> None:
    """Have an outside scheduler trigger what the policies say, and nothing else of ours.

    Makes what is missing, corrects what was changed, switches on what is off, and removes what
    removed policies left. Exit status 1 if anything is not in line afterwards.
    """
    with opened(config) as system:
        kind = system.settings.schedule.kind
        if not system.settings.schedule.is_outside:
            fail(
                f'schedule sync: [schedule] kind = "{kind}" has no scheduler to bring in line; '
                'write kind = "eventbridge" or "infrai" for one, see docs/schedulers.md'
            )
        document, ok = synced(system, dry_run=dry_run)
    emit(as_json, document, lambda: "\n".join(map(printable, lines(document))))
    raise SystemExit(0 if ok else FAILING)


def _text(documents: list[Document]) -> str:
    if not documents:
        return "no policy has a schedule"
    return "\n".join(line for document in documents for line in _lines(document))


def _lines(document: Document) -> list[str]:
    head = f"{document['policy']}: {document['schedule']} in {document['timezone']}"
    if document["paused"]:
        head += f", paused: {printable(document['paused'])}"
    found = [head]
    if (deployed := document["deployed"]) is not None:
        there = f" ({deployed['id']})" if deployed["id"] else ""
        why = f": {printable(deployed['reason'])}" if deployed["reason"] else ""
        found.append(f"  deployed: {deployed['state']}{there}{why}")
    found += [f"  {slot['slot']}  {slot['local']}" for slot in document["next"]]
    found += [f"  note: {note['text']}" for note in document["notes"]]
    return found
