"""Partitions of PostgreSQL that are old as a whole."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest

from bestbefore.adapters.rows import detaching
from bestbefore.adapters.rows.deleting import SqlRowDeleter
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.reading import SqlRowReader
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Effect, Partitions, RowBatch, RowSource, Walk
from bestbefore.ports.objects import KeyRange
from bestbefore.ports.rows import RowTask, TableRefused, Whole
from support.postgresql import Postgres

CUTOFF = datetime(2026, 3, 15, tzinfo=UTC)
ALL = KeyRange(None, None)
SOURCE = RowSource("shop", "updates", "at")
MONTHS = ("2026-01", "2026-02", "2026-03", "2026-04")


class Shop:
    """A table with a partition for each month, and a row for each day of them."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.schema = server.create_schema()
        url = server.url(self.schema)
        self.database = Database(url)
        self.reader = SqlRowReader(self.database)
        self.deleter = SqlRowDeleter(self.database)
        self.run(
            "CREATE TABLE updates (id bigint, at timestamptz, PRIMARY KEY (at, id))"
            " PARTITION BY RANGE (at)"
        )
        for month, following in zip(MONTHS, (*MONTHS[1:], "2026-05"), strict=True):
            self.run(
                f'CREATE TABLE "updates {month}" PARTITION OF updates'
                f" FOR VALUES FROM ('{month}-01+00') TO ('{following}-01+00')"
            )
        self.run(
            "INSERT INTO updates SELECT day, '2026-01-01+00'::timestamptz + day * interval '1 day'"
            " FROM generate_series(0, 119) day"
        )

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

    def whole(self, source: RowSource = SOURCE, taken: tuple[str, ...] = ()) -> Whole:
        return self.reader.partitions(source, self.reader.describe(source), CUTOFF, taken)

    def slice(self, source: RowSource = SOURCE, since: str | None = None) -> list[RowBatch]:
        facts = self.reader.describe(source)
        found = self.reader.slice(source, facts, CUTOFF, ALL, 100, 1_000, since)
        return list(found.batches)

    def remove(self, batch: RowBatch, source: RowSource = SOURCE) -> object:
        return self.deleter.delete(source, task(batch), "worker")


def task(batch: RowBatch) -> RowTask:
    return RowTask(sha256(batch.first.encode()).digest(), "stale", "v1", batch, CUTOFF)


@pytest.fixture
def shop(postgres: Postgres) -> Iterator[Shop]:
    made = Shop(postgres)
    yield made
    made.database.dispose()
    postgres.drop_schema(made.schema)


def test_old_months_go_as_partitions_and_the_ragged_edge_in_batches(shop: Shop) -> None:
    found = shop.whole()
    assert [(batch.rows, batch.walk) for batch in found.batches] == [
        (31, Walk.PARTITION),
        (28, Walk.PARTITION),
    ]
    assert [batch.oldest for batch in found.batches] == [
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 2, 1, tzinfo=UTC),
    ]
    (edge,) = shop.slice(since=found.until)
    assert (edge.rows, edge.oldest) == (14, datetime(2026, 3, 1, tzinfo=UTC))


def test_a_dropped_partition_is_counted_and_a_repeat_changes_nothing(shop: Shop) -> None:
    january = shop.whole().batches[0]
    first = shop.remove(january)
    assert isinstance(first, Effect)
    assert (first.outcome, first.rows, first.replayed) == (Outcome.DELETED, 31, False)
    assert shop.tables() == ["updates 2026-02", "updates 2026-03", "updates 2026-04"]
    again = shop.remove(january)
    assert isinstance(again, Effect)
    assert (again.outcome, again.rows, again.replayed) == (Outcome.DELETED, 31, True)
    assert shop.ask("SELECT count(*) FROM updates") == ["89"]


def test_a_detached_partition_stays_as_a_table(shop: Shop) -> None:
    source = replace(SOURCE, partitions=Partitions.DETACH)
    january = shop.whole(source).batches[0]
    done = shop.remove(january, source)
    assert isinstance(done, Effect)
    assert (done.outcome, done.archived) == (Outcome.ARCHIVED, 31)
    assert shop.partitions() == ["updates 2026-02", "updates 2026-03", "updates 2026-04"]
    assert shop.ask('SELECT count(*) FROM "updates 2026-01"') == ["31"]


