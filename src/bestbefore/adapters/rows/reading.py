"""The looking side: what there is, what of it would go, and in which batches."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

import sqlalchemy as sa

from bestbefore.adapters.rows import completion
from bestbefore.adapters.rows.checking import findings
from bestbefore.adapters.rows.describing import described
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.errors import failure_of
from bestbefore.adapters.rows.gaps import gaps
from bestbefore.adapters.rows.partition_findings import partition_findings
from bestbefore.adapters.rows.partitions import holding, marked, whole
from bestbefore.adapters.rows.seeing import among, seen, shown
from bestbefore.adapters.rows.slices import cut
from bestbefore.adapters.rows.table import Target, base_table, reflect
from bestbefore.adapters.rows.timestamps import FUTURE
from bestbefore.domain.finding import Finding
from bestbefore.domain.rows import RowBatch, RowSource, Walk
from bestbefore.ports.objects import KeyRange, StoreError
from bestbefore.ports.rows import RowSeen, RowsShown, Slice, TableFacts, TableRefused, Whole

_MOST_DESCRIBED = 100
"""Sources whose tables are remembered: one with policies of other tables is another in each run."""


class SqlRowReader:
    """`bestbefore.ports.rows.RowReader` on any of the databases. Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # What the newest `describe` found, so that a scan of thousands of slices reads the catalog
        # once. A table that changes meanwhile is noticed by the next plan, and by the shape of its
        # batches before anything is deleted.
        self._described: dict[tuple[RowSource, Walk, str], Target] = {}

    def close(self) -> None:
        """Close every connection of both sides."""
        self._database.dispose()

    def describe(self, source: RowSource, walk: Walk | None = None) -> TableFacts:
        """See `RowReader.describe`."""
        with self._answering(source), self._database.counting() as connection:
            facts, target = described(connection, source, walk)
        if len(self._described) >= _MOST_DESCRIBED:
            self._described.clear()
        self._described[source, target.walk, target.shape] = target
        return facts

    def gaps(
        self, source: RowSource, facts: TableFacts, taken: Sequence[tuple[str, str]]
    ) -> Sequence[KeyRange]:
        """See `RowReader.gaps`."""
        with self._looking(source, facts) as (connection, target):
            return gaps(connection, target, taken)

    def partitions(
        self, source: RowSource, facts: TableFacts, cutoff: datetime, taken: Collection[str]
    ) -> Whole:
        """See `RowReader.partitions`."""
        with self._answering(source), self._database.counting() as connection:
            target = self._target(connection, source, facts)
            return whole(connection, source, target, cutoff, taken)

    def marked(self, source: RowSource, facts: TableFacts, cutoff: datetime) -> Sequence[RowBatch]:
        """See `RowReader.marked`."""
        with self._answering(source), self._database.counting() as connection:
            target = self._target(connection, source, facts)
            return list(marked(connection, source, target, cutoff))

    def slice(
        self, source: RowSource, facts: TableFacts, cutoff: datetime, gap: KeyRange, size: int,
        most: int, apart: Sequence[tuple[str, str]] = (),
    ) -> Slice:  # fmt: skip
        """See `RowReader.slice`."""
        with self._looking(source, facts) as (connection, target):
            return cut(connection, target, cutoff, gap, size, most, apart)

    def show(
        self, source: RowSource, facts: TableFacts, cutoff: datetime, batch: RowBatch
    ) -> RowsShown:
        """See `RowReader.show`."""
        with self._looking(source, facts) as (connection, target):
            return shown(connection, target, cutoff, batch)

    def kept(self, source: RowSource, facts: TableFacts) -> Mapping[str, int]:
        """See `RowReader.kept`."""
        with self._answering(source), self._database.counting() as connection:
            target = self._target(connection, source, facts)
            now = target.dialect.now(connection)
            reasons = {"undated": target.times.undated, "future": target.times.after(now + FUTURE)}
            counts = [
                sa.select(sa.func.count())
                .select_from(target.table)
                .where(reason, sa.true() if target.where is None else target.where)
                .scalar_subquery()
                for reason in reasons.values()
            ]
            return dict(zip(reasons, connection.execute(sa.select(*counts)).one(), strict=True))

    def lacking(self, source: RowSource, ended: Sequence[bytes]) -> Collection[bytes]:
        """See `RowReader.lacking`."""
        if source.ledger_only or not ended:
            return ()
        with self._answering(source), self._database.reading() as connection:
            records = completion.records_in(base_table(connection, source).schema)
            return set(ended) - completion.known(connection, records, ended)

    def count(self, source: RowSource) -> int:
        """See `RowReader.count`."""
        with self._answering(source), self._database.counting() as connection:
            table = base_table(connection, source)
            rows = sa.select(sa.func.count()).select_from(table)
            return connection.execute(rows).scalar_one()

    def find(
        self, source: RowSource, facts: TableFacts, cutoff: datetime, key: str
    ) -> RowSeen | None:
        """See `RowReader.find`."""
        with self._looking(source, facts) as (connection, target):
            try:
                row = seen(connection, target, cutoff, key)
                if row is None or row.timestamp is None or not row.old:
                    return row
                partition = holding(connection, source, target, cutoff, row.timestamp)
                return row._replace(partition=partition)
            except sa.exc.DataError:
                return None  # what cannot be a key is none

    def batch_of(
        self, source: RowSource, facts: TableFacts, key: str, ends: Sequence[tuple[str, str]]
    ) -> int | None:
        """See `RowReader.batch_of`."""
        with self._looking(source, facts) as (connection, target):
            try:
                return among(connection, target, key, ends)
            except sa.exc.DataError:
                return None

    def check(self, source: RowSource, cutoff: datetime) -> Sequence[Finding]:
        """See `RowReader.check`."""
        with self._answering(source), self._database.counting() as connection:
            facts, target = described(connection, source, None)
            return [
                *findings(connection, target, facts, cutoff),
                *partition_findings(connection, source, target, cutoff),
            ]

    @contextmanager
    def _answering(self, source: RowSource) -> Iterator[None]:
        """Turn what the database raises into StoreError."""
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            raise StoreError(failure_of(error, source.table)) from error

    @contextmanager
    def _looking(
        self, source: RowSource, facts: TableFacts
    ) -> Iterator[tuple[sa.Connection, Target]]:
        with self._answering(source), self._database.reading() as connection:
            yield connection, self._target(connection, source, facts)

    def _target(self, connection: sa.Connection, source: RowSource, facts: TableFacts) -> Target:
        described = self._described.get((source, facts.walk, facts.shape))
        if described is not None:
            return described
        target = reflect(connection, source, facts.walk)
        if target.shape != facts.shape:
            raise TableRefused(
                f"{source.table} is not the table any more that was described; plan again"
            )
        self._described[source, facts.walk, facts.shape] = target
        return target
