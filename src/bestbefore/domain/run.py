"""A run: one planning pass for (policy, version, slot), with its counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from bestbefore.domain.identity import instant, operation_id
from bestbefore.domain.policy import Reach
from bestbefore.domain.printable import number_of
from bestbefore.domain.rows import MOST_DEPENDENTS, DependentRows
from bestbefore.domain.states import RunState


class Trigger(StrEnum):
    """What started a run."""

    PLAN = "plan"
    RUN = "run"
    SCHEDULE = "schedule"
    HTTP = "http"


def run_id(policy: str, version: str, slot: datetime) -> str:
    """The public name of a run (12 hex digits): the same slot is always the same run."""
    return operation_id("run", policy, version, instant(slot))[:12]


@dataclass(frozen=True, slots=True)
class Run:
    """A run as stored.

    ``planned = waiting + pending + completed + dead`` holds in every transaction; the other
    numbers are what the scan counted. ``pruned`` of the completed ones are only in exports any
    more; ``held`` of the pending ones wait for a lock or for what lies under them. ``row`` is the
    ledger's own key. ``early`` says that it
    releases page by page; ``complete`` that its scan has ended. ``target`` names the store and
    the place in it; ``first_slot`` is the oldest slot whose work it took over. ``uploads`` says how
    many unfinished uploads are among the ``scanned`` and the ``eligible``. Of a run over a table
    ``about_rows`` is True: ``planned`` and all that belongs to it count batches, ``rows`` how many
    rows these hold, ``scanned``, ``in_scope`` and ``protected`` count rows. ``table`` is the full
    name of that table as the database writes it, None before the first page. ``dependents`` are the
    rows of other tables that its batches may remove or change, the largest first;
    ``most_dependents`` is how many the batch with the most of them has, rows of the same table
    included. ``referenced`` says by table how many rows stay because a row of that table refers to
    them. Who began it, a person or a process, is ``created_by``, None where that was not yet
    written down.
    """

    row: int
    run_id: str
    policy: str
    policy_version: str
    slot: datetime
    first_slot: datetime
    cutoff: datetime
    state: RunState
    trigger: Trigger
    early: bool
    complete: bool
    target: str
    reason: str | None
    created_at: datetime
    scanned: int
    in_scope: int
    protected: Mapping[str, int]
    already_pending: int
    already_completed: int
    already_dead: int
    reappeared: int
    refused: int
    planned: int
    waiting: int
    pending: int
    completed: int
    dead: int
    pruned: int = 0
    uploads: Mapping[str, int] = field(default_factory=dict)
    held: int = 0
    about_rows: bool = False
    rows: int = 0
    created_by: str | None = None
    dependents: tuple[DependentRows, ...] = ()
    referenced: Mapping[str, int] = field(default_factory=dict)
    table: str | None = None
    most_dependents: int = 0

    @property
    def selected(self) -> int:
        """What the caps are compared with: objects, or rows with those of other tables that would
        be removed or changed with them."""
        return self.own_selected + self.dependent_rows

    @property
    def own_selected(self) -> int:
        """Objects, or rows of the policy's own table."""
        return self.rows if self.about_rows else self.planned

    @property
    def dependent_rows(self) -> int:
        """Rows of other tables that the planned batches may remove or change."""
        return sum(table.removed + table.changed for table in self.dependents)

    @property
    def eligible(self) -> int:
        """Everything the scan selected, in ``planned``'s unit, planned by this run or not."""
        already = self.already_pending + self.already_completed + self.already_dead
        return self.planned + already + self.refused

    @property
    def unit(self) -> str:
        """What ``planned`` counts."""
        return "batch" if self.about_rows else "object"

    @property
    def released(self) -> bool:
        """Whether its operations may go to the queue."""
        return self.state in (RunState.OPEN, RunState.DRAINED)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a run has to be judged by besides its own numbers, whatever started it.

    ``first`` is True while no run of its policy version was ever released; ``moved_from`` is the
    target of the newest released run where that was another one; ``inherited`` is why the run
    whose operations it took over was parked, or why its source is in doubt. ``approved`` is
    ``--yes``.
    """

    approved: bool
    first: bool
    moved_from: str | None
    inherited: str | None

    def may_park(self, reach: Reach, *, dependents: bool = False) -> bool:
        """Whether the end of the scan could still decide to park. *dependents* says that the policy
        may remove or change rows of other tables, of which a single row may have too many."""
        if self.approved:
            return False
        told = self.inherited is not None or self.moved_from is not None
        return reach.capped or dependents or told or self.first


def park_reason(run: Run, reach: Reach, seen: Circumstances) -> str | None:
    """Why *run*, scanned to its end, waits for a person; None if it goes ahead.

    Parks only what selects something.
    """
    if seen.approved or not run.planned:
        return None
    if reach.max_deletes is not None and run.selected > reach.max_deletes:
        return f"{_selected(run)}, max_deletes is {reach.max_deletes:,}"
    if reach.max_fraction is not None and run.own_selected > reach.max_fraction * run.in_scope:
        return _fraction(run, reach.max_fraction)
    if run.most_dependents > MOST_DEPENDENTS:
        return (
            f"one row of {run.table} has {run.most_dependents:,} dependents, more than "
            f"{MOST_DEPENDENTS:,} in one transaction"
        )
    if seen.inherited is not None:
        return seen.inherited
    if seen.moved_from is not None:
        return f"this run looks at {run.target}, the last released one at {seen.moved_from}"
    if seen.first and run.selected > reach.first_run_limit:
        return (
            f"first run of version {run.policy_version}: {_selected(run)}, "
            f"first_run_limit is {reach.first_run_limit:,}"
        )
    return None


def _selected(run: Run) -> str:
    """``300 rows selected and 20,000 rows of other tables with them``"""
    selected = f"{number_of(run.own_selected, _thing(run))} selected"
    if not run.dependent_rows:
        return selected
    return f"{selected} and {number_of(run.dependent_rows, 'row')} of other tables with them"


def _fraction(run: Run, most: float) -> str:
    share = f" ({run.own_selected / run.in_scope:.1%})" if run.in_scope else ""
    return (
        f"{run.own_selected:,} of {number_of(run.in_scope, _thing(run))} in scope selected{share}, "
        f"max_fraction is {most:g}"
    )


def _thing(run: Run) -> str:
    return "row" if run.about_rows else "object"


def too_many_reappeared(reappeared: int, eligible: int, seen: Circumstances) -> str | None:
    """Why a run whose store lists again what was deleted waits for a person, or None.

    A few reappear on stores with lagging listings; many mean that the store was restored.
    """
    if seen.approved:
        return None
    limit = max(100, eligible // 100)
    if reappeared <= limit:
        return None
    return (
        f"{reappeared:,} objects that were deleted are listed again (limit {limit:,}): "
        "was the store restored?"
    )
