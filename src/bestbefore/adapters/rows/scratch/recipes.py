"""What made-up rows have to be like to fit into a table: read from its columns, unique sets and
checks, and from the policy's ``where``. Reads no row."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.scratch.synthetic import Kind, Made, Recipe, chosen, made
from bestbefore.adapters.rows.table import Target
from bestbefore.domain.rows import TimestampKind
from bestbefore.ports.tuning import ScratchRefused

_INSERTS = 100_000
"""Rows that a foreground adds at most, for which unique columns have to have room."""

_TOUCHABLE = (Kind.TEXT, Kind.INTEGER, Kind.JSON, Kind.UUID, Kind.BYTES)

_CHECKS = sa.text("""
    SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS
    WHERE CONSTRAINT_SCHEMA = :schema AND TABLE_NAME = :table
""")

_WORD = re.compile(r"\w+")

_UNTOLD: Mapping[str, sa.types.TypeEngine[Any]] = {"": sa.Text(), "uuid": sa.Uuid()}
"""Columns of SQLite that have no type, and MariaDB's own types."""

_NAME = r'["`\[]?(\w+)["`\]]?'
_LITERAL = r"'((?:[^']|'')*)'|(-?\d+)\b"
_ONE = re.compile(rf"{_NAME}\)*(?:::[\w ]+)?\s*=\s*(?:{_LITERAL})")
_SEVERAL = re.compile(
    rf"{_NAME}\)*(?:::[\w ]+)?\s*(?:IN\s*\(|=\s*ANY\s*\(+ARRAY\[)\s*(?P<list>[^\])]*)",
    re.IGNORECASE,
)
_NOTHING = re.compile(rf"{_NAME}\s+IS\s+NULL", re.IGNORECASE)
_FALSE = re.compile(rf"\bNOT\s+{_NAME}\s*(?:$|\)|AND\b)", re.IGNORECASE)
_DOCUMENT = re.compile(rf"json_valid\s*\(\s*{_NAME}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Shape:
    """A table as the database describes it."""

    columns: Sequence[Mapping[str, Any]]
    unique: Sequence[Sequence[str]]
    indexed: frozenset[str]
    checks: Sequence[str]
    refers_to_itself: frozenset[str]


def shape_of(connection: sa.Connection, target: Target) -> Shape:
    """Reads the catalog, and no row."""
    inspector, table, schema = sa.inspect(connection), target.table.name, target.table.schema
    with warnings.catch_warnings():
        # Indexes over expressions and types of extensions: what is not understood is not used.
        warnings.simplefilter("ignore", sa.exc.SAWarning)
        columns = inspector.get_columns(table, schema)
        indexes = inspector.get_indexes(table, schema)
        unique = [each["column_names"] for each in inspector.get_unique_constraints(table, schema)]
        unique += [_names(index) for index in indexes if index["unique"]]
        return Shape(
            [{**column, "type": _type(column, target)} for column in columns],
            unique,
            frozenset(name for index in indexes for name in _names(index)),
            [
                *(check["sqltext"] for check in inspector.get_check_constraints(table, schema)),
                *_checks_of_columns(connection, target),
            ],
            frozenset(column.key for reference in target.own for column in reference.columns),
        )


def _checks_of_columns(connection: sa.Connection, target: Target) -> Sequence[str]:
    """MariaDB's, which SQLAlchemy does not tell: a JSON column is a text with a check."""
    if not getattr(connection.dialect, "is_mariadb", False):
        return []
    table = {"schema": target.table.schema, "table": target.table.name}
    return connection.execute(_CHECKS, table).scalars().all()


def _type(column: Mapping[str, Any], target: Target) -> sa.types.TypeEngine[Any]:
    """The type of *column*, also where SQLAlchemy does not tell."""
    type_: sa.types.TypeEngine[Any] = column["type"]
    if isinstance(type_, sa.types.NullType):
        return _UNTOLD.get(target.columns[column["name"]].type.lower(), type_)
    return type_


def _names(index: Any) -> list[str]:
    """The columns of *index*, and what may be one in its expressions."""
    whole = [name for name in index["column_names"] if name is not None]
    return whole + [word for part in index.get("expressions", ()) for word in _WORD.findall(part)]


def recipe(
    shape: Shape,
    *,
    key: Sequence[str],
    timestamp: str,
    kind: TimestampKind,
    zone: str | None,
    where: str | None,
    cutoff: datetime,
    now: datetime,
    rows: int,
    offset: str,
) -> Recipe:
    """Rows that fit *shape*, as far as can be known. Raises ScratchRefused."""
    said = dict(_said(shape.checks)) | dict(_said([where or ""]))
    columns = {
        column["name"]: _column(column, said, shape.refers_to_itself)
        for column in shape.columns
        if not column.get("computed") and column["name"] != timestamp
    }
    for together in [key, *shape.unique]:
        _make_distinct(columns, [name for name in together if name in columns], together, rows)
    untouchable = {*key, *(name for together in shape.unique for name in together), *said}
    touchable = [
        column
        for name, column in columns.items()
        if name not in untouchable and column.kind in _TOUCHABLE
    ]
    touchable.sort(key=lambda column: column.name in shape.indexed)
    return Recipe(
        tuple(columns.values()), tuple(key), timestamp, kind, zone, cutoff, now, rows, offset,
        touchable[0] if touchable else None,
    )  # fmt: skip


def _column(
    column: Mapping[str, Any], said: Mapping[str, Sequence[Any]], refers_to_itself: frozenset[str]
) -> Made:
    name, nullable = column["name"], bool(column["nullable"])
    if name in refers_to_itself and nullable:
        return chosen(name, None)
    if name in said:
        return chosen(name, *said[name])
    return made(name, column["type"], nullable=nullable)


def _make_distinct(
    columns: dict[str, Made], candidates: Sequence[str], together: Sequence[str], rows: int
) -> None:
    """Have one of *candidates* be different in every row."""
    if not together or any(columns[name].serial for name in candidates):
        return
    roomy = [
        name
        for name in candidates
        if columns[name].kind is not Kind.CHOICE and columns[name].room > rows + _INSERTS
    ]
    if not roomy:
        raise ScratchRefused(
            f"({', '.join(together)}) is unique, and in none of these columns "
            f"{rows + _INSERTS:,} made-up values could all be different"
        )
    columns[roomy[-1]] = replace(columns[roomy[-1]], serial=True)


def _said(conditions: Sequence[str]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Values that *conditions* name for a column. Only guessed: the database has the last word."""
    for condition in conditions:
        for name in _NOTHING.findall(condition):
            yield name, [None]
        for name in _DOCUMENT.findall(condition):
            yield name, ['{"made_up": true}']
        for name in _FALSE.findall(condition):
            yield name, [False]
        for name, text, number in _ONE.findall(condition):
            yield name, [_literal(text, number)]
        for several in _SEVERAL.finditer(condition):
            values = re.findall(_LITERAL, several["list"])
            if values:
                yield several[1], [_literal(text, number) for text, number in values]


def _literal(text: str, number: str) -> str | int:
    return int(number) if number else text.replace("''", "'")
