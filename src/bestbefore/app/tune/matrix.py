"""The matrix of a tune: every batch size with every number of workers, on a scratch copy."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from bestbefore.app.tune.children import Deliver, Delivery, StopAt, TuneFailed, Write
from bestbefore.app.tune.crew import Crew
from bestbefore.domain.policy import Policy
from bestbefore.domain.tuning import Cell, Killed, Spread
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import RowReader, RowTask
from bestbefore.ports.tuning import Scratch
from bestbefore.stages.row_scan import operation_of

_LOOKED_AT = 50_000
_IDLE_SHARE = 1 / 3
"""How long the foreground is measured alone before each cell, beside how long in it."""

_MOST_ROUNDS_TAKE = 4.0
"""How much longer than it is measured a cell may take, with filling and replaying."""


@dataclass(frozen=True, slots=True)
class Axes:
    """What to measure: batch sizes, numbers of workers, and how many seconds each pair of them.
    ``pause`` and ``rows_per_second`` are the database's own, as for real work."""

    sizes: Sequence[int]
    workers: Sequence[int]
    seconds: float
    pause: timedelta = timedelta(0)
    rows_per_second: int | None = None

    def pairs(self) -> list[tuple[int, int]]:
        return [(size, workers) for size in self.sizes for workers in self.workers]


@dataclass(frozen=True, slots=True)
class Measured:
    """All cells, and the foreground without any cleanup."""

    cells: Sequence[Cell]
    idle: Spread


@dataclass(slots=True)
class _Tally:
    """What the rounds of one cell add up to."""

    deliveries: list[Delivery] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    seconds: float = 0.0
    statements: int = 0
    replays: int = 0
    replay_changed: int = 0


