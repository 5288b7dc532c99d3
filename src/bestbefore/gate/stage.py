"""What one scenario acts on: its ground, its own ledger, and the product's own stages."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from bestbefore.app.push import Pushed, push
from bestbefore.app.system import System
from bestbefore.domain.policy import Policy, Reach
from bestbefore.domain.report import Report
from bestbefore.domain.run import Run, Trigger
from bestbefore.gate.children import Instant, killed_at
from bestbefore.gate.grounds import OBJECT_AGE, ROW_AGE, ObjectGround, RowGround
from bestbefore.gate.rights import Rights as Rights
from bestbefore.gate.scenario import Broken, Evidence, NotApplicable
from bestbefore.gate.setup import Setup, ShiftedClock
from bestbefore.gate.stalls import stalled_worker
from bestbefore.ports.records import OperationFilter, OperationRecord
from bestbefore.ports.transport import Broker, Message
from bestbefore.read.operations import command_of
from bestbefore.stages.work import Options

POLICY = "bestbefore-gate"
VERSION = "v1"
SHORT_LEASE = timedelta(seconds=3)
"""Of what a process holds that is killed: all that anybody has to wait for."""

_LONGEST_SECONDS = 60.0
"""For work of a few seconds: what takes longer does not come to its end."""

_RETURNING_SECONDS = 4.0
"""After a lease until the slowest broker gives out what was held: BullMQ looks every two."""

_LONGEST_RETRY = timedelta(seconds=4)
"""Until the third attempt: the second one's wait, with all its jitter."""


