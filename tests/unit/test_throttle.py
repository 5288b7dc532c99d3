"""When row batches may go: windows on wall clocks, turns at a rate, shares, and a slow start."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from bestbefore.domain.throttle import (
    EPOCH,
    RAMP_BATCHES,
    Account,
    Tempo,
    Waiter,
    entitled,
    open_at,
    opens,
    ramp,
)

NOW = datetime(2026, 7, 1, 2, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = (time(1), time(5))
OVER_MIDNIGHT = (time(22, 30), time(4))
NEW = Account(0.0, NOW, EPOCH)


def berlin(text: str, fold: int = 0) -> datetime:
    """What the clock on a wall in Berlin shows, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).astimezone(UTC)


# -- windows ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("local", "inside"),
    [("00:59:59", False), ("01:00", True), ("04:59:59", True), ("05:00", False)],
)
def test_a_window_begins_with_its_first_minute_and_ends_before_its_last(
    local: str, inside: bool
) -> None:
    assert open_at(berlin(f"2026-07-01T{local}"), BERLIN, NIGHT) is inside


@pytest.mark.parametrize(
    ("local", "inside"),
    [("22:29", False), ("22:30", True), ("23:59:59", True), ("00:00", True), ("03:59", True),
     ("04:00", False), ("12:00", False)],
)  # fmt: skip
def test_a_window_may_reach_over_midnight(local: str, inside: bool) -> None:
    assert open_at(berlin(f"2026-07-01T{local}"), BERLIN, OVER_MIDNIGHT) is inside


def test_a_window_follows_the_wall_clock_through_summer_and_winter() -> None:
    midday = [datetime(2026, month, 15, 4, 30, tzinfo=UTC) for month in (1, 7)]

    assert [open_at(moment, BERLIN, NIGHT) for moment in midday] == [False, False]
    assert [open_at(moment, UTC, NIGHT) for moment in midday] == [True, True]
    assert opens(midday[0], BERLIN, NIGHT) == datetime(2026, 1, 16, 0, tzinfo=UTC)
    assert opens(midday[1], BERLIN, NIGHT) == datetime(2026, 7, 15, 23, tzinfo=UTC)


def test_a_window_whose_first_minute_the_clock_jumps_over_opens_after_the_jump() -> None:
    """On 29 March 2026 a wall in Berlin shows 03:00 after 01:59:59."""
    window = (time(2, 30), time(4))
    jump = datetime(2026, 3, 29, 1, tzinfo=UTC)

    assert not open_at(jump - timedelta(seconds=1), BERLIN, window)
    assert open_at(jump, BERLIN, window)
    assert opens(jump - timedelta(hours=9), BERLIN, window) == jump


def test_a_window_that_the_clock_jumps_over_whole_opens_the_day_after() -> None:
    window = (time(2), time(3))
    saturday = berlin("2026-03-28T12:00")

    assert opens(saturday, BERLIN, window) == berlin("2026-03-30T02:00")


def test_an_hour_that_the_clock_shows_twice_is_in_its_window_twice() -> None:
    """On 25 October 2026 a wall in Berlin shows 02:00 to 02:59 in summer time, and once more."""
    window = (time(2), time(3))
    began = berlin("2026-10-25T02:00")

    inside = [began + n * timedelta(minutes=1) for n in range(-60, 240)]
    assert sum(open_at(moment, BERLIN, window) for moment in inside) == 120
    second = berlin("2026-10-25T02:00", fold=1)
    assert second == began + timedelta(hours=1)
    assert open_at(second, BERLIN, window)


def test_what_is_open_opens_now_and_what_is_shut_at_a_whole_minute() -> None:
    inside = berlin("2026-07-01T02:00:17")
    assert opens(inside, BERLIN, NIGHT) == inside
    assert opens(berlin("2026-07-01T05:00:17.5"), BERLIN, NIGHT) == berlin("2026-07-02T01:00")


# -- turns -----------------------------------------------------------------------------------


def gone(
    tempo: Tempo, rows: int, seconds: float, *, wanted: int = 4, late: float = 0.0
) -> list[float]:
    """When batches of *rows* began within *seconds*, each asker coming *late* by so much."""
    account, now, began = NEW, NOW, []
    end = NOW + timedelta(seconds=seconds)
    while now < end:
        turns, account = account.begin(wanted, rows, tempo, now)
        began += [(now - NOW).total_seconds()] * turns
        now = account.opens(tempo, now) + timedelta(seconds=late)
    return began


def test_rows_go_at_their_rate_and_not_in_heaps() -> None:
    began = gone(Tempo(5_000), 100, 10)

    assert len(began) == pytest.approx(500, abs=1)
    assert all(b - a == pytest.approx(0.02, abs=1e-5) for a, b in pairwise(began))


def test_who_is_a_little_late_still_keeps_the_rate() -> None:
    assert len(gone(Tempo(5_000), 100, 10, late=0.005)) == pytest.approx(500, abs=2)
    assert len(gone(Tempo(5_000), 10, 10, late=0.005)) == pytest.approx(5_000, abs=50)


def test_what_was_not_used_for_long_is_not_made_up_for() -> None:
    tempo = Tempo(1_000)
    _, account = NEW.begin(1, 10, tempo, NOW)
    later = NOW + timedelta(hours=1)

    turns, account = account.begin(1_000, 10, tempo, later)

    assert turns == 10, "a tenth of a second's worth"
    assert account.opens(tempo, later) == later
    assert account.begin(1, 10, tempo, later)[0] == 1
    after = account.begin(1, 10, tempo, later)[1]
    assert after.begin(1, 10, tempo, later)[0] == 0


