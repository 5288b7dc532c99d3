"""What the ledger knows, for reading."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from bestbefore.app import reporting
from bestbefore.app.questions import explanation
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import DeadFilter, NotInLedger
from bestbefore.ports.records import OperationFilter
from bestbefore.read.documents import (
    Document,
    event_document,
    hold_document,
    run_document,
)
from bestbefore.read.operations import evidence_document, shown_dead_letter_document
from bestbefore.read.runs import shown_run_document
from bestbefore.read.strays import dead_letter_documents, stray_document
from bestbefore.stages.survey import Stopped
from bestbefore.web import documents
from bestbefore.web.asked import (
    ClassQuery,
    LimitQuery,
    OperationPath,
    PolicyPath,
    PolicyQuery,
    RunPath,
)
from bestbefore.web.auth import Reader
from bestbefore.web.desk import Here
from bestbefore.web.problems import documented, try_again

_PATIENCE_SECONDS = 20

routes = APIRouter(prefix="/v1", responses=documented(401, 403, 422, 429, 503))

_UNKNOWN = documented(404)
_AFTER = Query(description="Go on after this one: `next` of the page before.")


@routes.get("/status", response_model=documents.Status)
def status(desk: Here, _: Reader) -> Document:
    """Is cleanup keeping up, and what stands in its way?"""
    return reporting.status(desk.system)


@routes.get("/policies", response_model=documents.Policies)
def policies(desk: Here, _: Reader) -> Document:
    """Every policy and how it is doing."""
    return {"policies": reporting.status(desk.system)["policies"]}


@routes.get("/policies/{name}", response_model=documents.Policy, responses=_UNKNOWN)
def policy(desk: Here, _: Reader, name: PolicyPath) -> Document:
    """One policy and how it is doing."""
    for row in reporting.status(desk.system)["policies"]:
        if row["policy"] == name:
            found: Document = row
            return found
    raise NotInLedger(f"there is no policy {name}, neither in the file nor in the ledger")


@routes.get("/runs", response_model=documents.Runs, responses=_UNKNOWN)
def runs(
    desk: Here,
    _: Reader,
    policy: PolicyQuery = None,
    state: Annotated[RunState | None, Query(description="Only in this state.")] = None,
    limit: LimitQuery = 50,
    after: Annotated[str | None, Query(pattern=r"^[0-9a-f]{12}$"), _AFTER] = None,
) -> Document:
    """Runs, newest slot first."""
    found = desk.system.records.runs(policy, limit, state=state, after=after)
    more = found[-1].run_id if len(found) == limit else None
    return {"runs": [run_document(run) for run in found], "next": more}


@routes.get("/runs/{run_id}", response_model=documents.ShownRun, responses=_UNKNOWN)
def run(desk: Here, _: Reader, run_id: RunPath) -> Document:
    """One run: its rule, its counts, what came of it, and of one that parked what it would
    remove."""
    system = desk.system
    found = system.records.run(run_id)
    return shown_run_document(system.records, found, system.previews.find(found))


@routes.get("/operations/{operation_id}", response_model=documents.Operation, responses=_UNKNOWN)
def operation(desk: Here, _: Reader, operation_id: OperationPath) -> Document:
    """Everything known of one operation: who, when, why, and what happened."""
    records, wanted = desk.system.records, bytes.fromhex(operation_id)
    for found in records.operations(OperationFilter(operation_id=wanted), 1):
        return evidence_document(found, records.attempts(found.row))
    raise NotInLedger(f"operation {operation_id}: the ledger has none of that id")


@routes.get("/dead-letters", response_model=documents.DeadLetters, responses=_UNKNOWN)
def dead_letters(
    desk: Here,
    _: Reader,
    policy: PolicyQuery = None,
    failure_class: ClassQuery = None,
    superseded: Annotated[bool, Query(description="Only of versions no longer current.")] = False,
    limit: LimitQuery = 50,
    after: Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$"), _AFTER] = None,
) -> Document:
    """Dead letters, oldest failure first, and after them the messages that execute nothing."""
    which = DeadFilter(policy, failure_class, superseded=superseded or None)
    start = None if after is None else bytes.fromhex(after)
    system = desk.system
    found = dead_letter_documents(system.dead_letters, system.strays, which, limit, start)
    more = found[-1]["operation_id"] if len(found) == limit else None
    return {"dead_letters": found, "next": more}


@routes.get(
    "/dead-letters/{operation_id}", response_model=documents.ShownDeadLetter, responses=_UNKNOWN
)
def dead_letter(desk: Here, _: Reader, operation_id: OperationPath) -> Document:
    """One dead letter with all its attempts, or one message that executes nothing."""
    this = DeadFilter(among=frozenset({bytes.fromhex(operation_id)}))
    for letter in desk.system.dead_letters.dead(this, 1):
        return shown_dead_letter_document(desk.system.records, letter)
    for stray in desk.system.strays.found(this, 1):
        return stray_document(stray, whole=True)
    raise NotInLedger(f"operation {operation_id}: it is no dead letter")


@routes.get("/holds", response_model=documents.Holds)
def holds(desk: Here, _: Reader) -> Document:
    """The holds in force, oldest first."""
    found = desk.system.holds.in_force(desk.system.clock.now())
    return {"holds": [hold_document(hold) for hold in found]}


@routes.get("/explain", response_model=documents.Explanation, responses=documented(404, 409))
def explain(
    desk: Here,
    _: Reader,
    policy: Annotated[str, Query(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")],
    key: Annotated[
        str,
        Query(
            min_length=1,
            max_length=4_096,
            description="An object's key; of a row its key, a JSON array where it has several "
            "columns.",
        ),
    ],
) -> Document:
    """Why one object, or one row, stays or goes under a policy, right now."""
    system = desk.system
    until = system.clock.now().timestamp() + _PATIENCE_SECONDS

    def late() -> bool:
        return system.clock.now().timestamp() >= until

    try:
        return explanation(system, system.policy(policy), key, lambda _: None, late)
    except Stopped:
        raise try_again(
            503,
            f"it takes longer than {_PATIENCE_SECONDS} s to know; ask `bestbefore explain`",
            60,
        ) from None


@routes.get("/audit", response_model=documents.Events)
def audit(
    desk: Here,
    _: Reader,
    limit: LimitQuery = 50,
    before: Annotated[int | None, Query(ge=1, le=2**53), _AFTER] = None,
) -> dict[str, Any]:
    """What people decided, newest first."""
    found = desk.system.records.events(limit, before)
    more = found[-1].row if len(found) == limit else None
    return {"events": [event_document(event) for event in found], "next": more}
