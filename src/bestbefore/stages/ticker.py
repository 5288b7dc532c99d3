"""Fire schedules: see each slot come, and begin one run for it.

Any number of tickers may run on one ledger. What decides which of them plans is the slot's own
row; what a ticker remembers is only when to try again.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from datetime import datetime, timedelta

from bestbefore.domain.policy import Policy
from bestbefore.domain.slots import Slot, SlotState, may_fire
from bestbefore.ports.calendar import Calendar
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.slots import LOOK_EVERY, Expected, Jump, Slots, Watched

log = logging.getLogger(__name__)

_STEP_SECONDS = 1.0
"""The longest sleep, so that a clock that is set is noticed."""

_JUMP = timedelta(minutes=1)
"""A longer way of the clock during one sleep is none that time has passed."""

_LOOK_AGAIN = timedelta(seconds=2)
"""After a look at a slot that is still open."""

_FIRST_RETRY = timedelta(seconds=5)
_LAST_RETRY = timedelta(minutes=5)
_LONGEST_TROUBLE = 500


@dataclass(slots=True)
class _Watch:
    """What one ticker remembers of one policy."""

    look_at: datetime | None = None
    looked_at: datetime | None = None
    planning: "Future[bool] | None" = None
    slot: Slot | None = None  # that is, or was last, being planned
    tries: int = 0
    retry_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Schedules:
    """What a ticker has at hand.

    ``plan`` plans a slot to its end, or goes on with a plan that somebody has left, and returns
    whether it is complete; None where this ticker only looks.
    """

    slots: Slots
    calendar: Calendar
    clock: Clock
    policies: Mapping[str, Policy]
    grace: timedelta
    plan: Callable[[Policy, datetime], bool] | None
    pool: Executor
    stopping: Callable[[], bool]


class Ticker:
    """Looks at every policy with a schedule, until told to stop."""

    def __init__(self, schedules: Schedules) -> None:
        self._s = schedules
        self._watches = {
            name: _Watch() for name, policy in schedules.policies.items() if policy.schedule
        }
        self._before = schedules.clock.now()

    def run(self) -> None:
        """Tick until told to stop. Plans that were begun are left for others to go on with."""
        clock = self._s.clock
        with self._s.pool:
            while not self._s.stopping():
                self.tick()
                clock.sleep(_STEP_SECONDS)

    def tick(self) -> None:
        """Look where a look is due, and begin what may be begun."""
        now = self._s.clock.now()
        jump = Jump(self._before, now) if now - self._before > _JUMP else None
        for name, watch in self._watches.items():
            policy = self._s.policies[name]
            try:
                self._settle(watch, now)
                if jump is not None or _is_due(watch, now):
                    self._look(policy, watch, now, jump)
            except LedgerError as error:
                log.warning("policies.%s: its schedule could not be looked at: %s", name, error)
                watch.look_at = now + _FIRST_RETRY
        self._before = self._s.clock.now()

    @property
    def busy(self) -> bool:
        """Whether anything is being planned right now."""
        plans = (watch.planning for watch in self._watches.values())
        return any(plan is not None and not plan.done() for plan in plans)

    def _look(self, policy: Policy, watch: _Watch, now: datetime, jump: Jump | None) -> None:
        assert policy.schedule is not None  # noqa: S101  (others are not watched)
        expected = Expected(policy.name, policy.schedule, policy.timezone)
        found = self._s.slots.look(expected, self._s.grace, now, jump)
        watch.looked_at = now
        watch.look_at = now + LOOK_EVERY
        following = self._s.calendar.following(policy.schedule, policy.timezone, now)
        if found is not None and self._is_open(policy, found.slot):
            watch.look_at = now + _LOOK_AGAIN
            self._fire(policy, watch, found, now)
        watch.look_at = min(watch.look_at, following)

    def _is_open(self, policy: Policy, slot: Slot) -> bool:
        """Whether there may be something to do about *slot*, now or soon."""
        if slot.answered:
            return False
        verdict = slot.verdict
        return verdict is None or (policy.catch_up and verdict.state is SlotState.MISSED)

    def _fire(self, policy: Policy, watch: _Watch, found: Watched, now: datetime) -> None:
        plan, slot = self._s.plan, found.slot
        if plan is None or watch.planning is not None:
            return
        if watch.slot is None or watch.slot.at != slot.at:
            watch.tries, watch.retry_at = 0, None
        waits = watch.retry_at is not None and now < watch.retry_at <= now + _LAST_RETRY
        if waits or not may_fire(
            slot, found.seen, catch_up=policy.catch_up, grace=self._s.grace, now=now
        ):
            return
        watch.slot = slot
        watch.planning = self._s.pool.submit(plan, policy, slot.at)

    def _settle(self, watch: _Watch, now: datetime) -> None:
        """Note what came of a plan that has ended."""
        planning, slot = watch.planning, watch.slot
        if planning is None or slot is None or not planning.done():
            return
        watch.planning, watch.look_at = None, now
        error = planning.exception()
        if error is not None:
            watch.tries += 1
            watch.retry_at = now + min(_FIRST_RETRY * 2 ** min(watch.tries - 1, 10), _LAST_RETRY)
            log.error("policies.%s: its slot could not be planned: %s", slot.policy, error)
            trouble = str(error) or type(error).__name__
            self._s.slots.failed(slot.policy, slot.at, trouble[:_LONGEST_TROUBLE])
        elif planning.result():
            missed = slot.verdict is not None
            self._s.slots.collapse(slot.policy, slot.at, now, missed=missed)


def _is_due(watch: _Watch, now: datetime) -> bool:
    """Whether to look; also where the clock was set back, which moves every slot away."""
    if watch.look_at is None or watch.looked_at is None:
        return True
    return now >= watch.look_at or now < watch.looked_at
