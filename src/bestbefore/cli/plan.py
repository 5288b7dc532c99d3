"""`plan` and `run`."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from bestbefore.app.system import System
from bestbefore.cli.context import FAILING, Moment, Stop, emit, leave, opened, verb
from bestbefore.cli.dependents import dependents_lines
from bestbefore.cli.progress import Progress, watched
from bestbefore.cli.text import counts, printable
from bestbefore.cli.work import backlog, keep_up, options, work_text
from bestbefore.domain.run import Run, Trigger
from bestbefore.domain.states import RunState
from bestbefore.read.documents import (
    Document,
    finished,
    plan_document,
    work_document,
)
from bestbefore.stages.plan import Planned

_slot = click.option(
    "--slot", type=Moment(), help="The slot to answer; by default the latest one that is due."
)
_dry_run = click.option(
    "--dry-run", is_flag=True, help="Scan and count, but write and delete nothing."
)
_yes = click.option(
    "--yes", is_flag=True, help="Go ahead where the run would park, or approve the one that is."
)


@click.command()
@click.argument("policy")
@_slot
@_dry_run
@_yes
@verb
def plan(
    config: Path, as_json: bool, policy: str, slot: datetime | None, dry_run: bool, yes: bool
) -> None:
    """Find what POLICY selects for one slot and write it into the ledger.

    Deletes nothing: `bestbefore work` does. A dry run wins over --yes. Exit status 1 if the run
    parked or was interrupted.
    """
    with opened(config, warn=True, dry_run=dry_run) as system, watched() as progress:
        stop = Stop()
        rule = system.policy(policy).decides()
        chosen = _choose(system, policy, slot, Trigger.PLAN, dry_run=dry_run)
        if dry_run:
            document = _preview(system, policy, chosen, Trigger.PLAN, yes, progress, stop)
        else:
            planner = system.planner(system.policy(policy), progress.page, stop)
            planned = planner.plan(system.policy(policy), chosen, Trigger.PLAN, approved=yes)
            document = _document(planned, planned.run)
    emit(as_json, document, lambda: plan_text(document, rule))
    failing = document["state"] == RunState.PARKED or not document["complete"]
    raise SystemExit(FAILING if failing and not dry_run else 0)


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

    Exit status 1 if the run parked, is incomplete, or left dead letters.
    """
    with opened(config, warn=True, dry_run=dry_run) as system:
        found = system.policy(policy)
        chosen = _choose(system, policy, slot, Trigger.RUN, dry_run=dry_run)
        stop = Stop()
        with watched(lambda: backlog(system)) as progress:
            if dry_run:
                preview = _preview(system, policy, chosen, Trigger.RUN, yes, progress, stop)
                emit(as_json, {"plan": preview, "work": None, "state": preview["state"]},
                     lambda: plan_text(preview, found.decides()))  # fmt: skip
                return
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
            "plan": _document(planned, planned.run),
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
    lines = [
        f"policy {document['policy']} ({document['policy_version']}), slot {document['slot']}: "
        f"what is older than {document['cutoff']}",
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
    lines.append(_next_step(document))
    return "\n".join(lines)


def _next_step(document: Document) -> str:
    name = f"run {document['run_id']}"
    if document["dry_run"]:
        would = f"; it would park: {document['reason']}" if document["reason"] else ""
        return f"dry run: nothing was written, nothing was deleted{would}"
    if document["state"] == RunState.PARKED:
        return (
            f"{name} is parked: {printable(document['reason'])}\n"
            f"look at it with `bestbefore runs show {document['run_id']}`, then "
            f"`bestbefore runs approve {document['run_id']}` or cancel it"
        )
    if not document["complete"]:
        return f"{name} is not complete; the same command, or any worker, goes on where it stopped"
    if document["repeated"]:
        return f"{name} answered this slot before and is {document['state']}"
    if document["state"] == RunState.OPEN:
        return f"{name} is open; `bestbefore work` deletes"
    return f"{name} is {document['state']}"


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


def _document(planned: Planned, run: Run) -> Document:
    return plan_document(run, repeated=planned.repeated, approved=planned.approved)


def _preview(
    system: System,
    policy: str,
    slot: datetime,
    trigger: Trigger,
    approved: bool,
    progress: Progress,
    stop: Stop,
) -> Document:
    found = system.policy(policy)
    with system.scratch() as scratch:
        planner = system.planner(found, progress.page, stop)
        drawn = planner.preview(found, slot, scratch.plans, trigger, approved=approved)
    return plan_document(drawn, dry_run=True)
