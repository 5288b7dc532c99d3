"""Dead letters: by incident, one by one, sent again and closed."""

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData

from bestbefore.app.discarding import discarded
from bestbefore.domain.failure import FailureClass
from bestbefore.ports.ledger import DeadFilter, NotInLedger
from bestbefore.ports.records import OperationFilter
from bestbefore.read.failures import EXPLAINED
from bestbefore.read.incidents import incident_documents
from bestbefore.read.operations import dead_letter_document, evidence_document
from bestbefore.read.strays import stray_document
from bestbefore.stages.redrive import redrive
from bestbefore.web.dashboard.pages import done, page, query
from bestbefore.web.dashboard.visits import Action, Visitor, field, reason
from bestbefore.web.desk import Here
from bestbefore.web.problems import Problem

routes = APIRouter()

_LISTED = 100
_LOOKED_AT = 20_000
"""Dead letters that one search looks at, so that it ends in time."""
_AT_ONCE = 5_000
"""Dead letters that one press of a button sends again, or closes; the next press does more."""
_CANARY = 10


@routes.get("/dead-letters")
def dead_letters(
    request: Request,
    desk: Here,
    policy: str = "",
    failure_class: str = "",
    incident: str = "",
    search: str = "",
) -> Response:
    """Incidents; with an incident or a search, single dead letters."""
    system = desk.system
    search = search.strip()
    which = _filter(policy, failure_class, incident, search)
    incidents = incident_documents(system.records, which.policy, which.failure_class)
    narrow = which.incident is not None or which.contains is not None
    found = system.dead_letters.dead(which, _LISTED, looking_at=_LOOKED_AT) if narrow else []
    strays = system.strays.found(which, _LISTED)
    known = {name for one in incidents for name in (of["policy"] for of in one["policies"])}
    given = {"policy": policy, "failure_class": failure_class, "incident": incident,
             "search": search}  # fmt: skip
    return page(
        request,
        "dead_letters.html",
        incidents=incidents,
        incident=next((one for one in incidents if one["incident"] == incident), None),
        letters=[dead_letter_document(letter) for letter in found],
        strays=[stray_document(stray) for stray in strays],
        stray_count=system.strays.count(which) if strays else 0,
        narrow=narrow,
        listed=_LISTED,
        looked_at=_LOOKED_AT,
        at_once=_AT_ONCE,
        canary=_CANARY,
        given=given,
        classes=list(FailureClass),
        policies=sorted(known | system.settings.policies.keys()),
    )


@routes.get("/dead-letters/{operation_id}")
def dead_letter(request: Request, desk: Here, operation_id: str) -> Response:
    """Why one is dead; or what became of it; or what a message that executes nothing says."""
    records, name = desk.system.records, _id(operation_id)
    found = next(records.operations(OperationFilter(operation_id=name), 1), None)
    if found is None:
        for stray in desk.system.strays.found(DeadFilter(among=frozenset({name})), 1):
            return page(request, "stray.html", stray=stray_document(stray, whole=True))
        raise NotInLedger(f"operation {operation_id}: the ledger knows none of that id")
    this = DeadFilter(among=frozenset({found.operation_id}))
    letter = next(iter(desk.system.dead_letters.dead(this, 1)), None)
    return page(
        request,
        "dead_letter.html",
        operation=evidence_document(found, records.attempts(found.row)),
        explained=EXPLAINED[found.failure_class] if found.failure_class else None,
        letter=letter and dead_letter_document(letter),
    )


@routes.post("/dead-letters/redrive")
def redrive_(desk: Here, visit: Visitor, form: Action) -> Response:
    """Send again those that are meant, some of them first, or only count them."""
    system, which, back = desk.system, _meant(form), _back(form)
    do = field(form, "do")
    canary = _CANARY if do == "canary" else _AT_ONCE
    did = redrive(
        system.dead_letters,
        system.strays,
        which,
        system.clock,
        visit.principal.name,
        rate=_rate(field(form, "rate")),
        canary=canary,
        dry_run=do == "count",
    )
    parts = [f"Redriven: {did.redriven:,}; workers take them up."]
    if do == "count":
        parts = [f"Dry run: {did.redriven + did.remaining:,} would be redriven."]
    elif did.remaining:
        parts.append(f"{did.remaining:,} more match and were left.")
    if superseded := did.refused - did.strays:
        parts.append(f"{superseded:,} are refused: their policy version is no longer current.")
    if did.strays:
        parts.append(f"{did.strays:,} are refused: these messages have no operation.")
    return done(back, " ".join(parts))


@routes.post("/dead-letters/discard")
def discard(desk: Here, visit: Visitor, form: Action) -> Response:
    """Close those that are meant, without deleting anything."""
    system, which, why = desk.system, _meant(form), reason(form)
    n = discarded(system, which, why, visit.principal.name, limit=_AT_ONCE)
    left = system.dead_letters.count(which) + system.strays.count(which)
    more = f" {left:,} more match and were left." if left else ""
    return done(_back(form), f"Discarded: {n:,}; nothing was deleted.{more}")


def _meant(form: FormData) -> DeadFilter:
    """Those that were ticked, or all that the filters of the page select."""
    if field(form, "which") == "all":
        which = _filter(
            field(form, "policy"),
            field(form, "failure_class"),
            field(form, "incident"),
            field(form, "search"),
        )
        if which == DeadFilter():
            raise Problem(422, "say which dead letters are meant: an incident, or a search")
        return which
    chosen = [_id(value) for value in form.getlist("id") if isinstance(value, str)]
    if not chosen:
        raise Problem(422, "no dead letter was ticked, so nothing was done")
    return DeadFilter(among=frozenset(chosen))


def _filter(policy: str, failure_class: str, incident: str, search: str) -> DeadFilter:
    known = failure_class in list(FailureClass)
    return DeadFilter(
        policy=policy or None,
        failure_class=FailureClass(failure_class) if known else None,
        incident=_bytes(incident, 16, "incident") if incident else None,
        contains=search or None,
    )


def _back(form: FormData) -> str:
    names: Sequence[str] = ("policy", "failure_class", "incident", "search")
    return "/dead-letters" + query({name: field(form, name) for name in names})


def _rate(text: str) -> float | None:
    if not text:
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1_000_000:
        raise Problem(422, f"rate: expected a number of commands a second, not {text}")
    return rate


def _id(text: str) -> bytes:
    return _bytes(text, 32, "operation")


def _bytes(text: str, length: int, what: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != length:
        raise Problem(404, f"{text} is no {what} id: expected {2 * length} hexadecimal digits")
    return found
