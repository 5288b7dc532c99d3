"""The durable record: policies, runs, operations, dead letters.

Each protocol is one side of it; an implementation usually serves all of them from one database.
Every method is one transaction. Times are aware and in UTC.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from bestbefore.domain.failure import Budget, FailureClass, GiveUp, TryAgain
from bestbefore.domain.known import Disposition, Known
from bestbefore.domain.outcome import Outcome, Spared
from bestbefore.domain.pointer import Pointer
from bestbefore.domain.policy import Policy
from bestbefore.domain.prefixes import PrefixCounts
from bestbefore.domain.rows import Effect, RowBatch, Walk
from bestbefore.domain.run import Circumstances, Run, Trigger
from bestbefore.domain.selection import Listed
from bestbefore.ports.objects import Copy, KeyRange


class LedgerError(Exception):
    """The ledger refuses. The message names the target, what was expected and the remedy."""


class NotInLedger(LedgerError):
    """There is nothing of that name."""


class LedgerUnavailable(LedgerError):
    """The ledger cannot be used right now, or not by this process."""


class PolicyEdited(LedgerError):
    """What a policy selects changed under an unchanged version."""


class PlanTakenOver(LedgerError):
    """Another planner holds this run now; nothing was written."""


class PolicyVersion(NamedTuple):
    """One (name, version) the ledger knows. ``current`` is what the newest plan wrote.

    ``fingerprint`` is that of the policy that was planned.
    """

    row: int
    name: str
    version: str
    connection: str
    current: bool
    fingerprint: str

    def means(self, policy: Policy) -> bool:
        """Whether *policy* is this one: a version alone says what it was called, not what it is."""
        return (policy.version, policy.fingerprint()) == (self.version, self.fingerprint)


class Claim(NamedTuple):
    """The right to plan one run, fenced by a token, until its lease runs out."""

    run: int
    token: int


class Entry(NamedTuple):
    """One eligible object, or row batch, on a page, and what the plan does with it.

    Of an unfinished upload *item* is the key, without bytes, and when the upload was begun. Of a
    row batch it is the label, as many "bytes" as it holds rows, its shape as ETag, and the time of
    its oldest row.
    """

    operation_id: bytes
    item: Listed
    disposition: Disposition
    generation: str | None
    upload_id: str | None = None
    batch: RowBatch | None = None


class Taken(NamedTuple):
    """The ends of a row batch that is planned and not completed, and the order they are in."""

    first: str
    last: str
    walk: Walk


class Kept(NamedTuple):
    """One object that counts for ``keep_last``, with its operation if it was eligible."""

    last_modified: datetime
    key: str
    operation_id: bytes | None


@dataclass(slots=True)
class GenerationSeen:
    """What one page saw of one generation, whatever the age. ``prefix`` leads to its objects."""

    youngest: datetime
    prefix: str


@dataclass(slots=True)
class PlannedPage:
    """Everything one listing page, or slice of a table, contributes to a run, in one transaction.

    ``cursors`` is what is left of every range once this page is written. ``uploads`` counts what
    of ``scanned`` were unfinished uploads. Of a table, ``scanned``, ``in_scope`` and ``protected``
    count rows, ``table`` is its full name as the database writes it, and ``referenced`` says by
    table how many rows stay because a row of that table refers to them. ``stays`` says of objects
    that are not eligible, by reason, under which prefixes they are.
    """

    asked_at: datetime
    cursors: Sequence[KeyRange]
    scanned: int = 0
    in_scope: int = 0
    refused: int = 0
    uploads: int = 0
    protected: dict[str, int] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    generations: dict[str, GenerationSeen] = field(default_factory=dict)
    newest: dict[str, list[Kept]] = field(default_factory=dict)
    referenced: dict[str, int] = field(default_factory=dict)
    table: str | None = None
    stays: dict[str, PrefixCounts] = field(default_factory=dict)

    @property
    def about_rows(self) -> bool:
        """Whether its entries are row batches."""
        return bool(self.entries) and self.entries[0].batch is not None


@dataclass(frozen=True, slots=True)
class Answer:
    """A slot's run. ``claim`` is None where it needs no planning, or another planner has it.

    ``cursors`` is None before the first page. ``approved_now`` says that this call released a
    parked run.
    """

    run: Run
    claim: Claim | None
    cursors: Sequence[KeyRange] | None
    seen: Circumstances
    approved_now: bool = False


class PlanLedger(Protocol):
    """What planning writes."""

    def check_policies(self, policies: Collection[Policy]) -> None:
        """Raise PolicyEdited where a stored (name, version) selects something else than here."""
        ...

    def open_run_slot(self, policy: Policy) -> datetime | None:
        """The slot of the policy's newest run that is planning or open, else None."""
        ...

    def answer(
        self,
        policy: Policy,
        slot: datetime,
        target: str,
        trigger: Trigger,
        *,
        approved: bool,
        by: str,
        now: datetime,
        lease: timedelta,
        doubt: str | None = None,
    ) -> Answer:
        """The one run of (policy, version, slot), created if nobody answered it yet.

        Makes the version current and cancels a parked run of an older slot, whose operations
        the new one may plan again, and unfinished plans of other versions. ``approved`` releases
        a parked run exactly as it was shown. *doubt* is why a new run parks whatever it selects.
        """
        ...

    def circumstances(
        self,
        policy: Policy,
        target: str,
        *,
        approved: bool,
        doubt: str | None = None,
    ) -> Circumstances:
        """What a new run of *policy* would have to be judged by. Writes nothing."""
        ...

    def resume(self, run: int, now: datetime, lease: timedelta) -> Answer | None:
        """Take over planning *run* if nobody holds it and its scan has not ended."""
        ...

    def unfinished(self, now: datetime) -> Sequence[Run]:
        """Runs whose scan has not ended and that no living planner holds."""
        ...

    def known(
        self, operation_ids: Sequence[bytes], taking_over: datetime | None = None
    ) -> Mapping[bytes, Known]:
        """What the ledger holds of each; unknown ones are left out.

        With *taking_over*, as it would be once a run of that slot took over the parked ones.
        """
        ...

    def taken(self, policy: Policy, taking_over: datetime | None = None) -> Sequence[Taken]:
        """Row batches of this policy version that are waiting, pending or dead, in the order they
        were planned; what one was split into comes last.

        With *taking_over*, as it would be once a run of that slot took over the parked ones.
        """
        ...

    def remember(self, found: Mapping[bytes, Known], now: datetime) -> None:
        """Take note of what ended in another ledger, so that a preview here counts as that one."""
        ...

    def write_page(
        self, claim: Claim, page: PlannedPage, keep_last: int, now: datetime, lease: timedelta
    ) -> Run:
        """Write one page and renew the lease. Raises PlanTakenOver and writes nothing.

        What is pending and held by a lock without a date is due once more, as it was listed again.
        """
        ...

    def conclude(
        self,
        claim: Claim,
        keep_generations: int,
        decide: Callable[[Run], str | None],
        now: datetime,
        pointer: Pointer | None = None,
    ) -> Run:
        """End the scan: open the run, or park it for the reason *decide* gives.

        First decides what only the whole listing could: kept generations, those that *pointer*
        names (every operation where it names none that was seen), the last N and what reappeared.
        What turns out protected leaves the waiting operations and is counted so.
        *decide* sees the run with all it selects, and has to be quick: the ledger is locked.
        """
        ...

    def generations(self, run: int) -> frozenset[str]:
        """Every generation the run's scan has seen, kept or not."""
        ...

    def renew(self, claim: Claim, now: datetime, lease: timedelta) -> None:
        """Renew the lease where the next page takes long. Raises PlanTakenOver."""
        ...

    def abandon(self, claim: Claim, now: datetime) -> Run:
        """Give the claim back at once; the stored cursors wait for the next planner."""
        ...

    def approve(self, run_id: str, by: str, now: datetime, reason: str | None = None) -> Run:
        """Release a parked run exactly as it was shown; *reason* is written down with the event.
        Raises LedgerError for any other run."""
        ...

    def cancel(self, run_id: str, reason: str, by: str, now: datetime) -> Run:
        """End a run: what nobody has in hand is cancelled. Raises LedgerError once drained."""
        ...


