"""Documents: plain dicts in the shapes the design promises, ready for JSON.

Times are ``YYYY-MM-DDTHH:MM:SSZ``; ids are hex. What is true of one is computed here, so that the
command line, and later the API and the dashboard, cannot disagree.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from bestbefore.domain.access import Scope, Token
from bestbefore.domain.hold import Hold
from bestbefore.domain.identity import instant
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.report import Report
from bestbefore.domain.rows import DependentRows
from bestbefore.domain.run import Run
from bestbefore.domain.states import RunState
from bestbefore.ports.records import Event, Tally

Document = dict[str, Any]
Tallies = Mapping[str, Tally]

_OF_ROWS = (
    "table",
    "planned_dependents",
    "referenced",
    "rows",
    "dependents",
    "dependents_changed",
)
"""What only runs over a table have, beside counts."""


def when(moment: datetime | None) -> str | None:
    """*moment* as documents show it."""
    return None if moment is None else instant(moment)


def plan_document(
    run: Run, *, repeated: bool = False, approved: bool = False, dry_run: bool = False
) -> Document:
    """The answer to a trigger.

    ``eligible = published + waiting + already_pending + already_completed + already_dead +
    reappeared + refused`` always holds. A slot that had its answer already published nothing
    this time: what its run planned shows as already pending, completed or dead.

    Of a table these count batches, while ``scanned``, ``in_scope``, ``protected`` and
    ``rows_eligible``, what the run's batches hold, count rows, and so do ``planned_dependents`` and
    ``referenced``, of other tables.
    """
    if repeated and not approved:
        held_back = 0 if run.released else run.waiting
        counts = {
            "published": 0,
            "waiting": held_back,
            "already_pending": run.already_pending + run.waiting - held_back + run.pending,
            "already_completed": run.already_completed + run.completed,
            "already_dead": run.already_dead + run.dead,
            "reappeared": 0,
            "refused": run.refused,
        }
    else:
        planned = run.planned - run.reappeared
        held_back = 0 if run.released else min(planned, max(0, run.waiting - run.reappeared))
        if dry_run:
            held_back = planned
        counts = {
            "published": planned - held_back,
            "waiting": held_back,
            "already_pending": run.already_pending,
            "already_completed": run.already_completed,
            "already_dead": run.already_dead,
            "reappeared": run.reappeared,
            "refused": run.refused,
        }
    document: Document = {
        "run_id": run.run_id,
        "policy": run.policy,
        "policy_version": run.policy_version,
        "slot": when(run.slot),
        "cutoff": when(run.cutoff),
        "state": run.state.value,
        "unit": run.unit,
        "scanned": run.scanned,
        "in_scope": run.in_scope,
        "eligible": sum(counts.values()),
        "protected": dict(run.protected),
        "uploads": uploads_document(run),
        **counts,
        "repeated": repeated,
        "complete": run.complete,
        "reason": run.reason,
        "dry_run": dry_run,
    }
    if run.about_rows:
        document["rows_eligible"] = run.rows
        document["created_batches"] = counts["published"] + counts["waiting"]
        document |= _beside(run)
    return document


def work_document(report: Report) -> Document:
    """What one worker did."""
    return {
        "received": report.received,
        "completed": report.completed,
        "outcomes": dict(report.outcomes),
        "protected": dict(report.protected),
        "already_completed": report.late,
        "retried": dict(report.retried),
        "freed_bytes": report.freed,
        "rows": dict(report.rows),
        "dependents": dict(report.dependents),
        "dependents_changed": dict(report.changed),
        "dead": report.dead,
        "left": dict(report.left),
    }


def run_document(run: Run, tallies: Callable[[Run, str], Tallies] | None = None) -> Document:
    """A run and its counts; with *tallies*, what came of it as well."""
    document: Document = {
        "run_id": run.run_id,
        "policy": run.policy,
        "policy_version": run.policy_version,
        "slot": when(run.slot),
        "cutoff": when(run.cutoff),
        "state": run.state.value,
        "reason": run.reason,
        "trigger": run.trigger.value,
        "unit": run.unit,
        "complete": run.complete,
        "target": run.target,
        "created_at": when(run.created_at),
        "counts": {
            "scanned": run.scanned,
            "in_scope": run.in_scope,
            "planned": run.planned,
            "waiting": run.waiting,
            "pending": run.pending,
            "completed": run.completed,
            "dead": run.dead,
            "held": run.held,
            "already_pending": run.already_pending,
            "already_completed": run.already_completed,
            "already_dead": run.already_dead,
            "reappeared": run.reappeared,
            "refused": run.refused,
            "pruned": run.pruned,
        },
        "protected": dict(run.protected),
        "uploads": uploads_document(run),
    }
    if run.about_rows:
        document["counts"]["rows"] = run.rows
        document |= _beside(run)
    if tallies is None:
        return document
    outcomes = tallies(run, "outcome")
    document["outcomes"] = _numbers(outcomes)
    document["retried"] = _numbers(tallies(run, "retried"))
    document["republished"] = _numbers(tallies(run, "republished")).get("", 0)
    if run.about_rows:
        document["rows"] = _numbers(tallies(run, "rows"))
        document["dependents"] = _numbers(tallies(run, "dependents"))
        document["dependents_changed"] = _numbers(tallies(run, "changed"))
    else:
        archived = outcomes.get(Outcome.ARCHIVED)
        document["archived_bytes"] = archived.bytes if archived else 0
        document["freed_bytes"] = (
            sum(tally.bytes for tally in outcomes.values()) - document["archived_bytes"]
        )
    return document


def run_evidence_document(
    run: Run, tallies: Callable[[Run, str], Tallies], rule: Mapping[str, object]
) -> Document:
    """Everything known of one run: who, when, why, and what came of it.

    ``rule`` is what its policy version said about what goes. What only objects, or only rows, have
    is None for the others.
    """
    document = {
        **dict.fromkeys(_OF_ROWS),
        **dict.fromkeys(("archived_bytes", "freed_bytes")),
        **run_document(run, tallies),
        "created_by": run.created_by,
        "rule": dict(rule),
    }
    return {name: document[name] for name in sorted(document)}


def hold_document(hold: Hold) -> Document:
    """One hold; its ``scope`` is a policy, or a store, a bucket and a prefix."""
    scope = hold.scope
    return {
        "hold_id": hold.hold_id,
        "scope": {"policy": scope.policy}
        if scope.policy is not None
        else {"store": scope.store, "bucket": scope.bucket, "prefix": scope.prefix},
        "reason": hold.reason,
        "until": when(hold.until),
        "by": hold.by,
        "at": when(hold.at),
    }


def token_document(token: Token) -> Document:
    """One token, without itself."""
    return {
        "name": token.name,
        "scopes": [scope.value for scope in Scope if scope in token.scopes],
        "until": when(token.until),
        "by": token.by,
        "at": when(token.at),
    }


def event_document(event: Event) -> Document:
    """What a person decided, or a newer run in their place."""
    return {
        "event": event.row,
        "at": when(event.at),
        "by": event.by,
        "action": event.action,
        "policy": event.policy,
        "run_id": event.run_id,
        "operation_id": event.operation_id.hex() if event.operation_id else None,
        "detail": event.detail,
    }


def uploads_document(run: Run) -> Document:
    """How many of what a run scanned, and found eligible, were unfinished uploads."""
    return {name: run.uploads.get(name, 0) for name in ("scanned", "eligible")}


def dependents_document(dependents: Iterable[DependentRows]) -> list[Document]:
    """What may be removed and changed in other tables; ``younger`` is null where that cannot be
    told."""
    return [table._asdict() for table in dependents]


def _beside(run: Run) -> Document:
    """What a run over a table may do to other tables, and which of them keep rows of its own."""
    return {
        "table": run.table,
        "planned_dependents": dependents_document(run.dependents),
        "referenced": dict(run.referenced),
    }


def _numbers(tallies: Tallies) -> dict[str, int]:
    return {name: tally.n for name, tally in tallies.items()}


def finished(run: Run) -> bool:
    """Whether a run came to a good end: drained, with nothing dead."""
    return run.state is RunState.DRAINED and not run.dead
