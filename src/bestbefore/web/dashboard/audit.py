"""What people decided."""

from fastapi import APIRouter, Request, Response

from bestbefore.ports.records import EventFilter
from bestbefore.read.documents import event_document
from bestbefore.web.dashboard.pages import page, query
from bestbefore.web.desk import Here

routes = APIRouter()

_PAGE = 100


@routes.get("/audit")
def audit(
    request: Request,
    desk: Here,
    action: str = "",
    by: str = "",
    policy: str = "",
    before: str = "",
) -> Response:
    """Events, newest first."""
    which = EventFilter(action or None, by or None, policy or None)
    row = int(before[:18]) if before.isascii() and before.isdigit() else None
    found = desk.system.records.events(_PAGE + 1, row, which)
    shown = [event_document(event) for event in found[:_PAGE]]
    given = {"action": action, "by": by, "policy": policy}
    older = None
    if len(found) > _PAGE:
        older = query(given | {"before": str(shown[-1]["event"])})
    return page(request, "audit.html", events=shown, given=given, older=older)