class Operation(NamedTuple):
    """A claimed operation: its target as it was seen, and what it has spent.

    ``deliveries`` counts those without a result, this one included. ``failed`` says that an
    earlier attempt failed, so that the target has to be looked at again; ``cancelled`` that its run
    was cancelled while somebody had it in hand, so that it only has to be closed. ``upload_id`` is
    None unless the target is an unfinished upload. With ``version`` it is about just that entry;
    ``follows`` says that it is the newest of its key, over others, ``held`` that it is counted
    as held so far, and ``redriven`` that a person has sent it again.
    """

    row: int
    operation_id: bytes
    policy: int
    run: int
    key: str
    etag: str
    last_modified: datetime
    size: int
    seen_at: datetime
    deliveries: int
    budget: Budget
    failed: bool
    token: int
    cancelled: bool
    upload_id: str | None = None
    version: str | None = None
    follows: bool = False
    held: bool = False
    redriven: bool = False


class Completed(NamedTuple):
    """The operation has ended. ``why`` says what kept it, if something did; ``effect`` is what a
    row batch changed."""

    operation: Operation
    outcome: Outcome
    why: Spared | None = None
    effect: Effect | None = None


class Parts(NamedTuple):
    """What a row batch goes on as: ids and batches, and why."""

    parts: Sequence[tuple[bytes, RowBatch]]
    why: str


