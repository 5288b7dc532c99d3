"""What batches may remove and change beside their rows, as planned: stored, and summed up by run.

A run's sums are tallies, one kind for each number, by table. They also hold the policy's own table;
that is left out when a run is read, as those rows are in other batches of the same run.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping

from bestbefore.domain.rows import DependentRows

REMOVED, CHANGED, YOUNGER = "planned_removed", "planned_changed", "planned_younger"
AGELESS = "planned_ageless"
"""How many batches could not tell how many of their dependents are younger than the cutoff."""

KINDS = (REMOVED, CHANGED, YOUNGER, AGELESS)

Sums = Counter[tuple[str, str]]
"""Numbers by kind of tally and by table."""


def dumped(dependents: Iterable[DependentRows]) -> str | None:
    """*dependents* as a batch's row holds them; None, as most batches have it, for none."""
    listed = [list(table) for table in dependents]
    return json.dumps(listed) if listed else None


def loaded(stored: str | None) -> tuple[DependentRows, ...]:
    """What `dumped` made of them. A batch that 0.1 planned has none, as none were counted."""
    return () if stored is None else tuple(DependentRows(*table) for table in json.loads(stored))


def add(sums: Sums, dependents: Iterable[DependentRows], sign: int = 1) -> None:
    """Add those of one batch to *sums*, or with a *sign* of -1 take them away."""
    for table, removed, changed, younger in dependents:
        if removed or changed:
            sums[REMOVED, table] += sign * removed
            sums[CHANGED, table] += sign * changed
            sums[AGELESS, table] += sign * (younger is None)
            sums[YOUNGER, table] += sign * (younger or 0)


def total(dependents: Iterable[DependentRows]) -> int:
    """How many rows beside its own one batch may remove or change."""
    return sum(table.removed + table.changed for table in dependents)


def summed(
    tallied: Mapping[str, Mapping[str, int]], own_table: str | None
) -> tuple[DependentRows, ...]:
    """The dependents of a run, the largest table first, from its tallies by kind and table."""
    found = []
    removed, changed, younger, ageless = (tallied.get(kind, {}) for kind in KINDS)
    for table in removed.keys() | changed.keys():
        gone, kept = removed.get(table, 0), changed.get(table, 0)
        young = None if ageless.get(table) else younger.get(table, 0)
        if table != own_table and (gone or kept):
            found.append(DependentRows(table, gone, kept, young))
    return tuple(sorted(found, key=lambda one: (-one.removed - one.changed, one.table)))
