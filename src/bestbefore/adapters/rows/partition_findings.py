"""What `check` says about partitions: which are removed as a whole, which row by row, and why."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa

from bestbefore.adapters.rows.catalog import partition_tree
from bestbefore.adapters.rows.catalog.partition_tree import Obstacle
from bestbefore.adapters.rows.partitions import Decision, Old, decided, obstacles, old, parent_of
from bestbefore.adapters.rows.table import Target
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.rows import Partitions, RowSource

_NAMED = 3
"""Partitions that a finding names; the others are counted."""

_MOST = 20
"""Partitions with something in their way that have a finding of their own."""


def partition_findings(
    connection: sa.Connection, source: RowSource, target: Target, cutoff: datetime
) -> Iterator[Finding]:
    """Findings about the partitions of *target* that are before *cutoff*."""
    if source.partitions is Partitions.ROWS or connection.dialect.name != "postgresql":
        return
    parent = parent_of(connection, target)
    if parent is None:
        return
    partitions = list(old(connection, target, cutoff))
    decision = decided(connection, source, target)
    if decision.how is None:
        yield from _all_by_rows(target, decision)
        return
    kept = obstacles(connection, decision, [one.oid for one in partitions])
    yield from _whole(target, decision, [one for one in partitions if one.oid not in kept])
    yield from _by_rows(source, partitions, kept)
    if decision.how is Partitions.DROP:
        yield from _not_replicated(connection, target, parent.oid)


def _all_by_rows(target: Target, decision: Decision) -> Iterator[Finding]:
    if decision.obstacle is not None:
        yield Finding(
            "partitions-by-rows",
            Level.INFO,
            f"{target.table} has partitions, and rows are removed from them in batches: "
            f"{decision.obstacle.why}",
            decision.obstacle.remedy,
        )


def _whole(target: Target, decision: Decision, whole: Sequence[Old]) -> Iterator[Finding]:
    if not whole:
        return
    names = ", ".join(f"{one.schema}.{one.name}" for one in whole[:_NAMED])
    more = f" and {len(whole) - _NAMED:,} more" if len(whole) > _NAMED else ""
    verb = "dropped" if decision.how is Partitions.DROP else "detached"
    yield Finding(
        "partitions-whole",
        Level.INFO,
        f"partitions of {target.table} that are old as a whole would be {verb}: {names}{more}",
        "",
    )


def _by_rows(
    source: RowSource, partitions: Sequence[Old], kept: Mapping[int, Sequence[Obstacle]]
) -> Iterator[Finding]:
    by_rows = source.partitions is Partitions.AUTO
    what = "its rows are removed in batches" if by_rows else f'partitions = "{source.partitions}"'
    found = [one for one in partitions if one.oid in kept]
    for one in found[:_MOST]:
        name = f"{one.schema}.{one.name}"
        yield Finding(
            "partition-kept-whole",
            Level.INFO if by_rows else Level.ERROR,
            f"{name} cannot be removed as a whole without another effect ({what}): "
            f"{partition_tree.named(kept[one.oid])}",
            "; ".join(dict.fromkeys(o.remedy for o in kept[one.oid] if o.remedy)),
        )
    if len(found) > _MOST:
        yield Finding(
            "partitions-kept-whole",
            Level.INFO,
            f"{len(found) - _MOST:,} more partitions have something in their way",
            "",
        )


def _not_replicated(connection: sa.Connection, target: Target, parent: int) -> Iterator[Finding]:
    if names := partition_tree.publications(connection, parent):
        yield Finding(
            "drop-not-replicated",
            Level.WARNING,
            f"publications send the rows that are deleted from {target.table} "
            f"({', '.join(names)}), and not that a partition is dropped, so that subscribers "
            "keep its rows",
            'write partitions = "rows" where they have to lose them too',
        )