class Split(NamedTuple):
    """A row batch ends as `Outcome.SPLIT` and goes on as *parts*: new operations of its run that
    are linked to it and due at once. A part that the ledger knows already is left as it is, and so
    none of them may be the whole again."""

    operation: Operation
    parts: Parts


class Retried(NamedTuple):
    """The operation is due again later."""

    operation: Operation
    decision: TryAgain


class Died(NamedTuple):
    """The operation waits for a person."""

    operation: Operation
    decision: GiveUp


Settlement = Completed | Split | Retried | Died


class Span(NamedTuple):
    """Released operations of one run that can be published together."""

    policy: int
    run: int
    first: int
    last: int


class Batched(NamedTuple):
    """A row batch, with the cutoff and the slot of the run that planned it."""

    batch: RowBatch
    cutoff: datetime
    slot: datetime


class Leftover(NamedTuple):
    """What is not completed of one policy version, by why.

    ``parked`` waits in runs that wait for a person; ``waiting`` in released ones. ``due`` can be
    claimed now; ``leased`` is in some worker's hands; ``delayed`` has a date, the earliest being
    ``next_due``. ``planning`` says that a scan has not ended, ``abandoned`` that nobody alive works
    on any such scan. ``held`` waits for a lock, or for what lies under it.
    """

    policy: int
    name: str
    version: str
    parked: int
    waiting: int
    due: int
    leased: int
    delayed: int
    dead: int
    next_due: datetime | None
    planning: bool
    abandoned: bool
    held: int = 0


class WorkLedger(Protocol):
    """What working reads and writes."""

    def versions(self) -> Sequence[PolicyVersion]:
        """Every policy version that has an operation waiting or pending."""
        ...

    def suspects(self, policies: Collection[int], now: datetime) -> bool:
        """Whether anything due was delivered before without any result."""
        ...

    def claim(
        self, operation_id: bytes, policy: int, now: datetime, lease: timedelta
    ) -> Operation | None:
        """Claim one operation of a policy version by its id, as `Queue.receive` does others; None
        where it is not pending, in somebody's hands, or neither due nor at a broker."""
        ...

    def record(self, settlements: Sequence[Settlement], by: str, now: datetime) -> list[Operation]:
        """Write results; each is accepted only under its claim's token. Returns those refused.

        A refused result is harmless: its operation was delivered again and belongs to that
        delivery. Drains runs that have nothing left but what is held, and makes due what waited
        only for these.
        """
        ...

    def waiting(self, policy: int, limit: int) -> Span | None:
        """The next released but unpublished operations of a policy version, oldest run first."""
        ...

    def out(self, policies: Collection[int], now: datetime, lease: timedelta) -> int:
        """How many operations of *policies* are published and neither settled nor delayed."""
        ...

    def bury_crashed(self, policies: Collection[int], limit: int, now: datetime) -> int:
        """Make due operations dead that were delivered *limit* times without any result."""
        ...

    def leftovers(self, now: datetime) -> Sequence[Leftover]:
        """What is not completed, for each policy version that has some of it."""
        ...

    def kept_generations(self, run: int) -> Mapping[str, str]:
        """The generations the run's plan kept, each with the prefix that leads to its objects."""
        ...

    def generations(self, run: int) -> frozenset[str]:
        """See `PlanLedger.generations`."""
        ...

    def kept_last(self, run: int, groups: Collection[str]) -> Mapping[str, Sequence[Kept]]:
        """What the run's plan kept as the last N, by group, without groups it saw nothing of."""
        ...

    def target(self, run: int) -> str:
        """The place that the run's plan looked at."""
        ...

    def batches(self, operations: Collection[int]) -> Mapping[int, Batched]:
        """The row batches of *operations* (rows), each with its run's cutoff and slot."""
        ...

    def copies(self, operations: Collection[int]) -> Mapping[int, Copy]:
        """The recorded copies of *operations* (rows); those without one are left out."""
        ...

    def record_copies(
        self, copies: Sequence[tuple[Operation, Copy]], now: datetime
    ) -> list[Operation]:
        """Write down copies before their originals are deleted, each under its claim's token.

        Returns the operations whose claim was lost: of those nothing may be deleted.
        """
        ...


