"""How a real database says that it is under strain."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from bestbefore.adapters.rows.pressure import SqlPressure
from bestbefore.domain.throttle import Limits, Strain
from support.forks import until
from support.row_databases import RowDatabase

SHORT = timedelta(milliseconds=1)
LONG = timedelta(hours=1)

SLOW = {
    "postgresql": "SELECT pg_sleep(20)",
    "mysql": "SELECT sleep(20)",
    "sqlite": "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) "
    "SELECT max(i) FROM n",
}


@pytest.fixture
def pressure(row_database: RowDatabase) -> Iterator[SqlPressure]:
    made = SqlPressure(row_database.url)
    yield made
    made.close()


def asked(pressure: SqlPressure, sql: str) -> Strain | None:
    return pressure.strain(Limits(sql=sql))


@pytest.mark.parametrize(
    "sql",
    ["SELECT 0", "SELECT -1.5", "SELECT NULL", "SELECT 1 FROM (SELECT 1 AS one) AS t WHERE one > 1",
     "SELECT count(*) FROM (SELECT 'a%b' AS x) AS t WHERE x LIKE '%c%'"],
)  # fmt: skip
def test_what_is_not_above_0_is_no_strain(pressure: SqlPressure, sql: str) -> None:
    assert asked(pressure, sql) is None


@pytest.mark.parametrize(("sql", "shown"), [("SELECT 3, 0", "3"), ("SELECT '0.5'", "0.5")])
def test_what_is_above_0_is_strain(pressure: SqlPressure, sql: str, shown: str) -> None:
    assert str(asked(pressure, sql)) == f"sql: it gives {shown}, which is above 0"


@pytest.mark.parametrize(
    ("sql", "said"),
    [("SELECT 'yes'", "it gives 'yes', expected a number"), ("SELECT nope", "nope"),
     ("SELEC 1", "it cannot be asked: "), ("SELECT 1 FROM nowhere", "nowhere")],
)  # fmt: skip
def test_a_question_without_an_answer_is_strain(pressure: SqlPressure, sql: str, said: str) -> None:
    assert said in str(asked(pressure, sql))


def test_a_question_changes_nothing(row_database: RowDatabase, pressure: SqlPressure) -> None:
    row_database.run("CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)")

    for sql in ("DELETE FROM t", "INSERT INTO t VALUES (2)", "CREATE TABLE u (id INTEGER)"):
        assert "it cannot be asked: " in str(asked(pressure, sql))

    assert row_database.ask("SELECT id FROM t") == [(1,)]


def test_a_question_that_takes_too_long_is_strain(
    row_database: RowDatabase, pressure: SqlPressure
) -> None:
    began = time.monotonic()

    assert "it cannot be asked: " in str(asked(pressure, SLOW[row_database.kind]))

    assert time.monotonic() - began < 15
    assert asked(pressure, "SELECT 0") is None, "and the next one is asked as ever"


def test_a_database_out_of_reach_is_strain() -> None:
    for driver in ("postgresql+psycopg", "mysql+pymysql"):
        there = SqlPressure(f"{driver}://me:geheim@127.0.0.1:1/d")
        found = str(there.strain(Limits(lock_wait=LONG)))
        there.close()
        assert "lock_wait: it cannot be asked: " in found
        assert "geheim" not in found


def test_nothing_is_strain_where_nobody_waits_and_nothing_is_replicated(
    pressure: SqlPressure,
) -> None:
    assert pressure.strain(Limits(replica_lag=SHORT)) is None


@contextmanager
def waiting(database: RowDatabase, *first: str) -> Iterator[None]:
    """Somebody waits for a lock, having run *first*."""
    delete = "DELETE FROM t WHERE id = 1"

    def wait() -> None:
        with database.holding(*first, delete):
            pass

    database.run("CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    thread = threading.Thread(target=wait)
    with database.holding(delete):
        thread.start()
        yield
    thread.join(30)


def strained(pressure: SqlPressure) -> Strain | None:
    """Whether somebody waits. MariaDB gives who asks ten times a second the same answer again."""
    time.sleep(0.15)
    return pressure.strain(Limits(lock_wait=SHORT))


def test_somebody_who_waits_for_a_lock_is_strain(
    row_database: RowDatabase, pressure: SqlPressure
) -> None:
    if row_database.kind == "sqlite":
        return  # nobody can tell there
    with waiting(row_database):
        found = until(lambda: strained(pressure), what="a wait")
        assert found.key == "lock_wait"
        assert found.found.startswith("somebody waits ")
        assert found.found.endswith(" s for a lock, at most 0.001 s is allowed")
        assert pressure.strain(Limits(lock_wait=LONG)) is None
    until(lambda: not strained(pressure), what="the end of it")


def test_our_own_waits_are_no_strain(row_database: RowDatabase, pressure: SqlPressure) -> None:
    if row_database.kind != "postgresql":
        return  # only there do sessions have names
    with waiting(row_database, "SET application_name = 'bestbefore'"):
        until(row_database.waiting, what="a wait")
        time.sleep(0.01)
        assert pressure.strain(Limits(lock_wait=SHORT)) is None
