"""The state database on PostgreSQL keeps the contracts of ledger and queue, and more."""

import builtins
import select
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from bestbefore.adapters.schedulers.cron import CronCalendar
from bestbefore.adapters.state import postgresql
from bestbefore.adapters.state import runs as run_rows
from bestbefore.adapters.state.access import SqlAccess, SqlAnswers, SqlDeliveries
from bestbefore.adapters.state.controls import SqlControls
from bestbefore.adapters.state.dashboard import SqlBacklogs, SqlSessions
from bestbefore.adapters.state.database import Database, execute_many
from bestbefore.adapters.state.endpoints import SqlEndpointMemory
from bestbefore.adapters.state.gates import SqlGates
from bestbefore.adapters.state.holds import SqlHolds
from bestbefore.adapters.state.plans import SqlPlanLedger
from bestbefore.adapters.state.replay import Interrupted, replays
from bestbefore.adapters.state.schema import breakers, operations, runs
from bestbefore.adapters.state.slots import SqlSlots
from bestbefore.adapters.state.strays import SqlStrays
from bestbefore.adapters.state.throttles import SqlThrottles
from bestbefore.adapters.state.work import SqlWorkLedger
from bestbefore.contracts.access import AccessContract
from bestbefore.contracts.asking import AskingContract
from bestbefore.contracts.controls import ControlsContract
from bestbefore.contracts.dashboard import BacklogsContract, SessionsContract
from bestbefore.contracts.endpoints import EndpointMemoryContract
from bestbefore.contracts.gates import GatesContract
from bestbefore.contracts.holds import HoldsContract
from bestbefore.contracts.ledger import LedgerContract
from bestbefore.contracts.ledger_world import LEASE, POLICY, SLOT, Ledger, Sides
from bestbefore.contracts.previews import PreviewsContract
from bestbefore.contracts.queue import QueueContract
from bestbefore.contracts.row_ledger import RowLedgerContract
from bestbefore.contracts.row_planned import RowPlannedContract
from bestbefore.contracts.slots import SlotsContract
from bestbefore.contracts.stacks import StackContract
from bestbefore.contracts.strays import StraysContract
from bestbefore.contracts.throttles import ThrottlesContract
from bestbefore.contracts.upkeep import UpkeepContract
from bestbefore.domain.outcome import Outcome
from bestbefore.domain.states import RunState
from bestbefore.ports.holds import Holds
from bestbefore.ports.ledger import Completed, LedgerError
from bestbefore.ports.records import OperationFilter
from support.forks import until
from support.ledgers import all_sides
from support.postgresql import Postgres


@pytest.fixture
def database(ledger_url: str) -> Iterator[Database]:
    database = Database(ledger_url)
    yield database
    database.dispose()


@pytest.fixture
def sides(database: Database) -> Sides:
    return all_sides(database)


@pytest.fixture
def ledger(sides: Sides) -> Ledger:
    return Ledger(sides)


class TestUpkeepOnPostgresql(UpkeepContract):
    pass


class TestEndpointMemoryOnPostgresql(EndpointMemoryContract):
    @pytest.fixture
    def memory(self, database: Database) -> SqlEndpointMemory:
        return SqlEndpointMemory(database)


class TestLedgerOnPostgresql(LedgerContract):
    pass


class TestQueueOnPostgresql(QueueContract):
    pass


class TestThrottlesOnPostgresql(ThrottlesContract):
    @pytest.fixture
    def throttles(self, database: Database) -> SqlThrottles:
        return SqlThrottles(database)


class TestSlotsOnPostgresql(SlotsContract):
    @pytest.fixture
    def slots(self, database: Database) -> SqlSlots:
        return SqlSlots(database, CronCalendar())


class TestStacksOnPostgresql(StackContract):
    pass


class TestPreviewsOnPostgresql(PreviewsContract):
    pass


class TestGatesOnPostgresql(GatesContract):
    @pytest.fixture
    def gates(self, database: Database) -> SqlGates:
        return SqlGates(database)


class TestStraysOnPostgresql(StraysContract):
    @pytest.fixture
    def strays(self, database: Database) -> SqlStrays:
        return SqlStrays(database)


class TestRowLedgerOnPostgresql(RowLedgerContract):
    pass


class TestRowPlannedOnPostgresql(RowPlannedContract):
    pass


