"""A table in memory, with numbers for keys, for tests of what is done around a database."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import (
    DependentRows,
    Divided,
    Effect,
    RowBatch,
    RowSource,
    TimestampKind,
    Walk,
)
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import RowSeen, RowsShown, RowTask, Slice, TableFacts, Whole

SHAPE = "0123456789abcdef"

OWN_TABLE = "memory.rows"


@dataclass
class MemoryTable:
    """`RowReader` and `RowDeleter` in one. ``rows`` are their timestamps by number.

    Each row has a note; half of those are removed with their rows, a third lose their reference.
    Batches of more than one row count a row of this table as well. ``completed`` is the table of
    completion records, ``deleted`` what each of them says went. *refuse* fails whatever holds one
    of the rows it is given. A slice looks at ``most`` rows, and *on_slice* hears of it.
    """

    now: Callable[[], datetime]
    on_slice: Callable[[], object] = lambda: None
    refuse: Callable[[Collection[int]], Failure | None] = lambda _: None
    most: int = 3
    rows: dict[int, datetime] = field(default_factory=dict)
    completed: dict[bytes, Effect] = field(default_factory=dict)
    deleted: dict[bytes, list[int]] = field(default_factory=dict)

    # -- looking -----------------------------------------------------------------------------

    def describe(self, source: RowSource, walk: Walk | None = None) -> TableFacts:
        kind = TimestampKind.TIMESTAMPTZ
        return TableFacts("memory", self.now(), Walk.KEY, kind, SHAPE, OWN_TABLE)

    def partitions(
        self, source: RowSource, facts: TableFacts, cutoff: datetime, taken: Collection[str]
    ) -> Whole:
        return Whole(())

    def marked(self, source: RowSource, facts: TableFacts, cutoff: datetime) -> Sequence[RowBatch]:
        return []

    def lacking(self, source: RowSource, ended: Sequence[bytes]) -> Collection[bytes]:
        return [id_ for id_ in ended if id_ not in self.completed]

    def gaps(
        self, source: RowSource, facts: TableFacts, taken: Sequence[tuple[str, str]]
    ) -> Sequence[KeyRange]:
        gaps, reached = [], None
        for first, last in sorted((_number(first), _number(last)) for first, last in taken):
            if reached is None or first > reached:
                gaps.append(KeyRange(_maybe_end(reached), _end(first)))
            reached = last if reached is None else max(reached, last)
        return [*gaps, KeyRange(_maybe_end(reached), None)]

    def slice(
        self, source: RowSource, facts: TableFacts, cutoff: datetime, gap: KeyRange, size: int,
        most: int, apart: Sequence[tuple[str, str]] = (),
    ) -> Slice:  # fmt: skip
        self.on_slice()
        inside = [
            number
            for number in sorted(self.rows)
            if (gap.after is None or number > _number(gap.after))
            and (gap.until is None or number < _number(gap.until))
        ]
        seen = inside[: self.most]
        old = [number for number in seen if self.rows[number] < cutoff]
        rest = KeyRange(_end(seen[-1]), gap.until) if len(inside) > len(seen) else None
        return Slice(self._cut(old, size), rest, len(seen))

    def show(
        self, source: RowSource, facts: TableFacts, cutoff: datetime, batch: RowBatch
    ) -> RowsShown:
        return RowsShown(f"DELETE {batch.label}", ["memory: tell"])

    def kept(self, source: RowSource, facts: TableFacts) -> Mapping[str, int]:
        return {}

    def count(self, source: RowSource) -> int:
        return len(self.rows)

    def find(
        self, source: RowSource, facts: TableFacts, cutoff: datetime, key: str
    ) -> RowSeen | None:
        at = self.rows.get(int(key))
        if at is None:
            return None
        return RowSeen(at.isoformat(), at < cutoff, True, False, False, None)

    def check(self, source: RowSource) -> Sequence[Finding]:
        return []

    # -- deleting ----------------------------------------------------------------------------

    def delete(self, source: RowSource, task: RowTask, by: str) -> Effect | Divided | Failure:
        if (done := self.completed.get(task.operation_id)) is not None:
            return replace(done, replayed=True, seconds=0.0)
        old = self._old(task)
        if len(old) > task.batch.rows:
            return Divided(tuple(self._cut(old, task.batch.rows)), "it grew")
        if (failure := self.refuse(old)) is not None:
            return failure
        for number in old:
            del self.rows[number]
        effect = Effect(
            Outcome.DELETED,
            len(old),
            {"notes": len(old) // 2},
            seconds=0.01,
            changed={"notes": len(old) // 3},
        )
        self.completed[task.operation_id] = effect
        self.deleted[task.operation_id] = old
        return effect

    def divide(self, source: RowSource, task: RowTask) -> Divided | Failure:
        old = self._old(task)
        return Divided(tuple(self._cut(old, max(1, (len(old) + 1) // 2))), "in halves")

    def _old(self, task: RowTask) -> list[int]:
        first, last = _number(task.batch.first), _number(task.batch.last)
        return [
            number
            for number, at in sorted(self.rows.items())
            if first <= number <= last and at < task.cutoff
        ]

    def _cut(self, numbers: Sequence[int], size: int) -> list[RowBatch]:
        parts = [numbers[start : start + size] for start in range(0, len(numbers), size)]
        return [
            RowBatch(
                _end(part[0]),
                _end(part[-1]),
                len(part),
                min(self.rows[number] for number in part),
                Walk.KEY,
                SHAPE,
                _dependents(part),
            )
            for part in parts
        ]


def _dependents(numbers: Sequence[int]) -> tuple[DependentRows, ...]:
    younger = None if numbers[0] % 4 == 0 else len(numbers) // 2
    notes = DependentRows("notes", len(numbers), len(numbers) // 3, younger)
    own = DependentRows(OWN_TABLE, removed=1, younger=0)
    return (notes, own) if len(numbers) > 1 else (notes,)


def _end(number: int) -> str:
    return json.dumps([str(number)])


def _maybe_end(number: int | None) -> str | None:
    return None if number is None else _end(number)


def _number(end: str) -> int:
    (text,) = json.loads(end)
    return int(text)
