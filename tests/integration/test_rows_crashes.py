"""Whatever dies around a COMMIT: a batch went as a whole or not at all, and its repeat changes
nothing more."""

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa

from bestbefore.contracts.row_world import CUTOFF, NEW, OLD, RowWorld, table
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.outcome import Outcome
from bestbefore.ports.rows import RowTask
from support.forks import Child, Forks
from support.proxy import CommitCutter
from support.row_crashes import pack
from support.row_databases import RowDatabase

SOURCE = table("events", dependents=None)
NETWORKED = pytest.mark.parametrize("row_database", ["postgresql", "mysql"], indirect=True)


@pytest.fixture
def events(world: RowWorld) -> list[RowTask]:
    """Ten old rows with two notes each, and a young one, in batches of 5: the first has gone."""
    world.run(
        "CREATE TABLE events (id INT PRIMARY KEY, at BIGINT)",
        "CREATE TABLE notes (id INT PRIMARY KEY, event INT, "
        "FOREIGN KEY (event) REFERENCES events (id))",
    )
    world.insert("events", *((n, OLD) for n in range(10)), (10, NEW))
    world.insert("notes", *((n, n // 2) for n in range(22)))
    first, second = world.plan(SOURCE, 5)
    world.delete(SOURCE, first)
    return [second]


def _work(
    forks: Forks, database: RowDatabase, folder: Path, tasks: list[RowTask], how: str, which: int
) -> Child:
    arguments = [database.url, pack(folder, SOURCE, tasks), how, str(which)]
    return forks.start("support.row_crashes:work", arguments, cwd=folder)


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_worker_killed_around_its_commit_leaves_all_of_a_batch_or_nothing(
    row_database: RowDatabase, world: RowWorld, events: list[RowTask], forks: Forks,
    tmp_path: Path, how: str,
) -> None:  # fmt: skip
    child = _work(forks, row_database, tmp_path, events, how, 2)
    assert child.wait() == -signal.SIGKILL, child.said()
    assert len(world.ids("events")) == (6 if how == "before" else 1)
    assert len(world.ids("notes")) == (12 if how == "before" else 2)

    effect, again = (world.delete(SOURCE, events[0]) for _ in range(2))

    assert (effect.rows, effect.replayed) == (5, how == "after")
    assert (again.rows, again.replayed) == (5, True)
    assert sum(effect.dependents.values()) == sum(again.dependents.values()) == 10
    assert world.ids("events") == [10]
    assert world.ids("notes") == [20, 21]


def test_a_killed_worker_keeps_no_lock_and_loses_no_batch_that_it_finished(
    row_database: RowDatabase, world: RowWorld, forks: Forks, tmp_path: Path
) -> None:
    """O-DBF-02."""
    world.run("CREATE TABLE events (id INT PRIMARY KEY, at BIGINT)")
    world.insert("events", *((n, OLD) for n in range(10_000)))
    tasks = world.plan(SOURCE, 1_000)

    child = _work(forks, row_database, tmp_path, tasks, "before", 5)

    assert child.wait() == -signal.SIGKILL, child.said()
    assert len(world.ids("events")) == 6_000
    records = "SELECT count(*) FROM bestbefore_completed_batches"
    assert world.ask(records) == [(4,)]
    world.run("UPDATE events SET at = at + 1")
    ends = [world.delete(SOURCE, what) for what in tasks]
    assert [end.replayed for end in ends] == [True] * 4 + [False] * 6
    assert world.ids("events") == []


@NETWORKED
@pytest.mark.parametrize("server_stays", [True, False])
def test_a_commit_whose_answer_is_lost_is_looked_up(
    row_database: RowDatabase, events: list[RowTask], world: RowWorld, *, server_stays: bool
) -> None:
    with ExitStack() as stack:
        proxy, far = _through(stack, row_database, lost_answer=True)
        _warm(far)
        proxy.armed, proxy.stays = True, server_stays

        end = far.deleter.delete(SOURCE, events[0], "tester")

        assert len(world.ids("events")) == 1
        if server_stays:
            assert (end.outcome, end.rows, end.replayed) == (Outcome.DELETED, 5, False)
        else:
            assert end.failure_class is FailureClass.TRANSIENT
            proxy.come()
        again = far.delete(SOURCE, events[0])
        assert (again.rows, again.replayed) == (5, True)


@NETWORKED
def test_a_connection_that_is_cut_before_the_commit_is_tried_again(
    row_database: RowDatabase, events: list[RowTask], world: RowWorld
) -> None:
    with ExitStack() as stack:
        proxy, far = _through(stack, row_database, lost_answer=False)
        _warm(far)
        proxy.armed = True

        failure = far.fails(SOURCE, events[0])

        assert failure.failure_class is FailureClass.TRANSIENT
        assert len(world.ids("events")) == 6
        effect = far.delete(SOURCE, events[0])
        assert (effect.rows, effect.replayed) == (5, False)


@NETWORKED
def test_without_a_record_a_lost_answer_is_tried_again_and_finds_nothing(
    row_database: RowDatabase, events: list[RowTask], world: RowWorld
) -> None:
    source = table("events", ledger_only=True, dependents=None)
    with ExitStack() as stack:
        proxy, far = _through(stack, row_database, lost_answer=True)
        far.delete(source, _nothing(events[0]))
        proxy.armed = True

        failure = far.fails(source, events[0])

        assert failure.failure_class is FailureClass.TRANSIENT
        assert far.delete(source, events[0]).outcome is Outcome.ABSENT
        assert world.ids("events") == [10]


def _through(
    stack: ExitStack, database: RowDatabase, *, lost_answer: bool
) -> tuple[CommitCutter, RowWorld]:
    there = sa.make_url(database.url)
    default = 5432 if database.kind == "postgresql" else 3306
    target = (there.host or "127.0.0.1", there.port or default)
    proxy = stack.enter_context(CommitCutter(target, lost_answer=lost_answer))
    here = there.set(host="127.0.0.1", port=proxy.port)
    if database.kind == "postgresql":
        here = here.update_query_dict({"sslmode": "disable", "gssencmode": "disable"})
    url = here.render_as_string(hide_password=False)
    return proxy, stack.enter_context(database.world(url))


def _warm(far: RowWorld) -> None:
    """Have everything read that is read only once, so that the next COMMIT is a batch's."""
    far.delete(SOURCE, _nothing(far.task(SOURCE)))


def _nothing(task: RowTask) -> RowTask:
    """The same piece of the table, and no row of it old enough."""
    return task._replace(operation_id=bytes(32), cutoff=CUTOFF.replace(year=2000))
