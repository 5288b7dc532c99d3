"""Every measure as plain values, from stored counts: what `/metrics` shows.

Whichever process is asked, the answer is the same, and a million operations make it no slower.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from bestbefore.domain.counts import BOUNDS, Count
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.trigger import Fate
from bestbefore.ports.controls import Controls
from bestbefore.ports.measures import Counted, Measuring, Standing
from bestbefore.ports.throttle import Throttles
from bestbefore.ports.upkeep import UpkeepRecord
from bestbefore.read.families import FAMILIES, Family
from bestbefore.read.status import OVERDUE_AFTER


class Sample(NamedTuple):
    """One value, with those of the family's labels in their order."""

    labels: tuple[str, ...]
    value: float


class Histogram(NamedTuple):
    """Durations: how many took at most so many seconds, by bucket, and their sum in seconds."""

    labels: tuple[str, ...]
    buckets: Sequence[tuple[float, int]]
    sum: float


@dataclass(frozen=True, slots=True)
class Measure:
    """A family with its values; those of a histogram are `Histogram`."""

    family: Family
    samples: Sequence[Sample] = ()
    histograms: Sequence[Histogram] = ()


def measures(
    policies: Iterable[str],
    measuring: Measuring,
    controls: Controls,
    throttles: Throttles,
    state: UpkeepRecord,
    missed: Mapping[str, int],
    strays: int,
    now: datetime,
) -> Sequence[Measure]:
    """All of them, in the order of `FAMILIES`.

    *policies* are those of the file: they show zeros before their first run. *missed* is how many
    slots of each nobody has answered, *strays* how many messages execute nothing.
    """
    standings = {one.policy: one for one in measuring.standings(now - OVERDUE_AFTER)}
    names = sorted({*policies, *standings})
    counted = measuring.counted()
    values = {
        **_counters(names, standings, counted),
        **_backlogs(names, standings),
        **_proofs(standings, measuring),
        **_obstacles(names, standings, controls, throttles, now),
        **_state(state),
        "bestbefore_stray_messages": [Sample((), strays)],
        "bestbefore_triggers_total": _triggers(measuring),
        "bestbefore_missed_slots": [Sample((name,), missed.get(name, 0)) for name in names],
    }
    durations = _durations(names, standings, counted)
    return [
        Measure(family, values.get(family.name, ()), durations.get(family.name, ()))
        for family in FAMILIES
    ]


_Values = dict[str, Sequence[Sample]]


def _counters(
    names: Sequence[str], standings: Mapping[str, Standing], counted: Sequence[Counted]
) -> _Values:
    found = {(one.policy, one.kind, one.name): one for one in counted}

    def each(count: Count, words: Iterable[str]) -> list[Sample]:
        """By policy and word; what never happened is zero, so that its first time is a rise."""
        seen = {one.name for one in counted if one.kind is count}
        wanted = sorted({*words, *seen})
        return [
            Sample((name, word), one.n if (one := found.get((name, count, word))) else 0)
            for name in names
            for word in wanted
        ]

    def whole(count: Count) -> list[Sample]:
        return [Sample((name,), value) for (name, _), value in each(count, [""])]

    def by_unit(count: Count, rows: str) -> list[Sample]:
        return [
            Sample((name, unit), sum(c.n for c in counted if (c.policy, c.kind) == (name, count)))
            for name in names
            if name in standings
            for unit in [rows if standings[name].about_rows else "object"]
        ]

    removed = dict.fromkeys(names, 0)
    for one in counted:
        if one.kind is Count.COMPLETED:
            removed[one.policy] = removed.get(one.policy, 0) + one.amount
    return {
        "bestbefore_scanned_total": by_unit(Count.SCANNED, "row"),
        "bestbefore_eligible_total": by_unit(Count.ELIGIBLE, "row"),
        "bestbefore_operations_planned_total": by_unit(Count.PLANNED, "batch"),
        "bestbefore_operations_published_total": whole(Count.PUBLISHED),
        "bestbefore_operations_republished_total": whole(Count.REPUBLISHED),
        "bestbefore_operations_completed_total": each(Count.COMPLETED, Outcome),
        "bestbefore_removed_bytes_total": [Sample((name,), removed[name]) for name in names],
        "bestbefore_rows_total": each(Count.ROWS, ("deleted", "archived", "blocked")),
        "bestbefore_retries_total": each(Count.RETRIED, FailureClass),
        "bestbefore_operations_died_total": each(Count.DIED, FailureClass),
        "bestbefore_dead_letters": each(Count.DEAD, FailureClass),
        "bestbefore_operations_redriven_total": whole(Count.REDRIVEN),
        "bestbefore_redriven_completed_total": each(Count.REDRIVEN_COMPLETED, Outcome),
    }


