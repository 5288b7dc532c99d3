"""`schedule sync`: what differs at an outside scheduler, and what came of putting it right."""

from collections.abc import Mapping, Sequence

from bestbefore.app.schedulers import scheduler_of, told
from bestbefore.app.system import System
from bestbefore.ports.scheduler import Inexpressible, Scheduler, SchedulerFailed, SkippedHour
from bestbefore.read.documents import Document
from bestbefore.stages.sync import Difference, changes, compare, settle_all, wanted_by


def synced(system: System, *, dry_run: bool) -> tuple[Document, bool]:
    """What differs, and with what result it was put right; and whether all is in line now.

    With *dry_run* nothing is changed. Raises LedgerError, and SchedulerFailed where nobody answers.
    """
    with scheduler_of(system.settings) as scheduler:
        differences = compare(wanted_by(system.settings.policies), scheduler)
        failed = {} if dry_run else settle_all(differences, scheduler)
        found = [_difference(one, failed, dry_run=dry_run) for one in differences]
        name = scheduler.name
    # What is somebody else's is none of our differences.
    ok = all(one["result"] in ("done", "left") for one in found)
    return {"scheduler": name, "dry_run": dry_run, "in_line": ok, "differences": found}, ok


def deployed_documents(system: System) -> tuple[bool, Mapping[str, Document]]:
    """What the vendor has of each policy with a schedule; empty without an outside scheduler. And
    whether it leaves out a local time that a clock change skips.

    Where nobody answers each says so, as the schedules themselves are known all the same.
    """
    if not system.settings.schedule.is_outside:
        return False, {}
    skips = False
    try:
        with scheduler_of(system.settings) as scheduler:
            skips = scheduler.capabilities.skipped_hour is SkippedHour.NEVER
            return skips, _deployed(system, scheduler)
    except SchedulerFailed as error:
        unknown = {"state": "unknown", "id": None, "reason": str(error)}
        return skips, {one.policy: unknown for one in wanted_by(system.settings.policies)}


def _deployed(system: System, scheduler: Scheduler) -> Mapping[str, Document]:
    there = {one.policy: one for one in scheduler.deployed()}
    documents: dict[str, Document] = {}
    for one in wanted_by(system.settings.policies):
        found = there.get(one.policy)
        try:
            differing = ", ".join(changes(scheduler.terms(one), found)) if found else ""
        except Inexpressible as error:
            differing = str(error)
        if found is None:
            state, reason = "missing", "run `bestbefore schedule sync`"
        elif not found.enabled:
            state, reason = "disabled", "nothing triggers it; run `bestbefore schedule sync`"
        elif differing:
            state, reason = "changed", f"it differs: {differing}"
        else:
            state, reason = "in line", ""
        documents[one.policy] = {"state": state, "id": found and found.id, "reason": reason}
    return documents


def _difference(
    one: Difference, failed: Mapping[Difference, SchedulerFailed], *, dry_run: bool
) -> Document:
    error = failed.get(one)
    if not one.drift.settled:
        result = "left" if one.wanted is None else "refused"
    elif dry_run:
        result = "planned"
    else:
        result = "done" if error is None else "failed"
    return {
        "policy": one.policy,
        "drift": one.drift.value,
        "id": one.deployed and one.deployed.id,
        "text": told(one),
        "changes": {
            name: {"there": change.there, "wanted": change.wanted}
            for name, change in (one.changes or {}).items()
        },
        "result": result,
        "error": None if error is None else str(error),
    }


def lines(document: Document) -> Sequence[str]:
    """*document* of `synced` for a person."""
    found = []
    for one in document["differences"]:
        found.append(f"{one['drift']:<14}{one['text']}")
        found += [
            f"    {name}: {change['there'] or '(none)'} -> {change['wanted'] or '(none)'}"
            for name, change in one["changes"].items()
        ]
        if one["error"]:
            found.append(f"    failed: {one['error']}")
    if not document["differences"]:
        found.append("in line")
    elif document["dry_run"]:
        found.append("nothing was changed")
    elif document["in_line"]:
        found.append("in line now")
    else:
        found.append("not in line")
    return [f"{document['scheduler']}:", *found]
