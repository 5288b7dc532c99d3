"""What a failure costs, and how long to wait after it."""

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bestbefore.domain.failure import (
    LONGEST_WAIT,
    PATIENCE,
    Attempts,
    Budget,
    Failure,
    FailureClass,
    GiveUp,
    TryAgain,
    backoff,
    decide,
    parse_retry_after,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ZERO = timedelta(0)


def never() -> float:
    """A spread that must not be asked for."""
    raise AssertionError("spread was called")


def least() -> float:
    return 0.0


def most() -> float:
    return 0.999_999


def waits(failure: Failure, budget: Budget, spread: Callable[[], float], at: datetime) -> timedelta:
    """How long *failure* makes its operation wait."""
    step = decide(failure, budget, Attempts(), at, spread)
    assert isinstance(step, TryAgain)
    return step.due_at - at


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("120", 120 * SECOND),
        (" 120 ", 120 * SECOND),
        ("0", ZERO),
        ("Thu, 01 Jan 2026 00:02:00 GMT", 120 * SECOND),
        ("Thursday, 01-Jan-26 00:02:00 GMT", 120 * SECOND),
        ("Thu Jan  1 00:02:00 2026", 120 * SECOND),
        ("-5", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("Thu, 01 Jan 2026 00:00:00 GMT", None),
        (None, None),
        ("", None),
        ("soon", None),
        ("1.5", None),
        ("\u0663\u0660", None),
        ("Thu, 99 Jan 2026 00:02:00 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_forms(header: str | None, expected: timedelta | None) -> None:
    """O-RETRY-01"""
    assert parse_retry_after(header, NOW) == expected


@pytest.mark.parametrize(
    "header",
    ["901", "9999999999", "9" * 12, "9" * 13, "9" * 5000, "Fri, 31 Dec 9999 23:59:59 GMT"],
)
def test_an_enormous_retry_after_is_capped(header: str) -> None:
    """O-RETRY-02"""
    assert parse_retry_after(header, NOW) == LONGEST_WAIT == timedelta(minutes=15)


@given(st.text() | st.from_regex(r"[A-Za-z]{3}, \d+ [A-Za-z]{3} \d+ [\d:]+ [A-Z+\-\d]*"))
def test_no_header_raises_or_waits_backwards(header: str) -> None:
    """O-RETRY-01"""
    wait = parse_retry_after(header, NOW)

    assert wait is None or ZERO <= wait <= LONGEST_WAIT


@pytest.mark.parametrize("header", ["-5", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_an_unusable_retry_after_means_the_usual_back_off(header: str) -> None:
    """O-RETRY-01"""
    failure = Failure(FailureClass.THROTTLED, "503", parse_retry_after(header, NOW))

    assert waits(failure, Budget.fresh(), least, NOW) >= SECOND


@pytest.mark.parametrize("failure_class", [FailureClass.THROTTLED, FailureClass.TRANSIENT])
def test_retry_after_is_a_floor(failure_class: FailureClass) -> None:
    """O-RETRY-01: up to jitter, never less."""
    failure = Failure(failure_class, "503", 120 * SECOND)

    assert waits(failure, Budget.fresh(), least, NOW) == 120 * SECOND
    assert 120 * SECOND < waits(failure, Budget.fresh(), most, NOW) < 133 * SECOND


def test_retry_after_zero_allows_an_immediate_retry() -> None:
    """O-RETRY-01"""
    failure = Failure(FailureClass.THROTTLED, "503", ZERO)

    assert waits(failure, Budget.fresh(), never, NOW) == ZERO


def test_a_server_that_keeps_saying_at_once_is_not_asked_in_a_loop() -> None:
    failure = Failure(FailureClass.THROTTLED, "503", ZERO)
    budget = Budget.fresh().charge(FailureClass.THROTTLED, NOW)

    assert waits(failure, budget, least, NOW + 2 * SECOND) >= SECOND


def test_throttling_without_retry_after_doubles_with_the_time_it_lasts() -> None:
    failure = Failure(FailureClass.THROTTLED, "503")
    budget = Budget.fresh().charge(FailureClass.THROTTLED, NOW)

    longest = [
        waits(failure, budget, most, NOW + lasted * SECOND) / SECOND
        for lasted in (0, 2, 4, 60, 3600)
    ]

    assert longest == pytest.approx([2, 4, 8, 64, 900], rel=0.01)


@pytest.mark.parametrize("attempt", [0, 1, 10, 63, 64, 1023, 1024, 1025, 10_000])
@pytest.mark.parametrize("spread", [least, most])
def test_back_off_never_overflows(attempt: int, spread: Callable[[], float]) -> None:
    """O-RETRY-03"""
    assert 0 <= backoff(attempt, spread=spread, base=1, cap=60) <= 60


@given(st.integers(1, 10**6), st.floats(0, 1, exclude_max=True))
def test_back_off_is_at_least_the_base_and_at_most_the_cap(attempt: int, chance: float) -> None:
    """O-RETRY-03"""
    assert 1 <= backoff(attempt, spread=lambda: chance) <= LONGEST_WAIT.total_seconds()


def busiest_share(delays: list[timedelta]) -> float:
    """The share of *delays* that fall into the busiest second."""
    return max(Counter(delay // SECOND for delay in delays).values()) / len(delays)


def test_retries_after_an_outage_are_spread_out() -> None:
    """O-RETRY-04"""
    chance = random.Random(4).random
    delays = [backoff(6, spread=chance, cap=60) * SECOND for _ in range(1000)]

    assert busiest_share(delays) <= 0.2


def test_commands_told_the_same_second_come_back_after_it_and_not_together() -> None:
    """O-RETRY-04"""
    chance = random.Random(4).random
    failure = Failure(FailureClass.THROTTLED, "503", 60 * SECOND)
    delays = [waits(failure, Budget.fresh(), chance, NOW) for _ in range(1000)]

    assert min(delays) >= 60 * SECOND
    assert busiest_share(delays) <= 0.2


ALLOWED = {
    FailureClass.TRANSIENT: 8,
    FailureClass.PERMISSION: 3,
    FailureClass.UNKNOWN: 3,
    FailureClass.MALFORMED: 1,
    FailureClass.CRASHED: 1,
    FailureClass.DEPENDENCY: 3,
}


def test_every_class_spends_attempts_or_time() -> None:
    # What is held spends neither: it waits for its date.
    assert ALLOWED.keys() | PATIENCE.keys() == set(FailureClass) - {FailureClass.HELD}
    assert not ALLOWED.keys() & PATIENCE.keys()


@pytest.mark.parametrize(("failure_class", "allowed"), ALLOWED.items())
def test_a_class_that_spends_attempts_is_dead_after_its_last_one(
    failure_class: FailureClass, allowed: int
) -> None:
    failure = Failure(failure_class, "no")
    budget = Budget.fresh()
    for _ in range(allowed - 1):
        step = decide(failure, budget, Attempts(), NOW, least)
        assert isinstance(step, TryAgain)
        budget = step.budget

    last = decide(failure, budget, Attempts(), NOW, never)

    assert isinstance(last, GiveUp)
    assert last.failure is failure
    assert last.budget.attempts == allowed


@pytest.mark.parametrize(
    ("failure_class", "patience"),
    [(FailureClass.THROTTLED, timedelta(hours=24)), (FailureClass.CREDENTIALS, timedelta(days=7))],
)
def test_a_class_that_spends_time_is_dead_when_that_is_over(
    failure_class: FailureClass, patience: timedelta
) -> None:
    failure = Failure(failure_class, "not now")
    budget = Budget.fresh()
    for lasted in (ZERO, patience / 2, patience - SECOND):
        step = decide(failure, budget, Attempts(), NOW + lasted, least)
        assert isinstance(step, TryAgain)
        assert step.budget.attempts == 0
        budget = step.budget

    assert isinstance(decide(failure, budget, Attempts(), NOW + patience, never), GiveUp)


def test_classes_do_not_spend_each_others_attempts() -> None:
    budget = Budget.fresh()
    for failure_class in (FailureClass.PERMISSION, FailureClass.UNKNOWN, FailureClass.TRANSIENT):
        for _ in range(2):
            step = decide(Failure(failure_class, "no"), budget, Attempts(), NOW, least)
            assert isinstance(step, TryAgain)
            budget = step.budget

    assert budget.attempts == 6
    assert set(budget.spent.values()) == {2}


def test_charging_leaves_the_budget_before_it_as_it_was() -> None:
    before = Budget.fresh().charge(FailureClass.TRANSIENT, NOW)
    before.charge(FailureClass.TRANSIENT, NOW)
    before.charge(FailureClass.THROTTLED, NOW)

    assert before == Budget({FailureClass.TRANSIENT: 1}, {})


def test_a_policy_may_allow_other_numbers_of_attempts() -> None:
    attempts = Attempts(transient=2, permission=1, unknown=5)

    assert [attempts.allowed(c) for c in ALLOWED] == [2, 1, 5, 1, 1, 3]


def test_the_spread_is_asked_for_once() -> None:
    asked: list[float] = []

    def spread() -> float:
        asked.append(0.5)
        return 0.5

    for retry_after in (None, 60 * SECOND):
        asked.clear()
        waits(Failure(FailureClass.TRANSIENT, "no", retry_after), Budget.fresh(), spread, NOW)
        assert len(asked) == 1
