"""What people decide. Everything here is written down as an event under the caller's name."""

from fastapi import APIRouter

from bestbefore.app import holding, pausing
from bestbefore.app.discarding import discarded
from bestbefore.app.system import System
from bestbefore.ports.ledger import DeadFilter
from bestbefore.read.documents import Document, hold_document
from bestbefore.read.runs import shown_run_document
from bestbefore.stages.redrive import redrive as send_again
from bestbefore.web import documents
from bestbefore.web.asked import (
    Approve,
    Cancel,
    Discard,
    HoldAsked,
    HoldPath,
    PauseAsked,
    PolicyPath,
    Redrive,
    RunPath,
    Which,
)
from bestbefore.web.auth import Operator
from bestbefore.web.desk import Here
from bestbefore.web.problems import documented

routes = APIRouter(prefix="/v1", responses=documented(401, 403, 409, 413, 422, 429, 503))

_UNKNOWN = documented(404)


@routes.post("/runs/{run_id}/approve", response_model=documents.ShownRun, responses=_UNKNOWN)
def approve(
    desk: Here, caller: Operator, run_id: RunPath, asked: Approve | None = None
) -> Document:
    """Release a parked run exactly as it is shown."""
    system = desk.system
    reason = (asked or Approve()).reason
    system.plans.approve(run_id, caller.name, system.clock.now(), reason)
    return _shown(system, run_id)


@routes.post("/runs/{run_id}/cancel", response_model=documents.ShownRun, responses=_UNKNOWN)
def cancel(desk: Here, caller: Operator, run_id: RunPath, asked: Cancel | None = None) -> Document:
    """End a run: what no worker has in hand stays where it is."""
    system = desk.system
    reason = (asked or Cancel()).reason
    system.plans.cancel(run_id, reason, caller.name, system.clock.now())
    return _shown(system, run_id)


@routes.post("/dead-letters/redrive", response_model=documents.Redriven)
def redrive(desk: Here, caller: Operator, asked: Redrive) -> Document:
    """Send dead letters again, each with a fresh budget and the same id. Correct the source
    first."""
    system = desk.system
    done = send_again(
        system.dead_letters,
        system.strays,
        _filter(asked),
        system.clock,
        caller.name,
        rate=asked.rate,
        canary=asked.canary,
        dry_run=asked.dry_run,
    )
    return {
        "redriven": 0 if asked.dry_run else done.redriven,
        "would_redrive": done.redriven if asked.dry_run else 0,
        "refused": done.refused,
        "strays": done.strays,
        "remaining": done.remaining,
        "dry_run": asked.dry_run,
    }


@routes.post("/dead-letters/discard", response_model=documents.Discarded)
def discard(desk: Here, caller: Operator, asked: Discard) -> Document:
    """Close dead letters without deleting anything."""
    done = discarded(desk.system, _filter(asked), asked.reason, caller.name, dry_run=asked.dry_run)
    return {"discarded": 0 if asked.dry_run else done, "would_discard": done * asked.dry_run}


@routes.post("/holds", response_model=documents.AddedHold, status_code=201, responses=_UNKNOWN)
def hold(desk: Here, caller: Operator, asked: HoldAsked) -> Document:
    """Put a hold in force: no worker deletes under it once the batch it has in hand is done."""
    system = desk.system
    scope = holding.scope_of(system, asked.policy, asked.store, asked.bucket, asked.prefix)
    added = holding.hold(system, scope, asked.reason, asked.until, caller.name)
    return hold_document(added) | {"policies": holding.concerned(system, scope)}


@routes.delete("/holds/{hold_id}", response_model=documents.Hold, responses=_UNKNOWN)
def remove_hold(desk: Here, caller: Operator, hold_id: HoldPath) -> Document:
    """Lift a hold; the next run plans what was under it."""
    system = desk.system
    return hold_document(system.holds.remove(hold_id, caller.name, system.clock.now()))


@routes.post("/pauses", response_model=documents.Pause, status_code=201, responses=_UNKNOWN)
def pause(desk: Here, caller: Operator, asked: PauseAsked) -> Document:
    """Stop work on a policy, or on every policy, within one batch."""
    return pausing.pause(desk.system, asked.policy, asked.reason, asked.until, caller.name)


@routes.delete("/pauses", response_model=documents.Resumed)
def resume_all(desk: Here, caller: Operator) -> Document:
    """Lift the pause of every policy; one of a single policy stays."""
    return pausing.resume(desk.system, None, caller.name)


@routes.delete("/pauses/{policy}", response_model=documents.Resumed)
def resume(desk: Here, caller: Operator, policy: PolicyPath) -> Document:
    """Lift the pause of one policy."""
    return pausing.resume(desk.system, policy, caller.name)


def _shown(system: System, run_id: str) -> Document:
    run = system.records.run(run_id)
    return shown_run_document(system.records, run, system.previews.find(run))


def _filter(asked: Which) -> DeadFilter:
    ids = None if asked.ids is None else frozenset(map(bytes.fromhex, asked.ids))
    return DeadFilter(
        asked.policy, asked.failure_class, superseded=asked.superseded or None, among=ids
    )
