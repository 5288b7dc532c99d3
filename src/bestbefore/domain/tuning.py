"""What a tune measured, and the batch size that follows from it. Times are seconds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FAIREST_RATIO = 1.2
"""A foreground may take this much longer beside the cleanup than without it ..."""

SLACK = 0.1
"""... and this much more, which nobody notices and which a few samples cannot tell from noise."""

ABOUT_AS_FAST = 0.9
"""More workers have to bring more than this share of the most rows a second that were seen."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How samples are spread: the value that 50, 95 and 99 % of them do not exceed, the largest,
    and how many there were. All zero without any."""

    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    most: float = 0.0
    samples: int = 0

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Spread":
        """By nearest rank: each value is one that was seen."""
        ranked = sorted(samples)
        if not ranked:
            return cls()
        p50, p95, p99 = (_rank(ranked, share) for share in (50, 95, 99))
        return cls(p50, p95, p99, ranked[-1], len(ranked))


def _rank(ranked: Sequence[float], share: int) -> float:
    return ranked[math.ceil(len(ranked) * share / 100) - 1]


@dataclass(frozen=True, slots=True)
class Killed:
    """What one batch had to be done for again, in rows, after its worker was killed just before
    COMMIT and just after it."""

    before_commit: int
    after_commit: int


@dataclass(frozen=True, slots=True)
class Cell:
    """One batch size with one number of workers.

    ``batches`` of together ``rows`` went in ``seconds``, planning and filling aside. ``batch`` is
    how long one took from the first statement to the reply, ``locks_held`` how long of that its
    transaction was open. ``foreground`` is how long a write of the foreground took from the moment
    it was due, ``lock_wait`` by how much its statement, COMMIT aside, exceeded what it usually
    takes without cleanup: the most it can have waited for locks. ``foreground_errors`` of its
    writes failed. ``statements`` were sent, each COMMIT counted. ``retried`` deliveries met a lock
    or a deadlock and were tried again. ``replays`` is how often a batch was delivered once more,
    ``replay_changed`` how many rows that changed.
    """

    size: int
    workers: int
    batches: int
    rows: int
    seconds: float
    batch: Spread
    locks_held: Spread
    foreground: Spread
    lock_wait: Spread
    foreground_errors: int
    statements: int
    retried: int
    replays: int
    replay_changed: int
    killed: Killed

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def statements_per_million(self) -> float:
        return self._per_million(self.statements)

    @property
    def messages_per_million(self) -> float:
        """One message is one batch."""
        return self._per_million(self.batches)

    def _per_million(self, count: int) -> float:
        return count * 1_000_000 / self.rows if self.rows else 0.0


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What a batch size has to stay under.

    ``duration`` is for 95 % of the batches. ``lock_wait`` is for the longest wait of the
    foreground; without one, 99 % of its writes have to stay within `FAIREST_RATIO` of what they
    take without cleanup, and `SLACK` more.
    """

    duration: float
    lock_wait: float | None = None

    def foreground(self, idle: Spread) -> float:
        """The ceiling for the foreground, where 99 % of its writes take ``idle.p99`` at most."""
        return FAIREST_RATIO * idle.p99 + SLACK if self.lock_wait is None else self.lock_wait

    def felt(self, cell: Cell) -> float:
        """What of *cell* the ceiling for the foreground is about."""
        return cell.foreground.p99 if self.lock_wait is None else cell.lock_wait.most

    def broken(self, cell: Cell, idle: Spread) -> list[str]:
        """Why *cell* will not do, a phrase per reason."""
        name = "foreground p99" if self.lock_wait is None else "longest foreground lock wait"
        measured = (
            ("p95 of a batch", cell.batch.p95, self.duration),
            (name, self.felt(cell), self.foreground(idle)),
        )
        reasons = [
            f"{name} {milliseconds(value)} (ceiling {milliseconds(ceiling)})"
            for name, value, ceiling in measured
            if value > ceiling
        ]
        if cell.foreground_errors:
            reasons.append(f"{cell.foreground_errors} writes of the foreground failed")
        if cell.replay_changed:
            reasons.append(f"a replay changed {cell.replay_changed:,} rows")
        if cell.killed.after_commit:
            reasons.append(f"{cell.killed.after_commit:,} committed rows were deleted again")
        return reasons


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The size and number of workers to use, or None twice, and why."""

    size: int | None
    workers: int | None
    reason: str


def recommend(cells: Sequence[Cell], ceilings: Ceilings, idle: Spread) -> Recommendation:
    """The largest size that meets both ceilings, with the fewest workers that are about as fast at
    it as any."""
    broken = {(cell.size, cell.workers): ceilings.broken(cell, idle) for cell in cells}
    fit = [cell for cell in cells if not broken[cell.size, cell.workers]]
    if not fit:
        return Recommendation(None, None, _nothing_fits(cells, broken))
    size = max(cell.size for cell in fit)
    of_size = [cell for cell in fit if cell.size == size]
    enough = ABOUT_AS_FAST * max(cell.rows_per_second for cell in of_size)
    best = min(
        (cell for cell in of_size if cell.rows_per_second >= enough), key=lambda cell: cell.workers
    )
    felt = "foreground p99" if ceilings.lock_wait is None else "longest foreground lock wait"
    reason = (
        f"the largest size that meets both ceilings: p95 of a batch {milliseconds(best.batch.p95)} "
        f"(ceiling {milliseconds(ceilings.duration)}), {felt} {milliseconds(ceilings.felt(best))} "
        f"(ceiling {milliseconds(ceilings.foreground(idle))}, p99 without cleanup "
        f"{milliseconds(idle.p99)}); {best.rows_per_second:,.0f} rows/s"
    )
    larger = [cell for cell in cells if cell.size > size]
    if not larger:
        reason += "; nothing larger was measured"
    else:
        following = min(larger, key=lambda cell: (cell.size, len(broken[cell.size, cell.workers])))
        why = " and ".join(broken[following.size, following.workers])
        reason += f"; {following.size:,} breaks them: {why}"
    return Recommendation(size, best.workers, reason)


def _nothing_fits(cells: Sequence[Cell], broken: Mapping[tuple[int, int], Sequence[str]]) -> str:
    nearest = min(cells, key=lambda cell: len(broken[cell.size, cell.workers]))
    why = " and ".join(broken[nearest.size, nearest.workers])
    return (
        f"no size meets both ceilings; nearest is {nearest.size:,} with {workers(nearest.workers)}:"
        f" {why}. Try smaller --sizes, or a `pause` or fewer `rows_per_second` for the database"
    )


def workers(count: int) -> str:
    """``1 worker``, ``2 workers``."""
    return f"{count} worker" if count == 1 else f"{count} workers"


def milliseconds(seconds: float) -> str:
    """``4.2 ms``, ``180 ms``, ``1,240 ms``: as many digits as mean something."""
    value = seconds * 1000
    return f"{value:,.1f} ms" if value < 100 else f"{value:,.0f} ms"