class TestAccessOnPostgresql(AccessContract):
    @pytest.fixture
    def access(self, database: Database) -> SqlAccess:
        return SqlAccess(database)

    @pytest.fixture
    def deliveries(self, database: Database) -> SqlDeliveries:
        return SqlDeliveries(database)

    @pytest.fixture
    def answers(self, database: Database) -> SqlAnswers:
        return SqlAnswers(database)


class TestAskingOnPostgresql(AskingContract):
    pass


class TestSessionsOnPostgresql(SessionsContract):
    @pytest.fixture
    def sessions(self, database: Database) -> SqlSessions:
        return SqlSessions(database)

    @pytest.fixture
    def access(self, database: Database) -> SqlAccess:
        return SqlAccess(database)


class TestBacklogsOnPostgresql(BacklogsContract):
    @pytest.fixture
    def backlogs(self, database: Database) -> SqlBacklogs:
        return SqlBacklogs(database)


class TestControlsOnPostgresql(ControlsContract):
    pass


class TestHoldsOnPostgresql(HoldsContract):
    @pytest.fixture
    def holds(self, database: Database) -> Holds:
        return SqlHolds(database)


# -- text ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["\0", "a\0b\0", "␀", "␀0", "␀␀", "\0␀0\0␀", "ä\\0%s🎉", "\x01\x7f\x85", ""]
)
def test_any_text_comes_back_as_it_was(database: Database, text: str) -> None:
    """A key that S3 can hold and PostgreSQL's text cannot is stored all the same."""
    ids = Ledger(all_sides(database))
    run = ids.plan("a", "b")
    with database.write() as connection:
        first, second = connection.scalars(sa.select(operations.c.id).order_by(operations.c.id))
        connection.execute(
            sa.update(operations).where(operations.c.id == first).values(key=text, generation=text)
        )
        by_hand = sa.update(operations).where(operations.c.id == sa.bindparam("row"))
        execute_many(
            connection,
            by_hand.values(key=sa.bindparam("text"), error=sa.bindparam("text")),
            ("text", "row"),
            [(text, second)],
        )

    found = list(ids.records.operations(OperationFilter(key=text)))

    assert [(o.key, o.row) for o in found] == [(text, first), (text, second)]
    assert found[1].error == text
    ids.end()
    assert ids.again(run).state is RunState.DRAINED


def test_two_keys_that_differ_only_in_what_stands_for_nul_are_two_objects(ledger: Ledger) -> None:
    run = ledger.plan("a\0", "a␀0", "a␀")

    assert {operation.key for operation in ledger.end()} == {
        f"exports/{name}.json" for name in ("a\0", "a␀0", "a␀")
    }
    assert ledger.again(run).completed == 3


# -- transactions ----------------------------------------------------------------------------


class Beside:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.result: object = None
        self.error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:  # noqa: BLE001 - whoever asks gets it
            self.error = error

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> object:
        self._thread.join(30)
        assert not self.running, "it still waits"
        if self.error:
            raise self.error
        return self.result


def waiting(postgres: Postgres) -> int:
    """How many sessions of the database wait for a lock of ours."""
    with postgres.connect() as connection:
        return connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event_type = 'Lock' AND wait_event = 'advisory'"
        ).fetchone()[0]  # type: ignore[index]


def test_a_decision_excludes_every_other_writer_from_its_start_to_its_end(
    database: Database, ledger: Ledger, postgres: Postgres
) -> None:
    """What BEGIN IMMEDIATE gives on SQLite: what it read stays true until it has written."""
    run = ledger.plan("a", "b")
    (version,) = ledger.work.versions()
    span = ledger.work.waiting(version.row, 10)
    assert span is not None
    with database.write() as connection:
        before = connection.execute(sa.select(runs.c.waiting)).scalar_one()
        others = [
            Beside(lambda: ledger.queue.publish(span, SLOT)),
            Beside(lambda: ledger.plans.cancel(run.run_id, "no", "me", SLOT)),
        ]
        until(lambda: waiting(postgres) == 2, what="both to wait")
        assert connection.execute(sa.select(runs.c.waiting)).scalar_one() == before == 2
        connection.execute(sa.update(runs).values(reason="decided"))
    for other in others:
        other.end()
    assert ledger.again(run).state is RunState.CANCELLED
    assert ledger.claim() == []


