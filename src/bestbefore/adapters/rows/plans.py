"""What deleting has to know of a table, read once a minute and not for every batch."""

import time
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa

from bestbefore.adapters.rows import completion
from bestbefore.adapters.rows.deletion import Deletion
from bestbefore.adapters.rows.dependents import Node
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.table import Target, reflect
from bestbefore.domain.rows import RowBatch, RowSource, Walk

_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How rows of one source are removed. ``records`` is None where the database gets none."""

    target: Target
    records: sa.Table | None
    _deletions: dict[datetime, Deletion] = field(default_factory=dict, compare=False)

    @property
    def node(self) -> Node:
        """What is removed and changed with the rows of the table."""
        return self.target.node

    def deletion(self, cutoff: datetime) -> Deletion:
        """What deletes the rows of batches with *cutoff*."""
        if cutoff not in self._deletions:
            self._deletions[cutoff] = Deletion(self.target, cutoff)
        return self._deletions[cutoff]


def plan_of(connection: sa.Connection, source: RowSource, walk: Walk | None = None) -> Plan:
    """The plan for *source* as its table is now; the rest as for `reflect`."""
    target = reflect(connection, source, walk)
    records = None if source.ledger_only else completion.records_in(target.table.schema)
    return Plan(target, records)


class Plans:
    """Plans by source and walk."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read: dict[tuple[RowSource, Walk], tuple[Plan, float]] = {}

    def of(self, source: RowSource, batch: RowBatch) -> Plan:
        """The plan for *source*, at most a minute old, and fresh where *batch* was planned for a
        table of another shape. Raises as `anew`."""
        plan, read_at = self._read.get((source, batch.walk), (None, 0.0))
        young = time.monotonic() - read_at < _SECONDS
        if plan is not None and young and plan.target.shape == batch.shape:
            return plan
        return self.anew(source, batch)

    def anew(self, source: RowSource, batch: RowBatch) -> Plan:
        """The plan for *source* as the table is now.

        Raises StoreError and TableRefused, as reading does, and what the database raises. Creates
        the table of completed batches where it is missing.
        """
        with self._database.reading() as connection:
            plan = plan_of(connection, source, batch.walk)
            records = plan.records
            missing = records is not None and not completion.exists(connection, records)
        if records is not None and missing:
            with self._database.writing() as connection:
                completion.create(connection, records)
        now = time.monotonic()
        # A source with policies of other tables is another one in each run.
        self._read = {key: one for key, one in self._read.items() if now - one[1] < _SECONDS}
        self._read[source, batch.walk] = plan, now
        return plan
