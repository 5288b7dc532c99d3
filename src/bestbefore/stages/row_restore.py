"""Bring archived rows back into their table. Files stay; rows in another table move.

Safe to repeat: what is back already is found there. Nothing that is there now is overwritten.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.row_file import RowFile
from bestbefore.domain.rows import FileArchive, RowBatch, RowSource, TableArchive
from bestbefore.ports.clock import Clock
from bestbefore.ports.files import FileStore, RowFormat
from bestbefore.ports.ledger import Archives
from bestbefore.ports.objects import StoreError
from bestbefore.ports.records import ArchiveRecord, OperationRecord
from bestbefore.ports.rows import Returned, RowRestorer
from bestbefore.stages.patience import TRIES, wait_after, worth_another_try
from bestbefore.stages.restore import NotRestored


@dataclass(slots=True)
class RowsRestored:
    """What came of a restore, so far: numbers of rows, and batches that are not back as a whole.

    ``restored`` would be, in a dry run. ``batches`` were looked at. ``policies`` are those whose
    rows came back: as old as before, they will be selected again.
    """

    restored: int = 0
    already_there: int = 0
    conflicts: list[NotRestored] = field(default_factory=list)
    missing: list[NotRestored] = field(default_factory=list)
    failed: list[NotRestored] = field(default_factory=list)
    complete: bool = True
    batches: int = 0
    policies: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class RowRestore:
    """Restores into any database that ``restorer`` can open by its name, from files in any store
    that ``files`` can."""

    restorer: Callable[[str], RowRestorer]
    files: Callable[[str], FileStore]
    formats: Callable[[str], RowFormat]
    archives: Archives
    clock: Clock
    spread: Callable[[], float]
    by: str
    on_progress: Callable[[RowsRestored], None] = lambda _: None
    stopping: Callable[[], bool] = lambda: False

    def run(
        self, operations: Iterable[OperationRecord], ended: RowsRestored, *, dry_run: bool = False
    ) -> None:
        """Bring back the rows of each of *operations*; *ended* keeps count."""
        for operation in operations:
            if self.stopping():
                ended.complete = False
                break
            end = self._patiently(operation, dry_run=dry_run)
            if isinstance(end, Failure):
                ended.failed.append(NotRestored(operation, end.error))
            else:
                self._note(operation, end, ended, dry_run=dry_run)
            ended.batches += 1
            self.on_progress(ended)

    def _patiently(self, operation: OperationRecord, *, dry_run: bool) -> Returned | Failure:
        for attempt in range(1, TRIES + 1):
            try:
                end = self._try(operation, dry_run=dry_run)
            except StoreError as error:
                end = error.failure
            if not isinstance(end, Failure) or not worth_another_try(end) or attempt == TRIES:
                return end
            if self.stopping():
                return end
            wait_after([end], attempt, self.clock, self.spread, self.stopping)
        raise AssertionError("unreachable")

    def _try(self, operation: OperationRecord, *, dry_run: bool) -> Returned | Failure:
        source, batch = operation.source, operation.batch
        if source is None or batch is None:
            raise TypeError(f"operation {operation.operation_id.hex()} is not about rows")
        match source.archive:
            case TableArchive():
                archived = operation.effect.archived if operation.effect else 0
                return self.restorer(source.database).from_table(
                    source, operation.operation_id, batch, archived, dry_run=dry_run
                )
            case FileArchive() if operation.archive is not None:
                return self._from_file(operation, operation.archive, source, batch, dry_run=dry_run)
            case _:
                said = f"{source.table}: the whole partition was detached; attach it again by hand"
                return Failure(FailureClass.MALFORMED, said)

    def _from_file(
        self,
        operation: OperationRecord,
        archive: ArchiveRecord,
        source: RowSource,
        batch: RowBatch,
        *,
        dry_run: bool,
    ) -> Returned | Failure:
        body = self.files(archive.store).get(archive.bucket, archive.key)
        if body is None:
            return Returned(0, missing=batch.rows, why=f"{_name(archive)}: no such file")
        try:
            file = self.formats(archive.key.rpartition(".")[2]).decode(body)
        except ValueError as error:
            return Failure(FailureClass.MALFORMED, f"{_name(archive)}: {error}")
        if not _is_of(file, operation, archive):
            said = f"{_name(archive)}: it is not the file that was written (SHA-256 {archive.etag})"
            return Failure(FailureClass.MALFORMED, said)
        return self.restorer(source.database).from_file(source, file, dry_run=dry_run)

    def _note(
        self, operation: OperationRecord, end: Returned, ended: RowsRestored, *, dry_run: bool
    ) -> None:
        ended.restored += end.restored
        ended.already_there += end.there
        if end.left:
            said = f"{operation.bucket}: {end.left:,} rows were left where they are; {end.why}"
            ended.conflicts.append(NotRestored(operation, said))
        if end.missing and operation.restored_at is not None and operation.archive is None:
            ended.already_there += end.missing  # they left the archive when they came back
        elif end.missing:
            why = end.why or f"{end.missing:,} rows are not in the archive any more"
            ended.missing.append(NotRestored(operation, f"{operation.bucket}: {why}"))
        if end.restored:
            ended.policies.add(operation.policy)
            if not dry_run:
                detail = f"brought back {end.restored:,} rows into {operation.bucket}"
                self.archives.rows_restored(operation.row, detail, self.by, self.clock.now())


def _is_of(file: RowFile, operation: OperationRecord, archive: ArchiveRecord) -> bool:
    return file.operation_id == operation.operation_id and file.digest.hex() == archive.etag


def _name(archive: ArchiveRecord) -> str:
    return f"{archive.bucket}/{archive.key}"
