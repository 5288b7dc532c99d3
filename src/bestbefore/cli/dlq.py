"""`dlq list|show|redrive|discard|absorb`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bestbefore.app.discarding import discarded
from bestbefore.app.emptying import absorbed
from bestbefore.app.system import System
from bestbefore.cli.context import Stop, emit, fail, opened, verb
from bestbefore.cli.text import printable, table
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.rows import Walk
from bestbefore.ports.ledger import DeadFilter, DeadLetter
from bestbefore.ports.strays import StrayRecord
from bestbefore.read.documents import Document
from bestbefore.read.operations import id_range, shown_dead_letter_document
from bestbefore.read.strays import dead_letter_documents, stray_document
from bestbefore.stages.redrive import correct, redrive

_LONGEST_TARGET = 80
"""Characters of an unreadable message that a list shows."""


def filters(function: Callable[..., None]) -> Callable[..., None]:
    """The options that say which dead letters are meant, as one `DeadFilter`."""
    classes = click.Choice([member.value for member in FailureClass])
    for option in (
        click.option("--superseded", is_flag=True, help="Those of versions no longer current."),
        click.option("--id", "operation_id", help="The one with this operation id (or its start)."),
        click.option("--class", "failure_class", type=classes, help="Those of this class."),
        click.option("--policy", help="Those of this policy."),
    ):
        function = option(function)
    return function


@click.group()
def dlq() -> None:
    """Dead letters: what is out of its budget and waits for a person."""


@dlq.command("list")
@filters
@click.option("--limit", type=click.IntRange(1), help="At most so many; all of them by default.")
@verb
def list_(config: Path, as_json: bool, limit: int | None, **given: Any) -> None:
    """List dead letters, oldest failure first, and after them messages that execute nothing."""
    with opened(config) as system:
        documents = dead_letter_documents(system.dead_letters, system.strays, _filter(given), limit)
    emit(as_json, documents, lambda: _list_text(documents))


@dlq.command()
@click.argument("operation_id")
@verb
def show(config: Path, as_json: bool, operation_id: str) -> None:
    """Show one dead letter with all its attempts, or one message that executes nothing."""
    with opened(config) as system:
        found = _one(system, _filter({"operation_id": operation_id}), operation_id)
        if isinstance(found, StrayRecord):
            document = stray_document(found, whole=True)
        else:
            document = shown_dead_letter_document(system.records, found)
    emit(as_json, document, lambda: _show_text(document))


@dlq.command("redrive")
@filters
@click.option("--all", "everything", is_flag=True, help="All dead letters.")
@click.option("--dry-run", is_flag=True, help="Only count; wins over everything else.")
@click.option("--yes", is_flag=True, help="Accepted for scripts; nothing is asked anyway.")
@click.option("--rate", type=click.FloatRange(0.001), help="At most so many a second.")
@click.option("--canary", type=click.IntRange(1), help="Only the first so many, to look first.")
@click.option(
    "--set",
    "corrected",
    metavar="key=KEY",
    multiple=True,
    help="With --id: the corrected target; version=ID beside it where versions are meant.",
)
@verb
def redrive_(
    config: Path,
    as_json: bool,
    everything: bool,
    dry_run: bool,
    yes: bool,  # noqa: ARG001  (a script may say so; there is no question to skip)
    rate: float | None,
    canary: int | None,
    corrected: tuple[str, ...],
    **given: Any,
) -> None:
    """Send dead letters again, each with a fresh budget and the same id.

    Correct the source first: the object, or the rows, are looked at again before they are deleted.
    Where the target itself was wrong, --id X --set key=NEW closes X and plans the corrected object
    in its place; a batch of rows cannot be corrected.
    """
    _require_choice(everything, given)
    with opened(config) as system:
        which = _filter(given)
        if given["operation_id"] is not None:
            _one(system, which, given["operation_id"])
        if corrected:
            document = _correct(system, which, corrected, dry_run=dry_run)
        else:
            done = redrive(
                system.dead_letters,
                system.strays,
                which,
                system.clock,
                system.person,
                rate=rate,
                canary=canary,
                dry_run=dry_run,
            )
            document = {
                "redriven": 0 if dry_run else done.redriven,
                "would_redrive": done.redriven if dry_run else 0,
                "refused": done.refused,
                "strays": done.strays,
                "remaining": done.remaining,
                "dry_run": dry_run,
            }
    emit(as_json, document, lambda: _redrive_text(document))


@dlq.command()
@filters
@click.option("--all", "everything", is_flag=True, help="All dead letters.")
@click.option("--reason", required=True, help="Why, for the record.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@verb
def discard(
    config: Path, as_json: bool, everything: bool, reason: str, dry_run: bool, **given: Any
) -> None:
    """Close dead letters without deleting anything."""
    _require_choice(everything, given)
    with opened(config) as system:
        which = _filter(given)
        if given["operation_id"] is not None:
            _one(system, which, given["operation_id"])
        done = discarded(system, which, reason, system.person, dry_run=dry_run)
    document = {"discarded": 0 if dry_run else done, "would_discard": done if dry_run else 0}
    text = f"dry run: {done:,} would be discarded" if dry_run else f"discarded {done:,}"
    emit(as_json, document, lambda: text)


@dlq.command()
@verb
def absorb(config: Path, as_json: bool) -> None:
    """Bring a broker's own dead letters, and what in them cannot be read, into the ledger.

    The ledger keeps the budgets: what is not done there is due again at once, what is done is only
    taken away at the broker.
    """
    with opened(config) as system:
        document = absorbed(system, Stop())
        carried = system.broker is not None
    emit(as_json, document, lambda: _absorb_text(document, carried=carried))


def _filter(given: dict[str, Any]) -> DeadFilter:
    named = given.get("operation_id")
    failure_class = given.get("failure_class")
    policy = given.get("policy")
    return DeadFilter(
        policy=policy,
        failure_class=FailureClass(failure_class) if failure_class else None,
        ids=id_range(named) if named is not None else None,
        superseded=True if given.get("superseded") else None,
    )


def _one(system: System, which: DeadFilter, named: str) -> DeadLetter | StrayRecord:
    """The one dead letter, or message that executes nothing, that *named* means."""
    found: list[DeadLetter | StrayRecord] = [*system.dead_letters.dead(which, 2)]
    found += system.strays.found(which, 2)
    if len(found) != 1:
        problem = "is no dead letter" if not found else "fits several dead letters"
        fail(f"operation {printable(named)} {problem}; `bestbefore dlq list` shows their ids")
    return found[0]


def _require_choice(everything: bool, given: dict[str, Any]) -> None:
    if everything == any(value not in (None, False) for value in given.values()):
        raise click.UsageError("say which: either --all, or --policy, --class, --id, --superseded")


def _correct(
    system: System, which: DeadFilter, corrected: tuple[str, ...], *, dry_run: bool
) -> Document:
    said = dict(one.split("=", 1) for one in corrected if "=" in one)
    if (
        which.ids is None
        or len(said) != len(corrected)
        or "key" not in said
        or said.keys() - {"key", "version"}
    ):
        raise click.UsageError("--set takes key=KEY (and version=ID) and goes with --id")
    letter = next(iter(system.dead_letters.dead(which, 1)), None)
    if letter is None:
        fail("--set: this message has no operation that could be corrected; discard it")
    policy = system.policy(letter.policy)
    if policy.version != letter.policy_version:
        fail(
            f"operation {letter.operation_id.hex()}: it is of version {letter.policy_version}, "
            f"and {system.settings.path} has {policy.version}"
        )
    operation_id = correct(
        system.dead_letters,
        letter,
        said["key"],
        policy,
        lambda: system.store(policy.connection).lister,
        system.clock,
        system.person,
        version=said.get("version"),
        dry_run=dry_run,
    )
    return {
        "redriven": 0 if dry_run else 1,
        "would_redrive": 1 if dry_run else 0,
        "refused": 0,
        "strays": 0,
        "remaining": 0,
        "dry_run": dry_run,
        "corrected_by": operation_id.hex(),
    }


def _list_text(documents: list[Document]) -> str:
    if not documents:
        return "no dead letters"
    return table(
        ("operation", "policy", "class", "attempts", "last failed", "target", "error"),
        [
            (d["operation_id"][:12], d["policy"] or "-", d["failure_class"], d["attempts"],
             d["last_failed_at"], _target(d["command"]), d["error"])
            for d in documents
        ],
    )  # fmt: skip


def _show_text(document: Document) -> str:
    if document["policy"] is None:
        return _stray_text(document)
    command = document["command"]
    lines = [
        f"operation {document['operation_id']}",
        f"  {command['action']} {printable(_place(command))}",
        _seen(command),
        f"  policy {document['policy']} ({document['policy_version']}), owner "
        f"{document['owner'] or '-'}, run {document['run_id']}",
        f"  dead: {document['failure_class']} after {document['attempts']} attempts, "
        f"redriven {document['redriven']} times",
    ]
    lines += [
        f"    {attempt['at']}  {attempt['failure_class']}: {printable(attempt['error'])}"
        for attempt in document["history"]
    ]
    if (archive := document["archive"]) is not None:
        copy = printable(f"{archive['bucket']}/{archive['key']}")
        lines.append(f"  copied to {copy} at {archive['copied_at']}")
    if document["superseded"]:
        lines.append("  its policy version is no longer current: discard it, a redrive is refused")
    return "\n".join(lines)


def _stray_text(document: Document) -> str:
    return "\n".join(
        [
            f"message {document['operation_id']} ({document['size']:,} bytes) executes nothing",
            f"  {printable(document['error'])}",
            f"  received {document['attempts']:,} times, first {document['first_failed_at']}, last "
            f"{document['last_failed_at']}",
            f"  {printable(document['command'])}",
            "  it is of no run and cannot be redriven; find out who wrote it, then discard it",
        ]
    )


def _target(command: Document | str) -> str:
    """What a command is about, within the policy's bucket or database."""
    if isinstance(command, str):
        return command if len(command) <= _LONGEST_TARGET else command[:_LONGEST_TARGET] + "…"
    if command["kind"] == "rows":
        if command["walk"] == Walk.PARTITION:
            return f"{command['table']}: partition {command['first'][-1]}"
        first, last = (json.dumps(command[end], ensure_ascii=False) for end in ("first", "last"))
        return f"{command['table']} {first} to {last}"
    return str(command["key"])