def assert_sees_what_it_waited_for(url: str, database: Database, postgres: Postgres) -> None:
    """Who writes by *url* waits while *database* does, and then reads what that has written."""
    other = Database(url)

    def look() -> list[str]:
        with other.write() as connection:
            return list(connection.execute(sa.select(runs.c.reason)).scalars())

    with database.write() as connection:
        looking = Beside(look)
        until(lambda: waiting(postgres) == 1, what="it to wait")
        connection.execute(sa.update(runs).values(reason="decided"))

    assert looking.end() == ["decided"]
    other.dispose()


def test_who_waited_for_its_turn_sees_what_was_written_meanwhile_whatever_the_default_is(
    database: Database, ledger: Ledger, ledger_url: str, postgres: Postgres
) -> None:
    """A transaction that is REPEATABLE READ would look at what was there before it waited."""
    ledger.plan("a")
    careful = f"{ledger_url}%20-cdefault_transaction_isolation=serializable"
    assert_sees_what_it_waited_for(careful, database, postgres)


def test_roles_with_other_schemas_of_their_own_exclude_each_other(
    database: Database, ledger: Ledger, ledger_url: str, postgres: Postgres
) -> None:
    """Such as the one called like the role, which comes first by default."""
    ledger.plan("a")
    own = postgres.create_schema()
    other = ledger_url.replace("search_path%3D", f"search_path%3D{own},")
    assert_sees_what_it_waited_for(other, database, postgres)
    postgres.drop_schema(own)


def test_who_waits_for_its_turn_is_not_ended_by_a_limit_for_short_statements(
    database: Database, ledger: Ledger, ledger_url: str
) -> None:
    hurried = Database(f"{ledger_url}%20-cstatement_timeout=200ms")
    ledger.plan("a")

    def look() -> list[int]:
        with hurried.write() as connection:
            return list(connection.execute(sa.select(runs.c.waiting)).scalars())

    with database.write() as connection:
        looking = Beside(look)
        connection.exec_driver_sql("SELECT pg_sleep(0.5)")  # longer than that limit

    assert looking.end() == [1]
    hurried.dispose()


def test_what_an_object_does_not_have_stays_unknown_whatever_arrays_mean(
    database: Database, ledger: Ledger, ledger_url: str
) -> None:
    """With `array_nulls` off NULL is a text, and then that is the version to delete."""
    answer = ledger.answer()
    assert answer.claim is not None
    old_fashioned = Database(f"{ledger_url}%20-carray_nulls=off")
    SqlPlanLedger(old_fashioned).write_page(
        answer.claim, ledger.page(POLICY, ["a"], SLOT), 0, SLOT, LEASE
    )
    old_fashioned.dispose()
    with database.read() as connection:
        found = connection.execute(sa.select(operations.c.version_id, operations.c.generation))
        assert found.one() == (None, None)


def test_a_schema_that_is_not_there_is_an_error_that_says_so(ledger_url: str) -> None:
    database = Database(f"{ledger_url}_that_is_nowhere")
    with pytest.raises(LedgerError, match="search_path"):
        database.prepare()
    database.dispose()


def test_workers_do_not_wait_for_each_other_and_skip_what_another_one_is_taking(
    database: Database, ledger: Ledger
) -> None:
    ledger.plan("a", "b", "c")
    ledger.publish()
    with database.write(shared=True) as connection:
        connection.execute(
            sa.select(operations.c.id).order_by(operations.c.id).limit(1).with_for_update()
        )
        got = Beside(ledger.claim).end()
    assert [operation.key for operation in got] == ["exports/b.json", "exports/c.json"]  # type: ignore[attr-defined]
    assert len(ledger.claim()) == 1


def test_a_claim_takes_no_more_than_its_limit_however_it_is_planned(
    database: Database, ledger: Ledger
) -> None:
    """A subquery that skips locked rows finds others each time it is run again."""
    ledger.plan(*(f"{n:03}" for n in range(50)))
    ledger.publish()
    for setting in ("enable_hashjoin", "enable_mergejoin", "enable_hashagg", "enable_material"):
        with database.write() as connection:
            name = connection.exec_driver_sql("SELECT current_database()").scalar_one()
            connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET {setting} = off')
    fresh = Database(database.url.render_as_string(hide_password=False))
    try:
        other = Ledger(all_sides(fresh))
        assert [len(other.claim(limit=7)) for _ in range(8)] == [7] * 7 + [1]
    finally:
        fresh.dispose()
        with database.write() as connection:
            connection.exec_driver_sql(f'ALTER DATABASE "{name}" RESET ALL')


