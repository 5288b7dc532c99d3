"""What a timestamp column is, as its type and its values say, and what a policy says about it."""

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Column, Dialect, Family
from bestbefore.adapters.rows.timestamps import UNITS, Times
from bestbefore.domain import zones
from bestbefore.domain.finding import Finding, Level
from bestbefore.domain.rows import RowSource, TimestampKind
from bestbefore.ports.rows import TableRefused

_LATEST_SECONDS = 253_402_300_800
"""The year 10000. Milliseconds below it would be of 1978 and before."""

_MOST_SAMPLED = 1_000

_NATIVE: Mapping[Family, TimestampKind] = {
    Family.INSTANT: TimestampKind.TIMESTAMPTZ,
    Family.WALL: TimestampKind.NAIVE,
    Family.DAY: TimestampKind.DATE,
    Family.TEXT: TimestampKind.ISO_TEXT,
}


_HOW: Mapping[TimestampKind, str] = {
    TimestampKind.TIMESTAMPTZ: "an instant, compared as it is",
    TimestampKind.NAIVE: "a wall time in {zone}; old once it is past, whatever summer time says",
    TimestampKind.DATE: "a day in {zone}; old once all of it is before the cutoff",
    TimestampKind.ISO_TEXT: "read as ISO 8601 with any offset, and as UTC without one",
}


def times_of(
    connection: sa.Connection, dialect: Dialect, column: sa.Column[Any], of: Column,
    source: RowSource,
) -> Times:  # fmt: skip
    """How the rows of *column*'s table tell their age.

    Raises TableRefused where *source* names another kind than the column is, or where it would
    have to be guessed.
    """
    name = f"{source.table}.{of.name}"
    kind = source.timestamp_kind
    family = _met(connection, column, of, sure=kind is not TimestampKind.AUTO)
    if kind is TimestampKind.AUTO:
        kind = _found(connection, column, of, name, family)
    elif family not in _fitting(dialect, kind):
        raise TableRefused(
            f'{name} ({of.type}) is {family.value}, and timestamp_kind = "{kind}" is not about '
            f"such; {_suggested(family)}"
        )
    return Times(dialect, column, of, kind, _zone(source, kind, name))


def look_at_values(connection: sa.Connection, times: Times, source: RowSource) -> Sequence[Finding]:
    """What the values say about the kind of *times*, for a person.

    Raises TableRefused where they contradict it.
    """
    name = f"{source.table}.{times.of.name}"
    if times.kind in UNITS:
        _refuse_other_units(connection, times, name)
    guessed = source.timestamp_kind is TimestampKind.AUTO
    notes = [] if times.in_order else _readability(connection, times, name, guessed=guessed)
    if guessed:
        how = _HOW[times.kind].format(zone=source.timestamp_zone or "UTC")
        said = f"{name} ({times.of.type}) is taken for {times.kind}: {how}"
        notes.insert(0, Finding("timestamp-kind", Level.INFO, said, ""))
    return notes


def _met(connection: sa.Connection, column: sa.Column[Any], of: Column, *, sure: bool) -> Family:
    """The family of the values in *column*, where each may have one of its own. Values of another
    one are met with as undated; only who is *sure* about the column is not asked about them."""
    if of.family is not Family.ANY:
        return of.family
    kinds = sa.select(sa.func.typeof(_sample(column))).distinct()
    found = {kind for kind in connection.execute(kinds).scalars() if kind != "null"}
    if found <= {"text"} or (sure and "text" in found):
        return Family.TEXT
    return Family.INTEGER if found == {"integer"} else Family.OTHER


def _found(
    connection: sa.Connection, column: sa.Column[Any], of: Column, name: str, family: Family
) -> TimestampKind:
    if family in _NATIVE:
        return _NATIVE[family]
    if family is not Family.INTEGER:
        raise TableRefused(
            f"{name} ({of.type}) cannot tell how old a row is: it is {family.value}; name a column "
            "with dates, times or seconds since 1970"
        )
    sample = _sample(column)
    low, high = connection.execute(
        sa.select(sa.func.min(sample), sa.func.max(sample)).where(sample > 0)
    ).one()
    if high is None:
        looks = "it is empty so far; write timestamp_kind"
    else:
        guess = TimestampKind.EPOCH_S if high < _LATEST_SECONDS else TimestampKind.EPOCH_MS
        looks = (
            f'values such as {low} look like {guess}; if they are, write timestamp_kind = "{guess}"'
        )
    raise TableRefused(f"{name} holds integers, whose unit is not guessed: {looks}")


