"""Whether a table can take in another one's rows, and the statements that would make it so."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Column, Family
from bestbefore.adapters.rows.widths import (
    same_affinity,
    text_bytes,
    text_for,
    utf8_bytes,
    wide_enough,
    widened,
)

OPERATION = "bestbefore_operation_id"
"""A column of an archive, if it has it, that tells which operation brought a row there."""

_ID_LENGTH = 64
_ANY_TEXT = "utf8mb4"


class Difference(NamedTuple):
    """What keeps rows from being archived, and a statement or an advice against it."""

    said: str
    remedy: str


def differences(
    dialect: sa.Dialect, archive: sa.Table, here: Sequence[Column], there: Mapping[str, Column]
) -> Iterator[Difference]:
    """What is wrong with the columns *there* of *archive* for rows of columns *here*.

    *there* is by the names that they have *here*.
    """
    fix = _Fix(dialect, archive)
    for column in here:
        other = there.get(column.name)
        if other is None:
            if not column.generated:
                yield Difference(f"it lacks {column.name}", fix.add(column))
            continue
        if other.generated:
            if not column.generated:
                said = f"{other.name} is generated, and so cannot be given the row's own value"
                yield Difference(said, fix.anew(column))
            continue
        if (narrow := _narrow(dialect, other, column)) is not None:
            yield Difference(narrow, fix.change(other, _wide(other, column)))
        if column.nullable and not other.nullable:
            said = f"{other.name} may not be NULL, and here it may"
            yield Difference(said, fix.change(other, replace(column, type=other.type)))
    names = {column.name for column in here}
    for name, other in there.items():
        if name == OPERATION:
            yield from _operation(dialect, fix, other)
        elif name not in names and not (other.nullable or other.generated or other.filled):
            said = f"{other.name} may not be NULL, and nothing here fills it"
            yield Difference(said, f"give it a default, or drop it from {archive}")


def copied(here: Sequence[Column], there: Mapping[str, Column]) -> list[tuple[str, str]]:
    """The names, here and there, of the columns that rows take along."""
    return [
        (column.name, there[column.name].name)
        for column in here
        if column.name in there and not there[column.name].generated
    ]


def created(
    dialect: sa.Dialect, archive: sa.Table, here: Sequence[Column], key: Sequence[str]
) -> str:
    """The statement that creates *archive* for rows of columns *here*."""
    fix = _Fix(dialect, archive)
    columns = [fix.declared(column) for column in here]
    columns.append(f"{OPERATION} CHAR({_ID_LENGTH})")
    parts = ", ".join(dialect.identifier_preparer.quote(name) for name in key)
    return f"CREATE TABLE {fix.table} ({', '.join(columns)}, PRIMARY KEY ({parts}))"


def _narrow(dialect: sa.Dialect, other: Column, column: Column) -> str | None:
    wide = same_affinity if dialect.name == "sqlite" else wide_enough
    if not wide(other.type, column.type):
        return f"{other.name} is {other.type}, and here it is {column.type}"
    if column.charset not in (None, other.charset) and other.charset != _ANY_TEXT:
        return f"{other.name} holds {other.charset}, and here it holds {column.charset}"
    if _lacks_bytes(other, column):
        return (
            f"{other.name} is {other.type} in {other.charset}, where the same text takes more "
            f"bytes; here it is {column.type} in {column.charset}"
        )
    return None


def _lacks_bytes(other: Column, column: Column) -> bool:
    """Whether *other* is limited in bytes, and texts of *column* may take more of them there."""
    limit = text_bytes(other.type)
    if limit is None or column.charset is None or column.charset == other.charset:
        return False
    return utf8_bytes(column.type, column.charset) > limit


def _wide(other: Column, column: Column) -> Column:
    """What *other* has to be to take the values of *column* and to keep those that it has."""
    type_ = widened(other.type, column.type)
    if column.charset is None or other.charset in (None, column.charset):
        return replace(column, type=type_)
    if text_bytes(other.type) is not None or text_bytes(type_) is not None:
        sizes = (utf8_bytes(each.type, str(each.charset)) for each in (other, column))
        type_ = text_for(max(sizes))
    return replace(column, type=type_, charset=_ANY_TEXT)


def _operation(dialect: sa.Dialect, fix: "_Fix", found: Column) -> Iterator[Difference]:
    wanted = Column(OPERATION, f"CHAR({_ID_LENGTH})", Family.TEXT, nullable=True)
    spelt = {"postgresql": f"character({_ID_LENGTH})"}.get(dialect.name, f"char({_ID_LENGTH})")
    if _narrow(dialect, found, replace(wanted, type=spelt)) is not None:
        said = f"{found.name} is {found.type}, which is no place for {_ID_LENGTH} characters"
        yield Difference(said, fix.change(found, wanted))


class _Fix:
    """Statements against a difference, in the words of one database."""

    def __init__(self, dialect: sa.Dialect, archive: sa.Table) -> None:
        self._name = dialect.name
        self._quote = dialect.identifier_preparer.quote
        self.table = dialect.identifier_preparer.format_table(archive)

    def declared(self, column: Column) -> str:
        charset = f" CHARACTER SET {column.charset}" if column.charset else ""
        null = "" if column.nullable else " NOT NULL"
        type_ = column.type.removesuffix(" PRIMARY KEY")  # as SQLite has it for a row's number
        return f"{self._quote(column.name)} {type_}{charset}{null}"

    def add(self, column: Column) -> str:
        return (
            f"ALTER TABLE {self.table} ADD COLUMN {self.declared(replace(column, nullable=True))}"
        )

    def change(self, other: Column, column: Column) -> str:
        """Have *other* be as *column* is."""
        name = self._quote(other.name)
        if self._name == "postgresql":
            change = f"ALTER COLUMN {name} TYPE {column.type}"
            if other.type == column.type:
                change = f"ALTER COLUMN {name} DROP NOT NULL"
            return f"ALTER TABLE {self.table} {change}"
        if self._name == "sqlite":
            return self.anew(column)
        declared = self.declared(replace(column, name=other.name, nullable=True))
        return f"ALTER TABLE {self.table} MODIFY COLUMN {declared}"

    def anew(self, column: Column) -> str:
        return f"create {self.table} anew, with a plain {self.declared(column)}"
