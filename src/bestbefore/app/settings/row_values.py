"""How single values of databases and row policies are written: names, lists of them, addresses."""

from urllib.parse import urlsplit

from bestbefore.app.settings.choices import choice
from bestbefore.app.settings.problems import Unfit, shown
from bestbefore.app.settings.values import filled, resolved
from bestbefore.domain.names import parts
from bestbefore.domain.rows import Partitions, TimestampKind

MOST_ROWS = 100_000


def table(value: str) -> str:
    """The name of a table, with its schema or without."""
    return _name(value, 2, 'write "table", "schema.table", or \'"Odd.Name"\' in double quotes')


def column(value: str) -> str:
    """The name of a column."""
    return _name(value, 1, "write its name, or '\"odd.name\"' in double quotes")


def key(value: object) -> tuple[str, ...]:
    """The columns of a key, in its order."""
    remedy = 'write for example ["id"], or remove the key for the primary key'
    return tuple(map(column, _listed(value, "columns", remedy)))


def dependents(value: object) -> tuple[str, ...] | None:
    """Tables whose rows may be removed or changed with the rows they refer to; None for all that
    the database knows of."""
    remedy = 'write "auto", "none" or a list of tables, such as ["order_lines"]'
    if value == "auto":
        return None
    if value == "none":
        return ()
    return tuple(map(table, _listed(value, "tables", remedy)))


def address(value: str) -> str:
    """The HTTP address that is asked whether to wait. Not shown, as it may hold a token."""
    try:
        there = urlsplit(value)
        good = there.scheme in ("http", "https") and there.hostname and there.port != 0
    except ValueError:
        good = False
    if not good or "@" in value or not value.isprintable():
        raise Unfit(
            "expected an HTTP address without user and password",
            'write for example "http://127.0.0.1:8111/check"',
        )
    return value


def timestamp_kind(value: str) -> str:
    """``[policies.NAME.rows] timestamp_kind``"""
    return choice(value, [*TimestampKind])


def foreign_keys_seen(value: str) -> str:
    """``[policies.NAME.rows] foreign_keys_seen``"""
    return choice(value, ["proven", "trust"])


def row_security(value: str) -> str:
    """``[policies.NAME.rows] row_security``"""
    return choice(value, ["refuse", "accept"])


def partitions(value: str) -> str:
    """``[policies.NAME.rows] partitions``"""
    return choice(value, [*Partitions])


def completion(value: str) -> str:
    """``[policies.NAME.rows] completion``"""
    return choice(value, ["target", "ledger"])


def archive_format(value: str) -> str:
    """``[policies.NAME.archive] format``"""
    return choice(value, ["parquet", "jsonl"])


def _name(value: str, most: int, remedy: str) -> str:
    resolved(value)
    try:
        found = parts(value)
    except ValueError as error:
        raise Unfit(f"expected a name, found {shown(value)} ({error})", remedy) from error
    if len(found) > most:
        raise Unfit(f"expected at most {most} part(s), found {shown(value)}", remedy)
    return value


def _listed(value: object, what: str, remedy: str) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(t, str) for t in value):
        raise Unfit(f"expected a list of {what}, found {shown(value)}", remedy)
    seen: set[str] = set()
    for text in map(filled, value):
        if text in seen:
            raise Unfit(f"{shown(text)} stands there twice", "keep one")
        seen.add(text)
    return value