def _triggers(measuring: Measuring) -> Sequence[Sample]:
    found = measuring.triggers()
    return [Sample((fate,), found.get(fate, 0)) for fate in Fate]


def _backlogs(names: Sequence[str], standings: Mapping[str, Standing]) -> _Values:
    known = [standings[name] for name in names if name in standings]
    return {
        "bestbefore_backlog": [
            Sample((one.policy, state), n)
            for one in known
            for state, n in (
                ("waiting", one.waiting),
                ("parked", one.parked),
                ("pending", one.pending),
                ("held", one.held),
            )
        ],
        "bestbefore_parked_runs": [Sample((one.policy,), one.parked_runs) for one in known],
        "bestbefore_overdue_operations": [Sample((one.policy,), one.overdue) for one in known],
        "bestbefore_overdue_oldest_slot_timestamp_seconds": _times(
            ((one.policy,), one.oldest_overdue) for one in known
        ),
        "bestbefore_last_drained_timestamp_seconds": _times(
            ((one.policy,), one.drained_at) for one in known
        ),
    }


def _proofs(standings: Mapping[str, Standing], measuring: Measuring) -> _Values:
    verified = {
        name: found for name, found in measuring.verifications().items() if name in standings
    }
    return {
        "bestbefore_overdue": [
            Sample((name, "row" if standings[name].about_rows else "object"), found.overdue)
            for name, found in verified.items()
        ],
        "bestbefore_overdue_counted_timestamp_seconds": _times(
            ((name,), found.at) for name, found in verified.items()
        ),
        "bestbefore_oldest_eligible_timestamp_seconds": _times(
            ((name,), found.oldest_overdue) for name, found in verified.items()
        ),
        "bestbefore_dead_letter_oldest_timestamp_seconds": _times(
            ((policy, failure_class), oldest)
            for policy, failure_class, oldest in measuring.dead_since()
        ),
    }


def _obstacles(
    names: Sequence[str],
    standings: Mapping[str, Standing],
    controls: Controls,
    throttles: Throttles,
    now: datetime,
) -> _Values:
    paused = {pause.policy for pause in controls.pauses(now)}
    broken = {breaker.connection for breaker in controls.breakers()}
    waiting = {wait.connection for wait in throttles.waits(now)}
    connections = sorted({one.connection for one in standings.values()} | broken | waiting)
    return {
        "bestbefore_paused": [
            Sample((name,), name in paused or None in paused) for name in names
        ],
        "bestbefore_breaker_open": [Sample((name,), name in broken) for name in connections],
        "bestbefore_throttled": [Sample((name,), name in waiting) for name in connections],
    }  # fmt: skip


def _state(state: UpkeepRecord) -> _Values:
    return {
        "bestbefore_state_bytes": [Sample((), state.bytes)],
        "bestbefore_state_operations": [Sample((), state.operations)],
        "bestbefore_state_prunable_operations": [Sample((), state.prunable)],
        "bestbefore_upkeep_failed": [Sample((), state.error is not None)],
        "bestbefore_upkeep_finished_timestamp_seconds": _times([((), state.finished_at)]),
    }


def _durations(
    names: Sequence[str], standings: Mapping[str, Standing], counted: Sequence[Counted]
) -> dict[str, Sequence[Histogram]]:
    by_policy: dict[tuple[Count, str], dict[str, Counted]] = {}
    for one in counted:
        by_policy.setdefault((one.kind, one.policy), {})[one.name] = one
    return {
        family: [
            _histogram(name, count, by_policy.get((count, name), {}))
            for name in names
            if name in standings
            and (count is not Count.BATCH_SECONDS or standings[name].about_rows)
        ]
        for family, count in (
            ("bestbefore_plan_first_page_seconds", Count.FIRST_PAGE_SECONDS),
            ("bestbefore_plan_seconds", Count.PLAN_SECONDS),
            ("bestbefore_batch_seconds", Count.BATCH_SECONDS),
        )
    }


def _histogram(policy: str, count: Count, found: Mapping[str, Counted]) -> Histogram:
    buckets, so_far = [], 0
    for bound in BOUNDS[count]:
        so_far += found[str(bound)].n if str(bound) in found else 0
        buckets.append((bound, so_far))
    return Histogram((policy,), buckets, sum(one.amount for one in found.values()) / 1_000_000)


def _times(found: Iterable[tuple[tuple[str, ...], datetime | None]]) -> list[Sample]:
    return [Sample(labels, at.timestamp()) for labels, at in found if at is not None]
