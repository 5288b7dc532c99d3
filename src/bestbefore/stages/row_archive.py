"""Archiving one row batch into a file: read, write, verify, record the copy, delete.

A crash between two steps repeats nothing harmful: what was not deleted is read and written again.
A file's key holds a checksum of its rows, so a worker that was taken for dead and wakes up never
writes over the file that another one relied on.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.policy import Policy
from bestbefore.domain.row_file import RowFile
from bestbefore.domain.rows import Divided, Effect, FileArchive
from bestbefore.ports.clock import Clock
from bestbefore.ports.files import FileStore, RowFormat
from bestbefore.ports.ledger import Operation, WorkLedger
from bestbefore.ports.objects import Copy, StoreError
from bestbefore.ports.rows import RowFiler, RowTask

log = logging.getLogger(__name__)

Result = Effect | Divided | Failure


@dataclass(frozen=True, slots=True)
class RowArchiving:
    """What the attempts on one database's rows share. Safe to share between threads.

    ``files`` opens a store by its name, ``formats`` knows a format by its name.
    """

    filer: RowFiler
    ledger: WorkLedger
    clock: Clock
    by: str
    files: Callable[[str], FileStore]
    formats: Callable[[str], RowFormat]

    def make(
        self, policy: Policy, archive: FileArchive, operation: Operation, task: RowTask
    ) -> Result:
        """One attempt at *task*. Raises LedgerError only."""
        found = self.filer.read(policy.rows, task)
        if not isinstance(found, RowFile):
            return found
        before = self.ledger.copies([operation.row]).get(operation.row)
        if found.rows and (failure := self._keep(archive, operation, found)) is not None:
            return failure
        end = self.filer.delete_filed(policy.rows, task, self.by, found.digest)
        if before is not None and isinstance(end, Effect) and end.archived and not end.replayed:
            self._tidy(archive, before, found)
        return end

    def _keep(self, archive: FileArchive, operation: Operation, file: RowFile) -> Failure | None:
        """Have *file* written, verified and on record; why not, if so."""
        key = archive.key(file.operation_id, file.digest)
        form = self.formats(archive.format)
        body = form.encode(file)
        try:
            form.decode(body)  # what a restore will read is what was read
        except ValueError as error:
            said = f"{file.table}: its rows cannot be written as {archive.format}: {error}"
            return Failure(FailureClass.UNKNOWN, said)
        try:
            self.files(archive.store).put(archive.bucket, key, body)
        except StoreError as error:
            return error.failure
        copy = Copy(key, file.digest.hex())
        if self.ledger.record_copies([(operation, copy)], self.clock.now()):
            said = f"{file.table}: the lease of a batch was lost while its file was written"
            return Failure(FailureClass.TRANSIENT, said)
        return None

    def _tidy(self, archive: FileArchive, before: Copy, file: RowFile) -> None:
        """Remove the file of an earlier attempt that found other rows. Nobody can rely on it any
        more: the batch is completed, and with *file*."""
        if before.key == archive.key(file.operation_id, file.digest):
            return
        try:
            self.files(archive.store).remove(archive.bucket, before.key)
        except StoreError as error:
            log.warning("a file of rows that counts for nothing stays: %s", error)
