"""What one worker thread does with row batches: one transaction each, and halves of what cannot
go as a whole.

What fails is a result, never an exception, unless it is the ledger.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.hold import Held
from bestbefore.domain.outcome import Outcome, Spared
from bestbefore.domain.policy import Policy
from bestbefore.domain.rows import Divided, Effect, FileArchive, Walk
from bestbefore.domain.selection import HOLD
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import LedgerError, Operation, Parts, WorkLedger
from bestbefore.ports.rows import RowDeleter, RowReader, RowTask
from bestbefore.stages.row_scan import operation_of

log = logging.getLogger(__name__)

Result = Outcome | Spared | Effect | Parts | Failure

_TOO_SLOW_TWICE = 2
"""Transient failures (lock timeouts, statement timeouts) after which a batch goes on in halves."""

Filing = Callable[[Policy, FileArchive, Operation, RowTask], Effect | Divided | Failure]


def _nowhere(policy: Policy, archive: FileArchive, *_: object) -> Failure:
    error = f"policies.{policy.name}: nothing here writes files to {archive.store}"
    return Failure(FailureClass.MALFORMED, error, whole_source=True)


@dataclass(frozen=True, slots=True)
class RowAttempts:
    """Attempts on the row batches of one database. Safe to share between threads.

    ``file`` deletes those whose rows go to files first. ``governed`` is given a policy and the slot
    of a run, and says what the policies of other tables remove then, see `Governed`.
    """

    reader: RowReader
    deleter: RowDeleter
    ledger: WorkLedger
    clock: Clock
    by: str
    holds: Callable[[Policy], Held] = lambda _: Held()
    file: Filing = _nowhere
    governed: Callable[[Policy, datetime], Policy] = lambda policy, _: policy

    def make(self, policy: Policy, operations: Sequence[Operation]) -> Iterator[Result]:
        """See `stages.work.Attempting`."""
        batches = self.ledger.batches([operation.row for operation in operations])
        by_slot: dict[datetime, Policy] = {}
        for operation in operations:
            batch, cutoff, slot = batches[operation.row]
            if slot not in by_slot:
                by_slot[slot] = self.governed(policy, slot)
            task = RowTask(operation.operation_id, policy.name, policy.version, batch, cutoff)
            yield self._attempt(by_slot[slot], operation, task)

    def _attempt(self, policy: Policy, operation: Operation, task: RowTask) -> Result:
        try:
            if (hold := self.holds(policy).over("")) is not None:
                return Spared(HOLD, str(hold))
            end = self._end(policy, operation, task)
            if isinstance(end, Failure) and _goes_in_halves(end, operation, task):
                end = self._halve(policy, task, end)
        except LedgerError:
            raise
        except Exception as error:  # a fault of ours is one batch's failure
            about = {"operation_id": operation.operation_id.hex(), "key": operation.key}
            log.exception("an attempt failed in a way nobody foresaw", extra=about)
            return Failure(FailureClass.UNKNOWN, f"{type(error).__name__}: {error}")
        if isinstance(end, Divided):
            parts = [(operation_of(policy, task.cutoff, part), part) for part in end.parts]
            return Parts(parts, end.why)
        return end

    def _end(
        self, policy: Policy, operation: Operation, task: RowTask
    ) -> Effect | Divided | Failure:
        if isinstance(archive := policy.rows.archive, FileArchive):
            return self.file(policy, archive, operation, task)
        return self.deleter.delete(policy.rows, task, self.by)

    def _halve(self, policy: Policy, task: RowTask, failure: Failure) -> Divided | Failure:
        """The batch in halves, because of *failure*; that itself where it cannot be halved."""
        halves = self.deleter.divide(policy.rows, task)
        if isinstance(halves, Failure) or len(halves.parts) < _TOO_SLOW_TWICE:
            return failure
        return Divided(halves.parts, failure.error)


def _goes_in_halves(failure: Failure, operation: Operation, task: RowTask) -> bool:
    """Whether *failure* is about some rows of a batch, or about how many they are."""
    if task.batch.rows < 2 or task.batch.walk is Walk.PARTITION:
        return False
    if failure.failure_class is FailureClass.DEPENDENCY:
        return True
    spent = operation.budget.spent.get(FailureClass.TRANSIENT, 0)
    return failure.too_big and spent + 1 >= _TOO_SLOW_TWICE
