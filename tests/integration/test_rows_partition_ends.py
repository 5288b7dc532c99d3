"""What becomes of a partition that cannot be ended: more rows, a drop that fails, a crash."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bestbefore.adapters.rows import detaching
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Effect, Partitions, RowBatch, found_in
from support.forks import Forks
from support.partitioned import FEBRUARY, JANUARY, SOURCE, MonthlyTable, task
from support.row_crashes import pack

DETACH = replace(SOURCE, partitions=Partitions.DETACH)
ALL = [JANUARY, FEBRUARY, "updates 2026-03", "updates 2026-04"]
ONE_MORE = "INSERT INTO updates VALUES (777, '2026-01-20+00')"
STRAIGHT = ONE_MORE.replace("updates", f'"{JANUARY}"')
VIEW = f'CREATE VIEW r AS TABLE "{JANUARY}"'
DEFAULT = "CREATE TABLE rest PARTITION OF updates DEFAULT"


def _meanwhile(
    months: MonthlyTable, patch: pytest.MonkeyPatch, *statements: str, at: str = "_finished"
) -> Callable[[RowBatch], Effect | Failure]:
    """What removes a batch while others execute *statements* right before the step called *at*."""

    def remove(batch: RowBatch) -> Effect | Failure:
        with patch.context() as within:
            step = getattr(detaching, at)

            def after(*given: object) -> object:
                months.run(*statements)
                return step(*given)

            within.setattr(detaching, at, after)
            end = months.remove(batch)
        assert isinstance(end, Effect | Failure)
        return end

    return remove


def test_a_partition_that_grew_since_the_plan_is_not_even_detached(months: MonthlyTable) -> None:
    january = months.whole().batches[0]
    months.run(ONE_MORE)
    failure = months.remove(january)
    assert isinstance(failure, Failure)
    assert failure.failure_class is FailureClass.MALFORMED  # dead at once: nothing changes by time
    assert not failure.whole_source
    assert "planned 31 rows, found 32" in failure.error
    assert (months.partitions(), months.comment(JANUARY)) == (sorted(ALL), None)
    assert months.ask("SELECT count(*) FROM updates") == ["121"]
    accepted = months.remove(replace(january, rows=found_in(failure.error) or 0))
    assert isinstance(accepted, Effect)
    assert (accepted.outcome, accepted.rows) == (Outcome.DELETED, 32)


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("source", [SOURCE, DETACH])
def test_a_row_that_comes_right_before_the_detachment_has_the_partition_attached_again(
    months: MonthlyTable, monkeypatch: pytest.MonkeyPatch, source: object, *, default: bool
) -> None:
    if default:
        months.run(DEFAULT)
    months.run(f"COMMENT ON TABLE \"{JANUARY}\" IS 'kept by the shop'")
    january = months.whole().batches[0]
    end = _meanwhile(months, monkeypatch, ONE_MORE, at="_detached")(january)
    assert isinstance(end, Failure)
    assert (end.failure_class, "planned 31 rows, found 32; it is attached" in end.error) == (
        FailureClass.MALFORMED,
        True,
    )
    assert JANUARY in months.partitions()
    assert months.comment(JANUARY) == "kept by the shop"
    assert months.marked() == []
    assert months.ask("SELECT count(*) FROM updates") == ["121"]


def test_a_partition_that_cannot_be_attached_again_stays_marked_overdue_and_is_redriven(
    months: MonthlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    months.run(DEFAULT)
    january = months.whole().batches[0]
    grown = (STRAIGHT, ONE_MORE)
    end = _meanwhile(months, monkeypatch, *grown)(january)
    assert isinstance(end, Failure)
    assert end.failure_class is FailureClass.MALFORMED
    assert "planned 31 rows, found 32" in end.error
    assert "cannot be attached again" in end.error
    assert JANUARY not in months.partitions()
    assert months.marked() == [(JANUARY, 32)]
    # It has its operation, and is not planned as if it were new.
    assert [batch.first for batch in months.whole().batches] == [
        batch.first for batch in months.whole(taken=(january.first,)).batches
    ]
    again = months.remove(january)
    assert isinstance(again, Failure)
    done = months.remove(replace(january, rows=32))
    assert isinstance(done, Effect)
    assert (done.outcome, done.rows) == (Outcome.DELETED, 32)
    assert months.marked() == []


@pytest.mark.parametrize("statement", [VIEW, f"{VIEW}; CREATE VIEW r2 AS TABLE r"])
def test_what_comes_to_depend_on_it_once_it_is_detached_has_it_attached_again(
    months: MonthlyTable, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """S-PART-01."""
    january = months.whole().batches[0]
    end = _meanwhile(months, monkeypatch, statement)(january)
    assert isinstance(end, Effect)
    assert (end.outcome, end.rows) == (Outcome.PROTECTED, 0)
    assert months.partitions() == sorted(ALL)
    assert (months.comment(JANUARY), months.marked()) == (None, [])
    assert months.planned_whole() == [FEBRUARY]
    assert months.ask("SELECT count(*) FROM r") == ["31"]


def test_a_drop_that_the_database_refuses_is_undone_and_a_dead_letter_says_why(
    months: MonthlyTable,
) -> None:
    january = months.whole().batches[0]
    refuses = f"no_drop_{months.schema}"
    months.run(
        "CREATE FUNCTION no() RETURNS event_trigger LANGUAGE plpgsql AS"
        " 'BEGIN RAISE EXCEPTION ''nothing is dropped here''; END'",
        f"CREATE EVENT TRIGGER {refuses} ON ddl_command_start WHEN TAG IN ('DROP TABLE')"
        " EXECUTE FUNCTION no()",
    )
    try:
        end = months.remove(january)
    finally:
        months.run(f"DROP EVENT TRIGGER {refuses}")
    assert isinstance(end, Failure)
    assert end.failure_class is FailureClass.MALFORMED
    assert "nothing is dropped here" in end.error
    assert "attached again" in end.error
    assert (months.partitions(), months.comment(JANUARY)) == (sorted(ALL), None)
    assert isinstance(months.remove(january), Effect)


def test_a_view_on_a_detached_partition_that_cannot_be_attached_again_is_a_dead_letter(
    months: MonthlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-PART-01."""
    months.run(DEFAULT)
    january = months.whole().batches[0]
    end = _meanwhile(months, monkeypatch, VIEW, ONE_MORE)(january)
    assert isinstance(end, Failure)
    assert ".r depends on it" in end.error
    assert "put right what is in the way and redrive" in end.error
    assert months.marked() == [(JANUARY, 31)]
    months.run("DROP VIEW r")
    done = months.remove(january)
    assert isinstance(done, Effect)
    assert (done.outcome, done.rows) == (Outcome.DELETED, 31)
    assert months.ask("SELECT count(*) FROM rest") == ["1"]


