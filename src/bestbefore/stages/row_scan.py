"""Read a policy's part of a table and write its batches into a ledger, slice by slice.

Used by planning, by dry runs and by verification, as `stages.scan` is for objects.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from bestbefore.domain.command import impossible_batch
from bestbefore.domain.identity import row_operation
from bestbefore.domain.known import Disposition, disposition
from bestbefore.domain.pointer import Pointer
from bestbefore.domain.policy import Policy
from bestbefore.domain.rows import RowBatch, Walk
from bestbefore.domain.run import Run
from bestbefore.domain.selection import HOLD, Listed
from bestbefore.domain.sizing import Batches, planned_size
from bestbefore.domain.skew import clock_problem
from bestbefore.ports.ledger import Claim, Entry, PlannedPage
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import ACCEPTED, RowReader, Slice, TableFacts, TableRefused
from bestbefore.ports.threads import Threads
from bestbefore.stages.patience import patiently
from bestbefore.stages.survey import LEASE, Errand, PlanRefused, Stopped

log = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_LOOKED_AT = 50_000
"""Rows per slice: a query of a fraction of a second on any table with an index."""

_PAGE_FOR = timedelta(seconds=1)
"""How long slices are gathered at most before they are written, together, as one page."""

_MOST_BATCHES = 1_000

_RENEW_SECONDS = LEASE.total_seconds() / 4

_REFERENCED = "referenced"
"""Why a row is protected that a row of another table, or a younger one, refers to."""


@dataclass(frozen=True, slots=True)
class RowSurvey:
    """`stages.survey.Survey` of a database. *recent* are the last batches that were worked on."""

    reader: RowReader
    recent: Callable[[Policy], Batches] = lambda _: ()
    threads: Threads = ThreadPoolExecutor

    def target(self, policy: Policy, now: datetime) -> str:
        facts = self.facts(policy)
        if problem := clock_problem(now, facts.now, facts.place):
            raise PlanRefused(f"policies.{policy.name}: {problem}")
        return facts.place

    def doubt(self, policy: Policy, ended: Callable[[], Sequence[bytes]]) -> str | None:
        asked = ended()
        lacking = set(self.reader.lacking(policy.rows, asked))
        if lacking:
            # What upkeep took out of the ledger meanwhile it took out of the database as well.
            lacking &= set(ended())
        if not lacking:
            return None
        return (
            f"the database has no record of {len(lacking):,} of the last {len(asked):,} batches "
            "that ended in it: was it restored?"
        )

    def scan(self, errand: Errand) -> "RowScan":
        return RowScan(errand, self.reader, self.recent, self.threads)

    def facts(self, policy: Policy) -> TableFacts:
        """What there is to know about the table of *policy*. Raises PlanRefused and StoreError."""
        try:
            return self.reader.describe(policy.rows)
        except TableRefused as error:
            raise PlanRefused(f"policies.{policy.name}.rows: {error}") from error


@dataclass(slots=True)
class _Gathered:
    """Slices that make one page."""

    began: datetime
    batches: list[RowBatch] = field(default_factory=list)
    scanned: int = 0
    referenced: Counter[str] = field(default_factory=Counter)

    def add(self, found: Slice) -> None:
        self.batches += found.batches
        self.scanned += found.scanned
        self.referenced.update(found.referenced)


@dataclass(frozen=True, slots=True)
class RowScan:
    """`stages.survey.Scanning` of one policy's table."""

    errand: Errand
    reader: RowReader
    recent: Callable[[Policy], Batches]
    threads: Threads

    def run(self, claim: Claim, run: Run, cursors: Sequence[KeyRange] | None) -> None:
        source = self.errand.policy.rows
        taken = self.errand.taken(run.slot)
        apart = [batch.first for batch in taken if batch.walk is Walk.PARTITION]
        taken = [batch for batch in taken if batch.walk is not Walk.PARTITION]
        # What is still to be worked on is in one order, and only in that one can gaps be found.
        walk = taken[0].walk if taken else None
        ask = partial(self._patiently, claim)
        facts = ask(lambda: self.reader.describe(source, walk))
        begins = cursors is None
        if begins:
            self._warn(facts)
        if cursors is None:
            ends = [(batch.first, batch.last) for batch in taken]
            cursors = ask(lambda: self.reader.gaps(source, facts, ends))
        left = list(cursors)
        whole = ask(lambda: self.reader.partitions(source, facts, run.cutoff, apart))
        size = self._size()
        began = self.errand.clock.now()
        page = _Gathered(began)
        if begins:
            batches = list(whole.batches)
            if self.errand.verifies:
                batches += ask(lambda: self.reader.marked(source, facts, run.cutoff))
            page.add(Slice(batches, None, sum(batch.rows for batch in batches)))
        first = self._kept(claim, facts) if begins else PlannedPage(page.began, left)
        first.table = facts.table
        if not left:
            self._write(claim, run, page, left, first)
        while left:
            gap = left[0]
            found = ask(
                lambda gap=gap, size=size: self.reader.slice(  # type: ignore[misc]
                    source, facts, run.cutoff, gap, size, _MOST_LOOKED_AT, whole.apart
                )
            )
            page.add(found)
            left[:1] = [found.rest] if found.rest is not None else []
            full = len(page.batches) >= _MOST_BATCHES
            # Each as long as all before it: workers wait for the first.
            long = self.errand.clock.now() - page.began >= min(page.began - began, _PAGE_FOR)
            if full or long or not left:
                self._write(claim, run, page, left, first)
                size = self._size(size)
                page = _Gathered(self.errand.clock.now())
                first = PlannedPage(page.began, left)
            if self.errand.stopping():
                raise Stopped

    def _warn(self, facts: TableFacts) -> None:
        """Say with each run what the policy accepts without proof."""
        about = {"policy": self.errand.policy.name}
        for note in facts.notes:
            if note.code in ACCEPTED:
                log.warning("%s; to end that: %s", note.message, note.remedy, extra=about)

    def pointer(self) -> Pointer | None:
        return None

    def _size(self, before: int | None = None) -> int:
        """How many rows the next batches have; what is planned already keeps its size."""
        policy = self.errand.policy
        return planned_size(policy.rows, lambda: self.recent(policy), before)

    def _kept(self, claim: Claim, facts: TableFacts) -> PlannedPage:
        """What only the whole table tells, counted once: in the page that begins the scan."""
        policy = self.errand.policy
        kept = self._patiently(claim, lambda: self.reader.kept(policy.rows, facts))
        page = PlannedPage(self.errand.clock.now(), [])
        page.scanned = sum(kept.values())
        page.protected = {reason: n for reason, n in kept.items() if n}
        if policy.reach.max_fraction is not None:
            page.in_scope = self._patiently(claim, lambda: self.reader.count(policy.rows))
        return page

    def _write(
        self,
        claim: Claim,
        run: Run,
        gathered: _Gathered,
        left: Sequence[KeyRange],
        page: PlannedPage,
    ) -> None:
        page.cursors = list(left)
        page.scanned += gathered.scanned
        if gathered.referenced:
            page.protected[_REFERENCED] = gathered.referenced.total()
            page.referenced = dict(gathered.referenced)
        if self.errand.policy.reach.max_fraction is None:
            page.in_scope += page.scanned
        held = self.errand.held.over("") is not None
        if held:
            rows = sum(batch.rows for batch in gathered.batches)
            page.protected[HOLD] = page.protected.get(HOLD, 0) + rows
        else:
            able = self._able(gathered.batches)
            page.refused = len(gathered.batches) - len(able)
            page.entries = self._entries(able, run.cutoff, page.asked_at)
        now = self.errand.clock.now()
        self.errand.on_page(self.errand.ledger.write_page(claim, page, 0, now, LEASE))

    def _entries(
        self, batches: Sequence[RowBatch], cutoff: datetime, asked_at: datetime
    ) -> list[Entry]:
        policy = self.errand.policy
        ids = [operation_of(policy, cutoff, batch) for batch in batches]
        known = self.errand.known(ids)
        entries = []
        for id_, batch in zip(ids, batches, strict=True):
            found = disposition(known.get(id_), asked_at)
            if found is Disposition.REAPPEARED:
                # Its completion record would have a worker do nothing. Another slot has another
                # cutoff, and with it another id.
                found = Disposition.ALREADY_COMPLETED
            item = Listed(batch.label, batch.rows, batch.shape, batch.oldest)
            entries.append(Entry(id_, item, found, None, batch=batch))
        return entries

    def _able(self, batches: Sequence[RowBatch]) -> list[RowBatch]:
        """Those of *batches* that a command can carry."""
        problems = {batch: why for batch in batches if (why := impossible_batch(batch)) is not None}
        if problems:
            batch, why = next(iter(problems.items()))
            about = {"policy": self.errand.policy.name, "key": batch.label[:200]}
            log.warning(
                "%d batches are refused, the first because %s", len(problems), why, extra=about
            )
        return [batch for batch in batches if batch not in problems]

    def _patiently(self, claim: Claim, ask: Callable[[], T]) -> T:
        """Ask, and keep the claim meanwhile: to count a large table takes longer than a lease."""
        errand = self.errand
        try:
            with self.threads(1, "look") as pool:
                asked = pool.submit(patiently, ask, errand.clock, errand.spread, errand.stopping)
                while not wait([asked], _RENEW_SECONDS).done:
                    errand.ledger.renew(claim, errand.clock.now(), LEASE)
            return asked.result()
        except TableRefused as error:
            raise PlanRefused(f"policies.{errand.policy.name}.rows: {error}") from error


def operation_of(policy: Policy, cutoff: datetime, batch: RowBatch) -> bytes:
    """The id of the operation for *batch*, 32 bytes."""
    return bytes.fromhex(
        row_operation(
            policy.name, policy.version, policy.rows.table, cutoff, batch.first, batch.last
        )
    )
