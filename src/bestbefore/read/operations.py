"""Documents about single operations, in the shapes of `read.documents`."""

import json
from collections.abc import Sequence

from bestbefore.domain.command import ObjectCommand, RowCommand
from bestbefore.domain.failure import NEVER
from bestbefore.domain.message import Command
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Effect, RowBatch, TableArchive
from bestbefore.ports.ledger import DeadLetter, LedgerError
from bestbefore.ports.records import (
    ArchiveRecord,
    Attempt,
    OperationFilter,
    OperationRecord,
    Records,
)
from bestbefore.read.documents import Document, dependents_document, when

_DIGITS = 64


def dead_letter_document(
    letter: DeadLetter,
    attempts: Sequence[Attempt] | None = None,
    archive: ArchiveRecord | None = None,
) -> Document:
    """A dead letter; with *attempts*, its whole history, and its copy if there is one."""
    document: Document = {
        "operation_id": letter.operation_id.hex(),
        "policy": letter.policy,
        "policy_version": letter.policy_version,
        "owner": letter.owner,
        "superseded": letter.superseded,
        "run_id": letter.run_id,
        "command": command_document(letter),
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


def shown_dead_letter_document(records: Records, letter: DeadLetter) -> Document:
    """A dead letter with its whole history."""
    (operation,) = records.operations(OperationFilter(operation_id=letter.operation_id))
    return dead_letter_document(letter, records.attempts(letter.row), operation.archive)


def id_range(start: str) -> tuple[bytes, bytes]:
    """The first and the last operation id that begin with *start* (hex). Raises LedgerError."""
    if not start:
        # What a script's unset variable leaves must not mean every dead letter.
        raise LedgerError("the operation id is empty; `bestbefore dlq list` shows them")
    try:
        return bytes.fromhex(start.ljust(_DIGITS, "0")), bytes.fromhex(start.ljust(_DIGITS, "f"))
    except ValueError:
        raise LedgerError(
            f"operation {start} is no operation id; `bestbefore dlq list` shows them"
        ) from None


def command_of(of: DeadLetter | OperationRecord) -> Command:
    """The command of a dead letter, or of any operation, as it was published."""
    if of.batch is not None:
        return RowCommand(
            of.policy, of.policy_version, of.slot, of.action, of.bucket, of.cutoff, of.batch
        )
    return ObjectCommand(
        of.policy,
        of.policy_version,
        of.slot,
        of.action,
        of.bucket,
        of.key,
        of.etag,
        of.last_modified,
        of.upload_id,
        of.version_id,
    )


def command_document(letter: DeadLetter) -> Document:
    """The message of a dead letter, as it was published."""
    return command_of(letter).message()


def evidence_document(operation: OperationRecord, attempts: Sequence[Attempt]) -> Document:
    """Everything known of one operation: who, when, why, under which policy version.

    With a ``batch`` it is about rows: ``bucket`` is their table, and ``key`` the batch's two ends.
    """
    batch = operation.batch
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
        "etag": operation.etag if batch is None else None,
        "last_modified": when(operation.last_modified) if batch is None else None,
        "size": operation.size if batch is None else None,
        "batch": None if batch is None else batch_document(batch),
        "upload_id": operation.upload_id,
        "seen_at": when(operation.seen_at),
        "state": operation.state.value,
        "held": operation.held,
        "held_until": _held_until(operation),
        "outcome": operation.outcome.value if operation.outcome else None,
        "completed_at": when(operation.completed_at),
        "completed_by": operation.completed_by,
        "freed_bytes": operation.freed if batch is None else None,
        "effect": None if operation.effect is None else effect_document(operation.effect),
        "parent": operation.parent.hex() if operation.parent else None,
        "failure_class": operation.failure_class.value if operation.failure_class else None,
        "error": operation.error,
        "redriven": operation.redriven,
        "reappearances": operation.reappearances,
        "corrects": operation.corrects.hex() if operation.corrects else None,
        "reason": operation.reason,
        "archive": whereabouts(operation),
        "attempts": [_attempt(attempt) for attempt in attempts],
    }


def batch_document(batch: RowBatch) -> Document:
    """A row batch as it was planned; the ends are lists of texts."""
    return {
        "first": json.loads(batch.first),
        "last": json.loads(batch.last),
        "rows": batch.rows,
        "oldest": when(batch.oldest),
        "walk": batch.walk.value,
        "shape": batch.shape,
        "dependents": dependents_document(batch.dependents),
    }


def effect_document(effect: Effect) -> Document:
    """What a row batch changed: rows by what became of them, and, by table, ``dependents`` that
    were removed with them, and ``changed`` rows that lost their reference.

    ``replayed`` says that it was done by a delivery that did not live to record it here.
    """
    return {
        "rows": effect.counts(),
        "dependents": dict(effect.dependents),
        "changed": dict(effect.changed),
        "replayed": effect.replayed,
        "seconds": effect.seconds,
    }


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


def whereabouts(operation: OperationRecord) -> Document | None:
    """Where an archive has the object, or the rows, of *operation*."""
    source = operation.source
    if source is None or not isinstance(source.archive, TableArchive):
        return archive_document(operation.archive)
    if operation.outcome is not Outcome.ARCHIVED:
        return None
    return {"table": source.archive.table, "restored_at": when(operation.restored_at)}


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
