"""`plan` and `run`."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from bestbefore.app.previewing import gather, preview_of
from bestbefore.app.system import System
from bestbefore.cli.asking import agreed, someone_is_there
from bestbefore.cli.context import FAILING, Moment, Stop, emit, leave, opened, verb
from bestbefore.cli.dependents import dependents_lines
from bestbefore.cli.listing import Amount, ListsTargets, print_summary, print_targets
from bestbefore.cli.previewed import would_text
from bestbefore.cli.progress import watched
from bestbefore.cli.text import counts, moment, printable
from bestbefore.cli.work import backlog, keep_up, options, work_text
from bestbefore.domain.policy import Policy
from bestbefore.domain.preview import Selected
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.states import RunState
from bestbefore.read.documents import (
    Document,
    finished,
    plan_document,
    work_document,
)
from bestbefore.read.previews import would_document
from bestbefore.stages.plan import Planned

_slot = click.option(
    "--slot", type=Moment(), help="The slot to answer; by default the latest one that is due."
)
_dry_run = click.option(
    "--dry-run", is_flag=True, help="Scan, count and show, but write and delete nothing."
)
_yes = click.option(
    "--yes",
    is_flag=True,
    help="Approve this run: as shown if it is parked, else all it finds.",
)


@click.command(cls=ListsTargets)
@click.argument("policy")
@_slot
@_dry_run
@click.option(
    "--list",
    "most",
    type=Amount(),
    metavar="[=N]",
    help="With --dry-run: list every target, or N, with --json one line each.",
)
@_yes
@verb
def plan(
    config: Path,
    as_json: bool,
    policy: str,
    slot: datetime | None,
    dry_run: bool,
    most: int | None,
    yes: bool,
) -> None:
    """Find what POLICY selects for one slot and write it into the ledger.

    Deletes nothing: `bestbefore work` does. A run that parks is shown, and on a terminal you are
    asked whether to release it. A dry run wins over --yes. Exit status 1 if the run parked (in a
    dry run: would park) or was interrupted.
    """
    if most is not None and not dry_run:
        raise click.UsageError("--list belongs to --dry-run; `bestbefore export` lists a run")
    with opened(config, warn=True, dry_run=dry_run) as system:
        stop = Stop()
        found = system.policy(policy)
        chosen = _choose(system, policy, slot, Trigger.PLAN, dry_run=dry_run)
        if dry_run:
            with _drawn(system, policy, chosen, Trigger.PLAN, yes, stop) as (document, targets):
                _show_drawn(found, document, targets, most, as_json=as_json)
        else:
            document = _plan(system, found, chosen, yes, stop, as_json=as_json)
    raise SystemExit(FAILING if _failing(document) else 0)


@click.command()
@click.argument("policy")
@_slot
@_dry_run
@_yes
@click.option("--concurrency", type=click.IntRange(1, 64), default=32, show_default=True)
@verb
def run(
    config: Path,
    as_json: bool,
    policy: str,
    slot: datetime | None,
    dry_run: bool,
    yes: bool,
    concurrency: int,
) -> None:
    """Plan and work side by side until POLICY's run has drained: one line for a crontab.

    Exit status 1 if the run parked (in a dry run: would park), is incomplete, or left dead letters.
    """
    with opened(config, warn=True, dry_run=dry_run) as system:
        found = system.policy(policy)
        chosen = _choose(system, policy, slot, Trigger.RUN, dry_run=dry_run)
        stop = Stop()
        if dry_run:
            with _drawn(system, policy, chosen, Trigger.RUN, yes, stop) as (drawn, _):
                emit(as_json, {"plan": drawn, "work": None, "state": drawn["state"]},
                     lambda: plan_text(drawn, found.decides()))  # fmt: skip
            raise SystemExit(FAILING if _failing(drawn) else 0)
        with watched(lambda: backlog(system)) as progress:
            planned, report = system.run(
                found,
                chosen,
                options(system, concurrency, drain=True),
                approved=yes,
                on_page=progress.page,
                on_progress=progress.work,
                stopping=stop,
            )
        ended = system.records.run(planned.run.run_id)
        document = {
            "plan": _document(system, planned),
            "work": work_document(report),
            "state": ended.state.value,
        }
        system.give_back()
        emit(as_json, document, lambda: _run_text(document, ended, found.decides()))
        keep_up(system, stop)
    blocked = any(n for reason, n in report.left.items() if reason != "held")
    leave(report.abandoned, 0 if finished(ended) and not blocked else FAILING)


def plan_text(document: Document, rule: Mapping[str, object]) -> str:
    """A plan for a person: what would be removed, what stays and why. *rule* is what decides, see
    `Policy.decides`."""
    batches = document["unit"] == "batch"
    eligible = f" batches of {document['rows_eligible']:,} rows" if batches else ""
    slot, cutoff = moment(document["slot"]), moment(document["cutoff"])
    lines = [
        f"policy {document['policy']} ({document['policy_version']}), slot {slot}: "
        f"what is older than {cutoff}",
        f"  scanned    {document['scanned']:>12,} {'rows' if batches else 'objects'}, "
        f"{document['in_scope']:,} in scope",
        f"  eligible   {document['eligible']:>12,}{eligible}",
    ]
    lines += [
        f"    {name.replace('_', ' '):<19}{document[name]:>8,}"
        for name in ("published", "waiting", "already_pending", "already_completed",
                     "already_dead", "reappeared", "refused")
        if document[name]
    ]  # fmt: skip
    if document["protected"]:
        kept = counts({name.replace("_", " "): n for name, n in document["protected"].items()})
        unit = " rows" if batches else ""
        lines.append(f"  protected  {sum(document['protected'].values()):>12,}{unit} ({kept})")
    lines += dependents_lines(document, rule)
    if (uploads := document["uploads"])["scanned"]:
        lines.append(
            f"  uploads    {uploads['scanned']:>12,} unfinished ones among these, "
            f"{uploads['eligible']:,} eligible"
        )
    if document["would"] is not None:
        lines += would_text(document["would"])
    lines.append(_next_step(document))
    return "\n".join(lines)


def _next_step(document: Document) -> str:
    name = f"run {document['run_id']}"
    if document["dry_run"]:
        return "\n".join(_after_a_dry_run(document))
    if document["state"] == RunState.PARKED:
        return (
            f"{name} is parked: {printable(document['reason'])}\n"
            f"next: `bestbefore runs approve {document['run_id']}` releases exactly this, "
            f"`bestbefore runs cancel {document['run_id']}` ends it"
        )
    if not document["complete"]:
        return f"{name} is not complete; the same command, or any worker, goes on where it stopped"
    if document["repeated"]:
        return f"{name} answered this slot before and is {document['state']}"
    if document["state"] == RunState.OPEN:
        return f"{name} is open; `bestbefore work` deletes"
    return f"{name} is {document['state']}"


def _after_a_dry_run(document: Document) -> Iterator[str]:
    said = "dry run: nothing was written, nothing was deleted"
    if not document["complete"]:
        yield f"{said}; it was interrupted, so what it counted is not all"
        return
    policy = document["policy"]
    if document["state"] == RunState.PARKED:
        yield f"{said}; it would park: {printable(document['reason'])}"
        yield f"next: `bestbefore plan {policy}` plans and parks it; then it can be approved"
    else:
        yield f"{said}; it would not park"
        yield f"next: `bestbefore run {policy}` plans and deletes"


def _run_text(document: dict[str, Any], ended: Run, rule: Mapping[str, object]) -> str:
    lines = [plan_text(document["plan"], rule), work_text(document["work"])]
    lines.append(f"run {ended.run_id} is {ended.state}")
    return "\n".join(lines)


def _choose(
    system: System, policy: str, slot: datetime | None, trigger: Trigger, *, dry_run: bool
) -> datetime:
    if not dry_run:  # which writes nothing
        system.schedule.look()
    return system.slot(system.policy(policy), slot, trigger)


def _plan(
    system: System, policy: Policy, slot: datetime, yes: bool, stop: Stop, *, as_json: bool
) -> Document:
    """Plan, show it, and where it parked and someone is there, ask. Returns how that ended."""
    with watched() as progress:
        planner = system.planner(policy, progress.page, stop)
        planned = planner.plan(policy, slot, Trigger.PLAN, approved=yes)
    document = _document(system, planned)
    emit(as_json, document, lambda: plan_text(document, policy.decides()))
    if document["state"] != RunState.PARKED or as_json or not someone_is_there():
        return document
    sys.stdout.flush()
    if not agreed(_question(document, planned.run)):
        click.echo(f"run {document['run_id']} stays parked", err=True)
        return document
    released = system.plans.approve(document["run_id"], system.person, system.clock.now())
    click.echo(f"run {released.run_id} is {released.state}; `bestbefore work` deletes")
    return document | {"state": released.state.value}


def _question(document: Document, run: Run) -> str:
    n = document["would"]["n"] if document["would"] else run.rows or run.planned
    beside = f" and {run.dependent_rows:,} rows of other tables" if run.dependent_rows else ""
    return f"Release these {n:,}{beside} now?"


def _document(system: System, planned: Planned) -> Document:
    """The answer, with what a run that parked would remove."""
    run = planned.run
    document = plan_document(run, repeated=planned.repeated, approved=planned.approved)
    preview = preview_of(system, run) if run.state is RunState.PARKED else None
    return document | {"would": None if preview is None else would_document(preview)}


@contextmanager
def _drawn(
    system: System, policy: str, slot: datetime, trigger: Trigger, approved: bool, stop: Stop
) -> Iterator[tuple[Document, Iterator[Selected]]]:
    """The document of a dry run, and all it would remove; of one that was interrupted nothing."""
    found = system.policy(policy)
    with system.scratch() as scratch:
        with watched() as progress:
            planner = system.planner(found, progress.page, stop)
            run = planner.preview(found, slot, scratch.plans, trigger, approved=approved)
            document = plan_document(run, dry_run=True) | {"run_id": None, "would": None}
            if run.complete:
                preview = gather(system, found, run, scratch.previews)
                document["would"] = would_document(preview)
        yield document, scratch.previews.selected(run) if run.complete else iter(())


def _show_drawn(
    policy: Policy,
    document: Document,
    targets: Iterator[Selected],
    most: int | None,
    *,
    as_json: bool,
) -> None:
    if most is None:
        emit(as_json, document, lambda: plan_text(document, policy.decides()))
        return
    print_targets(targets, most, as_json=as_json)
    if as_json:
        print_summary(document)
    else:
        click.echo(f"\n{plan_text(document, policy.decides())}")


def _failing(document: Document) -> bool:
    return document["state"] == RunState.PARKED or not document["complete"]
