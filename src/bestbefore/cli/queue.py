"""`queue move`."""

import os
from pathlib import Path

import click

from bestbefore.app.emptying import LEDGER, moved
from bestbefore.app.subscribing import subscribed
from bestbefore.cli.context import FAILING, Stop, emit, opened, verb
from bestbefore.cli.progress import told
from bestbefore.read.documents import Document
from bestbefore.stages.move import Movement


@click.group()
def queue() -> None:
    """Take care of the queue between planning and working."""


@queue.command()
@click.option(
    "--to",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Another configuration file, with the same [state] and the [queue] to move to.",
)
@verb
def move(config: Path, as_json: bool, to: Path) -> None:
    """Drain the queue into that of another file, while workers run on either.

    Each message is given to the new queue before the old one forgets it, and the ledger lets
    nobody work on it twice. Interrupted, it can be repeated.
    """
    with opened(config) as system, told() as tell:
        stop = Stop()
        document = moved(system, to, os.environ, stop, lambda done: tell(_progress(done)))
    emit(as_json, document, lambda: _text(document, config, to))
    if not document["complete"]:
        raise SystemExit(FAILING)


@queue.command()
@verb
def subscribe(config: Path, as_json: bool) -> None:
    """Have the queue push its commands to `serve`, at public_url, where it can.

    Signed with the first of hmac_secret. Asked for again, it is the same subscription.
    """
    with opened(config) as system:
        document = subscribed(system.settings)
    emit(as_json, document, lambda: f"{document['queue']} pushes to {document['url']}")


def _progress(done: Movement) -> str:
    return (
        f"moved {done.moved:,}  ended already {done.already_ended:,}  absorbed {done.absorbed:,}  "
        f"not met yet {done.left:,}"
    )


def _text(document: Document, config: Path, to: Path) -> str:
    if document["moved_from"] == LEDGER:
        return (
            f"nothing to move: what is due is in {LEDGER}, and is sent to {document['moved_to']} "
            f"as soon as workers run with {to}; restart them, and `serve`, with it"
        )
    lines = [f"moved {document['moved']:,} from {document['moved_from']} to {document['moved_to']}"]
    said = (
        ("already_ended", "needed no message any more: completed or dead"),
        ("in_ledger", "wait in the ledger anyway: delayed, not released, or in a worker's hands"),
        ("absorbed", "execute nothing: `bestbefore dlq list --class malformed`"),
        ("refused", "can never be carried by the new queue, and are dead letters"),
        ("left", "were not met, and are due again" if document["complete"] else "were not met yet"),
    )
    lines += [f"  {document[name]:,} {text}" for name, text in said if document[name]]
    if document["complete"]:
        lines += [
            f"now restart every worker, and `serve`, with {to}",
            f"one that still runs with {config} goes on sending to the old queue: once the last of "
            "them has ended, repeat this command to be sure that nothing is left there",
        ]
    else:
        lines.append("stopped before the end; repeat this command to go on")
    return "\n".join(lines)