def test_a_lock_on_the_way_back_is_waited_for_briefly_and_tried_again(
    months: MonthlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    january = months.whole().batches[0]
    with months.server.connect() as other:
        other.execute(f"SET search_path = {months.schema}")

        def locked(*given: object) -> object:
            other.execute("BEGIN")
            other.execute("LOCK TABLE updates IN SHARE UPDATE EXCLUSIVE MODE")
            return finished(*given)

        finished = detaching._finished
        with monkeypatch.context() as patch:
            patch.setattr(detaching, "_finished", locked)
            months.run(ONE_MORE)
            fewer = replace(january, rows=32)
            patch.setattr(detaching, "_counted", lambda _: 32)
            patch.setattr(detaching, "_rows", lambda *_: 33)
            end = months.remove(fewer)
        other.execute("ROLLBACK")
    assert isinstance(end, Failure)
    assert end.failure_class is FailureClass.TRANSIENT
    assert months.marked() == [(JANUARY, 32)]
    again = months.remove(january)
    assert isinstance(again, Failure)
    assert "planned 31 rows, found 32; it is attached again" in again.error
    assert months.partitions() == sorted(ALL)


def test_two_partitions_of_a_table_that_are_detached_at_once_wait_for_each_other(
    months: MonthlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    january, february = months.whole().batches
    monkeypatch.setattr(detaching, "_DETACH_SECONDS", 0.5)
    with months.server.connect() as reader:
        reader.execute(f"SET search_path = {months.schema}")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM updates")
        assert isinstance(months.remove(january), Failure)
        waits = months.remove(february)
        reader.execute("ROLLBACK")
    assert isinstance(waits, Failure)
    assert waits.failure_class is FailureClass.TRANSIENT
    assert months.marked() == [(JANUARY, 31)]
    for batch in (january, february):
        done = months.remove(batch)
        assert isinstance(done, Effect)
        assert done.outcome is Outcome.DELETED


def test_a_detachment_that_a_person_began_is_theirs(months: MonthlyTable) -> None:
    january = months.whole().batches[0]
    with months.server.connect() as reader, months.server.connect() as person:
        for one in (reader, person):
            one.execute(f"SET search_path = {months.schema}")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM updates")
        person.execute("SET statement_timeout = '300ms'")
        with pytest.raises(Exception, match="statement timeout"):
            person.execute(f'ALTER TABLE updates DETACH PARTITION "{JANUARY}" CONCURRENTLY')
        reader.execute("ROLLBACK")
    assert months.planned_whole() == [FEBRUARY]
    kept = months.remove(january)
    assert isinstance(kept, Effect)
    assert kept.outcome is Outcome.PROTECTED
    assert months.marked() == []


def test_a_partition_that_was_only_to_be_detached_has_no_mark_left_and_is_not_overdue(
    months: MonthlyTable,
) -> None:
    months.run(f"COMMENT ON TABLE \"{JANUARY}\" IS 'kept by the shop'")
    for batch in months.whole(DETACH).batches:
        assert isinstance(months.remove(batch, DETACH), Effect)
    assert months.marked(DETACH) == []
    assert (months.comment(JANUARY), months.comment(FEBRUARY)) == ("kept by the shop", None)


def test_marks_of_an_older_version_are_understood_and_others_comments_are_not_marks(
    months: MonthlyTable,
) -> None:
    january = months.whole().batches[0]
    mark = f"bestbefore {task(january).operation_id.hex()}"
    months.run(
        f"COMMENT ON TABLE \"{JANUARY}\" IS 'kept by the shop {mark}'",
        f'ALTER TABLE updates DETACH PARTITION "{JANUARY}"',
        "CREATE TABLE elsewhere (id bigint)",
        f"COMMENT ON TABLE elsewhere IS '{mark}'",
        f"COMMENT ON TABLE \"{FEBRUARY}\" IS 'bestbefore we drop it, ask the shop'",
        f'ALTER TABLE updates DETACH PARTITION "{FEBRUARY}"',
    )
    assert months.marked() == [(JANUARY, 31)]
    months.run(STRAIGHT)
    end = months.remove(january)
    assert isinstance(end, Failure)
    assert "its bounds are not known any more" in end.error
    done = months.remove(replace(january, rows=32))
    assert isinstance(done, Effect), done
    assert months.marked() == []


def test_a_mark_that_a_person_wrote_gets_no_statement_of_theirs_executed(
    months: MonthlyTable,
) -> None:
    january = months.whole().batches[0]
    (parent,) = months.ask("SELECT 'updates'::regclass::oid")
    said = f"bestbefore {task(january).operation_id.hex()} of {parent}"
    months.run(
        f'COMMENT ON TABLE "{JANUARY}" IS'
        f" '{said} from ''x''''); DROP TABLE \"{FEBRUARY}\" --'' to ''y'''",
        f'ALTER TABLE updates DETACH PARTITION "{JANUARY}"',
    )
    kept = months.remove(january)
    assert isinstance(kept, Effect)
    assert kept.outcome is Outcome.PROTECTED
    assert FEBRUARY in months.tables()


STEPS = [
    ("COMMENT", "before"), ("COMMENT", "after"), ("COMMENT", "committed"), ("ALTER", "after"),
    ("LOCK", "before"), ("DROP", "before"), ("DROP", "after"), ("DROP", "committed"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "when"), STEPS)
def test_a_worker_that_is_killed_at_any_step_loses_no_partition_and_counts_none_twice(
    months: MonthlyTable, forks: Forks, tmp_path: Path, statement: str, when: str
) -> None:
    """S-PART-01."""
    january = months.whole().batches[0]
    url = months.server.url(months.schema)
    arguments = [url, pack(tmp_path, SOURCE, [task(january)]), statement, when]
    child = forks.start("support.partition_kills:work", arguments, cwd=tmp_path)
    assert child.wait() == -signal.SIGKILL, child.said()
    attached, there = JANUARY in months.partitions(), JANUARY in months.tables()
    if there and not attached:
        assert months.marked() == [(JANUARY, 31)]

    done, again = (months.remove(january) for _ in range(2))

    assert isinstance(done, Effect)
    assert isinstance(again, Effect)
    assert (done.outcome, done.rows, done.replayed) == (Outcome.DELETED, 31, not there)
    assert (again.rows, again.replayed) == (31, True)
    assert JANUARY not in months.tables()
    assert months.ask("SELECT count(*) FROM updates") == ["89"]
    assert months.marked() == []
