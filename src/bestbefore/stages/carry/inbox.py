"""From the broker to the ledger: received messages, until somebody asks for them and claims."""

import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from bestbefore.domain.message import Command, Unreadable, identified
from bestbefore.domain.probe import is_probe
from bestbefore.ports.clock import Clock
from bestbefore.ports.ledger import LedgerError, Operation
from bestbefore.ports.outbox import Outbox, Standing
from bestbefore.ports.strays import Stray
from bestbefore.ports.transport import Delivery
from bestbefore.stages.carry.line import Line

log = logging.getLogger(__name__)

_SLICE = 1_000
_MOST = 2_000
_LONGEST_GATHERING = timedelta(seconds=1)
"""What is in hand has leases that want to be extended."""
_DRY = timedelta(milliseconds=50)
"""How long an empty answer counts for every policy."""
_NO_WAIT = timedelta(0)
_ACK_TAKES = timedelta(seconds=5)


class Absorbing(Protocol):
    """Of `bestbefore.ports.strays.Strays`, what keeps them."""

    def absorb(self, strays: Sequence[Stray], now: datetime) -> None:
        """See there."""
        ...


class _Waiting(NamedTuple):
    operation_id: bytes
    delivery: Delivery
    at: datetime


class Taken(NamedTuple):
    """Claimed operations, each with its message."""

    operations: Sequence[Operation]
    deliveries: Sequence[Delivery]


class Inbox:
    """Messages that this process has received on *line* and nobody has claimed yet, by policy."""

    def __init__(self, outbox: Outbox, line: Line, strays: Absorbing, clock: Clock) -> None:
        self._outbox = outbox
        self._line = line
        self._strays = strays
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[int, deque[_Waiting]] = {}
        self._dry_at: datetime | None = None
        self.newest: datetime | None = None
        """When the newest of all messages so far was sent."""
        self.empty_since: datetime | None = None
        """Since when the broker had nothing whenever it was asked."""

    @property
    def room(self) -> int:
        """How many more messages may be here."""
        with self._lock:
            return _MOST - sum(map(len, self._waiting.values()))

    def take(self, policy: int, limit: int, now: datetime, lease: timedelta) -> Taken:
        """Claim up to *limit* operations of *policy*: what is here, and what the broker has right
        now."""
        until = self._clock.now() + _LONGEST_GATHERING
        while True:
            gathered = self._gather(policy, min(limit, _MOST), until)
            taken = self._claim(gathered, now, lease)
            # What came was claimed by others, or done: there may be more behind it.
            if taken.operations or not gathered or self._clock.now() >= until:
                return taken

    def fetch(self, limit: int, wait: timedelta = _NO_WAIT) -> bool:
        """Receive up to *limit* messages. Returns whether there were any."""
        if not self._line.may_receive or (not wait and self._is_dry()):
            return False
        deliveries = self._line.receive(limit, wait)
        now = self._clock.now()
        with self._lock:
            if deliveries:
                self.empty_since = None
            elif deliveries is None:
                self.empty_since = None  # nobody knows
            else:
                self.empty_since = self.empty_since or now
                self._dry_at = now
        if not deliveries:
            return False
        self._sort(deliveries, now)
        return True

    def look_again(self) -> None:
        """Something was published: what the broker had before does not count any more."""
        self._dry_at = None

    def _is_dry(self) -> bool:
        since = self._dry_at
        return since is not None and timedelta(0) <= self._clock.now() - since < _DRY

    def hand_back(self) -> None:
        """What nobody has asked for in time is the ledger's again: its policy is paused, behind a
        breaker, or not in this process's file."""
        before = self._clock.now() - self._line.lease / 3
        with self._lock:
            stale = [
                some.popleft()
                for some in self._waiting.values()
                for _ in range(sum(one.at <= before for one in some))
            ]
        if stale:
            with self._released_if_it_fails([one.delivery for one in stale]):
                # Published before its ack arrives, it might be gone with that.
                after = _ACK_TAKES if self._line.deduplicates else timedelta(0)
                due_at = self._clock.now() + after
                self._outbox.hand_back([one.operation_id for one in stale], due_at)
            self._line.ack([one.delivery for one in stale])

    def give_back(self) -> None:
        """Let others have at once what is here."""
        with self._lock:
            deliveries = [one.delivery for some in self._waiting.values() for one in some]
            self._waiting.clear()
        self._line.release(deliveries)

    def _gather(self, policy: int, limit: int, until: datetime) -> list[_Waiting]:
        while True:
            room = self.room
            with self._lock:
                here = self._waiting.get(policy, deque())
                lacking = min(limit - len(here), room, _SLICE)
            if lacking <= 0 or not self.fetch(lacking) or self._clock.now() >= until:
                break
        with self._lock:
            here = self._waiting.get(policy, deque())
            return [here.popleft() for _ in range(min(limit, len(here)))]

    def _claim(self, gathered: Sequence[_Waiting], now: datetime, lease: timedelta) -> Taken:
        """Claim in the ledger, and be done with messages that it has no need of."""
        if not gathered:
            return Taken([], [])
        first = {one.operation_id: one.delivery for one in reversed(gathered)}
        with self._released_if_it_fails([one.delivery for one in gathered]):
            operations, rest, sent_at = self._outbox.claim(list(first), now, lease)
            unknown = [id_ for id_, standing in rest.items() if standing is Standing.UNKNOWN]
            self._absorb([Stray.unknown(first[id_].body, id_) for id_ in unknown])
        if sent_at is not None:
            with self._lock:
                self.newest = max(sent_at, self.newest or sent_at)
        deliveries = [first[operation.operation_id] for operation in operations]
        kept = set(map(id, deliveries))
        self._line.ack([one.delivery for one in gathered if id(one.delivery) not in kept])
        return Taken(operations, deliveries)

    def _sort(self, deliveries: Sequence[Delivery], now: datetime) -> None:
        """Put messages where their policy's are asked for, and strays where a person looks."""
        done: list[Delivery] = []
        strays: list[Stray] = []
        commands: list[tuple[Delivery, bytes, Command]] = []
        for delivery in deliveries:
            try:
                commands.append((delivery, *identified(delivery.body)))
            except Unreadable as error:
                done.append(delivery)
                if not is_probe(delivery.body):
                    strays.append(Stray.of(delivery.body, str(error)))
        with self._released_if_it_fails(deliveries):
            known = self._outbox.policies({(c.policy, c.policy_version) for *_, c in commands})
            waiting: list[tuple[int, _Waiting]] = []
            for delivery, id_, command in commands:
                policy = known.get((command.policy, command.policy_version))
                if policy is None:
                    done.append(delivery)
                    strays.append(Stray.unknown(delivery.body, id_))
                else:
                    waiting.append((policy, _Waiting(id_, delivery, now)))
            self._absorb(strays)
        with self._lock:
            for policy, one in waiting:
                self._waiting.setdefault(policy, deque()).append(one)
        self._line.ack(done)

    def _absorb(self, strays: Sequence[Stray]) -> None:
        if strays:
            self._strays.absorb(strays, self._clock.now())
            log.warning(
                "%s: %d messages execute nothing and are kept as dead letters: %s",
                self._line.name, len(strays), strays[0].error,
            )  # fmt: skip

    @contextmanager
    def _released_if_it_fails(self, deliveries: Sequence[Delivery]) -> Iterator[None]:
        """Keep no message from others that this process cannot ask its ledger about."""
        try:
            yield
        except LedgerError:
            self._line.release(deliveries)
            raise
