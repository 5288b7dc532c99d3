"""Why something stays or goes."""

import re
import time

from fastapi import APIRouter, Request, Response

from bestbefore.app.questions import explanation
from bestbefore.app.system import System
from bestbefore.ports.ledger import NotInLedger
from bestbefore.ports.records import OperationFilter
from bestbefore.read.documents import Document
from bestbefore.stages.survey import Stopped
from bestbefore.web.dashboard.pages import page
from bestbefore.web.dashboard.visits import Posted, field
from bestbefore.web.desk import Here
from bestbefore.web.problems import Problem

routes = APIRouter()

_SECONDS = 20.0
_ESCAPE = re.compile(r"\\(?:n|r|t|\\|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")


@routes.get("/explain")
def ask(request: Request, desk: Here, policy: str = "", operation: str = "") -> Response:
    """Where a policy and a key are asked for; with an operation, about its own."""
    found = None
    if operation:
        policy, key = _of(desk.system, operation)
        found = _explained(desk.system, policy, key)
    return _page(request, desk, policy, found)


@routes.post("/explain")
def explain(request: Request, desk: Here, form: Posted) -> Response:
    """The answer. Changes nothing; a form, so that no key stands in an address or a log."""
    key = form.get("key", "")
    if not isinstance(key, str) or not key:
        raise Problem(422, "the key is empty; enter the key of an object, or of a row")
    if field(form, "escapes"):
        key = _ESCAPE.sub(lambda found: _unescaped(found[0]), key)
    policy = field(form, "policy")
    return _page(request, desk, policy, _explained(desk.system, policy, key))


def _page(request: Request, desk: Here, policy: str, found: Document | None) -> Response:
    policies = sorted(desk.system.settings.policies)
    return page(request, "explain.html", policies=policies, policy=policy, found=found)


def _explained(system: System, name: str, key: str) -> Document:
    until = time.monotonic() + _SECONDS
    policy = system.policy(name)
    try:
        return explanation(system, policy, key, lambda _: None, lambda: time.monotonic() > until)
    except Stopped:
        raise Problem(
            503,
            f"this takes a listing of more than {_SECONDS:.0f} seconds; ask for it with "
            f"`bestbefore explain {name} KEY`",
        ) from None


def _of(system: System, operation: str) -> tuple[str, str]:
    try:
        which = OperationFilter(operation_id=bytes.fromhex(operation))
    except ValueError:
        which = OperationFilter(operation_id=b"")
    found = next(system.records.operations(which, 1), None)
    if found is None:
        raise NotInLedger(f"operation {operation}: the ledger knows none of that id")
    return found.policy, found.key


def _unescaped(escape: str) -> str:
    return escape.encode("ascii").decode("unicode_escape")
