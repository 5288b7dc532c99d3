"""Holds: what is kept whatever its age."""

from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData

from bestbefore.app import holding
from bestbefore.read.documents import hold_document
from bestbefore.web.dashboard.pages import done, page
from bestbefore.web.dashboard.visits import Action, Visitor, field, reason
from bestbefore.web.desk import Here
from bestbefore.web.problems import Problem

routes = APIRouter()


@routes.get("/holds")
def holds(request: Request, desk: Here) -> Response:
    """The holds in force, oldest first."""
    system = desk.system
    found = [hold_document(one) for one in system.holds.in_force(system.clock.now())]
    return page(
        request,
        "holds.html",
        holds=found,
        policies=sorted(system.settings.policies),
        stores=sorted(system.settings.stores),
    )


@routes.post("/holds")
def add(desk: Here, visit: Visitor, form: Action) -> Response:
    """Put a hold in force."""
    system = desk.system
    policy, store, bucket = (field(form, name) or None for name in ("policy", "store", "bucket"))
    prefix = form.get("prefix", "")
    scope = holding.scope_of(
        system, policy, store, bucket, prefix if isinstance(prefix, str) else ""
    )
    by = visit.principal.name
    added = holding.hold(system, scope, reason(form), _until(form), by)
    return done("/holds", f"Hold {added.hold_id} is in force for every worker within one batch.")


@routes.post("/holds/{hold_id}/remove")
def remove(desk: Here, visit: Visitor, _: Action, hold_id: str) -> Response:
    """Lift a hold."""
    system = desk.system
    removed = system.holds.remove(hold_id, visit.principal.name, system.clock.now())
    return done("/holds", f"Removed hold {removed.hold_id}; the next run plans what was under it.")


def _until(form: FormData) -> datetime | None:
    """When it is to end, as a browser's field for a local time has it, meant in UTC."""
    if not (text := field(form, "until")):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Problem(422, f"until: expected a time such as 2026-12-24T18:00, not {text}") from None
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
