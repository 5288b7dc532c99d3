"""The worker: take what is due, have threads attempt it in batches, record what came of it.

One loop owns the ledger and the queue; threads talk to stores, and of the ledger write only what
they copied. Whatever kills the process, a claim's lease runs out and the operation is delivered
again.
"""

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from bestbefore.domain.failure import Failure, FailureClass, GiveUp, TryAgain, decide
from bestbefore.domain.health import Health
from bestbefore.domain.outcome import Outcome, Spared
from bestbefore.domain.pace import Pace
from bestbefore.domain.policy import Policy
from bestbefore.domain.report import Report
from bestbefore.domain.rows import Effect
from bestbefore.domain.versions import Versions
from bestbefore.ports.clock import Clock
from bestbefore.ports.controls import Controls
from bestbefore.ports.ledger import (
    Completed,
    Died,
    Operation,
    Parts,
    PolicyVersion,
    Retried,
    Settlement,
    Split,
    WorkLedger,
)
from bestbefore.ports.queue import Queue
from bestbefore.ports.threads import Threads
from bestbefore.stages.door import Room
from bestbefore.stages.outlook import Outlook, left_over, look_around
from bestbefore.stages.throttle import Gate

log = logging.getLogger(__name__)

MOST_DELIVERIES = 3
"""Deliveries without a result before an operation is dead: it crashes workers."""

_LONGEST_HOLD = timedelta(minutes=15)
_SLOWEST_COPY = 5_000_000
"""Bytes a second: what an archiving batch may take longer for."""
_MOST_COPIES = 64
"""Per batch: each is two requests of its own, and a stop or a pause waits for the batch."""
_LONGEST_CHAIN = timedelta(seconds=0.5)
"""For how long a thread goes on with one row batch after the other before others may have it."""
_LOOK_FOR_SUSPECTS_EVERY = timedelta(seconds=5)
_IDLE_SECONDS = 0.25
_FIRST_IDLE_SECONDS = 0.02
_MOMENT_SECONDS = 0.5
"""A wait in which there is no time to do anything else."""
_MOST_PLAN_FAILURES = 3
_MOST_SUSPECTS = 1_000


Result = Outcome | Spared | Effect | Parts | Failure


class Attempting(Protocol):
    """What a worker's threads do with the operations of one store or database."""

    def make(self, policy: Policy, operations: Sequence[Operation]) -> Iterable[Result]:
        """One result per operation, in their order; of row batches each when it is asked for, and
        not begun before.

        Objects are of one run, and distinct by key and version. What fails is a result; raises
        LedgerError where the ledger cannot be read: that is no failure of any target.
        """
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """How a worker works. ``grace`` bounds how long a stop waits for batches in hand."""

    lease: timedelta = timedelta(seconds=60)
    concurrency: int = 32
    drain: bool = False
    grace: timedelta = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Handles:
    """Everything a worker uses that is not its own.

    ``rest`` passes so many seconds on the clock, or less where it hears that there may be something
    to do; ``longest_rest`` is how long that may be. ``gate`` says how much of a database may be had
    right now. ``publish`` dispatches for the policy versions it is given; ``plan_on`` continues
    plans that nobody works on and raises if it cannot; ``stopping`` says that the process shall
    end. ``tidy`` does a few seconds' worth of what can wait until there is nothing else to do, and
    returns whether there was any. ``only`` narrows everything to one policy. ``probe`` publishes
    just enough for one to be tried, and ``cut_off`` says that the queue is out of reach, for longer
    than a drain waits.
    """

    ledger: WorkLedger
    controls: Controls
    queue: Queue
    sources: Mapping[str, Attempting]
    gate: Gate
    policies: Mapping[str, Policy]
    clock: Clock
    spread: Callable[[], float]
    by: str
    publish: Callable[[Sequence[PolicyVersion]], int]
    plan_on: Callable[[], bool]
    stopping: Callable[[], bool]
    rest: Callable[[float], None]
    longest_rest: float
    on_progress: Callable[[Report], None] = lambda _: None
    tidy: Callable[[], bool] = lambda: False
    only: str | None = None
    probe: Callable[[Sequence[PolicyVersion]], int] | None = None
    cut_off: Callable[[], bool] = lambda: False
    lacking: Callable[[str], bool] = lambda _: False
    threads: Threads = ThreadPoolExecutor


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    version: PolicyVersion
    policy: Policy
    operations: Sequence[Operation]
    taken_at: datetime
    probe: bool = False
    halt: threading.Event = field(default_factory=threading.Event)


