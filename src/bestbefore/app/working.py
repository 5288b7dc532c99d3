"""Workers: what they are given of one process's `System`, and what else sends commands on."""

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bestbefore.app.formats import row_format
from bestbefore.app.throttle import gate
from bestbefore.domain.report import Report
from bestbefore.ports.ledger import PolicyVersion, WorkLedger
from bestbefore.ports.objects import StoreError
from bestbefore.ports.queue import Queue
from bestbefore.stages.attempt import Attempts
from bestbefore.stages.carry import LONGEST_REST
from bestbefore.stages.deliver import Delivery
from bestbefore.stages.dispatch import MOST_OUT, dispatch
from bestbefore.stages.outlook import look_around
from bestbefore.stages.row_archive import RowArchiving
from bestbefore.stages.row_attempt import RowAttempts
from bestbefore.stages.throttle import Gate
from bestbefore.stages.work import Attempting, Handles, Options, Worker

if TYPE_CHECKING:
    from bestbefore.app.system import System

log = logging.getLogger(__name__)

_SPACE_AGAIN = timedelta(seconds=30)
"""How long a worker that nobody has to start again leaves a full disk alone."""

_CLIENT_AGAIN = timedelta(minutes=1)

_STEP_SECONDS = 0.5
_RECALL_EVERY = timedelta(seconds=30)
_SEND_EVERY_SECONDS = 1.0
_PROBES = 3
"""Operations of a sick connection that are sent, as any worker may get them."""


class Working:
    """The workers of one process."""

    def __init__(self, system: "System") -> None:
        self._system = system
        self._recalled_at: datetime | None = None
        self._numbers = itertools.count(1)

    def worker(
        self,
        options: Options,
        stopping: Callable[[], bool],
        on_progress: Callable[[Report], None] = lambda _: None,
        only: str | None = None,
        plan_on: Callable[[], bool] | None = None,
    ) -> Worker:
        """A worker for every policy of the configuration, or for *only* one."""
        system = self._system
        system.give_up_when(stopping)
        if not options.drain:
            system.database.wait_for_space(lambda: self._waited_for_space(stopping))
        return Worker(self._handles(options, stopping, on_progress, only, plan_on), options)

    def deliver(
        self, operation_id: bytes, policy: str, options: Options, stopping: Callable[[], bool]
    ) -> None:
        """Work on one operation of *policy* that another queue has pushed, if it is due and may be
        begun now, until what came of it is recorded."""
        system = self._system
        # Its message is with whoever pushed it, and so is what comes of that.
        delivery = Delivery(system.work, system.embedded, operation_id, system.clock)

        def over() -> bool:
            return delivery.over or stopping()

        handles = self._handles(options, over, lambda _: None, policy, lambda: False)
        alone = replace(
            handles,
            queue=delivery,
            publish=lambda _: 0,
            rest=delivery.rest,
            tidy=lambda: False,
        )
        Worker(alone, replace(options, concurrency=1)).run()

    def _handles(
        self,
        options: Options,
        stopping: Callable[[], bool],
        on_progress: Callable[[Report], None],
        only: str | None,
        plan_on: Callable[[], bool] | None,
    ) -> Handles:
        system = self._system
        policies = system.settings.policies
        carried = system.carried

        def plan_on_and_prove() -> bool:
            if not options.drain:  # who drains does it afterwards
                system.proving.beside(stopping)
            return system.plan_on(stopping)

        ledger: WorkLedger = system.work
        queue: Queue = system.queue
        if system.traced is not None:
            ledger, queue = system.traced.ledger(ledger), system.traced.queue(queue)

        def publish(versions: Sequence[PolicyVersion]) -> int:
            return self._dispatch(queue, versions)

        def probe(versions: Sequence[PolicyVersion]) -> int:
            if carried is None:
                return self._dispatch(queue, versions)
            carried.doubt([version.row for version in versions], _PROBES, system.clock.now())
            return self._dispatch(queue, versions, _PROBES)

        def rest(seconds: float) -> None:
            system.database.rest(seconds, system.clock.sleep)

        return Handles(
            ledger=ledger,
            controls=system.controls,
            queue=queue,
            sources=(sources := _Attempts(system)),
            lacking=sources.lacking,
            gate=self._gate(options.lease, options.concurrency),
            policies=policies,
            clock=system.clock,
            spread=system.spread,
            by=system.worker_name,
            publish=publish,
            plan_on=plan_on or plan_on_and_prove,
            stopping=stopping,
            rest=rest if carried is None else carried.rest,
            longest_rest=system.database.longest_rest if carried is None else LONGEST_REST,
            on_progress=on_progress,
            tidy=system.upkeep.piece,
            only=only,
            probe=probe,
            cut_off=lambda: carried is not None and carried.given_up,
            threads=system.threads,
        )

    def _dispatch(
        self, queue: Queue, versions: Sequence[PolicyVersion], most: int = MOST_OUT
    ) -> int:
        """Publish for *versions*, by the priorities of this file."""
        system = self._system
        now, carried = system.clock.now(), system.carried
        if carried is None:
            self._recall(now)
        return dispatch(
            system.work,
            queue,
            versions,
            {name: policy.priority for name, policy in system.settings.policies.items()},
            now,
            system.settings.queue.lease,
            None if carried is None else carried.resend,
            most,
        )

    def _recall(self, now: datetime) -> None:
        """Take what was sent to a broker back, now and then: another file may still name one."""
        if self._recalled_at is None or now - self._recalled_at >= _RECALL_EVERY:
            self._recalled_at = now
            self._system.outbox.recall(now)

    def send(self, stopping: Callable[[], bool]) -> None:
        """Send what is released or due, until *stopping*: for a process that does not work."""
        system = self._system
        shut = self._gate(system.settings.queue.lease, 1).shut
        while not stopping():
            now = system.clock.now()
            outlook = look_around(
                system.work,
                system.controls,
                system.settings.policies,
                now,
                shut=shut,
            )
            if not self._dispatch(system.queue, outlook.workable + outlook.superseded):
                system.database.rest(_SEND_EVERY_SECONDS, system.clock.sleep)

    def _gate(self, lease: timedelta, threads: int) -> Gate:
        system = self._system
        # Several in one process have shares of their own.
        holder = f"{system.worker_name}:{next(self._numbers)}"
        return gate(
            system.throttles,
            system.settings.databases,
            system.clock,
            holder,
            lease,
            threads,
        )

    def _waited_for_space(self, stopping: Callable[[], bool]) -> bool:
        """Let the time pass until a full disk may be tried again; False once told to stop."""
        system = self._system
        until = system.clock.now() + _SPACE_AGAIN
        while system.clock.now() < until and not stopping():
            system.clock.sleep(_STEP_SECONDS)
        return not stopping()


