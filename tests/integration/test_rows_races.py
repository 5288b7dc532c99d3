"""Other transactions that are in the way of a batch, on the databases that have any at a time."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from bestbefore.contracts.row_world import ME, OLD, RowWorld, table
from bestbefore.contracts.row_world import task as task_of
from bestbefore.domain.failure import Failure, FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.rows import Divided, Effect, RowSource
from bestbefore.ports.rows import RowTask
from support.forks import until
from support.row_databases import RowDatabase

pytestmark = pytest.mark.parametrize("row_database", ["postgresql", "mysql"], indirect=True)

SOURCE = table("parents", dependents=())
PARENTS = "CREATE TABLE parents (id INT PRIMARY KEY, at BIGINT)"
CHILDREN = (
    "CREATE TABLE c (id INT PRIMARY KEY, parent INT, CONSTRAINT who_keeps_it "
    "FOREIGN KEY (parent) REFERENCES parents (id) {})"
)


@contextmanager
def waiting(
    world: RowWorld, database: RowDatabase, source: RowSource, task: RowTask
) -> Iterator[Future[Effect | Divided | Failure]]:
    """A delivery that has begun to wait for somebody's lock."""
    with ThreadPoolExecutor(1) as pool:
        delivery = pool.submit(world.deleter.delete, source, task, ME)
        until(lambda: database.waiting() or delivery.done())
        yield delivery


def after(
    database: RowDatabase, world: RowWorld, source: RowSource, task: RowTask, statement: str
) -> Effect | Divided | Failure:
    """What becomes of *task*, which waits until somebody else commits *statement*."""
    with closing(database.connect()) as other:
        other.cursor().execute(statement)
        with waiting(world, database, source, task) as delivery:
            other.commit()
            return delivery.result(10)


def test_a_deadlock_is_tried_again_and_nothing_has_gone(
    row_database: RowDatabase, world: RowWorld
) -> None:
    """O-DBF-01."""
    world.run(PARENTS, "CREATE TABLE weights (id INT)")
    world.insert("parents", (1, OLD), (2, OLD))
    task = world.task(SOURCE)
    with closing(row_database.connect()) as other:
        cursor = other.cursor()
        if row_database.kind == "postgresql":  # where who looks for deadlocks first is ended
            cursor.execute("SET deadlock_timeout = '1min'")
        # What InnoDB ends is the transaction that changed less.
        cursor.execute("INSERT INTO weights VALUES " + ", ".join(["(0)"] * 50))  # noqa: S608
        cursor.execute("UPDATE parents SET at = at WHERE id = 2")
        with waiting(world, row_database, SOURCE, task) as delivery:
            cursor.execute("UPDATE parents SET at = at WHERE id = 1")
            failure = delivery.result(10)
        other.commit()

    assert isinstance(failure, Failure), failure
    assert (failure.failure_class, failure.too_big) == (FailureClass.TRANSIENT, False)
    assert world.ids("parents") == [1, 2]
    assert world.delete(SOURCE, task).rows == 2


@pytest.mark.parametrize("how", ["", "ON DELETE RESTRICT"])
def test_a_row_that_gets_a_reference_at_the_last_moment_stays_and_the_constraint_is_named(
    row_database: RowDatabase, world: RowWorld, how: str
) -> None:
    world.run(PARENTS, CHILDREN.format(how))
    world.insert("parents", (1, OLD), (2, OLD))
    task = world.task(SOURCE)
    end = after(row_database, world, SOURCE, task, "INSERT INTO c VALUES (1, 2)")

    if isinstance(end, Failure):
        assert end.failure_class is FailureClass.DEPENDENCY
        assert "who_keeps_it" in end.error
        assert world.ids("parents") == [1, 2]
        end = world.delete(SOURCE, task)
    assert isinstance(end, Effect)
    assert (end.rows, end.replayed) == (1, False)
    assert world.ids("parents") == [2]


def test_a_row_that_comes_under_a_cascade_at_the_last_moment_is_not_taken_along(
    row_database: RowDatabase, world: RowWorld
) -> None:
    world.run(PARENTS, CHILDREN.format("ON DELETE CASCADE"))
    world.insert("parents", (1, OLD), (2, OLD))
    task = world.task(SOURCE)
    end = after(row_database, world, SOURCE, task, "INSERT INTO c VALUES (1, 2)")

    assert world.ids("c") == [1]
    if isinstance(end, Failure):
        assert end.failure_class is FailureClass.DEPENDENCY
        assert "who_keeps_it" in end.error
        end = world.delete(SOURCE, task)
    assert isinstance(end, Effect)
    assert end.rows == 1
    assert world.ids("parents") == [2]
    assert world.ids("c") == [1]


def test_a_row_that_gets_a_dependent_at_the_last_moment_waits_for_the_next_plan(
    row_database: RowDatabase, world: RowWorld
) -> None:
    world.run(PARENTS, CHILDREN.format(""))
    world.insert("parents", (1, OLD), (2, OLD))
    source = table("parents", dependents=None)
    what = world.task(source)
    end = after(row_database, world, source, what, "INSERT INTO c VALUES (1, 2)")

    assert isinstance(end, Divided), end
    ends = [world.delete(source, task_of(source, part)) for part in end.parts]
    assert [(one.outcome, one.rows, one.dependents) for one in ends] == [
        (Outcome.DELETED, 1, {}),
        (Outcome.CHANGED, 0, {}),
    ]
    assert (world.ids("parents"), world.ids("c")) == ([2], [1])
    assert [(one.rows, sum(one.dependents.values())) for one in world.drain(source)] == [(1, 1)]


def test_a_row_that_is_touched_while_its_batch_waits_stays_with_its_dependents(
    row_database: RowDatabase, world: RowWorld
) -> None:
    """O-RACE-03."""
    world.run(PARENTS, CHILDREN.format(""))
    world.insert("parents", (1, OLD), (2, OLD))
    world.insert("c", (1, 1), (2, 2))
    source = table("parents", dependents=None)
    task = world.task(source)
    end = after(row_database, world, source, task, "UPDATE parents SET at = NULL WHERE id = 2")

    assert isinstance(end, Effect), end
    assert (end.rows, end.blocked, list(end.dependents.values())) == (1, 0, [1])
    assert world.ids("parents") == [2]
    assert world.ids("c") == [2]