def _fitting(dialect: Dialect, kind: TimestampKind) -> set[Family]:
    """The families of columns that *kind* can be about."""
    match kind:
        case TimestampKind.TIMESTAMPTZ:
            return {Family.INSTANT}
        case TimestampKind.NAIVE:
            return {Family.TEXT} if dialect.times_are_text else {Family.WALL}
        case TimestampKind.DATE:
            return {Family.TEXT} if dialect.times_are_text else {Family.DAY}
        case TimestampKind.ISO_TEXT:
            return {Family.TEXT}
        case _:
            return {Family.INTEGER}


def _suggested(family: Family) -> str:
    if family is Family.INTEGER:
        return 'write "epoch_s" or "epoch_ms", whichever its values are'
    if family in _NATIVE:
        return f'write "{_NATIVE[family]}"'
    return "name a column with dates, times or seconds since 1970"


def _zone(source: RowSource, kind: TimestampKind, name: str) -> tzinfo:
    """Where the column's times are read. Raises TableRefused if that is needed and not said, or
    said and not needed."""
    said = source.timestamp_zone
    if kind is TimestampKind.NAIVE and said is None:
        raise TableRefused(
            f"{name} says no time zone; write in which one its times were written down: "
            'timestamp_zone = "UTC", or for example "Europe/Berlin"'
        )
    zone = zones.zone(said or "UTC")
    if kind not in (TimestampKind.NAIVE, TimestampKind.DATE) and said not in (None, "UTC"):
        raise TableRefused(
            f"{name} is {kind}, whose values say themselves which instant they are (text without "
            f'an offset is UTC); remove timestamp_zone = "{said}"'
        )
    return zone


def _sample(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """*column* of some rows, whichever come first."""
    return sa.select(column.label("value")).limit(_MOST_SAMPLED).subquery().c.value


def _refuse_other_units(connection: sa.Connection, times: Times, name: str) -> None:
    """Raise TableRefused where values are too large, or too small, for their unit."""
    low, high = (
        connection.execute(
            sa.select(times.column).where(times.dated).order_by(order).limit(1)
        ).scalar()
        for order in (times.column.asc(), times.column.desc())
    )
    if low is None or high is None:
        return
    unit = UNITS[times.kind]
    too_large = high >= _LATEST_SECONDS * unit
    if too_large or (unit > 1 and low < _LATEST_SECONDS):
        odd, how = (high, "large") if too_large else (low, "small")
        raise TableRefused(
            f"{name} holds {odd}, which is too {how} for {times.kind}; look at its values, and "
            "correct timestamp_kind or that row"
        )


def _readability(
    connection: sa.Connection, times: Times, name: str, *, guessed: bool
) -> list[Finding]:
    """How many of some texts can be read. Raises TableRefused where none can and their kind is
    *guessed*; where it was said, they may be what a cleanup has left."""
    value, column = times.value, times.column
    some = (
        sa.select(column.label("text"), sa.case((value.is_(None), 1), else_=0).label("odd"))
        .limit(_MOST_SAMPLED)
        .subquery()
    )
    met, odd, example = connection.execute(
        sa.select(
            sa.func.count(),
            sa.func.sum(some.c.odd),
            sa.func.min(sa.case((some.c.odd == 1, some.c.text))),
        ).where(some.c.text.is_not(None))
    ).one()
    if not odd:
        return []
    said = f"{name}: {odd} of the first {met} texts are no {times.kind}, such as {example!r}"
    if odd == met and guessed:
        raise TableRefused(
            f"{said}; expected ISO 8601, such as 2026-06-01T12:00:00Z; if they were, and only "
            f'these are left, write timestamp_kind = "{times.kind}"'
        )
    return [
        Finding(
            "timestamp-unreadable", Level.WARNING, f"{said}; such rows are kept", "correct them"
        )
    ]
