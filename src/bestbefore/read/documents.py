"""Documents: plain dicts in the shapes the design promises, ready for JSON.

Times are ``YYYY-MM-DDTHH:MM:SSZ``; ids are hex. What is true of one is computed here, so that the
command line, and later the API and the dashboard, cannot disagree.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bestbefore.domain.command import ObjectCommand
from bestbefore.domain.failure import NEVER
from bestbefore.domain.hold import Hold
from bestbefore.domain.identity import instant
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.report import Report
from bestbefore.domain.run import Run
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import DeadLetter
from bestbefore.ports.records import ArchiveRecord, Attempt, OperationRecord, Tally
from bestbefore.ports.upkeep import OldEvent

Document = dict[str, Any]


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
    return {
        "run_id": run.run_id,
        "policy": run.policy,
        "policy_version": run.policy_version,
        "slot": when(run.slot),
        "cutoff": when(run.cutoff),
        "state": run.state.value,
        "unit": "object",
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
        "dead": report.dead,
        "left": dict(report.left),
    }


def run_document(
    run: Run,
    outcomes: Mapping[str, Tally] | None = None,
    retried: Mapping[str, Tally] | None = None,
) -> Document:
    """A run and its counts; with *outcomes*, what came of it as well."""
    document: Document = {
        "run_id": run.run_id,
        "policy": run.policy,
        "policy_version": run.policy_version,
        "slot": when(run.slot),
        "cutoff": when(run.cutoff),
        "state": run.state.value,
        "reason": run.reason,
        "trigger": run.trigger.value,
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
    if outcomes is not None:
        document["outcomes"] = {name: tally.n for name, tally in outcomes.items()}
        archived = outcomes.get(Outcome.ARCHIVED)
        document["archived_bytes"] = archived.bytes if archived else 0
        document["freed_bytes"] = (
            sum(tally.bytes for tally in outcomes.values()) - document["archived_bytes"]
        )
    if retried is not None:
        document["retried"] = {name: tally.n for name, tally in retried.items()}
    return document


def dead_letter_document(
    letter: DeadLetter,
    attempts: Sequence[Attempt] | None = None,
    archive: ArchiveRecord | None = None,
) -> Document:
    """A dead letter; with *attempts*, its whole history, and its copy if there is one."""
    command = ObjectCommand(
        letter.policy,
        letter.policy_version,
        letter.slot,
        letter.action,
        letter.bucket,
        letter.key,
        letter.etag,
        letter.last_modified,
        letter.upload_id,
        letter.version_id,
    )
    document: Document = {
        "operation_id": letter.operation_id.hex(),
        "policy": letter.policy,
        "policy_version": letter.policy_version,
        "owner": letter.owner,
        "superseded": letter.superseded,
        "run_id": letter.run_id,
        "command": command.message(),
        "failure_class": letter.failure_class.value,
        "error": letter.error,
        "attempts": letter.attempts,
        "redriven": letter.redriven,
        "first_failed_at": when(letter.first_failed_at),
        "last_failed_at": when(letter.last_failed_at),
    }
    if attempts is not None:
        document["history"] = [_attempt(attempt) for attempt in attempts]
        document["archive"] = archive_document(archive)
    return document


def evidence_document(operation: OperationRecord, attempts: Sequence[Attempt]) -> Document:
    """Everything known of one operation: who, when, why, under which policy version."""
    return {
        "operation_id": operation.operation_id.hex(),
        "policy": operation.policy,
        "policy_version": operation.policy_version,
        "owner": operation.owner,
        "run_id": operation.run_id,
        "slot": when(operation.slot),
        "cutoff": when(operation.cutoff),
        "action": operation.action,
        "bucket": operation.bucket,
        "key": operation.key,
        "version_id": operation.version_id,
        "etag": operation.etag,
        "last_modified": when(operation.last_modified),
        "size": operation.size,
        "upload_id": operation.upload_id,
        "seen_at": when(operation.seen_at),
        "state": operation.state.value,
        "held": operation.held,
        "held_until": _held_until(operation),
        "outcome": operation.outcome.value if operation.outcome else None,
        "completed_at": when(operation.completed_at),
        "completed_by": operation.completed_by,
        "freed_bytes": operation.freed,
        "failure_class": operation.failure_class.value if operation.failure_class else None,
        "error": operation.error,
        "redriven": operation.redriven,
        "reappearances": operation.reappearances,
        "corrects": operation.corrects.hex() if operation.corrects else None,
        "reason": operation.reason,
        "archive": archive_document(operation.archive),
        "attempts": [_attempt(attempt) for attempt in attempts],
    }


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


def event_document(event: OldEvent) -> Document:
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


def archive_document(archive: ArchiveRecord | None) -> Document | None:
    """Where the copy of an archived object is."""
    if archive is None:
        return None
    return {
        "store": archive.store,
        "bucket": archive.bucket,
        "key": archive.key,
        "etag": archive.etag,
        "copied_at": when(archive.copied_at),
        "restored_at": when(archive.restored_at),
    }


def finished(run: Run) -> bool:
    """Whether a run came to a good end: drained, with nothing dead."""
    return run.state is RunState.DRAINED and not run.dead


def _held_until(operation: OperationRecord) -> str | None:
    """When a lock ends; None for what waits for a person, or for what lies under it."""
    due_at = operation.due_at
    return when(due_at) if operation.held and due_at is not None and due_at < NEVER else None


def _attempt(attempt: Attempt) -> Document:
    return {
        "at": when(attempt.at),
        "failure_class": attempt.failure_class.value,
        "error": attempt.error,
        "by": attempt.by,
    }
