"""The gate's own foreground: what counts as a failure, and what as too slow."""

import threading

import pytest

from bestbefore.gate.probe import Phase, Probe
from support.forks import until

QUICK = Phase(seconds=[0.010] * 98 + [0.020] * 2)


def test_what_is_delivered_within_a_phase_counts_for_it_and_what_fails_says_why() -> None:
    def deliver(number: int) -> None:
        if number % 2:
            raise ValueError(f"number {number}")

    with Probe(deliver) as probe, probe.phase(least=0) as phase:
        until(lambda: phase.tried >= 5, what="five deliveries")

    assert phase.tried >= 5
    assert phase.seconds
    assert set(phase.failed) <= {f"ValueError: number {number}" for number in range(1, 9_999, 2)}
    assert phase.failed


def test_a_phase_of_several_parts_counts_nothing_of_what_is_between_them() -> None:
    phase, number = Phase(), 0
    looked = threading.Event()

    def deliver(now: int) -> None:
        nonlocal number
        number = now
        looked.set()

    def one_more() -> None:
        for _ in range(2):  # the first may have begun before
            looked.clear()
            assert looked.wait(60)

    with Probe(deliver) as probe:
        with probe.within(phase):
            one_more()
        one_more()
        first = phase.tried
        one_more()
        assert phase.tried == first
        with probe.within(phase):
            one_more()

    assert 0 < first < phase.tried < number


def test_nothing_is_delivered_once_a_probe_is_left() -> None:
    numbers: list[int] = []
    first = threading.Event()

    def deliver(number: int) -> None:
        numbers.append(number)
        first.set()

    with Probe(deliver):
        assert first.wait(60)
    before = list(numbers)

    assert "probe" not in {t.name for t in threading.enumerate()}
    assert numbers == before


def test_a_quantile_is_a_delivery_that_was_so_slow() -> None:
    assert QUICK.quantile(0.5) == 0.010
    assert QUICK.quantile(0.99) == 0.020
    assert Phase().quantile(0.99) == 0.0


@pytest.mark.parametrize(
    ("p99", "slower"),
    [(0.020, False), (0.110, False), (0.130, True)],
    ids=["the same", "less than 100 ms more", "more than that"],
)
def test_a_phase_is_too_slow_by_more_than_a_hiccup(p99: float, slower: bool) -> None:
    phase = Phase(seconds=[0.010] * 98 + [p99] * 2)

    assert phase.slower_than(QUICK) is slower


def test_a_slow_place_is_not_too_slow_because_of_a_few_percent() -> None:
    assert not Phase(seconds=[1.15] * 100).slower_than(Phase(seconds=[1.0] * 100))
    assert Phase(seconds=[1.25] * 100).slower_than(Phase(seconds=[1.0] * 100))
