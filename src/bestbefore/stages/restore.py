"""Bring archived objects back to where they were. The archive keeps its copies.

Safe to repeat: what is back already is found there. Nothing that is there now is overwritten.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.selection import Listed
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import Archives
from bestbefore.ports.objects import Copy, NotCopied, Original, StoreError
from bestbefore.ports.records import ArchiveRecord, OperationRecord
from bestbefore.stages.archive import Depot
from bestbefore.stages.patience import TRIES, wait_after, worth_another_try

_CHUNK = 64


class NotRestored(NamedTuple):
    """An object that is not back, and why."""

    operation: OperationRecord
    error: str


@dataclass(slots=True)
class Restored:
    """What came of a restore, so far. ``restored`` would be, in a dry run."""

    restored: int = 0
    already_there: int = 0
    conflicts: list[NotRestored] = field(default_factory=list)
    missing: list[NotRestored] = field(default_factory=list)
    failed: list[NotRestored] = field(default_factory=list)
    complete: bool = True

    @property
    def done(self) -> int:
        """How many objects were looked at."""
        not_restored = len(self.conflicts) + len(self.missing) + len(self.failed)
        return self.restored + self.already_there + not_restored


class _Item(NamedTuple):
    operation: OperationRecord
    archive: ArchiveRecord


@dataclass(frozen=True, slots=True)
class Restore:
    """Restores from any archive that ``depot`` can open by the name of its store."""

    depot: Callable[[str], Depot]
    archives: Archives
    clock: Clock
    spread: Callable[[], float]
    by: str
    on_progress: Callable[[Restored], None] = lambda _: None
    stopping: Callable[[], bool] = lambda: False

    def run(
        self, operations: Iterable[OperationRecord], ended: Restored, *, dry_run: bool = False
    ) -> None:
        """Bring back the object of each of *operations* that has a copy; *ended* keeps count."""
        for chunk in _chunks(operations):
            if self.stopping():
                ended.complete = False
                break
            self._chunk(chunk, ended, dry_run=dry_run)
            self.on_progress(ended)

    def _chunk(self, items: Sequence[_Item], ended: Restored, *, dry_run: bool) -> None:
        left = items
        failures: Mapping[int, Failure] = {}
        for attempt in range(1, TRIES + 1):
            try:
                failures = self._try(left, ended, dry_run=dry_run)
            except StoreError as error:
                failures = {item.operation.row: error.failure for item in left}
            left = [item for item in left if item.operation.row in failures]
            worth = any(map(worth_another_try, failures.values()))
            if not worth or attempt == TRIES or self.stopping():
                break
            wait_after(failures.values(), attempt, self.clock, self.spread, self.stopping)
        ended.failed += [
            NotRestored(item.operation, failures[item.operation.row].error) for item in left
        ]

    def _try(
        self, items: Sequence[_Item], ended: Restored, *, dry_run: bool
    ) -> Mapping[int, Failure]:
        """Restore what can be; returns what failed, by row. Raises StoreError for all of them."""
        archive, bucket = items[0].archive, items[0].operation.bucket
        home, cold = self.depot(archive.home), self.depot(archive.store)
        here = home.lister.look(bucket, [item.operation.key for item in items])
        wanted = [item for item in items if here[item.operation.key] is None]
        there = cold.lister.look(archive.bucket, [item.archive.key for item in wanted])
        failures: dict[int, Failure] = {}
        for item in items:
            found = here[item.operation.key]
            if isinstance(found, Failure):
                failures[item.operation.row] = found
            elif found is not None:
                _note_what_is_there(item, found, ended)
        originals: list[tuple[_Item, Original]] = []
        for item in wanted:
            copy = there[item.archive.key]
            if isinstance(copy, Failure):
                failures[item.operation.row] = copy
            elif copy is None:
                ended.missing.append(NotRestored(item.operation, _name(item) + ": no such copy"))
            elif copy.etag != item.archive.etag:
                failures[item.operation.row] = _another(item)
            else:
                original = Original(
                    copy.key, copy.etag, copy.last_modified, copy.size, item.operation.key
                )
                originals.append((item, original))
        if dry_run:
            ended.restored += len(originals)
        elif originals:
            copied = home.copier.copy(
                archive.bucket, bucket, [original for _, original in originals], overwrite=False
            )
            pairs = zip([item for item, _ in originals], copied, strict=True)
            failures |= self._note(list(pairs), ended)
        return failures

    def _note(
        self, copied: Sequence[tuple[_Item, Copy | NotCopied | Failure]], ended: Restored
    ) -> Mapping[int, Failure]:
        failures: dict[int, Failure] = {}
        back: list[tuple[int, str]] = []
        for item, end in copied:
            match end:
                case Copy():
                    back.append((item.operation.row, end.etag))
                case Failure():
                    failures[item.operation.row] = end
                case NotCopied.OCCUPIED:
                    ended.conflicts.append(_conflict(item))
                case NotCopied.GONE:
                    error = _name(item) + ": no such copy"
                    ended.missing.append(NotRestored(item.operation, error))
                case NotCopied.CHANGED:
                    failures[item.operation.row] = _another(item)
        self.archives.restored(back, self.by, self.clock.now())
        ended.restored += len(back)
        return failures


def _note_what_is_there(item: _Item, found: Listed, ended: Restored) -> None:
    operation, archive = item
    its_own = {operation.etag, archive.etag, archive.restored_etag}
    if found.etag in its_own and found.size == operation.size:
        ended.already_there += 1
    else:
        ended.conflicts.append(_conflict(item))


def _conflict(item: _Item) -> NotRestored:
    place = f"{item.operation.bucket}/{item.operation.key}"
    return NotRestored(item.operation, f"{place}: something else is there, which was left alone")


def _another(item: _Item) -> Failure:
    error = f"{_name(item)}: it is not the copy that was archived (ETag {item.archive.etag})"
    return Failure(FailureClass.MALFORMED, error)


def _name(item: _Item) -> str:
    return f"{item.archive.bucket}/{item.archive.key}"


def _chunks(operations: Iterable[OperationRecord]) -> Iterator[list[_Item]]:
    """What can be brought back together: from one bucket into one, no key twice."""
    chunk: list[_Item] = []
    keys: set[str] = set()
    for operation in operations:
        archive = operation.archive
        if archive is None:
            continue
        item = _Item(operation, archive)
        together = not chunk or _way(chunk[0]) == _way(item)
        if len(chunk) == _CHUNK or operation.key in keys or not together:
            yield chunk
            chunk, keys = [], set()
        chunk.append(item)
        keys.add(operation.key)
    if chunk:
        yield chunk


def _way(item: _Item) -> tuple[str, str, str, str]:
    archive = item.archive
    return archive.store, archive.bucket, archive.home, item.operation.bucket
