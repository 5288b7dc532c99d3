"""The policy's own condition: what may be in it, and that the database understands it.

It is code that the author of the policy is trusted with. What is made sure of is that it stays
the one condition it is shown as: it cannot end early, and it means columns that there are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Column, Condition
from bestbefore.adapters.rows.errors import failure_of, is_missing
from bestbefore.adapters.rows.names import listed
from bestbefore.domain.failure import FailureClass
from bestbefore.domain.finding import Finding, Level
from bestbefore.ports.rows import TableRefused

_TEXT, _NAME = r"'(?:[^']|'')*'", r'"(?:[^"]|"")*"'
_TICKED, _BRACKETED = r"`(?:[^`]|``)*`", r"\[[^\]]*\]"


class _Lexis(NamedTuple):
    """How one kind of database reads a condition. ``foreign`` are signs, outside of quotes, that
    would make something else of the statement around it."""

    quoted: str
    foreign: str
    escapes: str
    """Of a text (a pattern of its prefix) in which a backslash before a quote may be part of it."""


_LEXES: Mapping[str, _Lexis] = {
    "postgresql": _Lexis(rf"(?:\b[EeUu]&?)?{_TEXT}|{_NAME}", r"\$", "[EeUu]"),
    "mysql": _Lexis(f"{_TEXT}|{_NAME}|{_TICKED}", "#", ""),
    "mariadb": _Lexis(f"{_TEXT}|{_NAME}|{_TICKED}", "#", ""),
    "sqlite": _Lexis(f"{_TEXT}|{_NAME}|{_TICKED}|{_BRACKETED}", r"[?:@$]", "(?!)"),
}

_SOME = 100
"""Rows that are asked what a condition makes of them."""

_CONVERTED = 1292

_REST = r"(?P<comment>--|/\*)|(?P<end>[;\0])|(?P<open>[(])|(?P<close>[)])|(?P<stray>['\"`])"
_WORD = r"(?P<word>[^\W\d][\w$]*)"


def condition(
    connection: sa.Connection, table: sa.Table, columns: Sequence[Column], where: str
) -> Condition:
    """*where*, in brackets. Raises TableRefused where it is more or less than one condition, or
    the database does not understand it; and what the database raises otherwise."""
    checked = sa.literal_column(f"({checked_text(connection, columns, where)})", sa.Boolean)
    try:
        connection.execute(sa.select(sa.literal(1)).select_from(table).where(checked).limit(0))
    except sa.exc.DBAPIError as error:
        failure = failure_of(error, "where")
        if is_missing(error):
            raise TableRefused(
                f"{failure.error}; the columns of {table} are: {listed(columns)}"
            ) from error
        if failure.failure_class in (FailureClass.MALFORMED, FailureClass.UNKNOWN):
            raise TableRefused(failure.error) from error
        raise
    return checked


def doubts(connection: sa.Connection, table: sa.Table, where: Condition) -> Iterator[Finding]:
    """What *where*, as `condition` gave it, makes of some rows of *table* that its author may not
    have meant.

    MariaDB and MySQL compare a text with a number as numbers: `status = 0` holds for every text
    that is none. They warn of the rows where that happens.
    """
    if connection.dialect.name not in ("mysql", "mariadb"):
        return
    try:
        connection.execute(sa.select(where).select_from(table).limit(_SOME)).all()
        warnings = connection.exec_driver_sql("SHOW WARNINGS").all()
    except sa.exc.DBAPIError:
        return  # it takes too long, and then so does a plan, which says so
    for level, code, said in warnings:
        if level == "Warning" and code == _CONVERTED:
            yield Finding(
                "where-converts",
                Level.WARNING,
                f"where compares texts of {table} with something else, and those that cannot be "
                f"read as it count as 0 ({_without_value(said)})",
                "compare texts with texts: status = '0'",
            )
            return


def _without_value(said: str) -> str:
    return re.split("['\"`]", said)[0].rstrip(" :")


def checked_text(connection: sa.Connection, columns: Sequence[Column], where: str) -> str:
    """*where*, in which nothing is quoted that may be read in two ways. Raises TableRefused."""
    name = connection.dialect.name
    depth, parts = 0, []
    for kind, text in _tokens(where, _LEXES[name]):
        match kind:
            case "foreign":
                raise _refused(where, f"holds {text} outside of quotes")
            case "comment":
                raise _refused(where, f"holds a comment ({text})")
            case "end":
                raise _refused(where, "holds the end of a statement")
            case "stray":
                raise _refused(where, f"holds a quote ({text}) that is not closed")
            case "escaped":
                raise _refused(where, f"holds a backslash before a quote ({text}); write ''")
            case "open":
                depth += 1
            case "close":
                depth -= 1
        if depth < 0:
            raise _refused(where, "closes a bracket that it did not open")
        parts.append(_one_meaning(connection, columns, text) if text[0] == '"' else text)
    if depth:
        raise _refused(where, "does not close all its brackets")
    if not where.strip():
        raise _refused(where, "is empty; leave it out")
    return "".join(parts)


def _one_meaning(connection: sa.Connection, columns: Sequence[Column], quoted: str) -> str:
    """What stands in double quotes, so that it is a name or an error, and never silently a text."""
    inner = quoted[1:-1].replace('""', '"')
    match connection.dialect.name:
        case "sqlite":
            # In double quotes, a name that there is not is taken for a text.
            return _ticked(inner)
        case "mysql" | "mariadb":
            # A text or a name, as sql_mode has it. Refused under either: a server's mode may
            # change after a plan, and a misspelt name that is a text holds for every row.
            names = {column.name.lower() for column in columns}
            if inner.lower() in names:
                raise TableRefused(
                    f"where holds {quoted}, which is a text here unless sql_mode has ANSI_QUOTES; "
                    f"write {_ticked(inner)} for the column"
                )
            text = inner.replace("'", "''")
            raise TableRefused(
                f"where holds {quoted}, which is a text or a name, as sql_mode has it; write "
                f"'{text}' for a text and {_ticked(inner)} for a column (there are: "
                f"{listed(columns)})"
            )
    return quoted


def _ticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _tokens(where: str, lexis: _Lexis) -> Iterator[tuple[str, str]]:
    token = re.compile(
        f"(?P<quoted>{lexis.quoted})|{_WORD}|{_REST}|(?P<foreign>{lexis.foreign})|(?P<other>.)",
        re.DOTALL,
    )
    escaped = re.compile(rf"{lexis.escapes}[^'\"]*['\"].*\\['\"]", re.DOTALL)
    for found in token.finditer(where):
        kind, text = str(found.lastgroup), found.group()
        yield ("escaped" if kind == "quoted" and escaped.match(text) else kind), text


def _refused(where: str, what: str) -> TableRefused:
    return TableRefused(f"where = {where!r} {what}; expected one condition, as after WHERE")