def test_a_batch_beyond_the_rate_goes_and_is_then_paid_for() -> None:
    tempo = Tempo(100)
    turns, account = NEW.begin(4, 1_000, tempo, NOW)

    assert turns == 1
    assert account.opens(tempo, NOW) == NOW + timedelta(seconds=10)
    assert account.begin(4, 1_000, tempo, NOW + timedelta(seconds=9.9))[0] == 0
    assert account.begin(4, 1_000, tempo, NOW + timedelta(seconds=10))[0] == 1


def test_a_rate_that_is_raised_holds_at_once() -> None:
    _, account = NEW.begin(1, 10_000, Tempo(1), NOW)

    assert account.opens(Tempo(1), NOW) == NOW + timedelta(seconds=10_000)
    assert account.opens(Tempo(5_000), NOW) == NOW + timedelta(seconds=2)
    assert account.opens(Tempo(), NOW) == NOW


def test_what_went_without_a_rate_is_no_debt_under_a_later_one() -> None:
    account = NEW
    for n in range(100):
        turns, account = account.begin(4, 10_000, Tempo(), NOW + n * timedelta(seconds=1))
        assert turns == 4
        account = account.add(5, Tempo(), NOW)

    assert account.opens(Tempo(10), NOW + timedelta(seconds=99)) == NOW + timedelta(seconds=99)


def test_what_turns_out_larger_is_paid_for_and_what_did_not_go_is_not() -> None:
    tempo = Tempo(100)
    _, account = NEW.begin(1, 100, tempo, NOW)

    assert account.add(50, tempo, NOW).opens(tempo, NOW) == NOW + timedelta(seconds=1.5)
    assert account.add(-100, tempo, NOW).opens(tempo, NOW) == NOW


def test_a_pause_passes_after_a_batch_began_and_after_it_ended() -> None:
    tempo = Tempo(pause=timedelta(milliseconds=20))
    turns, account = NEW.begin(4, 100, tempo, NOW)
    ended = NOW + timedelta(milliseconds=30)

    assert turns == 1, "one at a time, whatever there is room for"
    assert account.opens(tempo, NOW) == NOW + timedelta(milliseconds=20)
    account = account.add(0, tempo, ended)
    assert account.opens(tempo, ended) == ended + timedelta(milliseconds=20)
    assert account.begin(1, 100, tempo, ended + timedelta(milliseconds=19))[0] == 0
    assert account.begin(1, 100, tempo, ended + timedelta(milliseconds=20))[0] == 1


def test_of_a_rate_and_a_pause_the_slower_one_counts() -> None:
    tempo = Tempo(1_000, timedelta(milliseconds=50))

    assert len(gone(tempo, 10, 10)) == pytest.approx(200, abs=1)
    assert len(gone(tempo, 100, 10)) == pytest.approx(100, abs=1)


@pytest.mark.parametrize("tempo", [Tempo(100), Tempo(pause=timedelta(seconds=1))])
def test_a_clock_that_is_set_back_a_day_stops_nobody_for_a_day(tempo: Tempo) -> None:
    tomorrow = NOW + timedelta(days=1)
    _, account = Account(at=tomorrow).begin(1, 100, tempo, tomorrow)

    turns, account = account.begin(1, 100, tempo, NOW)

    assert turns == 0
    assert account.opens(tempo, NOW) == NOW + timedelta(seconds=1)
    assert account.begin(1, 100, tempo, NOW + timedelta(seconds=1))[0] == 1


def test_clocks_that_differ_by_seconds_make_nobody_faster() -> None:
    """Two processes take turns, one of them three seconds ahead."""
    tempo, account, began = Tempo(100), NEW, 0
    for tick in range(10_000):
        now = NOW + timedelta(seconds=tick / 100) + timedelta(seconds=3) * (tick % 2)
        turns, account = account.begin(1, 100, tempo, now)
        began += turns

    assert began <= 100 + 4


# -- shares ----------------------------------------------------------------------------------


def line(*held_and_wanted: tuple[int, int]) -> list[Waiter]:
    return [
        Waiter(f"w{n}", held, wanted, NOW + timedelta(seconds=n))
        for n, (held, wanted) in enumerate(held_and_wanted)
    ]


def shares(most: int, *wanted: int) -> list[int]:
    """What each gets in the end, all having let go of what is not theirs."""
    waiters = line(*((0, n) for n in wanted))
    return [entitled(me, [other for other in waiters if other is not me], most) for me in waiters]


def test_all_is_shared_one_each_in_turn_and_nobody_gets_more_than_it_can_use() -> None:
    assert shares(4, 4) == [4]
    assert shares(4, 4, 4) == [2, 2]
    assert shares(4, 4, 1) == [3, 1]
    assert shares(5, 9, 9, 9) == [2, 2, 1]
    assert shares(1, 4, 4) == [1, 0]
    assert shares(4, 0, 2) == [0, 2]


@pytest.mark.parametrize("most", range(7))
@pytest.mark.parametrize("wanted", [(0, 0), (9, 9, 9), (1, 5, 2), (3,)])
def test_shares_never_add_up_to_more_than_the_most(most: int, wanted: tuple[int, ...]) -> None:
    assert sum(shares(most, *wanted)) == min(most, sum(wanted))


def test_what_another_still_has_is_waited_for() -> None:
    greedy, late = line((4, 4), (0, 4))

    assert entitled(late, [greedy], 4) == 0
    assert entitled(greedy, [late], 4) == 2, "and the other learns that it is too much"
    assert entitled(late, [line((2, 4))[0]], 4) == 2


def test_it_starts_with_one_and_doubles_with_what_came_back() -> None:
    allowed = [ramp(n, 6) for n in range(0, 5 * RAMP_BATCHES, RAMP_BATCHES)]

    assert allowed == [1, 2, 4, 6, 6]
    assert ramp(10**6, 3) == 3
    assert ramp(0, 0) == 0
