"""Runs: how far they are, and what a person decides about those that are parked."""

from fastapi import APIRouter, Request, Response

from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import LedgerError
from bestbefore.read.documents import run_document
from bestbefore.read.runs import shown_run_document
from bestbefore.web.dashboard.pages import done, page, query
from bestbefore.web.dashboard.visits import Action, Visitor, field, reason
from bestbefore.web.desk import Here

routes = APIRouter()

_PAGE = 50


@routes.get("/runs")
def runs(
    request: Request, desk: Here, policy: str = "", state: str = "", after: str = ""
) -> Response:
    """Runs, newest slot first."""
    asked = RunState(state) if state in list(RunState) else None
    found = desk.system.records.runs(policy or None, _PAGE + 1, state=asked, after=after or None)
    shown = [run_document(run) for run in found[:_PAGE]]
    older = None
    if len(found) > _PAGE:
        older = query({"policy": policy, "state": state, "after": shown[-1]["run_id"]})
    return page(
        request,
        "runs.html",
        runs=shown,
        policy=policy,
        state=asked or "",
        states=list(RunState),
        policies=sorted(desk.system.settings.policies),
        older=older,
    )


@routes.get("/runs/{run_id}")
def run(request: Request, desk: Here, run_id: str) -> Response:
    """One run: its rule, its counts, what came of it; of a parked one what it would remove."""
    system = desk.system
    found = system.records.run(run_id)
    shown = shown_run_document(system.records, found, system.previews.find(found))
    return page(request, "run.html", run=shown)


@routes.post("/runs/{run_id}/approve")
def approve(desk: Here, visit: Visitor, form: Action, run_id: str) -> Response:
    """Release a parked run as it was shown."""
    system = desk.system
    planned = system.records.run(run_id).planned
    if field(form, "planned") != str(planned):
        raise LedgerError(
            f"run {run_id}: it has {planned:,} commands now, which is not what was shown; look "
            "again before you approve it"
        )
    why = field(form, "reason") or None
    system.plans.approve(run_id, visit.principal.name, system.clock.now(), why)
    return done(f"/runs/{run_id}", f"Approved: {planned:,} commands are released to the workers.")


@routes.post("/runs/{run_id}/cancel")
def cancel(desk: Here, visit: Visitor, form: Action, run_id: str) -> Response:
    """End a run: what no worker has in hand stays where it is."""
    system = desk.system
    system.plans.cancel(run_id, reason(form), visit.principal.name, system.clock.now())
    return done(f"/runs/{run_id}", "Cancelled: what no worker had in hand stays where it is.")