def _place(command: Document) -> str:
    if command["kind"] == "rows":
        return f"{command['rows']:,} rows of {_target(command)}"
    return f"{command['bucket']}/{command['key']}"


def _seen(command: Document) -> str:
    if command["kind"] == "rows":
        if command["walk"] == Walk.PARTITION:
            return f"  as a whole, if all of it is older than {command['cutoff']}"
        return (
            f"  what of them is older than {command['cutoff']}, in the order of {command['walk']}"
        )
    if "upload_id" in command:
        upload = printable(command["upload_id"])
        return f"  unfinished upload {upload}, begun {command['last_modified']}"
    return f"  seen with etag {command['etag']}, last modified {command['last_modified']}"


def _absorb_text(document: Document, *, carried: bool) -> str:
    if document["queue"] is None:
        why = "this queue has none that are configured" if carried else "it is the state database"
        return f"nothing to absorb: the queue has no dead letters of its own, as {why}"
    lines = [f"absorbed {document['absorbed']:,} from {document['queue']}"]
    said = (
        ("due_again", "are due again, under the budget that they have"),
        ("already_ended", "had ended: completed or dead"),
        ("in_ledger", "wait in the ledger anyway: delayed, not released, or in a worker's hands"),
        ("strays", "execute nothing: `bestbefore dlq list --class malformed`"),
    )
    return "\n".join(
        [*lines, *(f"  {document[name]:,} {text}" for name, text in said if document[name])]
    )


def _redrive_text(document: Document) -> str:
    if document["dry_run"]:
        lines = [f"dry run: {document['would_redrive']:,} would be redriven"]
    else:
        lines = [f"redriven: {document['redriven']:,}; `bestbefore work` takes them up"]
    if superseded := document["refused"] - document["strays"]:
        lines.append(f"refused: {superseded:,} of versions that are no longer current")
    if document["strays"]:
        lines.append(
            f"refused: {document['strays']:,} messages that no operation is behind; `bestbefore "
            "dlq show ID` says why, `bestbefore dlq discard` closes them"
        )
    if document["remaining"]:
        lines.append(f"left for after the canary: {document['remaining']:,}")
    return "\n".join(lines)
