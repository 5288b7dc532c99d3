"""How many rows a batch has, so that it takes about as long as it may."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from bestbefore.domain.sizing import LARGEST, RECENT, SMALLEST, next_size, size_in_use

TARGET = timedelta(milliseconds=200)


def batches(*rows: int, each: float) -> list[tuple[int, float]]:
    """Batches, the newest first, that took *each* seconds a row."""
    return [(n, n * each) for n in rows]


def test_without_any_experience_it_begins_with_what_the_policy_says() -> None:
    assert size_in_use(100, []) == 100
    assert next_size(100, [], TARGET) == 100


def test_it_goes_on_from_the_newest_batches_and_not_from_their_remainders() -> None:
    assert size_in_use(100, [(7, 0.1), (480, 0.1), (480, 0.1)]) == 480
    assert size_in_use(100, [(480, 0.1)] * 5 + [(2_000, 1.0)]) == 480


def test_a_batch_that_takes_too_long_is_halved_at_once() -> None:
    assert next_size(1_000, batches(*[1_000] * 20, each=0.000_3), TARGET) == 500


def test_what_takes_many_times_too_long_is_halved_until_it_fits() -> None:
    assert next_size(10_000, batches(*[10_000] * 20, each=0.001), TARGET) == 156


def test_the_same_experience_does_not_shrink_it_twice() -> None:
    """What is planned next is not worked on yet, and a planner asks again every second."""
    slow = batches(*[1_000] * 20, each=0.000_3)
    size, sizes = 1_000, []
    for _ in range(20):
        size = next_size(size, slow, TARGET)
        sizes.append(size)

    assert sizes[0] == 500
    assert min(sizes) == 500
    assert max(sizes) * 0.000_3 <= 0.2


def test_one_batch_that_was_stuck_changes_nothing_and_several_do() -> None:
    usual = [(1_000, 0.19)] * 19

    assert next_size(1_000, [(1_000, 0.5), *usual], TARGET) == 1_000
    assert next_size(1_000, [(1_000, 1.5)] * 3 + usual[:17], TARGET) < 500


def test_it_grows_by_a_fifth_when_there_is_room() -> None:
    assert next_size(100, batches(*[100] * 20, each=0.000_1), TARGET) == 120
    assert next_size(1_000, batches(*[1_000] * 20, each=0.000_19), TARGET) == 1_000


def test_it_does_not_grow_ahead_of_what_was_worked_on() -> None:
    """A planner is quicker than its workers: the same few batches are asked about again and
    again."""
    quick, size = batches(*[100] * 20, each=0.000_01), 100
    for _ in range(50):
        size = next_size(size, quick, TARGET)

    assert size <= 144


def test_it_never_leaves_its_bounds() -> None:
    assert next_size(10, batches(*[10] * 20, each=1.0), TARGET) == SMALLEST
    assert next_size(9_999, batches(*[9_999] * 20, each=0.000_001), TARGET) == LARGEST
    assert size_in_use(3, []) == SMALLEST
    assert size_in_use(99_999, []) == LARGEST


def test_batches_without_rows_say_nothing() -> None:
    assert next_size(100, [(0, 0.1)] * 20, TARGET) == 100


@pytest.mark.parametrize(
    ("cost", "fits"),
    [
        (lambda rows: 0.01 + rows * 0.000_1, range(1_300, 2_000)),
        (lambda rows: rows * 0.002, range(50, 101)),
        (lambda rows: rows * 0.000_000_1, range(LARGEST, LARGEST + 1)),
        (lambda rows: rows * rows * 0.000_000_2, range(500, 1_101)),
        (lambda _rows: 5.0, range(SMALLEST, SMALLEST + 1)),
    ],
)
def test_it_finds_the_size_that_takes_as_long_as_it_may(
    cost: Callable[[int], float], fits: range
) -> None:
    done: list[tuple[int, float]] = []
    size = 100
    for _ in range(60):
        size = next_size(size, done[:RECENT], TARGET)
        done[:0] = [(size, cost(size))] * 10

    assert size in fits
