"""Partitions of PostgreSQL that are old as a whole."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bestbefore.adapters.rows import detaching
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Effect, Partitions, RowSource, Walk
from bestbefore.ports.rows import TableRefused, Whole
from support.partitioned import CUTOFF, SOURCE, MonthlyTable


def test_old_months_go_as_partitions_and_the_ragged_edge_in_batches(months: MonthlyTable) -> None:
    found = months.whole()
    assert [(batch.rows, batch.walk) for batch in found.batches] == [
        (31, Walk.PARTITION),
        (28, Walk.PARTITION),
    ]
    assert [batch.oldest for batch in found.batches] == [
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 2, 1, tzinfo=UTC),
    ]
    (edge,) = months.slice(apart=found.apart)
    assert (edge.rows, edge.oldest) == (14, datetime(2026, 3, 1, tzinfo=UTC))


def test_a_dropped_partition_is_counted_and_a_repeat_changes_nothing(months: MonthlyTable) -> None:
    january = months.whole().batches[0]
    first = months.remove(january)
    assert isinstance(first, Effect)
    assert (first.outcome, first.rows, first.replayed) == (Outcome.DELETED, 31, False)
    assert months.tables() == ["updates 2026-02", "updates 2026-03", "updates 2026-04"]
    again = months.remove(january)
    assert isinstance(again, Effect)
    assert (again.outcome, again.rows, again.replayed) == (Outcome.DELETED, 31, True)
    assert months.ask("SELECT count(*) FROM updates") == ["89"]


def test_a_detached_partition_stays_as_a_table(months: MonthlyTable) -> None:
    source = replace(SOURCE, partitions=Partitions.DETACH)
    january = months.whole(source).batches[0]
    done = months.remove(january, source)
    assert isinstance(done, Effect)
    assert (done.outcome, done.archived) == (Outcome.ARCHIVED, 31)
    assert months.partitions() == ["updates 2026-02", "updates 2026-03", "updates 2026-04"]
    assert months.ask('SELECT count(*) FROM "updates 2026-01"') == ["31"]


def test_a_worker_that_died_after_detaching_is_gone_on_with(
    months: MonthlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    january = months.whole().batches[0]

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(detaching, "_finished", dies)
        with pytest.raises(KeyboardInterrupt):
            months.remove(january)
    assert "updates 2026-01" not in months.partitions()
    assert "updates 2026-01" in months.tables()
    done = months.remove(january)
    assert isinstance(done, Effect)
    assert (done.outcome, done.rows) == (Outcome.DELETED, 31)
    assert "updates 2026-01" not in months.tables()


def test_a_partition_that_somebody_else_detached_is_kept(months: MonthlyTable) -> None:
    january = months.whole().batches[0]
    months.run('ALTER TABLE updates DETACH PARTITION "updates 2026-01"')
    done = months.remove(january)
    assert isinstance(done, Effect)
    assert done.outcome is Outcome.PROTECTED
    assert months.ask('SELECT count(*) FROM "updates 2026-01"') == ["31"]


def test_another_table_of_the_same_name_is_not_touched(months: MonthlyTable) -> None:
    january = months.whole().batches[0]
    months.run(
        'DROP TABLE "updates 2026-01"',
        'CREATE TABLE "updates 2026-01" PARTITION OF updates'
        " FOR VALUES FROM ('2026-01-01+00') TO ('2026-02-01+00')",
        "INSERT INTO updates VALUES (1, '2026-01-05+00')",
    )
    done = months.remove(january)
    assert isinstance(done, Effect)
    assert done.outcome is Outcome.ABSENT
    assert months.ask('SELECT count(*) FROM "updates 2026-01"') == ["1"]


def test_a_partition_that_is_planned_already_is_not_planned_again(months: MonthlyTable) -> None:
    found = months.whole()
    again = months.whole(taken=(found.batches[0].first,))
    assert [batch.first for batch in again.batches] == [found.batches[1].first]
    assert again.apart == found.apart


def test_what_may_hold_younger_or_undated_rows_goes_in_batches(months: MonthlyTable) -> None:
    months.run(
        "CREATE TABLE earlier PARTITION OF updates FOR VALUES FROM (MINVALUE) TO ('2026-01-01+00')",
        "CREATE TABLE other PARTITION OF updates DEFAULT",
        "INSERT INTO updates VALUES (1, '-infinity'), (2, '2025-06-01+00'), (3, '2027-01-01+00')",
    )
    found = months.whole()
    assert [batch.rows for batch in found.batches] == [31, 28]
    for batch in found.batches:
        assert isinstance(months.remove(batch), Effect)  # although there is a default partition
    left = months.whole()
    assert left == Whole(())
    assert [batch.rows for batch in months.slice()] == [15]  # 14 of March, and that of 2025


@pytest.mark.parametrize(
    "prepare",
    [
        "CREATE TABLE notes (id bigint, at timestamptz, FOREIGN KEY (at, id) REFERENCES updates)",
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';"
        " CREATE TRIGGER noting AFTER DELETE ON updates FOR EACH ROW EXECUTE FUNCTION noted()",
    ],
)
def test_partitions_that_others_depend_on_go_row_by_row(months: MonthlyTable, prepare: str) -> None:
    months.run(prepare)
    assert months.whole() == Whole(())
    with pytest.raises(TableRefused, match=r'partitions = "drop".*"rows"'):
        months.reader.describe(replace(SOURCE, partitions=Partitions.DROP))


def test_where_and_rows_keep_partitions(months: MonthlyTable) -> None:
    assert months.whole(replace(SOURCE, where="id > 5")) == Whole(())
    assert months.whole(replace(SOURCE, partitions=Partitions.ROWS)) == Whole(())
    assert (
        sum(batch.rows for batch in months.slice(replace(SOURCE, partitions=Partitions.ROWS))) == 73
    )


def test_a_long_reader_delays_a_detachment_and_the_next_try_ends_it(
    months: MonthlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detaching, "_DETACH_SECONDS", 0.5)
    january = months.whole().batches[0]
    with months.server.connect() as reader:
        reader.execute(f"SET search_path = {months.schema}")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM updates")
        failed = months.remove(january)
        assert not isinstance(failed, Effect)
        reader.execute("ROLLBACK")
    done = months.remove(january)
    assert isinstance(done, Effect)
    assert (done.outcome, done.rows) == (Outcome.DELETED, 31)


def test_days_and_seconds_partition_as_well(months: MonthlyTable) -> None:
    months.run(
        "CREATE TABLE days (id bigint, on_day date, PRIMARY KEY (on_day, id))"
        " PARTITION BY RANGE (on_day)",
        "CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM ('2026-03-01') TO ('2026-03-15')",
        "CREATE TABLE days_2 PARTITION OF days FOR VALUES FROM ('2026-03-15') TO ('2026-03-29')",
        "INSERT INTO days VALUES (1, '2026-03-14'), (2, '2026-03-15')",
    )
    days = RowSource("shop", "days", "on_day")
    found = months.whole(days)
    assert [batch.rows for batch in found.batches] == [1]
    assert found.batches[0].oldest == CUTOFF - timedelta(days=14)
