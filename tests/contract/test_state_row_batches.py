"""Row batches in the state database: what they cost objects, and that they move along."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from bestbefore.adapters.state.database import Database
from bestbefore.adapters.state.move import move
from bestbefore.contracts.ledger_world import ME, SLOT, Ledger, died, retried
from bestbefore.contracts.row_ledger import ROWS, RowLedger, gone, halved
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import DependentRows
from bestbefore.domain.states import RunState
from bestbefore.ports.ledger import Completed, DeadFilter
from bestbefore.ports.records import OperationFilter
from support.ledgers import all_sides, new_ledger


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(new_ledger(tmp_path / "state.db"))
    yield database
    database.dispose()


@contextmanager
def statements() -> Iterator[list[str]]:
    """Everything that is asked of any database meanwhile."""
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        said.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield said
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


def test_operations_on_objects_never_touch_what_only_row_batches_have(database: Database) -> None:
    ledger = Ledger(all_sides(database))
    with statements() as said:
        ledger.plan("a", "b", "c", "d")
        ledger.publish()
        first, second, third, fourth = ledger.claim()
        ledger.record(
            Completed(first, Outcome.DELETED),
            Completed(second, Outcome.ABSENT),
            retried(third),
            died(fourth),
        )

    assert said
    assert [statement for statement in said if "row_batches" in statement] == []


def test_recording_objects_takes_no_more_statements_than_there_are_kinds_of_results(
    database: Database,
) -> None:
    ledger = Ledger(all_sides(database))
    ledger.plan(*map(str, range(100)))
    ledger.publish()
    claimed = ledger.claim()
    ledger.record(Completed(claimed[0], Outcome.DELETED))
    with statements() as said:
        ledger.record(*(Completed(o, Outcome.DELETED) for o in claimed[1:]))

    verbs = [" ".join(statement.split()[:2]) for statement in said]
    assert verbs == [
        "BEGIN IMMEDIATE",
        "UPDATE operations",
        "SELECT policies.versions",
        "UPDATE runs",
        "UPDATE runs",
        "INSERT INTO",  # the run's tallies
        "INSERT INTO",  # the policy's counts
    ]


def test_row_batches_move_with_the_ledger_and_work_goes_on_there(
    database: Database, ledger_url: str
) -> None:
    here = RowLedger(all_sides(database))
    here.dependents["0-99"] = (DependentRows("shop.notes", removed=3, changed=1),)
    here.referenced = {"shop.lines": 2}
    run = here.plan("0-99", "100-199", "200-299", "300-399")
    here.publish()
    first, second, third, fourth = here.claim()
    here.record(
        gone(first, dependents={"notes": 3}, changed={"notes": 1}),
        halved(second, "100-149", "150-199"),
        died(third),
        retried(fourth),
    )
    target = Database(ledger_url)
    try:
        moved = move(database, target, ME, SLOT)

        assert moved["row_batches"] == 6
        there = RowLedger(all_sides(target))
        everything = OperationFilter()
        assert list(there.records.operations(everything)) == list(
            here.records.operations(everything)
        )
        assert there.taken() == here.taken()
        moved_run = there.again(run)
        assert moved_run == here.again(run)
        assert (moved_run.rows, moved_run.dependents, moved_run.referenced) == (
            400, here.dependents["0-99"], {"shop.lines": 2},
        )  # fmt: skip
        there.controls.resume_work(None, ME, SLOT)
        (letter,) = there.dead_letters.dead(DeadFilter())
        there.dead_letters.redrive([letter.row], [SLOT], ME, SLOT)
        later = SLOT.replace(hour=SLOT.hour + 1)
        there.record(*map(gone, there.claim(now=later)), now=later)
        assert there.again(run).state is RunState.DRAINED
        assert there.rows(run) == {"deleted": 400}
        assert there.plan("400-449", of=ROWS, slot=later).rows == 50
    finally:
        target.dispose()
