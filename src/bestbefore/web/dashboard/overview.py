"""The overview, and what can be done from it: pause and resume."""

from datetime import datetime, timedelta

from fastapi import APIRouter, Request, Response

from bestbefore.app import pausing, reporting
from bestbefore.app.system import System
from bestbefore.domain.states import RunState
from bestbefore.read.documents import Document, run_document
from bestbefore.read.slots import calendar_document
from bestbefore.web.dashboard.pages import done, page
from bestbefore.web.dashboard.visits import Action, Visitor, field, reason
from bestbefore.web.desk import Here

routes = APIRouter()

_SPAN, _STEP = timedelta(hours=24), timedelta(minutes=5)
_MOST_PARKED = 50
_DAYS, _MOST_SLOTS = 30, 60


@routes.get("/")
def overview(request: Request, desk: Here) -> Response:
    """Is cleanup keeping up, and what stands in its way?"""
    system = desk.system
    now = system.clock.now()
    parked = system.records.runs(None, _MOST_PARKED, state=RunState.PARKED)
    return page(
        request,
        "overview.html",
        status=reporting.status(system),
        parked=[run_document(run) for run in parked],
        calendars=_calendars(system, now),
        backlogs=system.backlogs.since(now - _SPAN, _STEP),
        span=_SPAN,
        step=_STEP,
    )


def _calendars(system: System, now: datetime) -> dict[str, list[Document]]:
    """The last slots of each policy that has a schedule, oldest first."""
    schedule = system.schedule
    return {
        name: calendar_document(policy, schedule.slots, schedule.grace, now, _DAYS, _MOST_SLOTS)[
            "slots"
        ][::-1]
        for name, policy in system.settings.policies.items()
        if policy.schedule is not None
    }


@routes.post("/pause")
def pause(desk: Here, visit: Visitor, form: Action) -> Response:
    """Stop work on a policy, or on every one."""
    system, policy = desk.system, field(form, "policy") or None
    paused = pausing.pause(system, policy, reason(form), None, visit.principal.name)
    said = [f"Paused {policy or 'every policy'}: workers stop within one batch."]
    said += [
        f"{of['policy']} misses every slot from {of['first']} on."
        for of in paused["misses"]
        if of["first"] is not None
    ]
    return done("/", " ".join(said))


@routes.post("/resume")
def resume(desk: Here, visit: Visitor, form: Action) -> Response:
    """Lift a pause, and say what comes first."""
    policy = field(form, "policy") or None
    resumed = pausing.resume(desk.system, policy, visit.principal.name)
    what = policy or "every policy"
    said = [f"Resumed {what}." if resumed["resumed"] else f"There was no pause of {what}."]
    said += [_first(first) for first in resumed["first"]]
    return done("/", " ".join(said))


def _first(first: Document) -> str:
    name = first["policy"]
    if first["paused"]:
        return f"{name} stays paused: {first['paused']}."
    if first["now"]:
        return f"{name}: one run starts now, for the missed slot {first['slot']}."
    return f"{name}: nothing starts now; its next slot is {first['slot']}."
