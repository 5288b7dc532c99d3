"""What a tune makes of its measurements."""

from dataclasses import replace

import pytest

from bestbefore.domain.tuning import (
    Ceilings,
    Cell,
    Killed,
    Spread,
    milliseconds,
    recommend,
)

IDLE = Spread(0.002, 0.004, 0.010, 0.020, 1_000)
CEILINGS = Ceilings(duration=0.2)


def flat(seconds: float) -> Spread:
    return Spread(seconds, seconds, seconds, seconds, 100)


def cell(size: int, workers: int = 1, batch: float = 0.01, foreground: float = 0.01) -> Cell:
    return Cell(
        size=size,
        workers=workers,
        batches=100,
        rows=size * 100,
        seconds=100 * batch / workers,
        batch=flat(batch),
        locks_held=flat(batch),
        foreground=flat(foreground),
        lock_wait=flat(foreground / 2),
        foreground_errors=0,
        statements=700,
        retried=0,
        replays=200,
        replay_changed=0,
        killed=Killed(size, 0),
    )


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([], Spread(0, 0, 0, 0, 0)),
        ([3.0], Spread(3, 3, 3, 3, 1)),
        ([2.0, 1.0], Spread(1, 2, 2, 2, 2)),
        ([float(n) for n in range(100, 0, -1)], Spread(50, 95, 99, 100, 100)),
        ([float(n) for n in range(1, 11)], Spread(5, 10, 10, 10, 10)),
    ],
)
def test_a_percentile_is_a_value_that_was_seen(samples: list[float], expected: Spread) -> None:
    assert Spread.of(samples) == expected


def test_the_largest_size_that_meets_both_ceilings_is_recommended() -> None:
    cells = [cell(100), cell(1_000, batch=0.05), cell(5_000, batch=0.19), cell(10_000, batch=0.21)]

    best = recommend(cells, CEILINGS, IDLE)

    assert (best.size, best.workers) == (5_000, 1)
    assert "p95 of a batch 190 ms (ceiling 200 ms)" in best.reason
    assert "10,000 breaks them: p95 of a batch 210 ms (ceiling 200 ms)" in best.reason


def test_a_size_that_others_feel_is_not_recommended() -> None:
    at_the_ceiling = 1.2 * IDLE.p99 + 0.1
    cells = [cell(100), cell(500, foreground=at_the_ceiling), cell(1_000, foreground=0.113)]

    best = recommend(cells, CEILINGS, IDLE)

    assert best.size == 500
    assert "1,000 breaks them: foreground p99 113 ms (ceiling 112 ms)" in best.reason


def test_of_the_workers_that_will_do_the_fastest_are_recommended() -> None:
    cells = [
        cell(1_000, workers=1, batch=0.1),
        cell(1_000, workers=2, batch=0.15),
        cell(1_000, workers=4, batch=0.25),
    ]

    assert recommend(cells, CEILINGS, IDLE).workers == 2


def test_more_workers_that_bring_next_to_nothing_are_not_recommended() -> None:
    cells = [cell(1_000, workers=1, batch=0.05), cell(1_000, workers=2, batch=0.095)]

    assert recommend(cells, CEILINGS, IDLE).workers == 1


def test_a_wait_for_locks_that_the_configuration_bounds_is_what_counts_then() -> None:
    ceilings = Ceilings(duration=0.2, lock_wait=0.05)
    cells = [cell(100, foreground=0.09), cell(1_000, foreground=0.11)]

    best = recommend(cells, ceilings, IDLE)

    assert best.size == 100
    assert (
        "1,000 breaks them: longest foreground lock wait 55.0 ms (ceiling 50.0 ms)" in best.reason
    )


def test_where_nothing_meets_the_ceilings_nothing_is_recommended_and_the_nearest_is_named() -> None:
    cells = [cell(100, batch=0.3, foreground=0.5), cell(500, batch=0.3)]

    best = recommend(cells, CEILINGS, IDLE)

    assert best.size is None
    assert best.workers is None
    assert "nearest is 500 with 1 worker: p95 of a batch 300 ms (ceiling 200 ms)" in best.reason


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"replay_changed": 7}, "a replay changed 7 rows"),
        ({"killed": Killed(1_000, 3)}, "3 committed rows were deleted again"),
        ({"foreground_errors": 2}, "2 writes of the foreground failed"),
    ],
)
def test_what_must_not_happen_rules_a_size_out_however_fast_it_is(
    fault: dict[str, object], said: str
) -> None:
    cells = [cell(100), replace(cell(1_000), **fault)]

    best = recommend(cells, CEILINGS, IDLE)

    assert best.size == 100
    assert said in best.reason


def test_it_is_said_that_larger_sizes_may_do_as_well_where_none_was_tried() -> None:
    assert recommend([cell(100)], CEILINGS, IDLE).reason.endswith("nothing larger was measured")


def test_rates_are_per_million_rows() -> None:
    measured = cell(1_000)

    assert measured.messages_per_million == 1_000
    assert measured.statements_per_million == 7_000
    assert measured.rows_per_second == pytest.approx(100_000)
    assert replace(measured, rows=0, seconds=0.0).rows_per_second == 0


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.00423, "4.2 ms"), (0.0999, "99.9 ms"), (1.24, "1,240 ms")]
)
def test_times_are_said_with_as_many_digits_as_mean_something(seconds: float, said: str) -> None:
    assert milliseconds(seconds) == said
