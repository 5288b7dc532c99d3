"""A ledger and short words for what the suites of ledgers do again and again."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from bestbefore.domain.failure import Failure, FailureClass, GiveUp, TryAgain
from bestbefore.domain.identity import ObjectIds
from bestbefore.domain.known import disposition
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.policy import ObjectSource, Policy, Reach
from bestbefore.domain.retention import Age
from bestbefore.domain.run import Run, Trigger, park_reason, too_many_reappeared
from bestbefore.domain.selection import Listed
from bestbefore.domain.states import State
from bestbefore.ports.controls import Controls
from bestbefore.ports.ledger import (
    Answer,
    Completed,
    DeadFilter,
    DeadLetter,
    DeadLetters,
    Died,
    Entry,
    Operation,
    PlanLedger,
    PlannedPage,
    Retried,
    Settlement,
    WorkLedger,
)
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.previews import Previews
from bestbefore.ports.queue import Queue
from bestbefore.ports.records import OperationFilter, OperationRecord, Records
from bestbefore.ports.upkeep import UpkeepLedger

SLOT = datetime(2026, 7, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
OLD = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=60)
_PATIENCE = 10.0
ME = "tester"

POLICY = Policy(
    "exports", "v1", "growth-team", Age(0, 30 * 86_400), ObjectSource("s", "bucket", "exports/")
)


def capped(max_deletes: int, version: str = "v1") -> Policy:
    """`POLICY` with a cap."""
    return replace(POLICY, version=version, reach=Reach(max_deletes=max_deletes))


@dataclass(frozen=True)
class Sides:
    """Every side of one ledger. Empty at first. ``resend`` sends what is due of some policy
    versions, where the queue is elsewhere and so has to be told."""

    plans: PlanLedger
    work: WorkLedger
    queue: Queue
    dead_letters: DeadLetters
    records: Records
    upkeep: UpkeepLedger
    controls: Controls
    previews: Previews
    resend: Callable[[Sequence[int], int, datetime], int] | None = None


class Ledger:
    """Short words for what the suites do again and again; adds no behaviour of its own."""

    def __init__(self, sides: Sides) -> None:
        self.plans = sides.plans
        self.work = sides.work
        self.queue = sides.queue
        self.dead_letters = sides.dead_letters
        self.records = sides.records
        self.upkeep = sides.upkeep
        self.controls = sides.controls
        self.previews = sides.previews
        self._resend = sides.resend

    def answer(
        self,
        of: Policy = POLICY,
        slot: datetime = SLOT,
        trigger: Trigger = Trigger.PLAN,
        *,
        approved: bool = False,
        target: str = "memory/bucket/exports/",
        now: datetime | None = None,
    ) -> Answer:
        return self.plans.answer(
            of, slot, target, trigger, approved=approved, by=ME, now=now or slot, lease=LEASE
        )

    def page(
        self, of: Policy, names: Sequence[str], now: datetime, rest: KeyRange | None = None
    ) -> PlannedPage:
        """A page that lists the objects *names*, all of them old enough."""
        ids = ObjectIds(of.name, of.version, of.objects.bucket)
        items = {ids.of(i.key, i.etag, i.last_modified): i for i in map(item, names)}
        known = self.plans.known(list(items))
        entries = [
            Entry(operation_id, listed, disposition(known.get(operation_id), now), None)
            for operation_id, listed in items.items()
        ]
        return PlannedPage(
            now, [rest] if rest else [], len(items), len(items), entries=entries
        )  # fmt: skip

    def write(self, answer: Answer, page: PlannedPage, now: datetime, keep_last: int = 0) -> Run:
        assert answer.claim is not None, "this slot needs no planning, or another planner has it"
        return self.plans.write_page(answer.claim, page, keep_last, now, LEASE)

    def conclude(self, answer: Answer, of: Policy, now: datetime, keep_generations: int = 0) -> Run:
        assert answer.claim is not None, "this slot needs no planning, or another planner has it"

        def verdict(run: Run) -> str | None:
            eligible = run.planned + run.already_completed
            return too_many_reappeared(run.reappeared, eligible, answer.seen) or park_reason(
                run, of.reach, answer.seen
            )

        return self.plans.conclude(answer.claim, keep_generations, verdict, now)

    def plan(
        self,
        *names: str,
        of: Policy = POLICY,
        slot: datetime = SLOT,
        trigger: Trigger = Trigger.PLAN,
        approved: bool = False,
        now: datetime | None = None,
        target: str = "memory/bucket/exports/",
    ) -> Run:
        """Answer *slot* with a run over the objects *names*, from its start to its end."""
        now = now or slot
        answer = self.answer(of, slot, trigger, approved=approved, now=now, target=target)
        self.write(answer, self.page(of, names, now), now)
        return self.conclude(answer, of, now)

    def publish(self, now: datetime = SLOT) -> int:
        """Publish all that is released."""
        published = 0
        for version in self.work.versions():
            while (span := self.work.waiting(version.row, 1_000)) is not None:
                published += self.queue.publish(span, now)
        return published

    def claim(
        self, limit: int = 1_000, now: datetime = SLOT, *, suspects: bool = False
    ) -> list[Operation]:
        """Claim what is due of every policy version."""
        versions = self.work.versions()
        if self._resend is not None:
            self._resend([version.row for version in versions], 10_000, now)
        return [
            operation
            for version in versions
            for operation in self.queue.receive(version.row, limit, now, LEASE, suspects=suspects)
        ]

    def _claim_all(self, now: datetime) -> list[Operation]:
        """Claim everything that is due, which takes a broker a moment."""
        claimed = self.claim(now=now)
        deadline = time.monotonic() + _PATIENCE
        while self._resend is not None and time.monotonic() < deadline:
            if not any(left.due for left in self.work.leftovers(now)):
                break
            claimed += self.claim(now=now)
        return claimed

    def record(self, *settlements: Settlement, now: datetime = SLOT) -> list[Operation]:
        return self.work.record(settlements, ME, now)

    def end(self, outcome: Outcome = Outcome.DELETED, now: datetime = SLOT) -> list[Operation]:
        """Publish, claim and complete everything; returns what that was."""
        self.publish(now)
        claimed = self._claim_all(now)
        assert not self.record(*(Completed(o, outcome) for o in claimed), now=now)
        return claimed

    def kill(self, failure_class: FailureClass = FailureClass.MALFORMED) -> list[DeadLetter]:
        """Publish, claim and bury everything; returns all dead letters."""
        self.publish()
        for operation in self._claim_all(SLOT):
            assert not self.record(died(operation, failure_class))
        return list(self.dead_letters.dead(DeadFilter()))

    def operation(self, name: str) -> OperationRecord:
        (found,) = self.records.operations(OperationFilter(key=item(name).key))
        return found

    def states(self, run: Run) -> list[State]:
        """States of a run's operations, sorted."""
        found = self.records.operations(OperationFilter(run_id=run.run_id))
        return sorted(operation.state for operation in found)

    def again(self, run: Run) -> Run:
        """*run* as it is stored now, once its counts were compared with its operations (P11)."""
        stored = self.records.run(run.run_id)
        states = self.states(run)
        assert stored.waiting == states.count(State.WAITING)
        assert stored.pending == states.count(State.PENDING)
        assert stored.completed == states.count(State.COMPLETED) + stored.pruned
        assert stored.dead == states.count(State.DEAD)
        assert stored.planned == len(states) + stored.pruned
        dead = self.dead_letters.count(DeadFilter())
        assert dead == sum(one.n for one in self.records.incidents(None, None, 1_000))
        return stored

    def outcomes(self, run: Run) -> dict[str, int]:
        return {name: tally.n for name, tally in self.records.tallies(run, "outcome").items()}


def item(name: str) -> Listed:
    """The object *name*, as it is always listed here."""
    return Listed(f"exports/{name}.json", 100, "9dd4e461268c8034f5c8564e155c67a6", OLD)


def failure(failure_class: FailureClass) -> Failure:
    return Failure(failure_class, "made up")


def died(operation: Operation, failure_class: FailureClass = FailureClass.MALFORMED) -> Died:
    return Died(operation, GiveUp(failure(failure_class), operation.budget))


def retried(operation: Operation, now: datetime = SLOT, wait: timedelta = LEASE) -> Retried:
    """A transient failure of *operation*, charged, due again after *wait*."""
    charged = operation.budget.charge(FailureClass.TRANSIENT, now)
    return Retried(operation, TryAgain(failure(FailureClass.TRANSIENT), charged, now + wait))
