"""What cleaning up a table may rely on, and what would make it slow."""

from collections.abc import Iterator

import sqlalchemy as sa

from bestbefore.adapters.rows.describing import index_ddl
from bestbefore.adapters.rows.references import LEFT_TO_THE_DATABASE, references
from bestbefore.adapters.rows.table import Target
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.rows import TableFacts


def findings(connection: sa.Connection, target: Target, facts: TableFacts) -> Iterator[Finding]:
    """See `RowReader.check`."""
    yield from facts.notes
    yield from _references(connection, target, target.table, set())


def _references(
    connection: sa.Connection, target: Target, table: sa.Table, met: set[str]
) -> Iterator[Finding]:
    """What refers to rows that go, over any number of steps."""
    met.add(str(table))
    for reference in references(connection, table):
        child = reference.table
        if not reference.indexed:
            # Also of SET NULL: the database looks for the rows to set.
            yield Finding(
                "foreign-key-unindexed",
                Level.WARNING,
                f"{child} refers to {table} ({reference.name}) without an index, so that all of it "
                "is read for every row that goes",
                index_ddl(connection, child, list(reference.columns)),
            )
        if str(child) in met or reference.on_delete in LEFT_TO_THE_DATABASE:
            continue
        if target.goes(child):
            yield Finding("dependents", Level.INFO, f"rows of {child} go with those of {table}", "")
            yield from _references(connection, target, child, met)
        else:
            yield Finding(
                "referenced",
                Level.INFO,
                f"rows of {table} stay while rows of {child} refer to them ({reference.name})",
                "",
            )
