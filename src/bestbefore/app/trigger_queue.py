"""Triggers that come through a queue: each is answered as `POST /cleanup/plan` answers a call.

A trigger is acked once its run is in the ledger, so that neither a crash nor an outage loses one,
and one that comes twice is the same run. What cannot be answered is not acked: its lease ends and
it comes again, to a process that knows its policy, to a ledger that is back, or else, in the end,
to the queue's own dead letters, where its bytes stay as they are. No slot depends on that: one
whose trigger never arrives is missed, and listed.
"""

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from bestbefore.app.system import System, UnknownPolicy
from bestbefore.app.triggers import Job, NotBegun, Paused, Triggers
from bestbefore.domain.message import Unreadable
from bestbefore.domain.run import Trigger
from bestbefore.domain.trigger import Fate, Triggered, read_trigger
from bestbefore.ports.ledger import LedgerError
from bestbefore.ports.transport import Delivery, Transport, TransportFailed
from bestbefore.read.documents import when
from bestbefore.stages.trigger import SlotRefused, choose_slot

log = logging.getLogger(__name__)

_LEASE = timedelta(minutes=1)
_AT_A_TIME = 10
_WAIT = timedelta(seconds=5)
_WAIT_BESIDE = timedelta(seconds=1)
"""While plans of earlier triggers are being begun."""
_AFTER_TROUBLE_SECONDS = 5.0
_LONGEST_TROUBLE = 500
_MOST_REMEMBERED = 1_000


@dataclass(slots=True, eq=False)
class _Begun:
    """A trigger whose run is not in the ledger yet. ``delivery`` is held until ``until``."""

    delivery: Delivery
    job: Job
    until: datetime


class TriggerQueue:
    """Takes triggers from *transport* and begins what they ask for, until *stopping*.

    *system* is asked which slot is meant; *wait* waits so many seconds, or until stopping. What
    became of triggers is counted in its ledger.
    """

    def __init__(
        self,
        transport: Transport,
        triggers: Triggers,
        system: System,
        stopping: Callable[[], bool],
        wait: Callable[[float], object],
    ) -> None:
        self._transport = transport
        self._triggers = triggers
        self._system = system
        self._stopping = stopping
        self._wait = wait
        self._begun: list[_Begun] = []
        self._told: set[str] = set()
        self._counts: Counter[Fate] = Counter()

    def run(self) -> None:
        """Take and answer until told to stop; then give back what is not begun."""
        while not self._stopping():
            try:
                self.turn()
            except TransportFailed as failed:
                log.warning("triggers: %s", failed)
                self._wait(_AFTER_TROUBLE_SECONDS)
        with suppress(TransportFailed):  # their leases end by themselves
            self._transport.release([one.delivery for one in self._begun])
        self._begun.clear()

    def turn(self, wait: timedelta | None = None) -> None:
        """Take what is there, waiting a while for it, and ack what has been begun.

        Raises TransportFailed.
        """
        patience = _WAIT_BESIDE if self._begun else _WAIT
        found = self._transport.receive(_AT_A_TIME, _LEASE, patience if wait is None else wait)
        until = self._system.clock.now() + _LEASE
        done = [one for one in found if self._taken(one, until)]
        self._transport.ack([*done, *self._settled()])
        self._write_counts()
        self._keep()

    @property
    def busy(self) -> bool:
        """Whether runs of triggers are being begun right now."""
        return bool(self._begun)

    def _taken(self, delivery: Delivery, until: datetime) -> bool:
        """Begin what *delivery* asks for. Whether it is done with already."""
        try:
            asked = read_trigger(delivery.body)
        except Unreadable as error:
            self._left(Fate.UNREADABLE, delivery, f"it cannot be read: {error}")
            return False
        try:
            jobs = self._triggers.begin(
                asked.policy, self._slot(asked), _who(asked), Trigger.SCHEDULE
            )
        except Paused as paused:  # whose slot is missed, for that reason
            self._counts[Fate.PAUSED] += 1
            log.info("triggers: %s", paused)
            return True
        except UnknownPolicy as error:
            self._left(Fate.UNKNOWN_POLICY, delivery, str(error.args[0]))
            return False
        except SlotRefused as error:
            self._left(Fate.REFUSED, delivery, str(error))
            return False
        except LedgerError as error:
            self._counts[Fate.FAILED] += 1
            log.warning("triggers: policies.%s: %s", asked.policy, error)
            return False
        self._begun += [_Begun(delivery, job, until) for job in jobs]
        return False

    def _slot(self, asked: Triggered) -> datetime | None:
        """The slot that a trigger at the time it was scheduled for means.

        That time need not be a slot: clocks and schedules differ, as do the rules for an hour that
        comes twice. Raises UnknownPolicy, SlotRefused and LedgerError.
        """
        if asked.at is None:
            return None
        system = self._system
        policy, early = system.policy(asked.policy), system.settings.schedule.early_tolerance
        now = system.clock.now()
        if asked.at > now + early:
            raise SlotRefused(
                f"policies.{policy.name}: a trigger for {when(asked.at)} came at {when(now)}; "
                "compare the clocks"
            )
        return choose_slot(
            policy, None, system.calendar, system.plans, asked.at, Trigger.SCHEDULE, early
        )

    def _settled(self) -> list[Delivery]:
        """Deliveries of runs that are in the ledger by now."""
        done, still = [], []
        for one in self._begun:
            try:
                self._triggers.answer(one.job)
            except NotBegun:
                still.append(one)
            except Exception as error:  # noqa: BLE001  (whatever planning it raised)
                if self._is_in_ledger(one.job):
                    done.append(one.delivery)  # whose plan any process goes on with
                else:
                    self._failed(one.job, error)
            else:
                done.append(one.delivery)
        self._begun = still
        self._counts[Fate.BEGUN] += len(done)
        return done

    def _failed(self, job: Job, error: Exception) -> None:
        self._counts[Fate.FAILED] += 1
        trouble = str(error) or type(error).__name__
        log.error("triggers: policies.%s: slot %s: %s", job.policy.name, when(job.slot), trouble)
        with suppress(LedgerError):  # which may be the trouble itself
            slots = self._system.schedule.slots
            slots.failed(job.policy.name, job.slot, trouble[:_LONGEST_TROUBLE])

    def _is_in_ledger(self, job: Job) -> bool:
        try:
            self._system.records.run(job.run_id)
        except LedgerError:
            return False
        return True

    def _keep(self) -> None:
        """Hold on to what is being begun; what was lost meanwhile comes again, to the same run."""
        now = self._system.clock.now()
        short = [one for one in self._begun if one.until - now < _LEASE / 2]
        if short:
            self._transport.extend([one.delivery for one in short], _LEASE)
            for one in short:
                one.until = now + _LEASE

    def _write_counts(self) -> None:
        if self._counts.total():
            with suppress(LedgerError):  # the next look writes them
                self._system.measuring.count_triggers(+self._counts)
                self._counts.clear()

    def _left(self, why: Fate, delivery: Delivery, told: str) -> None:
        """Leave *delivery* alone, and say so once."""
        self._counts[why] += 1
        name = sha256(delivery.body).hexdigest()
        if name in self._told:
            return
        if len(self._told) >= _MOST_REMEMBERED:
            self._told.clear()
        self._told.add(name)
        log.error(
            "triggers: %s: a message (sha256 %s) is left to the queue's dead letters: %s",
            self._transport.name, name[:12], told,
        )  # fmt: skip


def _who(asked: Triggered) -> str:
    """Who began a run, for the record."""
    return asked.source.rpartition("/")[2] or "trigger queue"
