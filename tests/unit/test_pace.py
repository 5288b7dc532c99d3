"""How fast a bucket is worked on: AIMD with a slow start and a quiet time."""

from bestbefore.domain.pace import SIZES, Pace


def grown(to: int = 32) -> Pace:
    """A pace that has grown by successes."""
    pace = Pace(most_requests=to)
    for _ in range(200):
        pace.succeeded(100, 0.0)
    return pace


def test_it_starts_small_and_grows_by_one_with_every_success() -> None:
    pace = Pace(most_requests=32)

    allowed = []
    for _ in range(5):
        allowed.append(pace.free(0, 0.0))
        pace.succeeded(100, 0.0)

    assert allowed == [8, 9, 10, 11, 12]


def test_it_never_goes_beyond_its_limits() -> None:
    pace = grown(to=10)

    assert pace.free(0, 0.0) == 10
    assert pace.free(7, 0.0) == 3
    assert pace.free(99, 0.0) == 0


def test_one_request_may_always_go_out() -> None:
    assert Pace(most_requests=1).free(0, 0.0) == 1


def test_a_throttle_halves_it_and_lets_nothing_out_for_a_while() -> None:
    pace = grown(to=32)
    pace.throttled(10.0, None)

    quiet = pace.quiet_for(10.0)
    assert quiet > 0
    assert pace.free(0, 10.0) == 0
    assert pace.free(0, 10.0 + quiet) == 16


def test_answers_to_what_was_already_out_are_the_same_event() -> None:
    pace = grown(to=32)
    for _ in range(20):
        pace.throttled(10.0, None)

    assert pace.free(0, 10.0 + pace.quiet_for(10.0)) == 16


def test_every_further_throttle_halves_again_down_to_one() -> None:
    pace = grown(to=32)
    now, allowed = 0.0, []
    for _ in range(8):
        pace.throttled(now, None)
        now += pace.quiet_for(now)
        allowed.append(pace.free(0, now))

    assert allowed == [16, 8, 4, 2, 1, 1, 1, 1]


def test_the_quiet_time_doubles_but_stays_bounded_and_shrinks_when_all_is_well() -> None:
    pace = grown()
    now, quiet = 0.0, []
    for _ in range(8):
        pace.throttled(now, None)
        quiet.append(pace.quiet_for(now))
        now += quiet[-1]

    assert quiet == [2, 4, 8, 16, 32, 32, 32, 32]
    for _ in range(10):
        now += 100
        pace.succeeded(100, now)
    pace.throttled(now, None)
    assert pace.quiet_for(now) == 2


def test_what_the_store_asks_for_is_kept_even_if_it_is_longer() -> None:
    pace = grown()
    pace.throttled(0.0, 60.0)
    assert pace.quiet_for(0.0) == 60.0

    pace.throttled(1.0, 5.0)
    assert pace.quiet_for(1.0) == 59.0, "a shorter wish does not shorten the longer one"


def test_it_recovers_one_by_one_and_not_in_a_leap() -> None:
    pace = grown(to=32)
    pace.throttled(0.0, None)
    now = pace.quiet_for(0.0)

    pace.succeeded(100, now)
    assert pace.free(0, now) == 16
    for _ in range(15):
        pace.succeeded(100, now)
    assert pace.free(0, now) == 16, "a sixteenth for each: a round of successes adds one"
    for _ in range(2):
        pace.succeeded(100, now)
    assert pace.free(0, now) == 17
    for _ in range(2_000):
        pace.succeeded(100, now)
    assert pace.free(0, now) == 32


def test_every_batch_size_is_tried_and_the_quickest_is_kept() -> None:
    speed = {250: 1_000.0, 1000: 500.0, 100: 3_000.0, 500: 900.0}
    pace, now, seen = Pace(most_requests=4), 0.0, []
    for _ in range(1000):
        seen.append(pace.size)
        now += pace.size / speed[pace.size]
        pace.succeeded(pace.size, now)

    assert set(seen) == set(SIZES)
    assert seen[-1] == 100
    assert seen.count(100) > len(seen) / 2