@dataclass(slots=True)
class Matrix:
    """Measures *axes* on *scratch*, which is full at the beginning of every round."""

    policy: Policy
    reader: RowReader
    scratch: Scratch
    crew: Crew
    axes: Axes
    begins: Callable[[int, int, int], None]
    _idle: list[Write] = field(default_factory=list)
    _plans: int = 0

    def measure(self) -> Measured:
        """*begins* is told the number (from 0), size and workers of each cell. Raises TuneFailed,
        Stopped, and what the scratch and the reader raise."""
        self.crew.hire(max(self.axes.workers))
        self._warm_up()
        tallies = []
        for number, (size, workers) in enumerate(self.axes.pairs()):
            self.begins(number, size, workers)
            self.scratch.fill()
            self._idle += self.crew.write_for(self.axes.seconds * _IDLE_SHARE)
            tallies.append((size, workers, self._rounds(size, workers), self._kill(size)))
        idle = Spread.of([write.seconds for write in self._idle])
        usual = Spread.of(_statements(self._idle)).p50
        cells = [_cell(size, workers, tally, killed, usual)
                 for size, workers, tally, killed in tallies]  # fmt: skip
        return Measured(cells, idle)

    def _warm_up(self) -> None:
        """Have every worker do what only its first batch takes."""
        crew = max(self.axes.workers)
        tasks = self._plan(min(self.axes.sizes), at_most=crew)
        self.crew.deliver(crew, self._order(tasks, math.inf))

    def _rounds(self, size: int, workers: int) -> _Tally:
        tally = _Tally()
        ends = time.monotonic() + self.axes.seconds * _MOST_ROUNDS_TAKE
        while True:
            tasks = self._plan(size)
            order = self._order(tasks, time.monotonic() + self.axes.seconds - tally.seconds)
            self.crew.begin_writing()
            began = time.monotonic()
            done = self.crew.deliver(workers, order)
            tally.seconds += time.monotonic() - began
            tally.writes += self.crew.end_writing()
            tally.deliveries += done.deliveries
            tally.statements += done.statements
            settled = {delivery.number for delivery in done.deliveries if delivery.settled}
            self._replay(workers, [tasks[number] for number in settled], tally)
            if tally.seconds >= self.axes.seconds or time.monotonic() > ends:
                return tally

    def _replay(self, workers: int, tasks: Sequence[RowTask], tally: _Tally) -> None:
        """Deliver every one of *tasks* twice more, with the rows back that it deleted: what a
        completion record is for. Without records all there is to see is that they are gone."""
        recorded = not self.scratch.source.ledger_only
        if recorded:
            self.scratch.fill()
        before = self.scratch.old_left()
        again = self._order([*tasks, *tasks], math.inf)
        self.crew.deliver(workers, replace(again, pause=0.0, per_row=0.0))
        tally.replays += 2 * len(tasks)
        tally.replay_changed += before - self.scratch.old_left()
        if not recorded or tally.replay_changed:
            self.scratch.fill()

    def _kill(self, size: int) -> Killed:
        """Kill a worker just before COMMIT, another just after it, and see what is done again."""
        (before, after), source = self._plan(size, at_most=2), self.scratch.source
        there = self.scratch.old_left()
        self.crew.kill_at(StopAt(source, before, committed=False))
        if (left := self.scratch.old_left()) != there:
            raise TuneFailed(f"a worker killed before COMMIT left {left:,} of {there:,} old rows")
        self.crew.deliver(1, self._order([before], math.inf))
        again = there - self.scratch.old_left()
        self.crew.kill_at(StopAt(source, after, committed=True))
        there = self.scratch.old_left()
        self.crew.deliver(1, self._order([after], math.inf))
        return Killed(again, there - self.scratch.old_left())

    def _order(self, tasks: Sequence[RowTask], until: float) -> Deliver:
        rate = self.axes.rows_per_second
        return Deliver(
            self.scratch.source,
            tuple(enumerate(tasks)),
            until,
            self.axes.pause.total_seconds(),
            1 / rate if rate else 0.0,
        )

    def _plan(self, size: int, at_most: int | None = None) -> list[RowTask]:
        """Batches of *size* over all old rows, under ids that no other plan has."""
        self._plans += 1
        policy = replace(self.policy, version=f"tune-{self._plans}", source=self.scratch.source)
        tasks = []
        for task in self._tasks(policy, size):
            tasks.append(task)
            if len(tasks) == at_most:
                break
        return tasks

    def _tasks(self, policy: Policy, size: int) -> Iterator[RowTask]:
        source, cutoff = self.scratch.source, self.scratch.cutoff
        facts = self.reader.describe(source)
        for gap in self.reader.gaps(source, facts, []):
            rest: KeyRange | None = gap
            while rest is not None:
                found = self.reader.slice(source, facts, cutoff, rest, size, _LOOKED_AT)
                rest = found.rest
                for batch in found.batches:
                    id_ = operation_of(policy, cutoff, batch)
                    yield RowTask(id_, policy.name, policy.version, batch, cutoff)


def _statements(writes: Sequence[Write]) -> list[float]:
    return [write.statement for write in writes if write.statement is not None]


def _cell(size: int, workers: int, tally: _Tally, killed: Killed, usual: float) -> Cell:
    settled = [delivery for delivery in tally.deliveries if delivery.settled]
    return Cell(
        size=size,
        workers=workers,
        batches=len(settled),
        rows=sum(delivery.rows for delivery in settled),
        seconds=tally.seconds,
        batch=Spread.of([delivery.seconds for delivery in tally.deliveries]),
        locks_held=Spread.of([delivery.held for delivery in settled]),
        foreground=Spread.of([write.seconds for write in tally.writes]),
        lock_wait=Spread.of([max(0.0, took - usual) for took in _statements(tally.writes)]),
        foreground_errors=sum(write.statement is None for write in tally.writes),
        statements=tally.statements,
        retried=len(tally.deliveries) - len(settled),
        replays=tally.replays,
        replay_changed=tally.replay_changed,
        killed=killed,
    )