def test_who_publishes_does_not_wait_for_what_another_one_has_locked(
    database: Database, ledger: Ledger
) -> None:
    """To wait, with some of it locked already, would be half of a deadlock."""
    run = ledger.plan("a", "b", "c")
    (version,) = ledger.work.versions()
    span = ledger.work.waiting(version.row, 10)
    assert span is not None
    with database.write(shared=True) as connection:
        connection.execute(
            sa.select(operations.c.id).where(operations.c.key == "exports/b.json").with_for_update()
        )
        publishing = Beside(lambda: ledger.queue.publish(span, SLOT))
        assert publishing.end() == 2
    assert ledger.queue.publish(span, SLOT) == 1
    assert (ledger.again(run).waiting, ledger.again(run).pending) == (0, 3)


def test_batches_over_the_same_runs_in_opposite_order_are_recorded_side_by_side(
    ledger: Ledger, ledger_url: str
) -> None:
    """Both lock the runs in one order, so that nobody ever waits in a circle."""
    names = [f"{n:03}" for n in range(60)]
    first = ledger.plan(*names[:30])
    second = ledger.plan(*names[30:], slot=SLOT + timedelta(hours=1))
    ledger.publish()
    claimed = ledger.claim()
    halves = claimed[::2], claimed[1::2][::-1]
    others = [Database(ledger_url) for _ in halves]
    barrier = threading.Barrier(2)

    def record(database: Database, mine: list[Any]) -> None:
        side = SqlWorkLedger(database)
        for operation in mine:
            barrier.wait(20)
            assert side.record([Completed(operation, Outcome.DELETED)], "me", SLOT) == []

    recording = [
        Beside(lambda d=d, mine=mine: record(d, mine))  # type: ignore[misc]
        for d, mine in zip(others, halves, strict=True)
    ]
    for one in recording:
        one.end()
    for database in others:
        database.dispose()
    assert ledger.again(first).state is ledger.again(second).state is RunState.DRAINED


def test_two_planners_whose_pages_overlap_in_opposite_order_plan_each_object_once(
    ledger: Ledger, ledger_url: str
) -> None:
    names = [f"{n:04}" for n in range(400)]
    answers = [ledger.answer(slot=SLOT + timedelta(hours=n)) for n in range(2)]
    pages = [ledger.page(POLICY, order, SLOT) for order in (names, names[::-1])]
    databases = [Database(ledger_url) for _ in pages]
    barrier = threading.Barrier(2)

    def write(n: int) -> None:
        barrier.wait(20)
        claim = answers[n].claim
        assert claim is not None
        SqlPlanLedger(databases[n]).write_page(claim, pages[n], 0, SLOT, LEASE)

    planning = [Beside(lambda n=n: write(n)) for n in range(2)]  # type: ignore[misc]
    for one in planning:
        one.end()
    for database in databases:
        database.dispose()
    written = [ledger.again(answer.run) for answer in answers]
    assert sorted(run.planned for run in written) == [0, 400]
    assert sorted(run.already_pending for run in written) == [0, 400]


@replays()
class Careless:
    """Locks two breakers in the order it is told, as nothing here does."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.tries = 0

    def lock(self, names: list[str], between: Callable[[], object]) -> None:
        with self.database.write(shared=True) as connection:
            self.tries += 1
            for name in names:
                connection.execute(
                    sa.update(breakers).where(breakers.c.connection == name).values(reason="x")
                )
                between()


def test_who_loses_a_deadlock_tries_again(ledger: Ledger, ledger_url: str) -> None:
    for name in ("a", "b"):
        ledger.controls.trip(name, "", SLOT)
    both = [Careless(ledger_url), Careless(ledger_url)]
    met, thread = threading.Barrier(2), threading.local()

    def meet() -> None:
        if not hasattr(thread, "has_met"):  # once each, with one lock in hand
            thread.has_met = True
            met.wait(20)

    calls = [
        Beside(lambda: both[0].lock(["a", "b"], meet)),
        Beside(lambda: both[1].lock(["b", "a"], meet)),
    ]
    for call in calls:
        call.end()
    for one in both:
        one.database.dispose()

    assert sorted(one.tries for one in both) == [1, 2]


# -- a server that goes away -----------------------------------------------------------------


def test_a_session_that_ends_between_two_calls_is_not_noticed(
    ledger: Ledger, postgres: Postgres
) -> None:
    run = ledger.plan("a")
    ledger.publish()
    (claimed,) = ledger.claim()
    assert postgres.end_sessions() > 0

    assert ledger.record(Completed(claimed, Outcome.DELETED)) == []

    assert ledger.again(run).completed == 1


def test_a_transaction_that_is_broken_off_leaves_nothing_and_is_tried_again(
    ledger: Ledger, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, P11: its operations were changed, its counts were not."""
    run = ledger.plan("a")
    ledger.publish()
    (claimed,) = ledger.claim()
    broken: list[int] = []
    bump = run_rows.bump

    def broken_once(*args: Any, **more: Any) -> None:
        if not broken:
            broken.append(postgres.end_sessions())
        bump(*args, **more)

    monkeypatch.setattr(run_rows, "bump", broken_once)

    assert ledger.record(Completed(claimed, Outcome.DELETED)) == []

    assert broken
    assert ledger.outcomes(ledger.again(run)) == {"deleted": 1}