@dataclass(slots=True)
class Stage:
    """One scenario's world. ``ground`` is where it plays; ``evidence`` what it has to say.

    ``rights`` are the operator's means to take a right away and give it back, if there are any.
    ``stopping`` says that nobody waits for the end any more.
    """

    setup: Setup
    ground: ObjectGround | RowGround
    evidence: Evidence
    clock: ShiftedClock
    rights: Rights | None = None
    stopping: Callable[[], bool] = lambda: False
    held_until: float = 0.0
    """When the broker has back what processes have that never acked it (monotonic seconds)."""
    _open: list[System] = field(default_factory=list)
    _afterwards: ExitStack = field(default_factory=ExitStack)

    # -- the ground --------------------------------------------------------------------------

    @property
    def objects(self) -> ObjectGround:
        """The bucket; only where the scenario asked for one."""
        if isinstance(self.ground, ObjectGround):
            return self.ground
        raise TypeError(f"{self.ground.place} is a table")

    @property
    def rows(self) -> RowGround:
        """The table; only where the scenario asked for one."""
        if isinstance(self.ground, RowGround):
            return self.ground
        raise TypeError(f"{self.ground.place} is in a bucket")

    def fill(self, number: int, start: int = 0) -> None:
        """Put *number* things there that are old enough to go: objects, or tens of rows, so that
        there are so many commands. More of them *start* behind the last."""
        if isinstance(self.ground, ObjectGround):
            self.ground.ready(f"old/{n:04}.json" for n in range(start, start + number))
            self.ground.ripen()
        else:
            self.ground.fill(old=10 * number, start=10 * start + 1)

    def left(self) -> int:
        """How many commands' worth of that is still there."""
        if isinstance(self.ground, ObjectGround):
            return len(self.ground.due("old/"))
        return len([row for row in self.ground.table.rows() if row.note == "old"]) // 10

    # -- policies ----------------------------------------------------------------------------

    def policy(self, version: str = VERSION, reach: Reach | None = None, **source: Any) -> Policy:
        """The scratch policy over this ground, and from now on the only one.

        *source* are fields of its `ObjectSource` or `RowSource` that differ.
        """
        ground = self.ground
        about = ground.source()
        policy = Policy(
            POLICY,
            version,
            "bestbefore gate",
            OBJECT_AGE if isinstance(ground, ObjectGround) else ROW_AGE,
            replace(about, **source),
            reach=reach or Reach(),
        )
        self.adopt(policy)
        return policy

    def adopt(self, *policies: Policy) -> None:
        """Have exactly *policies* in the scratch configuration; processes open already keep
        theirs."""
        self.setup = replace(self.setup, policies={policy.name: policy for policy in policies})

    # -- processes ---------------------------------------------------------------------------

    def open(self, **around: Any) -> System:
        """Another process's view, in this process; closed at the end. *around*: `Setup.open`.

        It has the policies that there are now, so choose one first.
        """
        if not self.setup.policies:
            raise TypeError("a process without a policy does nothing")
        system = self.setup.open(clock=self.clock, **around)
        self._open.append(system)
        return system

    def close(self) -> None:
        """Close whatever was opened, and give back what was taken away."""
        with self._afterwards:
            while self._open:
                self._open.pop().close()

    @contextmanager
    def short_lease(self) -> Iterator[None]:
        """What is claimed within is anybody's again after `SHORT_LEASE`."""
        before = self.setup
        self.setup = replace(before, lease=SHORT_LEASE)
        try:
            yield
        finally:
            self.setup = replace(self.setup, lease=before.lease)

    @contextmanager
    def later(self, by: timedelta) -> Iterator[None]:
        """Have it be later by so much, for who publishes: who plans or deletes would refuse a clock
        that is not the store's."""
        self.clock.jump(by)
        try:
            yield
        finally:
            self.clock.jump(-by)

    def means(self) -> Rights:
        """The operator's means to deny a delete there: commands, or just one name. Raises
        NotApplicable without any."""
        rights, settings = self.rights or Rights(), self.setup.settings
        kind = "store" if isinstance(self.ground, ObjectGround) else "database"
        every = settings.stores if kind == "store" else settings.databases
        here = every[self.ground.name].place
        fit = [name for name in rights.denied if name in every and every[name].place == here]
        if fit:
            return Rights(denied=(fit[0],))
        if rights.revoke is None or rights.grant is None:
            raise NotApplicable(
                "nothing was given to take the right to delete away with: give --revoke-command "
                f"and --grant-command, or --denied, a {kind} of the configuration at the same "
                "place whose credentials may not delete"
            )
        return rights

    @contextmanager
    def deprived(self) -> Iterator[System]:
        """A process that may not delete there, as long as this lasts. Raises as `means` does.

        Where what is done within fails, the right is given back when the scenario is closed.
        """
        rights, known = self.means(), self.setup
        # First, as whoever interrupts this does so at any instruction.
        self._afterwards.callback(rights.give_back, self.ground)
        rights.take(self.ground)
        self.setup = replace(known, denied=next(iter(rights.denied), None))
        system = self.open()
        self.setup = known
        yield system
        rights.give_back(self.ground)
        self._afterwards.pop_all()

    def killed(self, instant: Instant) -> None:
        """Have a worker process take commands, and die at *instant* by SIGKILL."""
        self.evidence.note(f"a worker was killed (SIGKILL) {instant}")
        killed_at(replace(self.setup, ahead=self.clock.ahead), instant)
        self._holds()

    @contextmanager
    def stalled(self) -> Iterator[Callable[[], Report]]:
        """Have a worker process take commands, and stand still before its first effect as long as
        this lasts. What is yielded wakes it, and returns what it did then."""
        with stalled_worker(replace(self.setup, ahead=self.clock.ahead)) as wake:
            self.evidence.note("a worker was stopped (SIGSTOP) right before its first effect")
            self._holds()
            yield wake

    def _holds(self) -> None:
        """A process has messages in hand that it will not ack."""
        self.held_until = time.monotonic() + self.setup.lease.total_seconds() + _RETURNING_SECONDS

    # -- the product's own stages --------------------------------------------------------------

    def plan(self, system: System, policy: Policy, slot: datetime | None = None, *,
             approved: bool = True) -> Run:  # fmt: skip
        """Plan *slot*, this second if none is given."""
        slot = slot or self.clock.now().replace(microsecond=0)
        planner = system.planner(policy)
        return planner.plan(policy, slot, Trigger.PLAN, approved=approved).run

    def work(self, system: System, concurrency: int = 4, *,
             until: Callable[[Report], bool] = lambda _: False) -> Report:  # fmt: skip
        """Dispatch, consume, wait for what others hold, until nothing can be done any more.

        *until* hears after every step what was done so far, and says whether to stop. Raises
        Broken where it comes to no end.
        """
        over = late = False
        last = _longest()

        def step(report: Report) -> None:
            nonlocal over, late
            late = time.monotonic() > last
            over = over or late or until(report)

        options = Options(self.setup.lease, concurrency, drain=True)
        report = system.working.worker(options, lambda: over or self.stopping(), step).run()
        if late:
            raise Broken(
                f"a worker was to do all there is to do, and did not end within "
                f"{_LONGEST_SECONDS:.0f} s: {report.completed:,} completed, {report.dead:,} dead"
            )
        return report

    def hurrying(self, by: timedelta = _LONGEST_RETRY) -> Callable[[Report], bool]:
        """For `work`: whenever something is to be tried again, jump *by*, so that nobody waits."""
        seen = 0

        def step(report: Report) -> bool:
            nonlocal seen
            if report.retried.total() > seen:
                seen = report.retried.total()
                self.clock.jump(by)
            return False

        return step

    def serve(self, system: System, until: Callable[[Report], bool]) -> Report:
        """Work as a worker does that goes on when there is nothing to do, until *until* says so of
        what it did so far. Raises Broken where that never is so."""
        ends, over = _longest(), False

        def step(report: Report) -> None:
            nonlocal over
            over = until(report)

        def stopping() -> bool:
            return over or self.stopping() or time.monotonic() > ends

        report = system.working.worker(Options(self.setup.lease, 4), stopping, step).run()
        if not over:
            raise Broken(f"after {_LONGEST_SECONDS:.0f} s of work not all was done or acked")
        return report

    def send(self, system: System) -> None:
        """Publish what is planned or due, and work on none of it."""
        rounds = iter([False])
        system.working.send(lambda: next(rounds, True))

    def carrier(self, system: System) -> Broker:
        """Who carries the commands. Raises NotApplicable where the state database is the queue."""
        if system.broker is None:
            raise NotApplicable(
                "the state database is the queue: an operation is its own message, and recording "
                "what came of it is the ack"
            )
        return system.broker

    def republished(self, system: System, run: Run) -> int:
        """How many messages were published again, as the run has it on record."""
        now = system.records.run(run.run_id)
        return sum(tally.n for tally in system.records.tallies(now, "republished").values())

    def operations(self, system: System, run: Run | None = None) -> Sequence[OperationRecord]:
        """The ledger's records of all commands, or of those of *run*."""
        which = OperationFilter(run_id=None if run is None else run.run_id)
        return list(system.records.operations(which, 100_000))

    def outcomes(self, system: System, run: Run | None = None) -> Mapping[str, int]:
        """How many operations ended how; those that did not, by their state."""
        counts: dict[str, int] = {}
        for operation in self.operations(system, run):
            word = str(operation.outcome or operation.state)
            counts[word] = counts.get(word, 0) + 1
        return counts

    def deliver(self, system: System, operation: OperationRecord) -> Pushed | None:
        """Deliver the command of *operation* once more: into the queue, or, where the state
        database is the queue, as a push, which is worked on at once."""
        command = command_of(operation)
        if system.broker is not None:
            message = Message(command.operation_id, command.encode())
            failures = [f for f in system.broker.transport.publish([message]) if f is not None]
            if failures:
                raise NotApplicable(f"the queue took no second copy: {failures[0].error}")
            return None
        return push(system, command, Options(self.setup.lease, 1), self.stopping)

    def reconciles(self, system: System, run: Run) -> None:
        """P11, for *run* as it is now."""
        now = system.records.run(run.run_id)
        states = ("waiting", "pending", "completed", "dead")
        told = " + ".join(f"{getattr(now, state)} {state}" for state in states)
        total = sum(getattr(now, state) for state in states)
        self.evidence.expect(f"counts of the run reconcile ({told})", total, now.planned)


def _longest() -> float:
    return time.monotonic() + _LONGEST_SECONDS
