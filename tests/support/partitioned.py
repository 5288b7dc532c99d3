"""A table of PostgreSQL with a partition for each month, and a row for each day of them.

months.run('CREATE VIEW january AS SELECT * FROM "updates 2026-01"')
assert [batch.rows for batch in months.whole().batches] == [28]
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise

import pytest

from bestbefore.adapters.rows.deleting import SqlRowDeleter
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.reading import SqlRowReader
from bestbefore.domain.failure import Failure
from bestbefore.domain.finding import Finding
from bestbefore.domain.rows import Divided, Effect, RowBatch, RowSource
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import RowTask, Whole
from support.postgresql import Postgres

CUTOFF = datetime(2026, 3, 15, tzinfo=UTC)
SOURCE = RowSource("shop", "updates", "at")
JANUARY, FEBRUARY = "updates 2026-01", "updates 2026-02"

_ALL = KeyRange(None, None)
_MONTHS = ("2026-01", "2026-02", "2026-03", "2026-04", "2026-05")


@dataclass(frozen=True)
class MonthlyTable:
    """The table ``updates``: January and February of 2026 are old as a whole, half of March is."""

    server: Postgres
    schema: str
    database: Database

    @classmethod
    def create(cls, server: Postgres) -> "MonthlyTable":
        schema = server.create_schema()
        made = cls(server, schema, Database(server.url(schema)))
        made.run(
            "CREATE TABLE updates (id bigint, at timestamptz, PRIMARY KEY (at, id))"
            " PARTITION BY RANGE (at)",
            *(
                f'CREATE TABLE "updates {month}" PARTITION OF updates'
                f" FOR VALUES FROM ('{month}-01+00') TO ('{following}-01+00')"
                for month, following in pairwise(_MONTHS)
            ),
            "INSERT INTO updates SELECT day, '2026-01-01+00'::timestamptz + day * interval '1 day'"
            " FROM generate_series(0, 119) day",
        )
        return made

    @contextmanager
    def seen_by(self, role: str) -> Iterator["MonthlyTable"]:
        """The same table for the product as *role*, which may log in."""
        database = Database(str(self.database.url.set(username=role, password=None)))
        yield replace(self, database=database)
        database.dispose()

    @property
    def reader(self) -> SqlRowReader:
        return SqlRowReader(self.database)

    @property
    def deleter(self) -> SqlRowDeleter:
        return SqlRowDeleter(self.database)

    def run(self, *statements: str) -> None:
        with self.server.connect() as connection:
            connection.execute(f"SET search_path = {self.schema}")
            for statement in statements:
                connection.execute(statement)

    def ask(self, query: str) -> list[str]:
        with self.server.connect() as connection:
            connection.execute(f"SET search_path = {self.schema}")
            return [str(row[0]) for row in connection.execute(query)]

    def partitions(self) -> list[str]:
        return self.ask(
            "SELECT relname FROM pg_class JOIN pg_inherits ON inhrelid = oid"
            " WHERE inhparent = 'updates'::regclass ORDER BY relname"
        )

    def tables(self) -> list[str]:
        return self.ask(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema"
            " AND tablename LIKE 'updates %' ORDER BY tablename"
        )

    def comment(self, partition: str) -> str | None:
        (said,) = self.ask(f"SELECT coalesce(obj_description('\"{partition}\"'::regclass), '')")
        return said or None

    def whole(self, source: RowSource = SOURCE, taken: tuple[str, ...] = ()) -> Whole:
        return self.reader.partitions(source, self.reader.describe(source), CUTOFF, taken)

    def planned_whole(self, source: RowSource = SOURCE) -> list[str]:
        """The names of the partitions that are removed as a whole."""
        return [name_of(batch) for batch in self.whole(source).batches]

    def marked(self, source: RowSource = SOURCE) -> list[tuple[str, int]]:
        """Name and rows of what was taken out of the table and is still there."""
        found = self.reader.marked(source, self.reader.describe(source), CUTOFF)
        return [(name_of(batch), batch.rows) for batch in found]

    def slice(
        self, source: RowSource = SOURCE, apart: Sequence[tuple[str, str]] = ()
    ) -> list[RowBatch]:
        facts = self.reader.describe(source)
        found = self.reader.slice(source, facts, CUTOFF, _ALL, 100, 1_000, apart)
        return list(found.batches)

    def remove(self, batch: RowBatch, source: RowSource = SOURCE) -> Effect | Divided | Failure:
        return self.deleter.delete(source, task(batch), "worker")

    def checked(self, source: RowSource = SOURCE) -> dict[str, Finding]:
        """What `check` says, by code."""
        return {finding.code: finding for finding in self.reader.check(source, CUTOFF)}


def task(batch: RowBatch) -> RowTask:
    return RowTask(sha256(batch.first.encode()).digest(), "stale", "v1", batch, CUTOFF)


def name_of(batch: RowBatch) -> str:
    return batch.first.rpartition(".")[2].removesuffix('"]')


@pytest.fixture
def months(postgres: Postgres) -> Iterator[MonthlyTable]:
    made = MonthlyTable.create(postgres)
    yield made
    made.database.dispose()
    postgres.drop_schema(made.schema)
