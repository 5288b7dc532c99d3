"""What the errors of PostgreSQL, MySQL, MariaDB and SQLite mean, in the product's words.

Drivers are extras, so errors are told by what they carry: SQLSTATE, MySQL's number, SQLite's code.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from bestbefore.domain.failure import Failure, FailureClass


class _Meaning(NamedTuple):
    """What a code stands for; the rest as in `Failure`. ``quotes`` says that its message may
    repeat values of a row."""

    failure_class: FailureClass
    remedy: str = ""
    whole_source: bool = False
    too_big: bool = False
    quotes: bool = False


_AGAIN = _Meaning(FailureClass.TRANSIENT)
_TOO_LONG = _Meaning(
    FailureClass.TRANSIENT, "less at a time, or a quieter hour, may get through", too_big=True
)
_FULL = _Meaning(FailureClass.TRANSIENT, "give the database more space")
_MISSING = _Meaning(
    FailureClass.MALFORMED, "create it, or correct the policy and the database's URL",
    whole_source=True,
)  # fmt: skip
_WRONG = _Meaning(
    FailureClass.MALFORMED, "correct the policy, its `where` above all", whole_source=True
)
_DAMAGED = _Meaning(FailureClass.MALFORMED, "repair the database first", whole_source=True)
_LOGIN = _Meaning(FailureClass.CREDENTIALS, "correct user and password in the database's URL")
# A standby in a failover, or a database that somebody has frozen: no batch is at fault, and all of
# them can wait for days, as those do whose login is refused.
_READ_ONLY = _Meaning(FailureClass.CREDENTIALS, "let this role and the database write again")
_DENIED = _Meaning(FailureClass.PERMISSION, "grant the right to the role of the database's URL")
_KEPT = _Meaning(
    FailureClass.DEPENDENCY,
    "remove what refers to it first, or list that table under `dependents`",
)
_TWICE = _Meaning(FailureClass.DEPENDENCY, "look at what the table's triggers write", quotes=True)
_REFUSED = _Meaning(FailureClass.DEPENDENCY, "look at the table's triggers")
_UNREADABLE = _Meaning(
    FailureClass.UNKNOWN, "look for values that do not go with their column", quotes=True
)
_UNKNOWN = _Meaning(FailureClass.UNKNOWN)

_POSTGRESQL: Mapping[str, _Meaning] = {
    "08": _AGAIN,
    "22": _UNREADABLE,
    "23": _KEPT,
    "25006": _READ_ONLY,
    "25P03": _TOO_LONG,
    "25P04": _TOO_LONG,
    "28": _LOGIN,
    "3D": _MISSING,
    "3F": _MISSING,
    "40": _AGAIN,
    "42": _WRONG,
    "42501": _DENIED,
    "42703": _MISSING,
    "42P01": _MISSING,
    "53": _AGAIN,
    "53100": _FULL,
    "53200": _TOO_LONG,
    "55006": _AGAIN,
    "55P03": _TOO_LONG,
    "57": _AGAIN,
    "57014": _TOO_LONG,
    "58": _AGAIN,
    "P0001": _REFUSED,
}
"""By SQLSTATE, or by its class (the first two characters)."""

_LOST = 2013

_MYSQL: Mapping[int, _Meaning] = {
    1020: _AGAIN,  # the row changed since the snapshot
    1021: _FULL,
    1040: _AGAIN,
    1044: _DENIED,
    1045: _LOGIN,
    1048: _KEPT,  # ON DELETE SET NULL of a column that may not be NULL
    1049: _MISSING,
    1053: _AGAIN,
    1054: _MISSING,
    1062: _TWICE,
    1064: _WRONG,
    1114: _FULL,
    1142: _DENIED,
    1143: _DENIED,
    1146: _MISSING,
    1197: _TOO_LONG,
    1203: _AGAIN,
    1205: _TOO_LONG,
    1213: _AGAIN,
    1217: _KEPT,
    1226: _AGAIN,
    1227: _DENIED,
    1290: _READ_ONLY,
    1792: _READ_ONLY,
    1836: _READ_ONLY,
    1292: _UNREADABLE,
    1317: _AGAIN,
    1366: _UNREADABLE,
    1451: _KEPT,
    1644: _REFUSED,
    1698: _LOGIN,
    1927: _AGAIN,
    1969: _TOO_LONG,
    2002: _AGAIN,
    2003: _AGAIN,
    2006: _AGAIN,
    _LOST: _AGAIN,
    3024: _TOO_LONG,
    3572: _TOO_LONG,
    3819: _KEPT,
    4025: _KEPT,
}

_SQLITE: Mapping[int, _Meaning] = {
    1: _WRONG,
    3: _DENIED,
    5: _AGAIN,
    6: _AGAIN,
    8: _DENIED,
    9: _TOO_LONG,  # interrupted, by ourselves
    10: _AGAIN,
    11: _DAMAGED,
    13: _FULL,
    14: _MISSING,
    17: _AGAIN,
    19: _KEPT,
    23: _DENIED,
    26: _DAMAGED,
}
"""By primary result code, which is the lower byte of an extended one."""

_REFUSED_AT_THE_DOOR = (
    ("authentication failed", _LOGIN),
    ("no password supplied", _LOGIN),
    (r"no pg_hba\.conf entry", _LOGIN),
    ("is not permitted to log in", _LOGIN),
    ('role ".*" does not exist', _LOGIN),
    ('database ".*" does not exist', _MISSING),
    ("no such database", _MISSING),  # PgBouncer's word for it
    # Of the server itself, and of the poolers in front of it.
    (
        "(?i)starting up|shutting down|in recovery mode|accepting connections|too many"
        "|slots are reserved|time(d-)?[ -]?out|try again|max.?clients?|connections allowed"
        "|cannot connect|login has been failing|server login failed|terminating connection"
        "|out of memory|could not ",
        _AGAIN,
    ),
    # In another language (`lc_messages`): what comes after a severity, such as FATAL or FATALE,
    # was said by a server that is there. We cannot read what, so it counts as the usual thing.
    (r" failed: \S+ ?: {2}\S", _LOGIN),
)
"""libpq gives no SQLSTATE for a connection that did not come about, only words: the first that fit
mean something."""

_NO_SUCH = re.compile(r"no such (table|column)|has no column named|unknown database")
_QUOTE = re.compile("['\"]")
_BY_REQUEST = "user request"


def failure_of(error: sa.exc.SQLAlchemyError, what: str) -> Failure:
    """*error*, raised while working on *what* (a table, as people know it).

    Only what the server itself said gets into the text: SQLAlchemy's own would hold the statement
    with its values, and PostgreSQL's details hold the key of a row.
    """
    if isinstance(error, sa.exc.NoSuchTableError):
        return _failure(_MISSING, f"{what}: there is no such table")
    if isinstance(error, sa.exc.TimeoutError):
        return _failure(_AGAIN, f"{what}: no connection became free in time")
    if not isinstance(error, sa.exc.DBAPIError):
        return _failure(_UNKNOWN, f"{what}: {type(error).__name__}")
    meaning, said = _read(error)
    said = _without_values(meaning, said)
    return _failure(meaning, f"{what}: {said or type(error.orig).__name__}")


def refusal_of(error: sa.exc.DBAPIError, what: str) -> Failure | None:
    """*error*, raised by an INSERT into *what*, if it is about the rows: the table has such a row
    already, or cannot take one. Trying again would not help."""
    meaning, said = _read(error)
    if meaning.failure_class not in (FailureClass.DEPENDENCY, FailureClass.UNKNOWN):
        return None
    return Failure(
        FailureClass.MALFORMED,
        f"{what} does not take these rows: {_without_values(meaning, said)}; look "
        "at what is there already, and at its constraints",
    )


def is_missing(error: sa.exc.SQLAlchemyError) -> bool:
    """Whether *error* says that a table or a column is not there."""
    return isinstance(error, sa.exc.DBAPIError) and _read(error)[0] is _MISSING


def is_duplicate(error: sa.exc.SQLAlchemyError) -> bool:
    """Whether *error* says that there is such a row, or such a table, already.

    PostgreSQL has three codes for a table that somebody else creates at the same time, by how far
    it came: the table, its row type, or a row of the catalog is there.
    """
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    orig: Any = error.orig
    if hasattr(orig, "diag"):
        return orig.sqlstate in ("42P07", "42710", "23505")
    return next(iter(getattr(orig, "args", ())), None) in (1062, 1050)


def _failure(meaning: _Meaning, text: str) -> Failure:
    remedy = f"; {meaning.remedy}" if meaning.remedy else ""
    return Failure(
        meaning.failure_class,
        f"{text}{remedy}",
        whole_source=meaning.whole_source,
        too_big=meaning.too_big,
    )


def _without_values(meaning: _Meaning, said: str) -> str:
    return _QUOTE.split(said)[0].rstrip(" :") if meaning.quotes else said


def _read(error: sa.exc.DBAPIError) -> tuple[_Meaning, str]:
    """The meaning of a driver's error, and what it said, in one line."""
    orig: Any = error.orig
    # What a driver finds by itself has no code of the server's: a lost link, or a mistake of ours.
    lost = isinstance(error, sa.exc.InterfaceError) or error.connection_invalidated
    otherwise = _AGAIN if lost else _UNKNOWN
    if hasattr(orig, "sqlite_errorcode"):
        said = str(orig)
        meaning = _SQLITE.get(orig.sqlite_errorcode & 0xFF, otherwise)
        return (_MISSING if _NO_SUCH.search(said) else meaning), said
    if hasattr(orig, "diag"):
        return _read_postgresql(error, otherwise)
    match getattr(orig, "args", ()):
        case (int() as number, str() as said, *_):
            # MySQL has no limit of its own for a DELETE, so it is ours that ends one.
            late = number == _LOST and "timed out" in said
            meaning = _TOO_LONG if late else _MYSQL.get(number, otherwise)
            return meaning, f"{_one_line(said)} ({number})".lstrip()
        case _:
            return otherwise, ""


def _read_postgresql(error: sa.exc.DBAPIError, otherwise: _Meaning) -> tuple[_Meaning, str]:
    orig: Any = error.orig
    state = orig.sqlstate
    if state is None:
        lost = isinstance(error, sa.exc.OperationalError)
        return _at_the_door(str(orig), _AGAIN if lost else otherwise), _one_line(str(orig))
    said = _one_line(orig.diag.message_primary or "")
    name = orig.diag.constraint_name
    if name and name not in said:
        said += f" (constraint {name})"
    meaning = _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2], _UNKNOWN)
    if state == "57014" and _BY_REQUEST in said:
        meaning = _AGAIN  # a person stopped this one statement
    return meaning, f"{said} ({state})".lstrip()


def _at_the_door(said: str, otherwise: _Meaning) -> _Meaning:
    for words, meaning in _REFUSED_AT_THE_DOOR:
        if re.search(words, said):
            return meaning
    return otherwise


def _one_line(said: str) -> str:
    return " ".join(said.split())
