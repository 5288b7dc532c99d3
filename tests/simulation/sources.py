"""A bucket and a table that everybody shares, and each process's way to them, which may fail."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Divided, Effect, RowSource
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import BucketFacts, KeyRange, Page, StoreError, Target
from bestbefore.ports.rows import RowTask
from simulation.kernel import Process
from support.memory import MemoryStore
from support.memory_rows import MemoryTable

Identity = tuple[str, str, datetime]


@dataclass
class Faults:
    """What is wrong at this moment. Rates are of calls, or of keys in one."""

    chance: Random
    call: float = 0.0
    answer: float = 0.0
    credentials: bool = False
    ledger: float = 0.0

    def strike(self, rate: float) -> bool:
        return rate > 0 and self.chance.random() < rate


def identity(item: Listed) -> Identity:
    return item.key, item.etag, item.last_modified


class Bucket(MemoryStore):
    """What is in the store, what was, and what was shown of it to whom.

    ``ended`` are identities that were there and at some moment were not any more, ``shown`` says
    when one was last listed or looked at. ``kept`` says of keys that a policy protects since when
    it does, as `keeping` draws it. ``sick`` keys fail, ``deadly`` ones end whoever deletes them.
    """

    def __init__(self, now: Callable[[], datetime], keeping: Callable[[Any], set[str]]) -> None:
        super().__init__(page_size=3)
        self.now = now
        self._keeping = keeping
        self.sick: dict[str, FailureClass] = {}
        self.deadly: set[str] = set()
        self.ended: set[Identity] = set()
        self.removed: list[Listed] = []
        self.shown: dict[Identity, datetime] = {}
        self.kept: dict[str, datetime] = {}
        self.unconditional = False

    def put(self, item: Listed) -> None:
        if (old := self.objects.get(item.key)) is not None:
            self._end(old)
        super().put(item)
        self._note_kept()

    def remove(self, key: str) -> Listed:
        """Take it away, whoever does."""
        item = self.objects.pop(key)
        self._order = None
        self._end(item)
        self._note_kept()
        return item

    def show(self, items: Sequence[Listed]) -> None:
        for item in items:
            self.shown[identity(item)] = self.now()

    def _end(self, item: Listed) -> None:
        self.ended.add(identity(item))
        self.removed.append(item)

    def _note_kept(self) -> None:
        kept, now = self._keeping(self.objects), self.now()
        self.kept = {key: self.kept.get(key, now) for key in sorted(kept)}


Deleted = Callable[[Process, Target, Listed], None]


class StoreOf:
    """Both sides of an object store, as one process has them. *deleted* hears of each object that
    is about to go."""

    def __init__(self, process: Process, bucket: Bucket, faults: Faults, deleted: Deleted) -> None:
        self._process = process
        self._bucket = bucket
        self._faults = faults
        self._deleted = deleted

    def describe(self, bucket: str) -> BucketFacts:
        self._call("describe")
        return self._bucket.describe(bucket)

    def ranges(self, bucket: str, prefix: str, parts: int) -> Sequence[KeyRange]:
        self._call("ranges")
        return self._bucket.ranges(bucket, prefix, parts)

    def page(self, bucket: str, prefix: str, keys: KeyRange) -> Page:
        self._call("page")
        page = self._bucket.page(bucket, prefix, keys)
        self._bucket.show(page.items)
        return page

    def look(self, bucket: str, keys: Sequence[str]) -> Mapping[str, Listed | Failure | None]:
        self._call("look")
        found = self._bucket.look(bucket, keys)
        self._bucket.show([item for item in found.values() if isinstance(item, Listed)])
        return found

    def delete(self, bucket: str, targets: Sequence[Target]) -> Sequence[Outcome | Failure]:
        self._process.point("delete")
        if self._faults.credentials:
            return [Failure(FailureClass.CREDENTIALS, "expired")] * len(targets)
        return [self._delete(target) for target in targets]

    def _delete(self, target: Target) -> Outcome | Failure:
        store, faults = self._bucket, self._faults
        if target.key in store.deadly:
            self._process.die(target.key)
        if target.key in store.sick:
            return Failure(store.sick[target.key], "sick")
        if faults.strike(faults.call):
            throttled = Failure(FailureClass.THROTTLED, "slow down", timedelta(seconds=20))
            return faults.chance.choice([throttled, Failure(FailureClass.TRANSIENT, "5xx")])
        found = store.objects.get(target.key)
        if found is None:
            outcome = Outcome.ABSENT
        elif found.etag != target.etag and not store.unconditional:
            outcome = Outcome.CHANGED
        else:
            self._deleted(self._process, target, found)
            store.remove(target.key)
            outcome = Outcome.DELETED
        if faults.strike(faults.answer):
            return Failure(FailureClass.TRANSIENT, "the answer was lost")
        return outcome

    def _call(self, what: str) -> None:
        self._process.point(what)
        if self._faults.credentials:
            raise StoreError(Failure(FailureClass.CREDENTIALS, "expired"))
        if self._faults.strike(self._faults.call / 4):
            raise StoreError(Failure(FailureClass.TRANSIENT, "5xx"))


class Table(MemoryTable):
    """``gone`` are the rows that went, with the operation that took them, and ``late`` the
    operations that took some although they had a completion record."""

    unchecked = False

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now)
        self.sick: set[int] = set()
        self.deadly: set[int] = set()
        self.gone: list[tuple[int, datetime, RowTask]] = []
        self.replays: list[RowTask] = []
        self.refuse = lambda numbers: (
            Failure(FailureClass.DEPENDENCY, "sick") if self.sick & set(numbers) else None
        )

    def is_deadly(self, task: RowTask) -> bool:
        return task.operation_id not in self.completed and bool(self.deadly & set(self._old(task)))

    def delete(self, source: RowSource, task: RowTask, by: str) -> Effect | Divided | Failure:
        before = dict(self.rows)
        known = task.operation_id in self.completed
        if self.unchecked:
            self.completed.pop(task.operation_id, None)
        end = super().delete(source, task, by)
        taken = [number for number in before if number not in self.rows]
        self.gone += [(number, before[number], task) for number in taken]
        if known and isinstance(end, Effect) and not end.replayed:
            self.replays.append(task)
        return end


_QUIET = {
    "describe", "partitions", "marked", "lacking", "gaps", "show", "slice", "kept", "count",
}  # fmt: skip


class TableOf:
    """`RowReader` and `RowDeleter` of one process. *deleting* hears of each batch before it."""

    def __init__(
        self,
        process: Process,
        table: Table,
        faults: Faults,
        deleting: Callable[[Process, RowTask], None],
    ) -> None:
        self._process = process
        self._table = table
        self._faults = faults
        self._deleting = deleting

    def __getattr__(self, name: str) -> Any:
        if name not in _QUIET:
            raise AttributeError(name)
        call = getattr(self._table, name)

        def asked(*args: Any, **more: Any) -> Any:
            self._process.point(name)
            if self._faults.strike(self._faults.call / 4):
                raise StoreError(Failure(FailureClass.TRANSIENT, "the connection broke"))
            return call(*args, **more)

        return asked

    def delete(self, source: RowSource, task: RowTask, by: str) -> Effect | Divided | Failure:
        self._process.point("delete rows")
        faults = self._faults
        if faults.credentials:
            return Failure(FailureClass.CREDENTIALS, "login refused")
        if faults.strike(faults.call):
            deadlock = Failure(FailureClass.TRANSIENT, "deadlock")
            timeout = Failure(FailureClass.TRANSIENT, "lock timeout", too_big=True)
            return faults.chance.choice([deadlock, timeout])
        self._deleting(self._process, task)
        if self._table.is_deadly(task):
            self._process.die(task.operation_id)
        end = self._table.delete(source, task, by)
        if faults.strike(faults.answer):
            return Failure(FailureClass.TRANSIENT, "the answer of COMMIT was lost")
        return end

    def divide(self, source: RowSource, task: RowTask) -> Divided | Failure:
        self._process.point("divide")
        return self._table.divide(source, task)