class Worker:
    """Works until told to stop, or, draining, until nothing is left that could be done."""

    def __init__(self, handles: Handles, options: Options) -> None:
        self._h = handles
        self._options = options
        self._report = Report()
        self._out: dict[Future[list[Result | None]], _Batch] = {}
        self._settled: list[Settlement] = []  # and still to be recorded
        self._paces: dict[tuple[str, str], Pace] = {}
        self._health: dict[str, Health] = {}
        self._hiding: set[int] = set()  # policies whose deletes free nothing
        self._starved = True
        self._idle_seconds = _FIRST_IDLE_SECONDS
        # A drain waits for what is dated, of which nobody tells it.
        self._longest_rest = _IDLE_SECONDS if options.drain else handles.longest_rest
        self._extended_at = handles.clock.now()
        self._suspects_at = handles.clock.now()
        self._planning: Future[bool] | None = None
        self._plan_failures = 0
        self._plan_again_at = handles.clock.now()
        self._turn = 0  # whose it is to be served first
        self._wait = math.inf  # seconds until a gate may open

    def run(self) -> Report:
        """Work. Returns what was done; ``left`` says what a drain could not do."""
        pool = self._h.threads(self._options.concurrency, "work")
        planner = self._h.threads(1, "plan-on")
        try:
            while not self._h.stopping():
                outlook = look_around(
                    self._h.ledger,
                    self._h.controls,
                    self._h.policies,
                    self._h.clock.now(),
                    self._h.only,
                    self._h.gate.shut,
                    self._h.lacking,
                )
                self._wait = math.inf
                self._halt(outlook)
                self._plan_on(planner)
                moved = self._publish(outlook)
                moved += self._drop_superseded(outlook)
                moved += self._take(pool, outlook)
                self._reap(min(_IDLE_SECONDS, self._wait))
                self._h.gate.keep(self._out_by_database(), self._h.clock.now())
                self._h.on_progress(self._report)
                if moved or self._out or self._settled:
                    self._idle_seconds = _FIRST_IDLE_SECONDS
                else:
                    left = self._left(outlook) if self._options.drain else None
                    if left is not None:
                        self._report.left = left
                        break
                    self._suspects_at = self._h.clock.now()
                    if self._wait <= _MOMENT_SECONDS or not self._h.tidy():
                        self._h.rest(min(self._idle_seconds, self._wait))
                        self._idle_seconds = min(self._longest_rest, 2 * self._idle_seconds)
            else:
                self._report.stopped = True
        finally:
            self._finish()
            for executor in (pool, planner):
                executor.shutdown(wait=False, cancel_futures=True)
        return self._report

    def _publish(self, outlook: Outlook) -> int:
        """Dispatch once the queue no longer yields all that could be taken."""
        versions = outlook.workable + outlook.superseded
        if not self._starved or not versions:
            return 0
        self._starved = False
        published = self._h.publish(versions)
        if published:
            self._h.gate.news()
        return published

    # -- taking ------------------------------------------------------------------------------

    def _take(self, pool: Executor, outlook: Outlook) -> int:
        """Claim what the pace allows and hand it to threads. Returns how many operations."""
        now = self._h.clock.now()
        if now >= self._suspects_at:
            if self._h.ledger.suspects([v.row for v in outlook.workable], now):
                # Suspects run alone, so what is out has to come back first, and be recorded.
                if self._out:
                    return 0
                self._record_settled()
                self._h.gate.news()
                if found := self._take_suspects(pool, outlook, now):
                    return found
            # None, or none that may be had now: those keep nobody else waiting.
            self._suspects_at = now + _LOOK_FOR_SUSPECTS_EVERY
        taken = 0
        for version in self._in_turn(outlook.workable):
            policy = self._h.policies[version.name]
            pace = self._pace(policy)
            room = self._room(policy, self._free(pace))
            if room.threads:
                taken += self._submit(pool, version, policy, room)
        return taken + sum(
            self._probe(pool, connection, versions)
            for connection, versions in outlook.probes.items()
        )

    def _in_turn(self, versions: Sequence[PolicyVersion]) -> Sequence[PolicyVersion]:
        """*versions*, another one first each time: few may be served at once, and each shall be."""
        if not versions:
            return versions
        self._turn = (self._turn + 1) % len(versions)
        return [*versions[self._turn :], *versions[: self._turn]]

    def _room(self, policy: Policy, wanted: int) -> Room:
        """How much of *policy* its gate lets through now, for at most *wanted* threads."""
        if not wanted:
            return Room(0, 0)
        out = self._out_by_database()[policy.connection]
        room = self._h.gate.room(policy, out, wanted, self._h.clock.now())
        self._wait = min(self._wait, room.wait)
        return room

    def _out_by_database(self) -> Counter[str]:
        """Row batches in hand, by their database."""
        batches = self._out.values()
        return Counter(b.policy.connection for b in batches if b.policy.about_rows)

    def _probe(self, pool: Executor, connection: str, versions: Sequence[PolicyVersion]) -> int:
        """Try one operation of a connection whose breaker is open, if the probe is ours."""
        now = self._h.clock.now()
        (self._h.probe or self._h.publish)(versions)
        self._bury_crashed(versions, now)
        for version in versions:
            policy = self._h.policies[version.name]
            found = self._one(version, now) if self._room(policy, 1).threads else []
            self._h.gate.took(policy, found, now)
            if not found:
                continue
            if not self._h.controls.claim_probe(connection, now):
                self._h.queue.release(found, now)
                return 0
            self._report.received += 1
            self._send(pool, _Batch(version, policy, found, now, probe=True))
            return 1
        return 0

    def _one(self, version: PolicyVersion, now: datetime) -> Sequence[Operation]:
        """Claim one operation, a suspect if there is no other; none where there is neither."""
        for suspects in (False, True):
            found = self._end_cancelled(
                self._h.queue.receive(version.row, 1, now, self._options.lease, suspects=suspects)
            )
            if found:
                return found
        return []

    def _submit(
        self,
        pool: Executor,
        version: PolicyVersion,
        policy: Policy,
        room: Room,
    ) -> int:
        now = self._h.clock.now()
        size = _most_at_once(policy, self._pace(policy))
        limit = room.batches if policy.about_rows else room.threads * size
        claimed = self._h.queue.receive(version.row, limit, now, self._options.lease)
        wanted = self._end_cancelled(claimed)
        self._h.gate.took(policy, wanted, now)
        parts = _shares(wanted, room.threads) if policy.about_rows else _batches(wanted, size)
        for operations in parts:
            self._send(pool, _Batch(version, policy, operations, now))
        self._report.received += len(claimed)
        self._starved |= len(claimed) < limit
        return len(claimed)

    def _send(self, pool: Executor, batch: _Batch) -> None:
        if batch.policy.versions is Versions.MARKER:
            self._hiding.add(batch.version.row)
        attempts = self._h.sources[batch.policy.connection]
        make = self._one_by_one if batch.policy.about_rows else _at_once
        self._out[pool.submit(make, attempts, batch)] = batch

    def _one_by_one(self, attempts: Attempting, batch: _Batch) -> list[Result | None]:
        """One result per row batch, in a thread; None for those that were not begun any more.

        Each is a transaction of its own. What comes after a failure, after a halt or after a
        moment is not begun, so that whatever stops the work does so within one batch.
        """
        results: list[Result | None] = []
        until = self._h.clock.now() + _LONGEST_CHAIN
        for result in attempts.make(batch.policy, batch.operations):
            results.append(result)
            failed = isinstance(result, Failure)
            if failed or batch.halt.is_set() or self._h.clock.now() >= until:
                break
        return results + [None] * (len(batch.operations) - len(results))

    def _halt(self, outlook: Outlook) -> None:
        """Have threads begin no more of what must not be begun now."""
        may = {version.row for version in outlook.workable}
        for batch in self._out.values():
            if batch.version.row not in may:
                batch.halt.set()

    def _take_suspects(self, pool: Executor, outlook: Outlook, now: datetime) -> int:
        """Give operations, whose last delivery ended without a result, a process to themselves."""
        self._bury_crashed(outlook.workable, now)
        for version in outlook.workable:
            policy = self._h.policies[version.name]
            # Each row batch is a transaction of its own, and so tells by itself.
            most = self._room(policy, 1).threads if policy.about_rows else _MOST_SUSPECTS
            if not most:
                continue
            found = self._h.queue.receive(
                version.row, most, now, self._options.lease, suspects=True
            )
            wanted = self._end_cancelled(found)
            self._h.gate.took(policy, wanted, now)
            if found:
                self._report.received += len(found)
                for operations in _batches(wanted, most):
                    self._send(pool, _Batch(version, policy, operations, now))
                return len(found)
        return 0

    def _bury_crashed(self, versions: Sequence[PolicyVersion], now: datetime) -> None:
        rows = [version.row for version in versions]
        self._report.dead += self._h.ledger.bury_crashed(rows, MOST_DELIVERIES, now)

    def _end_cancelled(self, claimed: Sequence[Operation]) -> Sequence[Operation]:
        """End what came back after its run was cancelled; returns the rest."""
        self._record([Completed(o, Outcome.CANCELLED) for o in claimed if o.cancelled])
        return [o for o in claimed if not o.cancelled]

    def _drop_superseded(self, outlook: Outlook) -> int:
        """End what was planned under a version that is no longer current."""
        dropped = 0
        for version in outlook.superseded:
            self._starved = True
            for suspects in (False, True):
                now = self._h.clock.now()
                claimed = self._h.queue.receive(
                    version.row, 1000, now, self._options.lease, suspects=suspects
                )
                self._record([Completed(o, Outcome.SUPERSEDED) for o in claimed])
                self._report.received += len(claimed)
                dropped += len(claimed)
        return dropped

    def _pace(self, policy: Policy) -> Pace:
        bucket = (policy.connection, policy.container)
        if bucket not in self._paces:
            self._paces[bucket] = Pace(most_requests=self._options.concurrency)
        return self._paces[bucket]

    def _free(self, pace: Pace) -> int:
        out = sum(self._pace(batch.policy) is pace for batch in self._out.values())
        room = self._options.concurrency - len(self._out)
        return min(room, pace.free(out, _seconds(self._h.clock.now())))

    # -- settling ----------------------------------------------------------------------------

    def _reap(self, timeout: float) -> None:
        """Record what threads achieved, and wait for more of it, at most *timeout* seconds.

        What ended well is recorded the next time: threads have other work by then, and need not
        wait for the ledger.
        """
        self._record_settled()
        if not self._out:
            return
        done, _ = wait(self._out, timeout, FIRST_COMPLETED)
        for future in done:
            batch = self._out.pop(future)
            self._settled += self._settle(*self._give_back(batch, future.result()))
        if not all(isinstance(settlement, Completed) for settlement in self._settled):
            self._record_settled()
        self._keep_claims()

    def _record_settled(self) -> None:
        settled, self._settled = self._settled, []
        self._record(settled)

    def _give_back(
        self, batch: _Batch, results: Sequence[Result | None]
    ) -> tuple[_Batch, list[Result]]:
        """Give back what was not begun; returns the rest."""
        begun = [result for result in results if result is not None]
        operations, rest = batch.operations[: len(begun)], batch.operations[len(begun) :]
        if rest:
            now = self._h.clock.now()
            self._h.queue.release(rest, now)
            self._h.gate.ended(batch.policy, rest, [], batch.taken_at, now)
            self._report.received -= len(rest)
        return replace(batch, operations=operations), begun

    def _settle(self, batch: _Batch, results: Sequence[Result]) -> list[Settlement]:
        now = self._h.clock.now()
        self._h.gate.ended(batch.policy, batch.operations, results, batch.taken_at, now)
        failures = [result for result in results if isinstance(result, Failure)]
        self._adapt(batch, failures, now)
        self._guard_connection(batch, results, now)
        if any(failure.whole_source for failure in failures):
            return self._stop_policy(batch, results, now)
        return [
            self._settlement(batch.policy, operation, result, now)
            for operation, result in zip(batch.operations, results, strict=True)
        ]

    def _settlement(
        self, policy: Policy, operation: Operation, result: Result, now: datetime
    ) -> Settlement:
        if isinstance(result, Outcome):
            return Completed(operation, result)
        if isinstance(result, Spared):
            return Completed(operation, Outcome.PROTECTED, result)
        if isinstance(result, Effect):
            return Completed(operation, result.outcome, effect=result)
        if isinstance(result, Parts):
            return Split(operation, result)
        match decide(result, operation.budget, policy.attempts, now, self._h.spread):
            case TryAgain() as decision:
                return Retried(operation, decision)
            case GiveUp() as decision:
                return Died(operation, decision)

    def _adapt(self, batch: _Batch, failures: Sequence[Failure], now: datetime) -> None:
        pace = self._pace(batch.policy)
        throttles = [f for f in failures if f.failure_class is FailureClass.THROTTLED]
        if throttles:
            asked = [f.retry_after.total_seconds() for f in throttles if f.retry_after]
            pace.throttled(_seconds(now), max(asked, default=None))
        else:
            pace.succeeded(len(batch.operations), _seconds(now))

    def _guard_connection(self, batch: _Batch, results: Sequence[Result], now: datetime) -> None:
        """Open the breaker of a connection that nobody can use, and close it once one can."""
        connection = batch.version.connection
        health = self._health.setdefault(connection, Health())
        if any(map(_reached, results)):
            health.succeeded()
            if batch.probe:
                log.info("breaker closed for %s", connection)
                self._h.controls.reset(connection)
            return
        failures = [
            (operation.row, result)
            for operation, result in zip(batch.operations, results, strict=True)
            if isinstance(result, Failure)
        ]
        if sick := health.failed(failures, now):
            keys = [operation.key for operation in batch.operations]
            log.error("breaker open for %s: %s", connection, sick.error, extra={"keys": keys})
            self._h.controls.trip(connection, sick.error, now)

    def _stop_policy(
        self, batch: _Batch, results: Sequence[Result], now: datetime
    ) -> list[Settlement]:
        """The source itself cannot be worked on: one dead letter and a pause, not thousands."""
        name = batch.policy.name
        stopped = any(pause.policy in (None, name) for pause in self._h.controls.pauses(now))
        settlements: list[Settlement] = []
        given_back: list[Operation] = []
        for operation, result in zip(batch.operations, results, strict=True):
            if not isinstance(result, Failure) or not result.whole_source:
                settlements.append(self._settlement(batch.policy, operation, result, now))
            elif stopped:
                given_back.append(operation)
            else:
                stopped = True
                settlements.append(self._settlement(batch.policy, operation, result, now))
                reason = f"stopped by bestbefore: {result.error}"
                self._h.controls.pause(name, reason, None, self._h.by, now)
                log.error("policy %s %s", name, reason, extra=_about(operation))
        self._h.queue.release(given_back, now)
        return settlements

    def _record(self, settlements: Sequence[Settlement]) -> None:
        if not settlements:
            return
        late = self._h.ledger.record(settlements, self._h.by, self._h.clock.now())
        refused = {operation.row for operation in late}
        self._report.late += len(late)
        for operation in late:
            log.warning("a result came after its lease and was refused", extra=_about(operation))
        accepted = (
            [s for s in settlements if s.operation.row not in refused] if late else settlements
        )
        outcomes = Counter(s.outcome for s in accepted if isinstance(s, Completed))
        if parted := sum(isinstance(s, Split) for s in accepted):
            outcomes[Outcome.SPLIT] += parted
        self._report.outcomes.update(outcomes)
        self._report.completed += outcomes.total()
        if outcomes[Outcome.PROTECTED]:
            self._report.protected.update(
                s.why.reason for s in accepted if isinstance(s, Completed) and s.why is not None
            )
        self._report.freed += sum(
            s.operation.size
            for s in accepted
            if isinstance(s, Completed)
            and s.outcome is Outcome.DELETED
            and s.effect is None
            and s.operation.policy not in self._hiding
        )
        for settlement in accepted:
            if isinstance(settlement, Completed) and settlement.effect is not None:
                self._report.add(settlement.effect)
        for died in (s for s in accepted if isinstance(s, Died)):
            self._report.dead += 1
            failure, about = died.decision.failure, _about(died.operation)
            log.info("dead letter (%s): %s", failure.failure_class, failure.error, extra=about)
        self._report.retried.update(
            s.decision.failure.failure_class for s in accepted if isinstance(s, Retried)
        )
        self._h.queue.ack([s.operation for s in settlements])

    def _keep_claims(self) -> None:
        """Extend the leases of what threads are working on, and give up those that hang."""
        now = self._h.clock.now()
        if now - self._extended_at < self._options.lease / 3:
            return
        self._extended_at = now
        for future, batch in list(self._out.items()):
            if now - batch.taken_at >= longest_hold(batch.policy, batch.operations):
                log.error("a batch of %d hangs; its leases run out", len(batch.operations))
                del self._out[future]
                self._report.abandoned += len(batch.operations)
        alive = [operation for batch in self._out.values() for operation in batch.operations]
        for operation in self._h.queue.extend(alive, now + self._options.lease):
            log.warning("a lease was lost while it was worked on", extra=_about(operation))

    # -- ending ------------------------------------------------------------------------------

    def _plan_on(self, planner: Executor) -> None:
        """Continue, beside the work, plans that nobody works on."""
        now = self._h.clock.now()
        if self._planning is not None and self._planning.done():
            error = self._planning.exception()
            if error is not None:
                log.error("a plan could not be continued: %s", error)
            self._plan_failures = self._plan_failures + 1 if error else 0
            self._planning = None
            self._plan_again_at = now + timedelta(seconds=1 + 5 * self._plan_failures)
        if self._planning is None and now >= self._plan_again_at:
            self._planning = planner.submit(self._h.plan_on)

    def _left(self, outlook: Outlook) -> Counter[str] | None:
        """What a drain leaves, by reason; None while there is still something to do or await."""
        if self._planning is not None and not self._planning.done():
            return None  # it may yet add to the work
        found = self._h.ledger.leftovers(self._h.clock.now())
        mine = [rest for rest in found if self._h.only in (None, rest.name)]
        failed = self._plan_failures >= _MOST_PLAN_FAILURES
        return left_over(
            mine,
            outlook,
            self._h.policies,
            planning_failed=failed,
            cut_off=self._h.cut_off(),
        )

    def _finish(self) -> None:
        """Finish the batches in hand, within the grace, and give back the rest."""
        deadline = self._h.clock.now() + self._options.grace
        for future in list(self._out):
            self._out[future].halt.set()
            if future.cancel():
                batch, now = self._out.pop(future), self._h.clock.now()
                self._h.queue.release(batch.operations, now)
                self._h.gate.ended(batch.policy, batch.operations, [], batch.taken_at, now)
        while self._settled or (self._out and self._h.clock.now() < deadline):
            self._reap(_IDLE_SECONDS)
        if self._planning is not None:
            # It was told to stop as well, and does so after the page in hand.
            left = (deadline - self._h.clock.now()).total_seconds()
            wait([self._planning], timeout=max(0.0, left))
        for batch in self._out.values():
            self._h.queue.release(batch.operations, self._h.clock.now())
            self._report.abandoned += len(batch.operations)
        self._h.gate.close(self._out_by_database(), self._h.clock.now())
        self._out.clear()


