"""What has to hold after every step of a simulation, asked of the ledger by plain SQL and of what
really happened to the data.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from bestbefore.adapters.state.database import micros, moment
from bestbefore.domain.selection import Listed
from bestbefore.domain.states import State, may
from bestbefore.ports.objects import Target
from bestbefore.ports.rows import RowTask
from bestbefore.stages.attempt import TRUSTED_FOR
from bestbefore.stages.work import MOST_DELIVERIES
from simulation.kernel import Process
from support.row_audit import row_problems

if TYPE_CHECKING:
    from simulation.world import World

_CONFIRMED_FOR = timedelta(seconds=61)
_CLOCKS_APART = timedelta(seconds=40)
_OVER = timedelta(minutes=15) + _CLOCKS_APART
_PLANNING = ("plan", "run", "worker", "ticker")
_PEOPLE = {"dead>pending": ("redrive",), "dead>completed": ("discard", "correct")}

_COUNTS = """
    SELECT r.run_id, r.planned, r.waiting, r.pending, r.completed, r.dead, r.held,
        r.state = 'drained',
        coalesce(sum(o.state = 'waiting'), 0), coalesce(sum(o.state = 'pending'), 0),
        coalesce(sum(o.state = 'completed'), 0), coalesce(sum(o.state = 'dead'), 0),
        coalesce(sum(o.held), 0)
    FROM runs r LEFT JOIN operations o ON o.run_id = r.id GROUP BY r.id
"""
_TALLIES = """
    SELECT run_id, outcome, count(*) FROM operations WHERE state = 'completed'
    GROUP BY run_id, outcome
    EXCEPT SELECT run_id, name, n FROM run_tallies WHERE kind = 'outcome'
"""
_HALF_DONE = """
    SELECT key, state, outcome, token, due_at FROM operations WHERE
    (state = 'completed') <> (outcome IS NOT NULL AND completed_at IS NOT NULL)
    OR (state = 'pending') <> (due_at IS NOT NULL)
    OR (token IS NOT NULL AND state <> 'pending') OR (held AND state <> 'pending')
"""
_RELEASED = """
    SELECT r.run_id, p.name, CASE WHEN p.about_rows THEN r.rows ELSE r.planned END
    FROM runs r JOIN policies p ON p.id = r.policy_id
    WHERE r.complete AND r.state IN ('open', 'drained') AND NOT r.approved
    AND NOT EXISTS (SELECT 1 FROM events e WHERE e.run_id = r.run_id AND e.action = 'approve')
"""
_UNFORESEEN = "SELECT error FROM failures WHERE failure_class = 'unknown' AND error <> 'sick'"
_CUTOFFS = """
    SELECT o.policy_id, r.cutoff, o.operation_id FROM operations o JOIN runs r ON r.id = o.run_id
    WHERE o.key = ? AND o.etag = ? AND o.last_modified = ?
"""
_HAD = """
    SELECT o.id, o.redriven, o.last_failed_at, o.key, o.operation_id
    FROM operations o JOIN seen_claims c USING (operation_id) WHERE c.by = ? AND o.token IS NOT NULL
"""
_ANSWERED = """
    SELECT slot FROM runs r JOIN policies p ON p.id = r.policy_id
    WHERE p.name = :policy AND (r.complete OR r.state = 'cancelled')
    UNION SELECT slot FROM slots WHERE policy = :policy AND verdict IS NOT NULL AND reason <> ''
"""
_HOUR = 3_600_000_000
_CLAIMED = """
    SELECT o.id, c.step FROM seen_claims c JOIN operations o USING (operation_id)
    WHERE o.operation_id = ? AND c.by = ?
