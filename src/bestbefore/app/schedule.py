"""The schedules of one configuration: who looks at them, who fires them, and what a pause does."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from bestbefore.app.settings import Settings
from bestbefore.domain.policy import Policy
from bestbefore.domain.slots import may_fire
from bestbefore.ports.calendar import Calendar
from bestbefore.ports.clock import Clock
from bestbefore.ports.controls import Controls
from bestbefore.ports.slots import LOOK_EVERY, MOST_KEPT, Expected, Slots, Watched
from bestbefore.ports.threads import Threads
from bestbefore.stages.ticker import Schedules, Ticker

_AT_A_TIME = 4
"""Policies that one ticker plans at the same time."""


class Misses(NamedTuple):
    """What a policy misses under a pause: ``slots`` from ``first`` on; None is without end."""

    first: datetime | None
    slots: int | None


class Coming(NamedTuple):
    """What a policy does first once a pause is lifted: ``now``, or when ``slot`` has come.

    ``paused`` is why it does nothing all the same.
    """

    slot: datetime
    now: bool
    paused: str | None


class Schedule:
    """What is expected by the file of this process, in the ledger it shares with others."""

    def __init__(
        self,
        slots: Slots,
        controls: Controls,
        calendar: Calendar,
        settings: Settings,
        clock: Clock,
        threads: Threads = ThreadPoolExecutor,
    ) -> None:
        self.slots = slots
        self._controls = controls
        self._calendar = calendar
        self._settings = settings.schedule
        self._policies = settings.policies
        self._clock = clock
        self._threads = threads
        self._look_at: datetime | None = None

    @property
    def grace(self) -> timedelta:
        """How long after its time a slot may be answered."""
        return self._settings.grace

    @property
    def fires(self) -> bool:
        """Whether `serve` starts the runs."""
        return self._settings.kind == "embedded"

    def look(self) -> Mapping[str, Watched]:
        """Note the slots that have come and judge those nobody answered, of every policy.

        By policy, the newest one; without those that have none. Raises LedgerError.
        """
        now = self._clock.now()
        self._look_at = now + LOOK_EVERY
        found = {
            name: self.slots.look(Expected(name, policy.schedule, policy.timezone), self.grace, now)
            for name, policy in self._policies.items()
        }
        return {name: watched for name, watched in found.items() if watched is not None}

    def look_now_and_then(self) -> None:
        """`look`, unless this process did within the last minute."""
        now = self._clock.now()
        if self._look_at is None or not self._look_at - LOOK_EVERY <= now < self._look_at:
            self.look()

    def pause(
        self, policy: str | None, reason: str, until: datetime | None, by: str
    ) -> Mapping[str, Misses]:
        """Pause *policy*, or all of them. Returns what is missed, by policy with a schedule."""
        self.look()  # what came before is not the pause's
        now = self._clock.now()
        self._controls.pause(policy, reason, until, by, now)
        return {of.name: self._misses(of, now, until) for of in self._scheduled(policy)}

    def resume(self, policy: str | None, by: str) -> tuple[bool, Mapping[str, Coming]]:
        """Lift a pause. Returns whether there was one, and what comes first, by policy."""
        newest = self.look()  # what came until now is the pause's
        now = self._clock.now()
        lifted = self._controls.resume_work(policy, by, now)
        paused = {pause.policy: pause.reason for pause in self._controls.pauses(now)}
        coming = {}
        for of in self._scheduled(policy):
            watched = newest.get(of.name)
            why = paused.get(of.name, paused.get(None))
            starts = self.fires and watched is not None and self._starts(of, watched, now)
            coming[of.name] = (
                Coming(watched.slot.at, now=why is None, paused=why)
                if starts and watched is not None
                else Coming(self._following(of, now), now=False, paused=why)
            )
        return lifted, coming

    def ticker(
        self, plan: Callable[[Policy, datetime], bool], stopping: Callable[[], bool]
    ) -> Ticker:
        """What looks, and fires by *plan* if the configuration says so, until *stopping*."""
        return Ticker(
            Schedules(
                self.slots,
                self._calendar,
                self._clock,
                self._policies,
                self.grace,
                plan if self.fires else None,
                self._threads(_AT_A_TIME, "tick"),
                stopping,
            )
        )

    def _scheduled(self, policy: str | None) -> Iterator[Policy]:
        for name, of in sorted(self._policies.items()):
            if of.schedule is not None and policy in (None, name):
                yield of

    def _starts(self, policy: Policy, watched: Watched, now: datetime) -> bool:
        lifted = watched.seen._replace(paused=None)
        return may_fire(watched.slot, lifted, catch_up=policy.catch_up, grace=self.grace, now=now)

    def _following(self, policy: Policy, now: datetime) -> datetime:
        return self._calendar.following(policy.schedule or "", policy.timezone, now)

    def _misses(self, policy: Policy, now: datetime, until: datetime | None) -> Misses:
        if until is None:
            return Misses(self._following(policy, now), None)
        found = list(
            islice(
                self._calendar.between(policy.schedule or "", policy.timezone, now, until),
                MOST_KEPT,
            )
        )
        return Misses(found[0] if found else None, len(found))
