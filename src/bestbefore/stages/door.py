"""How much of one database a worker may have right now.

Shares of what may run at a time and turns at a rate are kept where all workers see them; what is
known for a moment is not asked again.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from bestbefore.domain.policy import Policy
from bestbefore.domain.rows import Effect
from bestbefore.domain.sizing import largest
from bestbefore.domain.throttle import EPOCH, RAMP_BATCHES, Strain, Tempo, Window
from bestbefore.ports.throttle import Throttles
from bestbefore.stages.watch import ASKING, Watch

log = logging.getLogger(__name__)

_NOW = timedelta(0)
_ASK_AGAIN = timedelta(seconds=0.5)
_RENEW = timedelta(seconds=1)
_IDLE = timedelta(seconds=1)
_FIRST_REST, _LAST_REST = timedelta(seconds=0.25), timedelta(seconds=2)
_SAY_AGAIN = timedelta(seconds=10)

_LONG = timedelta(seconds=5)
"""A wait that is worth telling people, and as long as nobody looks again whether it is over."""

_OWN = (None, "pause", "rows_per_second")
"""What is waited for that no watch tells."""

_CHAIN_SECONDS = 0.25
_MOST_CHAINED = 64
"""What a thread is given at once: each look at the ledger costs as much as a small batch."""

_SOON_SECONDS = 0.02
_STRAINED_SECONDS = 1.0


class Room(NamedTuple):
    """How many batches may be claimed, by so many threads, and after how many seconds it may be
    more."""

    batches: int
    threads: int
    wait: float = math.inf


@dataclass(frozen=True, slots=True)
class Bounds:
    """What all workers together keep to on one database. Without a ``watch`` it is not asked how it
    is."""

    most: int
    tempo: Tempo = field(default_factory=Tempo)
    window: Window | None = None
    watch: Watch | None = None


class Door:
    """The way to one database, for one worker; see `bestbefore.stages.throttle.Gate`. *useful* is
    how many batches it could have in hand at all."""

    def __init__(
        self,
        connection: str,
        bounds: Bounds,
        throttles: Throttles,
        holder: str,
        lease: timedelta,
        useful: int,
    ) -> None:
        self.bounds = bounds
        self._resting: dict[str, tuple[datetime, timedelta]] = {}
        self._connection = connection
        self._throttles = throttles
        self._holder = holder
        self._lease = lease
        self._useful = useful
        self._slots = 0
        self._held_until = self._asked_at = self._used_at = EPOCH
        self._growing = True
        self._in_line = False
        self._done = 0
        self._turns = (0, 0)
        self._turned_at = self._again_at = self._say_at = EPOCH
        self._seconds: float | None = None
        self._typical: dict[str, int] = {}
        self._waits_for: str | None = None
        self._until: datetime | None = None

    def room(self, policy: Policy, out: int, wanted: int, now: datetime) -> Room:
        """See `Gate.room`. Asks first what costs nothing."""
        if self.bounds.watch is not None:
            strain = self.bounds.watch.strain(now)
            if strain is ASKING:
                return Room(0, 0, _SOON_SECONDS)
            if strain is not None:
                self._say(strain, None, now)
                return Room(0, 0, _STRAINED_SECONDS)
            if self._waits_for not in _OWN:
                self._say(None, None, now)
        until, _ = self._resting.get(policy.name, (now, _NOW))
        if _ahead(until, now, _LAST_REST):
            return Room(0, 0, _seconds(until - now))
        if now < self._again_at and _ahead(self._turned_at + _LONG, now, _LONG):
            return Room(0, 0, _seconds(min(self._again_at - now, _LONG)))
        free = self._free(out, wanted, now)
        if free >= 1:
            wanted = free * self._chain
            paced = not self.bounds.tempo.free
            return self._turn(policy, wanted, free, now) if paced else Room(wanted, free)
        if self._slots >= self._useful:
            return Room(0, 0)  # until one of our own comes back
        return Room(0, 0, _seconds(self._asked_at + _ASK_AGAIN - now))

    @property
    def _chain(self) -> int:
        """How many batches one thread may have to do one after the other: as many as take a
        quarter of a second."""
        if self._seconds is None:
            return 1
        return max(1, min(_MOST_CHAINED, int(_CHAIN_SECONDS / max(self._seconds, 1e-6))))

    def news(self) -> None:
        """See `Gate.news`."""
        self._resting.clear()

    def took(self, policy: Policy, planned: Sequence[int], now: datetime) -> None:
        """See `Gate.took`; *planned* are the rows of each batch."""
        rows = [_charged(n, policy) for n in planned]
        if rows:
            self._resting.pop(policy.name, None)
            self._typical[policy.name] = max(rows)
            self._used_at = now
        else:
            _, rest = self._resting.get(policy.name, (now, _FIRST_REST / 2))
            rest = min(_LAST_REST, 2 * rest)
            self._resting[policy.name] = now + rest, rest
        (turns, expected), self._turns = self._turns, (0, 0)
        more = sum(rows) - turns * expected
        if more and self.bounds.tempo.rows_per_second is not None:
            self._throttles.add(self._connection, more, self.bounds.tempo, now)
            self._again_at = now

    def ended(
        self,
        policy: Policy,
        planned: Sequence[int],
        results: Sequence[object],
        began: datetime,
        now: datetime,
    ) -> None:
        """See `Gate.ended`; *planned* are the rows of each batch."""
        effects = [result for result in results if isinstance(result, Effect)]
        self._done += len(effects)
        for effect in effects:  # an archive takes longer than the locks are held
            seconds = max(effect.seconds, _seconds(now - began) / len(results))
            self._seconds = _smoothed(self._seconds, seconds)
        more = 0
        if len(effects) == len(results):
            more = sum(_gone(effect, policy) for effect in effects)
            more -= sum(_charged(n, policy) for n in planned)
        tempo = self.bounds.tempo
        if tempo.pause or (more and tempo.rows_per_second is not None):
            self._throttles.add(self._connection, more, tempo, now)

    def keep(self, out: int, now: datetime) -> None:
        """See `Gate.keep`."""
        if out:
            self._used_at = now
        # What is only asked for counts as well: it has its share kept free.
        needed_at = self._used_at if self._slots else self._asked_at
        if self._in_line and not out and not _ahead(needed_at + _IDLE, now, _IDLE):
            self._hold(0, out, now)
        if self._slots and not _ahead(self._asked_at + _RENEW, now, _RENEW):
            self._hold(self._wanted(now), out, now)

    def close(self, out: int, now: datetime) -> None:
        """See `Gate.close`."""
        if self._in_line:
            self._hold(0, out, now)
        if self.bounds.watch is not None:
            self.bounds.watch.close()

    def _free(self, out: int, wanted: int, now: datetime) -> int:
        """How many batches more may be in hand, of those *wanted*."""
        if now >= self._held_until:  # this process was stopped for longer than its lease
            self._slots = out
        if self._slots - out < wanted and self._slots < self._useful:
            waited = not _ahead(self._asked_at + _ASK_AGAIN, now, _ASK_AGAIN)
            if waited or (self._growing and self._done >= RAMP_BATCHES):
                self._hold(self._wanted(now), out, now)
        return min(wanted, self._slots - out)

    def _wanted(self, now: datetime) -> int:
        """As many as can be of use; one, to see if there is anything to do at all."""
        return self._useful if _ahead(self._used_at + _IDLE, now, _IDLE) else 1

    def _hold(self, wanted: int, out: int, now: datetime) -> None:
        before = self._slots
        self._slots = self._throttles.hold(
            self._connection,
            self._holder,
            wanted=max(wanted, out),
            out=out,
            done=self._done,
            most=self.bounds.most,
            now=now,
            lease=self._lease,
        )
        self._done = 0
        self._growing = self._slots > before
        self._in_line = wanted > 0 or out > 0
        self._asked_at, self._held_until = now, now + self._lease

    def _turn(self, policy: Policy, wanted: int, free: int, now: datetime) -> Room:
        """As many of *wanted* batches as may follow those before already."""
        tempo, rows = self.bounds.tempo, self._typical.get(policy.name, policy.rows.batch_size)
        turns, self._again_at = self._throttles.turn(self._connection, wanted, rows, tempo, now)
        self._turns, self._turned_at = (turns, rows), now
        if not turns:
            self._used_at = now  # somebody else was first; the next one may be ours
        wait = self._again_at - now
        self._say(_slow(tempo, wait) if wait > _LONG else None, self._again_at, now)
        return Room(turns, min(turns, free), _seconds(min(wait, _LONG)))

    def _say(self, strain: Strain | None, until: datetime | None, now: datetime) -> None:
        """Have `status` show what is waited for; in the log only when it is something else."""
        key, until = (strain.key, until) if strain is not None else (None, None)
        same = key == self._waits_for and until == self._until
        if same and (key is None or _ahead(self._say_at, now, _SAY_AGAIN)):
            return
        if key != self._waits_for:
            if strain is not None:
                log.warning("work on %s waits: %s", self._connection, strain)
            else:
                log.info("work on %s goes on", self._connection)
        self._waits_for, self._until, self._say_at = key, until, now + _SAY_AGAIN
        said = None if strain is None else str(strain)
        self._throttles.say(self._connection, said, until, now)


def _slow(tempo: Tempo, wait: timedelta) -> Strain:
    """Why the next batch may not begin for so long."""
    if tempo.rows_per_second is None or wait <= tempo.pause:
        return Strain("pause", f"{tempo.pause.total_seconds():g} s pass between two batches")
    return Strain("rows_per_second", f"at {tempo.rows_per_second:,} the last batches take so long")


def _smoothed(usual: float | None, seconds: float) -> float:
    """How long a batch usually takes, after one more."""
    return seconds if usual is None else usual + (seconds - usual) / 4


def _charged(rows: int, policy: Policy) -> int:
    """What *rows* count for. A partition that goes as a whole is not touched row by row, and so is
    no more than a batch."""
    return min(rows, largest(policy.rows))


def _gone(effect: Effect, policy: Policy) -> int:
    """Rows that were removed just now, and those of other tables that were removed or changed with
    them."""
    if effect.replayed:
        return 0
    others = sum(effect.dependents.values()) + sum(effect.changed.values())
    return _charged(effect.rows, policy) + others


def _ahead(moment: datetime, now: datetime, most: timedelta) -> bool:
    """Whether *moment* is still to come; not where it is further off than it can be, as then a
    clock was set back."""
    return now < moment <= now + most


def _seconds(wait: timedelta) -> float:
    return max(0.0, wait.total_seconds())
