"""What every place for slots, turns and reasons to wait has to do.

Subclass `ThrottlesContract` in a test module and give it a fixture ``throttles``.
"""

from collections import Counter
from datetime import timedelta

import pytest

from bestbefore.contracts.ledger_world import LEASE, SLOT
from bestbefore.domain.throttle import RAMP_BATCHES, Tempo
from bestbefore.ports.throttle import Throttles, Wait

_SECOND = timedelta(seconds=1)
_WARM = 10 * RAMP_BATCHES
"""Batches after which nothing of a slow start is left."""


class ThrottlesContract:
    """Whoever asks, and from wherever: all together get what one alone would."""

    @pytest.fixture
    def warm(self, throttles: Throttles) -> Throttles:
        """Work on ``d`` is in full swing: somebody was there a moment ago."""
        throttles.hold("d", "past", wanted=1, out=1, done=0, most=4, now=SLOT, lease=LEASE)
        throttles.hold("d", "past", wanted=0, out=0, done=_WARM, most=4, now=SLOT, lease=LEASE)
        return throttles

    def test_slots_are_held_up_to_the_most_by_all_together(self, warm: Throttles) -> None:
        a = _hold(warm, "a", wanted=3)
        b = _hold(warm, "b", wanted=3)

        assert (a, b) == (3, 1)
        assert _hold(warm, "c", wanted=3) == 0

    def test_who_has_more_than_its_share_lets_go_and_others_follow(self, warm: Throttles) -> None:
        assert _hold(warm, "a", wanted=4) == 4
        assert _hold(warm, "b", wanted=4) == 0

        assert _hold(warm, "a", wanted=4, out=3) == 3, "what is in hand has to come back first"
        assert _hold(warm, "b", wanted=4) == 1
        assert _hold(warm, "a", wanted=4, out=1) == 2
        assert _hold(warm, "b", wanted=4, out=1) == 2

    def test_slots_are_per_database(self, warm: Throttles) -> None:
        assert _hold(warm, "a", wanted=4) == 4
        assert _hold(warm, "a", "other", wanted=4) == 1

    def test_given_back_is_free_at_once(self, warm: Throttles) -> None:
        _hold(warm, "a", wanted=4)
        assert _hold(warm, "a", wanted=0) == 0
        assert _hold(warm, "b", wanted=4) == 4

    def test_who_does_not_come_back_has_none_after_the_lease(self, warm: Throttles) -> None:
        _hold(warm, "dead", wanted=4)

        assert _hold(warm, "b", wanted=4, after=LEASE - _SECOND) == 0
        assert _hold(warm, "b", wanted=4, after=LEASE) > 0

    def test_a_lease_that_is_renewed_goes_on(self, warm: Throttles) -> None:
        for n in range(5):
            assert _hold(warm, "a", wanted=4, out=4, after=n * LEASE * 0.9) == 4
            assert _hold(warm, "b", wanted=4, after=n * LEASE * 0.9) == 0

    def test_with_fewer_slots_than_holders_each_is_served_in_turn(self, warm: Throttles) -> None:
        served = Counter[str]()
        for n in range(60):
            for name in "abc":
                served[name] += _hold(warm, name, wanted=1, most=1, after=n * _SECOND)
        assert all(served[name] >= 15 for name in "abc"), served

    def test_a_most_that_was_lowered_holds_at_once(self, warm: Throttles) -> None:
        assert _hold(warm, "a", wanted=4) == 4
        assert _hold(warm, "a", wanted=4, most=2) == 2
        assert _hold(warm, "b", wanted=4, most=2) == 0

    def test_work_starts_slowly_for_all_together(self, throttles: Throttles) -> None:
        assert _hold(throttles, "a", wanted=4) == 1
        assert _hold(throttles, "b", wanted=4) == 0
        assert _hold(throttles, "b", wanted=0) == 0
        assert _hold(throttles, "a", wanted=4, done=RAMP_BATCHES - 1) == 1
        assert _hold(throttles, "a", wanted=4, done=1) == 2
        assert _hold(throttles, "b", wanted=4) == 0
        assert _hold(throttles, "a", wanted=4, out=1, done=2 * RAMP_BATCHES) == 2
        assert _hold(throttles, "b", wanted=4) == 2

    def test_work_starts_slowly_again_after_a_rest(self, warm: Throttles) -> None:
        assert _hold(warm, "a", wanted=4, after=9 * _SECOND) == 4
        assert _hold(warm, "a", wanted=0, after=9 * _SECOND) == 0
        assert _hold(warm, "a", wanted=4, after=30 * _SECOND) == 1

    def test_a_long_batch_is_no_rest(self, warm: Throttles) -> None:
        for n in range(0, 60, 5):
            assert _hold(warm, "a", wanted=4, out=1, after=n * _SECOND) == 4

    def test_turns_come_at_the_rate_whoever_takes_them(self, throttles: Throttles) -> None:
        tempo = Tempo(rows_per_second=1_000)
        now, given = SLOT, 0
        while now < SLOT + 10 * _SECOND:
            turns, again_at = throttles.turn("d", 4, 100, tempo, now)
            given += turns
            assert again_at > now
            assert throttles.turn("d", 4, 100, tempo, now) == (0, again_at)
            now = again_at
        assert given == pytest.approx(100, abs=1)
        assert throttles.turn("other", 4, 100, tempo, SLOT).batches == 1

    def test_a_pause_passes_between_any_two_batches(self, throttles: Throttles) -> None:
        tempo = Tempo(pause=timedelta(milliseconds=20))
        first = throttles.turn("d", 4, 100, tempo, SLOT)
        assert first == (1, SLOT + tempo.pause)

        throttles.add("d", 0, tempo, SLOT + _SECOND)

        ended = SLOT + _SECOND
        assert throttles.turn("d", 4, 100, tempo, ended) == (0, ended + tempo.pause)
        assert throttles.turn("d", 4, 100, tempo, ended + tempo.pause).batches == 1

    def test_what_more_went_is_waited_for_and_what_did_not_is_not(
        self, throttles: Throttles
    ) -> None:
        tempo = Tempo(rows_per_second=100)
        assert throttles.turn("d", 1, 100, tempo, SLOT) == (1, SLOT + _SECOND)

        throttles.add("d", 100, tempo, SLOT)
        assert throttles.turn("d", 1, 100, tempo, SLOT + _SECOND) == (0, SLOT + 2 * _SECOND)

        throttles.add("d", -100, tempo, SLOT + _SECOND)
        assert throttles.turn("d", 1, 100, tempo, SLOT + _SECOND).batches == 1

    def test_a_reason_is_shown_while_it_is_repeated(self, throttles: Throttles) -> None:
        throttles.say("d", "replica_lag: 12 s", None, SLOT)
        throttles.say("c", "lock_wait: 2 s", None, SLOT)

        assert throttles.waits(SLOT + 20 * _SECOND) == [
            Wait("c", "lock_wait: 2 s", None),
            Wait("d", "replica_lag: 12 s", None),
        ]
        throttles.say("d", "replica_lag: 14 s", None, SLOT + 20 * _SECOND)
        throttles.say("c", None, None, SLOT + 20 * _SECOND)
        later = SLOT + 40 * _SECOND
        assert throttles.waits(later) == [Wait("d", "replica_lag: 14 s", None)]
        assert throttles.waits(SLOT + 60 * _SECOND) == []

    def test_a_reason_with_an_end_is_shown_until_then(self, throttles: Throttles) -> None:
        end = SLOT + timedelta(minutes=5)
        throttles.say("d", "rows_per_second", end, SLOT)

        assert throttles.waits(end - _SECOND) == [Wait("d", "rows_per_second", end)]
        assert throttles.waits(end) == []


def _hold(
    throttles: Throttles,
    holder: str,
    connection: str = "d",
    *,
    wanted: int,
    out: int = 0,
    done: int = 0,
    most: int = 4,
    after: timedelta = timedelta(0),
) -> int:
    return throttles.hold(
        connection, holder, wanted=wanted, out=out, done=done, most=most, now=SLOT + after,
        lease=LEASE,
    )  # fmt: skip
