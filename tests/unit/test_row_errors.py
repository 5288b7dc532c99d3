"""What the errors of SQL databases mean, and what of them a person gets to read."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

import psycopg
import pymysql
import pytest
import sqlalchemy as sa

from bestbefore.adapters.rows.errors import failure_of, is_duplicate, is_missing
from bestbefore.domain.failure import FailureClass as Class

TABLE = "shipment_updates"


DOOR = 'connection to server at "127.0.0.1", port 5432 failed: '


def postgresql(state: str, said: str = "") -> sa.exc.DBAPIError:
    return _wrapped(psycopg.errors.lookup(state)(said), psycopg.Error)


def mysql(number: int, said: str = "") -> sa.exc.DBAPIError:
    with pytest.raises(pymysql.err.Error) as caught:
        pymysql.err.raise_mysql_exception(
            b"\xff" + number.to_bytes(2, "little") + b"#HY000" + said.encode()
        )
    return _wrapped(caught.value, pymysql.err.Error)


def sqlite(*statements: str) -> sa.exc.DBAPIError:
    """What the last of *statements* fails with."""
    *before, last = statements
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in before:
            connection.execute(statement)
        with pytest.raises(sqlite3.Error) as caught:
            connection.execute(last)
    return _wrapped(caught.value, sqlite3.Error)


def _wrapped(
    error: Exception, base: type[Exception], *, invalidated: bool = False
) -> sa.exc.DBAPIError:
    made = sa.exc.DBAPIError.instance(
        "DELETE FROM t WHERE name = 'Ada'", {"name": "Ada"}, error, base,
        connection_invalidated=invalidated,
    )  # fmt: skip
    assert isinstance(made, sa.exc.DBAPIError)
    return made


@pytest.mark.parametrize(
    ("states", "meaning", "whole", "too_big"),
    [
        ("42P01 42703 3D000 3F000 42601 42883", Class.MALFORMED, True, False),
        ("28P01 28000", Class.CREDENTIALS, False, False),
        ("42501", Class.PERMISSION, False, False),
        ("23503 23001 23514 P0001", Class.DEPENDENCY, False, False),
        ("25006", Class.CREDENTIALS, False, False),
        ("40001 40P01 08006 57P01 57P02 57P03 53300 53100", Class.TRANSIENT, False, False),
        ("55P03 57014 25P03 53200", Class.TRANSIENT, False, True),
        ("22P02 XX000 0A000", Class.UNKNOWN, False, False),
    ],
)
def test_an_sqlstate_has_one_meaning(
    states: str, meaning: Class, whole: bool, too_big: bool
) -> None:
    for state in states.split():
        failure = failure_of(postgresql(state), TABLE)
        found = failure.failure_class, failure.whole_source, failure.too_big
        assert found == (meaning, whole, too_big), state


@pytest.mark.parametrize(
    ("numbers", "meaning", "whole", "too_big"),
    [
        ([1146, 1054, 1049, 1064], Class.MALFORMED, True, False),
        ([1045, 1698], Class.CREDENTIALS, False, False),
        ([1142, 1143, 1044, 1227], Class.PERMISSION, False, False),
        ([1451, 1217, 1644, 1062], Class.DEPENDENCY, False, False),
        ([1213, 1020, 2006, 2013, 1040, 1053, 1114], Class.TRANSIENT, False, False),
        ([1290, 1792, 1836], Class.CREDENTIALS, False, False),
        ([1205, 3572, 1197, 3024, 1969], Class.TRANSIENT, False, True),
        ([1292, 1105], Class.UNKNOWN, False, False),
    ],
)
def test_a_number_of_mysql_has_one_meaning(
    numbers: list[int], meaning: Class, whole: bool, too_big: bool
) -> None:
    for number in numbers:
        failure = failure_of(mysql(number), TABLE)
        found = failure.failure_class, failure.whole_source, failure.too_big
        assert found == (meaning, whole, too_big), number


PARENTS = ("PRAGMA foreign_keys = ON", "CREATE TABLE p (id INTEGER PRIMARY KEY)")


@pytest.mark.parametrize(
    ("error", "meaning", "whole"),
    [
        (lambda: sqlite("DELETE FROM nowhere"), Class.MALFORMED, True),
        (lambda: sqlite(*PARENTS, "DELETE FROM p WHERE colour = 1"), Class.MALFORMED, True),
        (lambda: sqlite(*PARENTS, "DELETE FROM p WHERE"), Class.MALFORMED, True),
        (lambda: sqlite("SELECT 1 FROM elsewhere.p"), Class.MALFORMED, True),
        (
            lambda: sqlite(
                *PARENTS,
                "CREATE TABLE c (p REFERENCES p)",
                "INSERT INTO p VALUES (1)",
                "INSERT INTO c VALUES (1)",
                "DELETE FROM p",
            ),
            Class.DEPENDENCY,
            False,
        ),
        (
            lambda: sqlite(
                *PARENTS,
                "CREATE TRIGGER no BEFORE DELETE ON p BEGIN SELECT RAISE(ABORT, 'never'); END",
                "INSERT INTO p VALUES (1)",
                "DELETE FROM p",
            ),
            Class.DEPENDENCY,
            False,
        ),
        (
            lambda: sqlite("PRAGMA max_page_count = 1", "CREATE TABLE t (a)"),
            Class.TRANSIENT,
            False,
        ),
        (lambda: sqlite("PRAGMA query_only = ON", "CREATE TABLE t (a)"), Class.PERMISSION, False),
    ],
)
def test_a_code_of_sqlite_has_one_meaning(
    error: Callable[[], sa.exc.DBAPIError], meaning: Class, whole: bool
) -> None:
    failure = failure_of(error(), TABLE)
    assert (failure.failure_class, failure.whole_source) == (meaning, whole)


@pytest.mark.parametrize("code", [5, 517, 6, 262, 10])
def test_a_locked_file_of_sqlite_is_tried_again(code: int) -> None:
    locked = sqlite3.OperationalError("database is locked")
    locked.sqlite_errorcode = code
    failure = failure_of(_wrapped(locked, sqlite3.Error), TABLE)
    assert (failure.failure_class, failure.too_big) == (Class.TRANSIENT, False)


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ('FATAL: password authentication failed for user "me"', Class.CREDENTIALS),
        (f"{DOOR}FATAL:  Passwort-Authentifizierung für »me« fehlgeschlagen", Class.CREDENTIALS),
        (f"{DOOR}FATALE :  authentification par mot de passe échouée", Class.CREDENTIALS),
        (f"{DOOR}FATAL:  the database system is starting up", Class.TRANSIENT),
        (f"{DOOR}FATAL:  sorry, too many clients already", Class.TRANSIENT),
        (f"{DOOR}FATAL:  no more connections allowed (max_client_conn)", Class.TRANSIENT),
        (f"{DOOR}FATAL:  pgbouncer cannot connect to server", Class.TRANSIENT),
        (f"{DOOR}FATAL:  MaxClientsInSessionMode: max clients reached", Class.TRANSIENT),
        (f'{DOOR}FATAL:  password authentication failed for user "recovery"', Class.CREDENTIALS),
        (f'{DOOR}FATAL:  database "slots" does not exist', Class.MALFORMED),
        (f"{DOOR}Connection refused\n\tIs the server running?", Class.TRANSIENT),
        ("fe_sendauth: no password supplied", Class.CREDENTIALS),
        ('FATAL: role "me" does not exist', Class.CREDENTIALS),
        ('FATAL: no pg_hba.conf entry for host "1.2.3.4"', Class.CREDENTIALS),
        ('FATAL: database "shop" does not exist', Class.MALFORMED),
        ("Connection refused", Class.TRANSIENT),
        ("FATAL: the database system is starting up", Class.TRANSIENT),
    ],
)
def test_a_connection_of_postgresql_that_did_not_come_about_is_told_by_its_words(
    said: str, meaning: Class
) -> None:
    error = psycopg.OperationalError(f"connection failed: {said}\nIs the server running?")
    failure = failure_of(_wrapped(error, psycopg.Error), TABLE)
    assert failure.failure_class is meaning
    assert "\n" not in failure.error


def test_a_lost_connection_is_tried_again_and_a_mistake_of_ours_is_not() -> None:
    closed = pymysql.err.InterfaceError(0, "")
    assert failure_of(_wrapped(closed, pymysql.err.Error), TABLE).failure_class is Class.TRANSIENT
    ours = psycopg.ProgrammingError("cannot adapt type 'object'")
    assert failure_of(_wrapped(ours, psycopg.Error), TABLE).failure_class is Class.UNKNOWN
    busy = sa.exc.TimeoutError("QueuePool limit reached")
    assert failure_of(busy, TABLE).failure_class is Class.TRANSIENT
    gone = sa.exc.NoSuchTableError(TABLE)
    assert failure_of(gone, TABLE).whole_source


def test_a_statement_that_a_person_stopped_is_not_taken_for_one_that_was_too_slow() -> None:
    class Stopped(psycopg.errors.QueryCanceled):
        @property
        def diag(self):
            class Said:
                message_primary = "canceling statement due to user request"
                constraint_name = None

            return Said

    failure = failure_of(_wrapped(Stopped(), psycopg.Error), TABLE)
    assert (failure.failure_class, failure.too_big) == (Class.TRANSIENT, False)


def test_a_text_names_the_table_the_cause_and_the_remedy_and_no_value_of_a_row() -> None:
    failure = failure_of(mysql(1142, "DELETE command denied to user 'me'@'%'"), TABLE)
    assert failure.error == (
        "shipment_updates: DELETE command denied to user 'me'@'%' (1142); "
        "grant the right to the role of the database's URL"
    )
    for number in (1062, 1292, 1366):
        text = failure_of(mysql(number, "Not this 'Ada' for key 'PRIMARY'"), TABLE).error
        assert "Not this;" in text
        assert "Ada" not in text
    assert "Ada" not in failure_of(postgresql("XX000", "DETAIL: Key (name)=(Ada)"), TABLE).error


def test_missing_and_double_are_told_apart() -> None:
    assert is_missing(sqlite("DELETE FROM nowhere"))
    assert is_missing(mysql(1146))
    assert not is_missing(mysql(1451))
    assert is_duplicate(mysql(1062))
    assert not is_duplicate(postgresql("23503"))
    assert not is_duplicate(sa.exc.TimeoutError())


@pytest.mark.parametrize("code", ["23505", "42P07", "42710"])
def test_a_table_that_another_worker_creates_meanwhile_is_there(code: str) -> None:
    """What PostgreSQL 15 answers to CREATE TABLE IF NOT EXISTS from four sessions at once."""
    assert is_duplicate(postgresql(code))
