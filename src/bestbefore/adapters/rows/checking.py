"""What cleaning up a table may rely on, and what would make it slow."""

import json
from collections.abc import Iterator
from datetime import datetime

import sqlalchemy as sa

from bestbefore.adapters.rows.catalog.effects import triggers
from bestbefore.adapters.rows.describing import index_ddl
from bestbefore.adapters.rows.references import Reference, references
from bestbefore.adapters.rows.slices import cut
from bestbefore.adapters.rows.table import Target
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import TableFacts

_SOME = 50_000
"""Rows that are looked at to say how many of them others keep."""


def findings(
    connection: sa.Connection, target: Target, facts: TableFacts, cutoff: datetime
) -> Iterator[Finding]:
    """See `RowReader.check`."""
    yield from facts.notes
    yield from _references(connection, target, target.table, set())
    yield from _kept(connection, target, cutoff)
    removed, changed = target.node.tables()
    if found := triggers(connection, removed, changed):
        yield Finding(
            "delete-triggers",
            Level.WARNING,
            f"the database runs triggers or rules of its own with each DELETE of "
            f"{target.table}, whose effects cannot be counted: {'; '.join(found)}",
            "nothing to do if they are meant to run; rows they keep are counted as blocked",
        )


def _references(
    connection: sa.Connection, target: Target, table: sa.Table, met: set[str]
) -> Iterator[Finding]:
    """What refers to rows that are removed, over any number of steps."""
    met.add(str(table))
    for reference in references(connection, table):
        child = reference.table
        if not reference.indexed:
            yield Finding(
                "foreign-key-unindexed",
                Level.WARNING,
                f"{child} refers to {table} ({reference.name}) without an index, so that all of "
                "it is read for every row that is removed",
                index_ddl(connection, child, list(reference.columns)),
            )
        if str(child) in met:
            continue
        yield _about(target, table, reference)
        if target.allowed.allows(reference) and not reference.changes:
            yield from _references(connection, target, child, met)


def _about(target: Target, table: sa.Table, reference: Reference) -> Finding:
    child, rule = reference.table, f"{reference.name}, ON DELETE {reference.on_delete}"
    if not target.allowed.allows(reference):
        return Finding(
            "referenced",
            Level.INFO,
            f"rows of {table} stay while rows of {child} refer to them ({rule})",
            _remedy(child),
        )
    what = "lose their reference" if reference.changes else "are removed"
    said = f"rows of {child} {what} with those of {table} ({rule})"
    return Finding("dependents", Level.INFO, said, "")


def _kept(connection: sa.Connection, target: Target, cutoff: datetime) -> Iterator[Finding]:
    """How many old rows stay because others refer to them."""
    if not (target.keepers or target.own):
        return
    found = cut(connection, target, cutoff, KeyRange(None, None), _SOME, _SOME)
    among = f"the first {_SOME:,} rows" if found.rest else f"{found.scanned:,} rows"
    for table, n in found.referenced.items():
        itself = table == str(target.table)
        yield Finding(
            "rows-referenced",
            Level.INFO,
            f"of {among} of {target.table} that were looked at, {n:,} old ones stay because rows "
            f"of {'the same table' if itself else table} refer to them",
            "" if itself else f"to remove those too: dependents = [{json.dumps(table)}]",
        )


def _remedy(child: sa.Table) -> str:
    return f"to remove or change those too: dependents = [{json.dumps(str(child))}]"
