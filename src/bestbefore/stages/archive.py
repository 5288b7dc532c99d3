"""Archiving one batch: copy, verify, record the copies, delete the originals.

A crash between two steps repeats nothing harmful: a copy that was not recorded is made again under
the same key, and one that was is only looked at.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bestbefore.domain.archive import Archive
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome, Spared
from bestbefore.domain.policy import Policy
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import Operation, WorkLedger
from bestbefore.ports.objects import (
    Copy,
    NotCopied,
    ObjectCopier,
    ObjectDeleter,
    ObjectLister,
    Original,
    Target,
)

Result = Outcome | Failure | Spared

_FRESH_FOR = timedelta(seconds=30)
"""How long copying may take before the originals are looked at once more."""

_ASKED_EVERY = timedelta(seconds=60)
_NOT_COPIED = {NotCopied.GONE: Outcome.ABSENT, NotCopied.CHANGED: Outcome.CHANGED}


@dataclass(frozen=True, slots=True)
class Depot:
    """The store that archives are written to: one side that looks, one that copies into it."""

    lister: ObjectLister
    copier: ObjectCopier


@dataclass(slots=True)
class Archiving:
    """What the attempts on one store's objects share. Safe to share between threads.

    ``depot`` opens a store by its name; ``look_again`` settles originals that are not to be touched
    any more.
    """

    deleter: ObjectDeleter
    ledger: WorkLedger
    clock: Clock
    depot: Callable[[str], Depot]
    look_again: Callable[[Policy, Sequence[Operation]], Mapping[int, Result]]
    _found_at: dict[Archive, datetime] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def make(
        self, policy: Policy, archive: Archive, operations: Sequence[Operation]
    ) -> dict[int, Result]:
        """One result per operation, by row. Raises StoreError where nothing can be archived."""
        depot = self.depot(archive.store)
        self._find(depot, archive)
        began = self.clock.now()
        looked = self.look_again(policy, operations)
        copied = self._recorded(depot, archive, operations)
        results: dict[int, Result] = {
            row: known for row, known in copied.items() if isinstance(known, Failure)
        }
        for operation in operations:
            seen = looked.get(operation.row)
            if seen is not None and operation.row not in results:
                there = seen is Outcome.ABSENT and operation.row in copied
                results[operation.row] = Outcome.ARCHIVED if there else seen
        missing = [o for o in operations if o.row not in results and o.row not in copied]
        results |= self._copy(depot, policy, archive, missing)
        left = [operation for operation in operations if operation.row not in results]
        if left and self.clock.now() - began > _FRESH_FOR:
            for row, seen in self.look_again(policy, left).items():
                results[row] = Outcome.ARCHIVED if seen is Outcome.ABSENT else seen
            left = [operation for operation in left if operation.row not in results]
        return results | self._delete(policy, left)

    def _find(self, depot: Depot, archive: Archive) -> None:
        """Raise StoreError where the archive's bucket is not there: stores say that to a copy in
        words (500) that would have every object tried eight times."""
        with self._lock:
            now = self.clock.now()
            if now - self._found_at.get(archive, now - 2 * _ASKED_EVERY) > _ASKED_EVERY:
                depot.lister.describe(archive.bucket)
                self._found_at[archive] = now

    def _recorded(
        self, depot: Depot, archive: Archive, operations: Sequence[Operation]
    ) -> dict[int, Copy | Failure]:
        """The copies that were recorded by an earlier attempt and are still what was recorded."""
        copies = self.ledger.copies([operation.row for operation in operations])
        if not copies:
            return {}
        there = depot.lister.look(archive.bucket, [copy.key for copy in copies.values()])
        found: dict[int, Copy | Failure] = {}
        for row, copy in copies.items():
            seen = there[copy.key]
            if isinstance(seen, Failure):
                found[row] = seen
            elif seen is not None and seen.etag == copy.etag:
                found[row] = copy
        return found

    def _copy(
        self, depot: Depot, policy: Policy, archive: Archive, operations: Sequence[Operation]
    ) -> dict[int, Result]:
        """Copy and record. Those without a result have their copy, and it is recorded."""
        if not operations:
            return {}
        originals = [
            Original(o.key, o.etag, o.last_modified, o.size, archive.key(o.operation_id, o.key))
            for o in operations
        ]
        made = depot.copier.copy(policy.objects.bucket, archive.bucket, originals, overwrite=True)
        results: dict[int, Result] = {}
        copies: list[tuple[Operation, Copy]] = []
        for operation, end in zip(operations, made, strict=True):
            if isinstance(end, Copy):
                copies.append((operation, end))
            else:
                results[operation.row] = end if isinstance(end, Failure) else _NOT_COPIED[end]
        for operation in self.ledger.record_copies(copies, self.clock.now()):
            error = f"{operation.key}: its lease was lost while it was copied"
            results[operation.row] = Failure(FailureClass.TRANSIENT, error)
        return results

    def _delete(self, policy: Policy, operations: Sequence[Operation]) -> dict[int, Result]:
        """Delete originals whose copies are recorded; gone is as good as deleted by us."""
        if not operations:
            return {}
        targets = [Target(o.key, o.etag, o.last_modified) for o in operations]
        ends = self.deleter.delete(policy.objects.bucket, targets)
        done = (Outcome.DELETED, Outcome.ABSENT)
        return {
            operation.row: Outcome.ARCHIVED if end in done else end
            for operation, end in zip(operations, ends, strict=True)
        }