@pytest.fixture
def lose_a_commit(
    database: Database, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Have the next commit carried out, and the connection lost before its answer."""
    dialect = database._writer.dialect
    commit = dialect.do_commit

    def lost(connection: Any) -> None:
        monkeypatch.setattr(dialect, "do_commit", commit)
        commit(connection)
        postgres.end_sessions()
        connection.execute("SELECT 1")

    return lambda: monkeypatch.setattr(dialect, "do_commit", lost)


def test_a_result_whose_commit_was_not_confirmed_counts_once(
    ledger: Ledger, lose_a_commit: Callable[[], None]
) -> None:
    """P3: recorded again, it finds its claim gone."""
    run = ledger.plan("a")
    ledger.publish()
    (claimed,) = ledger.claim()
    lose_a_commit()

    assert ledger.record(Completed(claimed, Outcome.DELETED)) == [claimed]

    assert ledger.outcomes(ledger.again(run)) == {"deleted": 1}


def test_a_page_whose_commit_was_not_confirmed_is_not_written_twice(
    ledger: Ledger, lose_a_commit: Callable[[], None]
) -> None:
    """Its counts would be added twice; the stored cursor tells what is left."""
    answer = ledger.answer()
    page = ledger.page(POLICY, ["a", "b"], SLOT)
    lose_a_commit()

    with pytest.raises(Interrupted, match="may be there or not"):
        ledger.write(answer, page, SLOT)

    stored = ledger.again(answer.run)
    assert (stored.scanned, stored.planned) == (2, 2)


def test_a_server_that_was_there_is_waited_for_and_one_that_was_not_is_an_error_at_once(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(ledger_url)
    real, refusals = database._reader.dialect.connect, []

    def refused(*args: Any, **more: Any) -> Any:
        if len(refusals) < 2:
            refusals.append(1)
            raise psycopg.OperationalError("connection refused")
        return real(*args, **more)

    controls = SqlControls(database)
    monkeypatch.setattr(database._reader.dialect, "connect", refused)
    with pytest.raises(LedgerError, match="connection refused"):
        controls.breakers()
    refusals.append(1)
    assert controls.breakers() == []
    database._writer.dispose()
    refusals.clear()
    monkeypatch.setattr(postgresql, "_RECONNECT_SECONDS", 0.01)

    assert controls.breakers() == []

    assert "out of reach, waiting" in caplog.text
    database._writer.dispose()
    refusals.clear()
    database.give_up_when(lambda: True)
    with pytest.raises(LedgerError, match="connection refused"):
        controls.breakers()
    database.dispose()


# -- waking up -------------------------------------------------------------------------------


def test_an_idle_worker_is_woken_when_something_is_published(
    database: Database, ledger: Ledger, ledger_url: str
) -> None:
    ledger.plan("a")
    idle = Database(ledger_url)
    idle.rest(60, time.sleep)  # begins to listen, and has whoever rests look once more
    resting = Beside(lambda: idle.rest(60, time.sleep))

    ledger.publish()

    resting.end()
    idle.dispose()


def test_who_cannot_listen_rests_and_asks_by_itself(
    ledger_url: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(ledger_url)
    database.rest(60, time.sleep)
    slept: list[float] = []
    postgres.end_sessions()
    monkeypatch.setattr(database._reader, "connect", _refuse)

    database.rest(0.2, slept.append)
    database.rest(0.2, slept.append)

    assert sum(slept) == pytest.approx(0.4)
    database.dispose()


def test_who_is_told_to_stop_rests_no_longer(ledger_url: str) -> None:
    database = Database(ledger_url)
    stop = threading.Event()
    database.give_up_when(stop.is_set)
    database.rest(60, time.sleep)
    resting = Beside(lambda: database.rest(60, time.sleep))

    stop.set()

    resting.end()
    database.dispose()


def _refuse() -> None:
    raise sa.exc.OperationalError("LISTEN", {}, psycopg.OperationalError("no"))


def test_rings_nobody_waits_for_are_thrown_away(
    database: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unread notifications would fill the server's queue while a worker is busy for days."""
    monkeypatch.setattr(postgresql, "_EMPTY_EVERY_SECONDS", 0.0)
    database.rest(60, time.sleep)
    ledger.controls.reset("s")
    server = database._server
    assert server is not None
    heard = postgresql._driver(server.doorbell._connection)  # type: ignore[arg-type]
    assert select.select([heard], [], [], 30)[0], "nobody rang"
    ledger.controls.trip("s", "", SLOT)  # any transaction

    slept: list[float] = []
    database.rest(0.1, slept.append)

    assert slept


# -- behind PgBouncer ------------------------------------------------------------------------


def test_a_pooler_that_changes_the_session_with_every_transaction_changes_nothing(
    pooled_url: str,
) -> None:
    databases = [Database(pooled_url) for _ in range(3)]
    databases[0].prepare()
    ledgers = [Ledger(all_sides(database)) for database in databases]
    run = ledgers[0].plan(*(f"{n:04}" for n in range(600)))
    for database in databases:
        database.rest(0.1, time.sleep)
    ledgers[0].publish()

    def consume(ledger: Ledger) -> int:
        done = 0
        while claimed := ledger.claim(limit=25):
            assert ledger.record(*(Completed(o, Outcome.DELETED) for o in claimed)) == []
            done += len(claimed)
        return done

    working = [Beside(lambda ledger=ledger: consume(ledger)) for ledger in ledgers]  # type: ignore[misc]
    assert sum(one.end() for one in working) == 600  # type: ignore[misc]
    for database in databases:
        database.rest(0.1, time.sleep)
    assert ledgers[1].again(run).state is RunState.DRAINED
    for database in databases:
        database.dispose()


# -- what an operator gets to read -----------------------------------------------------------


def test_no_message_shows_a_password() -> None:
    url = "postgresql+psycopg://me:geheim@127.0.0.1:1/d?sslpassword=auchgeheim"
    database = Database(url)

    with pytest.raises(LedgerError) as caught:
        database.prepare()
    database.dispose()

    there = "postgresql+psycopg://me:***@127.0.0.1:1/d?sslpassword=hidden"
    assert f"state database {there}: " in str(caught.value)
    assert "geheim" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_parameter_nobody_knows_is_named(ledger_url: str) -> None:
    database = Database(f"{ledger_url}&nonsense=1")

    with pytest.raises(LedgerError, match='invalid connection option "nonsense"; look at'):
        database.prepare()
    database.dispose()


def test_a_url_that_cannot_be_read_is_not_repeated() -> None:
    with pytest.raises(LedgerError, match="%40 for @") as caught:
        Database("postgresql+psycopg://me:geheim@host:port/d")

    assert "geheim" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_missing_driver_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without_driver(name: str, *args: Any) -> Any:
        if name.endswith("state.postgresql"):
            raise ImportError("No module named 'psycopg'")
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without_driver)

    with pytest.raises(LedgerError, match=r'pip install "bestbefore\[postgresql\]"'):
        Database("postgresql+psycopg://me@h/d")


def test_a_database_that_cannot_hold_every_key_is_refused(postgres: Postgres) -> None:
    name = postgres.create_database()
    postgres.drop_database(name)
    with postgres.connect() as connection:
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'"
        )
    database = Database(postgres.database_url(name))

    with pytest.raises(LedgerError, match="its encoding is LATIN1, expected UTF8; create another"):
        database.prepare()

    database.dispose()
    postgres.drop_database(name)


def test_a_role_that_may_not_create_tables_is_told_so(postgres: Postgres, empty_url: str) -> None:
    url = sa.make_url(empty_url)
    role = f"{postgres.database}_poor"
    with postgres.connect() as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'geheim'")
        connection.execute(
            f"GRANT USAGE ON SCHEMA {str(url.query['options']).partition('=')[2]} TO {role}"
        )
    database = Database(url.set(username=role, password="geheim").render_as_string(False))
    try:
        with pytest.raises(LedgerError, match=r"permission denied for schema .*its rights"):
            database.prepare()
    finally:
        database.dispose()
        with postgres.connect() as connection:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")
