"""When row batches may go: hours of the day, turns at a rate, shares of what runs at a time, and a
slow start.

Rules without any state of their own. What they are about is what all processes do together, so
their callers keep it where all of them can see it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from bestbefore.domain.skew import MOST_CLOCK_SKEW

Window = tuple[time, time]
"""Times of day on a wall clock: from the first until before the second, maybe over midnight."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

RAMP_BATCHES = 8
"""Batches that have to come back well before twice as many may run at a time."""

_MINUTE = timedelta(minutes=1)
_LONGEST_CLOSED = timedelta(days=3)
"""A day that has no such hour, as a clock is set forward or a date line moves, is skipped."""

_CREDIT_SECONDS = 0.1
"""How much of a rate may be made up for: who is late by a few milliseconds still keeps it."""


class Strain(NamedTuple):
    """Why a database should be left alone for now: the ``key`` of its ``throttle`` that says so,
    and what was found."""

    key: str
    found: str

    def __str__(self) -> str:
        return f"{self.key}: {self.found}"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a database puts up with: a replica that is this far behind, somebody who waits for a
    lock this long, and a ``sql`` whose first value is not above 0."""

    replica_lag: timedelta | None = None
    lock_wait: timedelta | None = None
    sql: str | None = None


def open_at(now: datetime, zone: tzinfo, window: Window) -> bool:
    """Whether a clock on a wall in *zone* is inside *window*.

    Where that clock is set forward, an hour that it never shows is in no window; where it is set
    back, an hour that it shows twice is in it twice.
    """
    begins, ends = window
    local = now.astimezone(zone).time()
    if begins < ends:
        return begins <= local < ends
    return local >= begins or local < ends


def opens(now: datetime, zone: tzinfo, window: Window) -> datetime:
    """The first moment from *now* on that is inside *window*, which is given in whole minutes."""
    moment, latest = now, now + _LONGEST_CLOSED
    while not open_at(moment, zone, window) and moment < latest:
        moment = moment.replace(second=0, microsecond=0) + _MINUTE
    return moment


@dataclass(frozen=True, slots=True)
class Tempo:
    """How fast batches may follow one another: rows a second, and the time that passes between two
    batches."""

    rows_per_second: int | None = None
    pause: timedelta = timedelta(0)

    @property
    def free(self) -> bool:
        """Whether they may follow as fast as they can."""
        return self.rows_per_second is None and not self.pause


@dataclass(frozen=True, slots=True)
class Account:
    """What went so far.

    ``debt`` are rows that went and that the rate has not paid for, as of ``at``; below zero, rows
    that may go at once. ``stirred`` is when a batch last began or ended. Kept in rows and not as
    the moment of the next turn, so that another rate in the configuration holds from now on.
    """

    debt: float = 0.0
    at: datetime = EPOCH
    stirred: datetime = EPOCH

    def opens(self, tempo: Tempo, now: datetime) -> datetime:
        """When the next batch may begin; *now*, where it may at once."""
        moment = now
        if tempo.pause:
            moment = max(moment, _believed(self.stirred, now) + tempo.pause)
        if tempo.rows_per_second is not None and (debt := self._debt(tempo, now)) > 0:
            moment = max(moment, now + timedelta(seconds=debt / tempo.rows_per_second))
        return moment

    def begin(self, wanted: int, rows: int, tempo: Tempo, now: datetime) -> tuple[int, "Account"]:
        """How many of the *wanted* batches, of *rows* each, may begin now, and what that makes of
        this account.

        More than one where the rate would have let them begin before now. None where it is not yet
        time: then only a clock that was set back is put right.
        """
        debt = self._debt(tempo, now)
        if wanted < 1 or self.opens(tempo, now) > now:
            at = _believed(self.at, now)
            return 0, replace(self, at=at, stirred=_believed(self.stirred, now))
        turns = wanted
        if tempo.pause:
            turns = 1
        elif tempo.rows_per_second is not None:
            turns = min(wanted, max(1, int(-debt / max(1, rows))))
        return turns, Account(self._owing(debt + turns * rows, tempo), now, now)

    def add(self, rows: int, tempo: Tempo, now: datetime) -> "Account":
        """This account once *rows* more went than were said to (fewer, below zero), or a batch has
        ended."""
        return replace(
            self, debt=self._owing(self.debt + rows, tempo), stirred=max(self.stirred, now)
        )

    def _debt(self, tempo: Tempo, now: datetime) -> float:
        rate = tempo.rows_per_second
        if rate is None:
            return 0.0
        paid = rate * (now - _believed(self.at, now)).total_seconds()
        return max(self.debt - paid, -rate * _CREDIT_SECONDS)

    @staticmethod
    def _owing(rows: float, tempo: Tempo) -> float:
        """Nobody is to pay, under a rate that is set later, for what went before."""
        return 0.0 if tempo.rows_per_second is None else rows


def _believed(at: datetime, now: datetime) -> datetime:
    """*at*, unless it lies so far ahead that a clock must have been set back since."""
    return now if at - now > MOST_CLOCK_SKEW else at


@dataclass(frozen=True, slots=True)
class Waiter:
    """One process that stands in line for batches of one database: how many it may run now, and how
    many it could use. Who came earlier, or was served longer ago, has a lower ``since``."""

    holder: str
    holds: int
    wanted: int
    since: datetime


def entitled(me: Waiter, others: Sequence[Waiter], most: int) -> int:
    """How many batches *me* may run from now on, so that all together run at most *most*.

    One each in turn until none is left or wanted. What others still hold beyond their share has to
    come back first.
    """
    line = sorted([me, *others], key=lambda waiter: (waiter.since, waiter.holder))
    shares = dict.fromkeys((waiter.holder for waiter in line), 0)
    left = most
    while left > 0 and (hungry := [w for w in line if shares[w.holder] < w.wanted]):
        for waiter in hungry[:left]:
            shares[waiter.holder] += 1
        left -= len(hungry[:left])
    free = most - sum(waiter.holds for waiter in others)
    return max(0, min(shares[me.holder], free))


def ramp(batches: int, most: int) -> int:
    """How many may run at a time once so many *batches* came back well since the slow start."""
    return min(most, 1 << min(batches // RAMP_BATCHES, most.bit_length()))