def _most_at_once(policy: Policy, pace: Pace) -> int:
    """How many objects one thread gets."""
    return pace.size if policy.archive is None else min(pace.size, _MOST_COPIES)


def _at_once(attempts: Attempting, batch: _Batch) -> list[Result | None]:
    """One result per object, in a thread."""
    return list(attempts.make(batch.policy, batch.operations))


def longest_hold(policy: Policy, operations: Iterable[Operation]) -> timedelta:
    """How long a thread may be at a batch before it counts as hanging."""
    copied = sum(operation.size for operation in operations) if policy.archive else 0
    return _LONGEST_HOLD + timedelta(seconds=copied / _SLOWEST_COPY)


def _shares(operations: Sequence[Operation], threads: int) -> Iterable[Sequence[Operation]]:
    """Cut into at most as many parts as there are *threads*, each about as long."""
    size = max(1, math.ceil(len(operations) / threads))
    for start in range(0, len(operations), size):
        yield operations[start : start + size]


def _batches(operations: Sequence[Operation], size: int) -> Iterable[list[Operation]]:
    """Cut into batches of at most *size*, each of one run and without a key (and version) twice."""
    by_run: dict[int, list[Operation]] = {}
    for operation in operations:
        by_run.setdefault(operation.run, []).append(operation)
    for group in by_run.values():
        for distinct in _distinct(group):
            for start in range(0, len(distinct), size):
                yield distinct[start : start + size]


def _distinct(operations: list[Operation]) -> Iterable[list[Operation]]:
    """*operations* in as few lists as it takes for none to name a key twice: nearly always one."""
    while operations:
        first = {(operation.key, operation.version): operation for operation in operations[::-1]}
        if len(first) == len(operations):
            yield operations
            return
        yield list(first.values())
        rows = {operation.row for operation in first.values()}
        operations = [operation for operation in operations if operation.row not in rows]


def _reached(result: Result) -> bool:
    """Whether the store did as it was asked, or said that a lock keeps it from that."""
    return not isinstance(result, Failure) or result.failure_class is FailureClass.HELD


def _about(operation: Operation) -> dict[str, str]:
    """What a log says of *operation*."""
    return {"operation_id": operation.operation_id.hex(), "key": operation.key}


def _seconds(now: datetime) -> float:
    return now.timestamp()