"""


class Broken(AssertionError):
    """A promise does not hold."""


def require(holds: object, promise: str, what: str) -> None:
    if not holds:
        raise Broken(f"{promise}: {what}")


class Promises:
    """Looks on. ``asked`` are the slots that somebody meant, by policy."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._completed: set[tuple[int, int, int]] = set()
        self._replanned: dict[int, int] = {}
        self._checked_rows = 0
        self._noted: Broken | None = None
        self._released: set[str] = set()
        self._expected: dict[str, int] = {}
        self._deaths: Counter[tuple[int, int, int, int | None]] = Counter()
        self.asked: dict[str, set[int]] = {}

    # -- while it happens --------------------------------------------------------------------
    # What is found here is noted, as the product may well catch what is raised.

    def deleting(self, process: Process, target: Target, item: Listed) -> None:
        """An object is about to go: it has to be one that was selected, as it was seen."""
        with self._noting():
            self._deleting(process, target, item)

    def deleting_rows(self, process: Process, task: RowTask) -> None:
        """A batch of rows is about to go."""
        with self._noting():
            self._deleting_rows(process, task)

    def died(self, process: Process, of: str | bytes) -> None:
        """The key or the operation *of* has ended *process*, which must not go on for ever. Only a
        result that is recorded in between, as of a try that failed before it got there, makes it
        begin anew."""
        with self._noting():
            for row, redriven, failed, *names in self._world.ledger.rows(_HAD, process.name):
                if of in names:
                    life = row, self._replanned.get(row, 0), redriven, failed
                    self._deaths[life] += 1
                    often = f"operation {row} ends {self._deaths[life]} workers"
                    require(self._deaths[life] <= MOST_DELIVERIES, "P9", often)

    def acking(self, process: Process, operation_id: bytes, received: int, others: int) -> None:
        """A message is about to be acked, received in step *received*, while this process has so
        many *others* about that operation: it must not be the one that it works on. Who has an
        operation from the ledger itself, as a suspect, needs none."""
        with self._noting():
            self._acking(process, operation_id, received, others)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except Broken as error:
            self._noted = self._noted or error

    def _deleting(self, process: Process, target: Target, item: Listed) -> None:
        world, bucket = self._world, self._world.bucket
        about = f"{process.name} deletes {item}, seen as {target}"
        seen = (target.key, target.etag, target.last_modified)
        _, began = process.read_at["in_force"]
        require(item.key.startswith("exports/"), "P2", f"{about}: out of scope")
        require(item.etag == target.etag, "P2", f"{about}: it is another one")
        require(seen in bucket.shown, "P2", f"{about}: nobody has seen that")
        if item.last_modified != target.last_modified:
            recent = bucket.shown[seen] >= began - TRUSTED_FOR - _CLOCKS_APART
            require(recent, "P2", f"{about}: uploaded again since, longer than the window ago")
        known = world.ledger.rows(_CUTOFFS, target.key, target.etag, micros(target.last_modified))
        old = [(row, id_) for row, cutoff, id_ in known if seen[2] < moment(cutoff)]
        require(old, "P2", f"{about}: no run selected it")
        self._may_work(process, "exports", [row for row, _ in old], about)
        self._not_cancelled(process, [id_ for _, id_ in old], about)
        for (kind, name), since in world.ledger.since.items():
            if kind == "hold" and not name.startswith("=") and item.key.startswith(name):
                before = since < process.read_at["in_force"][0]
                require(not before, "P7", f"{about}: {name} is on hold since step {since}")
        since = bucket.kept.get(item.key)
        if since is not None and item.last_modified == target.last_modified:
            long = since < began - _CONFIRMED_FOR
            require(not long, "P7", f"{about}: it is the newest since {since}")

    def _deleting_rows(self, process: Process, task: RowTask) -> None:
        known = self._world.ledger.rows(
            "SELECT policy_id FROM operations WHERE operation_id = ?", task.operation_id
        )
        about = f"{process.name} deletes {task}"
        require(known, "P2", f"{about}: the ledger has no such operation")
        self._may_work(process, "orders", [row for (row,) in known], about)
        self._not_cancelled(process, [task.operation_id], about)

    def _not_cancelled(self, process: Process, operations: list[bytes], about: str) -> None:
        """What was cancelled before it was claimed only gets closed. Of *operations* on the same
        thing, as those of two policy versions, one has to be none of these."""
        since, closed = self._world.ledger.since, list[int]()
        for operation_id in operations:
            for row, claimed in self._world.ledger.rows(_CLAIMED, operation_id, process.name):
                cancelled = since.get(("cancelled", str(row)))
                if cancelled is None or cancelled >= claimed:
                    return
                closed.append(cancelled)
        require(not closed, "P4", f"{about}: cancelled since steps {closed}")

    def _may_work(self, process: Process, policy: str, versions: list[int], about: str) -> None:
        since = self._world.ledger.since
        for name in (policy, ""):
            paused = since.get(("pause", name))
            before = paused is not None and paused < process.read_at["pauses"][0]
            require(not before, "P12", f"{about}: paused since step {paused}")
        held = since.get(("hold", f"={policy}"))
        before = held is not None and held < process.read_at["in_force"][0]
        require(not before, "P7", f"{about}: on hold since step {held}")
        ended = [since.get(("superseded", str(row))) for row in versions]
        looked = process.read_at["versions"][0]
        before = all(step is not None and step < looked for step in ended)
        require(not before, "P7", f"{about}: superseded since step {ended}")

    def _acking(self, process: Process, operation_id: bytes, received: int, others: int) -> None:
        claims = self._world.ledger.rows(
            "SELECT c.step FROM seen_claims c JOIN operations o USING (operation_id) WHERE "
            "operation_id = ? AND c.by = ? AND c.how = 'claim' AND o.token IS NOT NULL "
            "AND o.due_at > ?",
            operation_id, process.name, micros(self._world.now()),
        )  # fmt: skip
        for (claimed,) in claims:
            require(
                received > claimed or others,
                "P4", f"{process.name} acks a message before its result is recorded",
            )  # fmt: skip

    # -- after every step --------------------------------------------------------------------

    def check(self) -> None:
        ledger = self._world.ledger
        if self._noted is not None:
            raise self._noted
        require(not ledger.raw.in_transaction, "P12", "a transaction is left open")
        steps = ledger.steps()
        for step in steps:
            self._check_step(*step)
        if steps:
            self._check_counts()
            self._check_slots()
            self._check_reach()
        self._check_rows()
        self._note_expected()
        for (error,) in ledger.rows(_UNFORESEEN):
            require(False, "unforeseen", error)

    def _check_step(
        self, operation: int, before: str | None, after: str | None, outcome: str | None,
        run: int, redriven: int, by: str,
    ) -> None:  # fmt: skip
        kind = by.partition("-")[0]
        about = f"operation {operation}, by {by}: {before} became {after} ({outcome})"
        if before is None:
            begins = after == State.WAITING or kind in ("correct", "worker", "run")
            require(begins, "P4", about)
        elif after is None:
            require(before == State.WAITING and kind in _PLANNING, "P4", f"{about}: it is lost")
        elif before != after:
            require(may(State(before), State(after)), "P4", about)
            allowed = _PEOPLE.get(f"{before}>{after}")
            require(allowed is None or kind in allowed, "P10", f"{about}: by itself")
            if before == State.COMPLETED:
                require(kind in _PLANNING, "P3", about)
                self._replanned[operation] = self._replanned.get(operation, 0) + 1
        if after == State.COMPLETED and before != after:
            completion = (operation, self._replanned.get(operation, 0), redriven)
            require(completion not in self._completed, "P3", f"{about}: for the second time")
            self._completed.add(completion)
            self._check_evidence(operation, outcome, about)

    def _check_evidence(self, operation: int, outcome: str | None, about: str) -> None:
        """What the ledger says of an end is what really happened."""
        world = self._world
        ((operation_id, key, etag, modified, rows),) = world.ledger.rows(
            "SELECT operation_id, key, etag, last_modified, about_rows FROM operations o "
            "JOIN policies p ON p.id = o.policy_id WHERE o.id = ?", operation,
        )  # fmt: skip
        if rows:
            done = world.table.completed.get(operation_id)
            claims = outcome in ("deleted", "absent")
            require(done is not None or not claims, "P3", f"{about}, but it never happened")
            require(done is None or outcome != "split", "P3", f"{about}, but it went as a whole")
        elif outcome in ("deleted", "absent", "changed"):
            gone = world.moments_of(key, etag, modified)
            require(gone, "P4", f"{about}, but {key} was there all the time")

    def _check_counts(self) -> None:
        """P11, and P4: every operation is in exactly one state, and its run knows."""
        ledger = self._world.ledger
        for run, planned, *numbers in ledger.rows(_COUNTS):
            stored, held, drained, counted = (
                numbers[:4], numbers[4], numbers[5], numbers[6:10],
            )  # fmt: skip
            require(stored == counted, "P11", f"run {run} counts {stored}, there are {counted}")
            require(planned == sum(stored), "P11", f"run {run}: planned {planned} of {stored}")
            require(held == numbers[10], "P11", f"run {run}: held {held} of {numbers[10]}")
            idle = counted[0] == 0 and counted[1] == held
            require(idle or not drained, "P11", f"run {run} is drained with {counted}")
        for wrong in (*ledger.rows(_TALLIES), *ledger.rows(_HALF_DONE)):
            require(False, "P11", f"half done: {wrong}")
        if self._world.about_rows:
            for problem in row_problems(ledger.raw.execute):
                require(False, "P11", problem)

    def _note_expected(self) -> None:
        """Since when slots are expected, by policy, as it was said first."""
        for policy, since in self._world.ledger.rows("SELECT policy, since FROM schedules"):
            self._expected.setdefault(policy, since)

    def check_expected(self) -> None:
        """P6: once somebody has looked, every slot has its run or the reason why it has none. All
        schedules are hourly."""
        self._note_expected()
        until = micros(self._world.now() - _OVER)
        for policy, since in self._expected.items():
            found = self._world.ledger.raw.execute(_ANSWERED, {"policy": policy})
            answered = {slot for (slot,) in found}
            for at in range((since // _HOUR + 1) * _HOUR, until, _HOUR):
                told = at in answered
                require(told, "P6", f"{policy}: nobody says what became of {moment(at)}")

    def _check_slots(self) -> None:
        """P5: a run answers a slot that somebody meant."""
        found = self._world.ledger.rows(
            "SELECT p.name, r.slot FROM runs r JOIN policies p ON p.id = r.policy_id"
        )
        for policy, slot in found:
            meant = self._world.was_meant(policy, slot)
            require(meant, "P5", f"{policy}: nobody asked for a run of {slot}")

    def _check_reach(self) -> None:
        """P8: what selects more than its cap waits for a person."""
        for run, policy, selected in self._world.ledger.rows(_RELEASED):
            if run in self._released:  # it may get more by splits and corrections
                continue
            self._released.add(run)
            most = self._world.policies[policy].reach.max_deletes
            within = most is None or selected <= most
            require(within, "P8", f"run {run} selects {selected}, and at most {most} are allowed")

    def _check_rows(self) -> None:
        """Rows go while they are old, within their batch, and no batch goes twice."""
        table = self._world.table
        for number, at, task in table.gone[self._checked_rows :]:
            require(at < task.cutoff, "P2", f"row {number} of {at} went, by {task}")
        self._checked_rows = len(table.gone)
        require(not table.replays, "P3", f"deleted again by {table.replays}")