def test_a_worker_that_died_after_detaching_is_gone_on_with(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    january = shop.whole().batches[0]

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(detaching, "_finish", dies)
        with pytest.raises(KeyboardInterrupt):
            shop.remove(january)
    assert "updates 2026-01" not in shop.partitions()
    assert "updates 2026-01" in shop.tables()
    done = shop.remove(january)
    assert isinstance(done, Effect)
    assert (done.outcome, done.rows) == (Outcome.DELETED, 31)
    assert "updates 2026-01" not in shop.tables()


def test_a_partition_that_somebody_else_detached_is_kept(shop: Shop) -> None:
    january = shop.whole().batches[0]
    shop.run('ALTER TABLE updates DETACH PARTITION "updates 2026-01"')
    done = shop.remove(january)
    assert isinstance(done, Effect)
    assert done.outcome is Outcome.PROTECTED
    assert shop.ask('SELECT count(*) FROM "updates 2026-01"') == ["31"]


def test_another_table_of_the_same_name_is_not_touched(shop: Shop) -> None:
    january = shop.whole().batches[0]
    shop.run(
        'DROP TABLE "updates 2026-01"',
        'CREATE TABLE "updates 2026-01" PARTITION OF updates'
        " FOR VALUES FROM ('2026-01-01+00') TO ('2026-02-01+00')",
        "INSERT INTO updates VALUES (1, '2026-01-05+00')",
    )
    done = shop.remove(january)
    assert isinstance(done, Effect)
    assert done.outcome is Outcome.ABSENT
    assert shop.ask('SELECT count(*) FROM "updates 2026-01"') == ["1"]


def test_a_partition_that_is_planned_already_is_not_planned_again(shop: Shop) -> None:
    found = shop.whole()
    again = shop.whole(taken=(found.batches[0].first,))
    assert [batch.first for batch in again.batches] == [found.batches[1].first]
    assert again.until == found.until


def test_what_may_hold_younger_or_undated_rows_goes_in_batches(shop: Shop) -> None:
    shop.run(
        "CREATE TABLE earlier PARTITION OF updates FOR VALUES FROM (MINVALUE) TO ('2026-01-01+00')",
        "CREATE TABLE other PARTITION OF updates DEFAULT",
        "INSERT INTO updates VALUES (1, '-infinity'), (2, '2025-06-01+00'), (3, '2027-01-01+00')",
    )
    found = shop.whole()
    assert [batch.rows for batch in found.batches] == [31, 28]
    for batch in found.batches:
        assert isinstance(shop.remove(batch), Effect)  # although there is a default partition
    left = shop.whole()
    assert (left.batches, left.until) == ((), None)
    assert [batch.rows for batch in shop.slice()] == [15]  # 14 of March, and that of 2025


@pytest.mark.parametrize(
    "prepare",
    [
        "CREATE TABLE notes (id bigint, at timestamptz, FOREIGN KEY (at, id) REFERENCES updates)",
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';"
        " CREATE TRIGGER noting AFTER DELETE ON updates FOR EACH ROW EXECUTE FUNCTION noted()",
    ],
)
def test_partitions_that_others_depend_on_go_row_by_row(shop: Shop, prepare: str) -> None:
    shop.run(prepare)
    assert shop.whole() == Whole((), None)
    with pytest.raises(TableRefused, match=r'partitions = "drop".*"rows"'):
        shop.reader.describe(replace(SOURCE, partitions=Partitions.DROP))


def test_where_and_rows_keep_partitions(shop: Shop) -> None:
    assert shop.whole(replace(SOURCE, where="id > 5")) == Whole((), None)
    assert shop.whole(replace(SOURCE, partitions=Partitions.ROWS)) == Whole((), None)
    assert (
        sum(batch.rows for batch in shop.slice(replace(SOURCE, partitions=Partitions.ROWS))) == 73
    )


def test_a_long_reader_delays_a_detachment_and_the_next_try_ends_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detaching, "_DETACH_SECONDS", 0.5)
    january = shop.whole().batches[0]
    with shop.server.connect() as reader:
        reader.execute(f"SET search_path = {shop.schema}")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM updates")
        failed = shop.remove(january)
        assert not isinstance(failed, Effect)
        reader.execute("ROLLBACK")
    done = shop.remove(january)
    assert isinstance(done, Effect)
    assert (done.outcome, done.rows) == (Outcome.DELETED, 31)


def test_days_and_seconds_partition_as_well(shop: Shop) -> None:
    shop.run(
        "CREATE TABLE days (id bigint, on_day date, PRIMARY KEY (on_day, id))"
        " PARTITION BY RANGE (on_day)",
        "CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM ('2026-03-01') TO ('2026-03-15')",
        "CREATE TABLE days_2 PARTITION OF days FOR VALUES FROM ('2026-03-15') TO ('2026-03-29')",
        "INSERT INTO days VALUES (1, '2026-03-14'), (2, '2026-03-15')",
    )
    days = RowSource("shop", "days", "on_day")
    found = shop.whole(days)
    assert [batch.rows for batch in found.batches] == [1]
    assert found.batches[0].oldest == CUTOFF - timedelta(days=14)
