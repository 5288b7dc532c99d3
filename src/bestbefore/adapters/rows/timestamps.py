"""How old a row is, for each kind of column that can tell."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Column, Condition, Dialect, Expression, Family
from bestbefore.domain.rows import TimestampKind

FUTURE = timedelta(days=1)
"""By how much a time may be ahead of the database's clock: columns without a zone, or of days,
are that far off at most."""

_EARLIEST = datetime(1000, 1, 1, tzinfo=UTC)
"""What is before it stands for no date: 0000-00-00, 0001-01-01, -infinity."""

UNITS: Mapping[TimestampKind, int] = {TimestampKind.EPOCH_S: 1, TimestampKind.EPOCH_MS: 1_000}
"""Of the kinds that count since 1970: how many to the second."""


@dataclass(frozen=True, slots=True)
class Times:
    """The times of a table's rows. ``zone`` is where wall times and days are read."""

    dialect: Dialect
    column: sa.Column[Any]
    of: Column
    kind: TimestampKind
    zone: tzinfo

    @property
    def value(self) -> Expression:
        """A row's time, to be compared with `bound`; it says nothing unless the row is `dated`."""
        return self.value_of(self.column)

    def value_of(self, column: Expression) -> Expression:
        """`value`, of a *column* that holds the same."""
        if self._written:
            return self.dialect.read_iso(column, local=self._local)
        return column

    @property
    def dated(self) -> Condition:
        """Whether a row has a time that can be read."""
        if self._written:
            return self.value.is_not(None)
        if self.kind in UNITS:
            checks = [self.readable(self.column), self.dialect.sound(self.column, self.of)]
        else:
            checks = [self.readable(self.column), self.dialect.real(self.column, self.of)]
        return sa.and_(*(check for check in checks if check is not None))

    def readable(self, value: Expression) -> Condition:
        """Whether *value*, of a column that is not text, is late enough to be anybody's time."""
        return value > 0 if self.kind in UNITS else value >= self._earliest

    @property
    def undated(self) -> Condition:
        """Whether a row has none, put so that an index over the column finds them; without those
        that only the calendar tells."""
        if self._written:
            return self.value.is_(None)
        low = self.column <= 0 if self.kind in UNITS else self.column < self._earliest
        return sa.or_(self.column.is_(None), low)

    def before(self, cutoff: datetime) -> Condition:
        """Whether a row is old: surely before *cutoff*, whatever its column leaves open."""
        old = self.value < self.bound(cutoff)
        return sa.and_(self.reach(cutoff), old) if self._written else sa.and_(old, self.dated)

    def after(self, moment: datetime) -> Condition:
        """Whether a row's time is later than *moment*."""
        return sa.and_(self.value > self.bound(moment), self.dated)

    def reach(self, cutoff: datetime) -> Condition:
        """How far an index over the column has to be walked to have seen every old row."""
        if not self._written:
            return self.column < self.bound(cutoff)
        # Whatever the offset, its date is not later than that. Days compare alike in any collation.
        last = f"{cutoff.astimezone(UTC) + timedelta(days=2):%Y-%m-%d}"
        return self.column < self.dialect.value(last, self.of)

    def bound(self, cutoff: datetime) -> Expression:
        """*cutoff* as what `value` is compared with."""
        if unit := UNITS.get(self.kind):
            micros = (cutoff - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            # Rounded up: the second that the cutoff is within began before it.
            return sa.literal(-(-micros * unit // 1_000_000), sa.BigInteger)
        match self.kind:
            case TimestampKind.NAIVE:
                at = _wall(cutoff, self.zone)
            case TimestampKind.DATE:  # the whole day has to be over
                at = datetime.combine(_wall(cutoff, self.zone), datetime.min.time())
            case _:
                at = cutoff.astimezone(UTC)
        return self.dialect.moment(at, self.of)

    def read(self, value: Any) -> datetime:
        """The instant of an old row, from its `value` as the driver gave it."""
        if unit := UNITS.get(self.kind):
            return datetime.fromtimestamp(int(value) / unit, UTC)
        at = datetime.fromisoformat(str(value)[:26])
        return at.replace(tzinfo=self.zone if self._local else UTC).astimezone(UTC)

    @property
    def in_order(self) -> bool:
        """Whether the order of the column is that of time."""
        return not self._written

    @property
    def _written(self) -> bool:
        return self.of.family in (Family.TEXT, Family.ANY) and self.kind not in UNITS

    @property
    def _local(self) -> bool:
        return self.kind in (TimestampKind.NAIVE, TimestampKind.DATE)

    @property
    def _earliest(self) -> Expression:
        at = _EARLIEST.replace(tzinfo=None) if self._local else _EARLIEST
        return self.dialect.moment(at, self.of)


def _wall(cutoff: datetime, zone: tzinfo) -> datetime:
    """The wall time in *zone* before which everything is surely before *cutoff*.

    In the hour that comes twice when summer time ends, the earlier of the two readings: the same
    wall time may still be to come.
    """
    local = cutoff.astimezone(zone)
    offsets = (local.replace(fold=fold).utcoffset() for fold in (0, 1))
    utc = cutoff.astimezone(UTC).replace(tzinfo=None)
    return min(utc + offset for offset in offsets if offset is not None)