class Archives(Protocol):
    """What bringing back writes."""

    def restored(self, back: Sequence[tuple[int, str]], by: str, now: datetime) -> None:
        """Write down, each as an event, that the objects of operations (rows) are back, with the
        ETags that they got there."""
        ...

    def rows_restored(self, operation: int, detail: str, by: str, now: datetime) -> None:
        """Write down, as an event with *detail*, that rows of a batch are back."""
        ...


class DeadLetter(NamedTuple):
    """An operation out of its budget, with everything needed to diagnose it.

    With a ``batch`` it is about rows, and ``bucket`` is their table.
    """

    row: int
    operation_id: bytes
    policy: str
    policy_version: str
    owner: str
    superseded: bool
    run_id: str
    slot: datetime
    cutoff: datetime
    bucket: str
    action: str
    key: str
    etag: str
    last_modified: datetime
    size: int
    failure_class: FailureClass
    error: str
    attempts: int
    first_failed_at: datetime
    last_failed_at: datetime
    redriven: int
    upload_id: str | None = None
    version_id: str | None = None
    batch: RowBatch | None = None


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead letters are meant; every condition given has to hold.

    ``ids`` are the first and the last operation id, ``among`` some ids, at most 500; ``contains``
    is a part of the key, and ``incident`` as in `bestbefore.ports.records.Incident`.
    """

    policy: str | None = None
    failure_class: FailureClass | None = None
    ids: tuple[bytes, bytes] | None = None
    superseded: bool | None = None
    among: frozenset[bytes] | None = None
    incident: bytes | None = None
    contains: str | None = None


class DeadLetters(Protocol):
    """What a person does with what failed."""

    def dead(
        self,
        which: DeadFilter,
        limit: int | None = None,
        after: bytes | None = None,
        looking_at: int | None = None,
    ) -> Sequence[DeadLetter]:
        """The dead letters *which* selects, oldest failure first; with *after*, those that follow
        the operation of that id, dead still or not. With *looking_at* no more are looked at than
        so many, so that a search for a part of a key ends in time.

        Raises NotInLedger where there is no such operation.
        """
        ...

    def count(self, which: DeadFilter) -> int:
        """How many dead letters *which* selects."""
        ...

    def redrive(self, rows: Sequence[int], due: Sequence[datetime], by: str, now: datetime) -> int:
        """Send each of *rows* again, with a fresh budget, at its moment. Returns how many.

        A partition that had more rows than planned is planned with as many as its error shows.
        """
        ...

    def discard(self, rows: Sequence[int], reason: str, by: str, now: datetime) -> int:
        """Close each of *rows*. Returns how many."""
        ...

    def correct(self, row: int, operation_id: bytes, item: Listed, by: str, now: datetime) -> None:
        """Close *row* as corrected and put a linked operation for *item* in its place.

        Raises LedgerError if *row* is not dead or is about rows, or if the ledger knows that
        operation already.
        """
        ...