class _Attempts(Mapping[str, Attempting]):
    """Attempts by the name of a store or database, connected on first use."""

    def __init__(self, system: "System") -> None:
        self._system = system
        self._made: dict[str, Attempting] = {}
        self._again_at: dict[str, datetime] = {}

    def lacking(self, name: str) -> bool:
        """Whether this process cannot even make a client for *name*, for now. Others may be able
        to, so that it is no failure of its commands, and no reason for a breaker."""
        now = self._system.clock.now()
        if name not in self._made and now >= self._again_at.get(name, now):
            try:
                _ = self[name]
                self._again_at.pop(name, None)
            except StoreError as error:
                log.warning("this process leaves the commands of %s to others: %s", name, error)
                self._again_at[name] = now + _CLIENT_AGAIN
        return name in self._again_at

    def __getitem__(self, name: str) -> Attempting:
        if name not in self._made:
            made = self._make(name)
            traced = self._system.traced
            self._made[name] = made if traced is None else traced.attempts(made)
        return self._made[name]

    def _make(self, name: str) -> Attempting:
        system = self._system
        if name in system.settings.databases:
            tables = system.tables(name)
            attempts = RowAttempts(
                tables.reader, tables.deleter, system.work, system.clock, system.worker_name,
                system.held, governed=system.governed,
            )  # fmt: skip
            if tables.filer is None:
                return attempts
            archiving = RowArchiving(
                tables.filer, system.work, system.clock, system.worker_name, system.files,
                row_format,
            )  # fmt: skip
            return replace(attempts, file=archiving.make)
        store = system.store(name)
        return Attempts(
            store.lister, store.deleter, system.work, system.clock, system.depot, system.held
        )

    def __iter__(self) -> Iterator[str]:
        return iter([*self._system.settings.stores, *self._system.settings.databases])

    def __len__(self) -> int:
        return len(list(iter(self)))
