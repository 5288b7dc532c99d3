"""Made-up rows for a copy of a table: a value per column and row number, always the same one.

Every process makes the same rows, so whoever writes to one knows its key without having read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from bestbefore.domain import zones
from bestbefore.domain.rows import TimestampKind
from bestbefore.ports.tuning import ScratchRefused

_OLD_FOR = timedelta(days=60)
_WORDS = "made up by bestbefore tune"
_DIGITS = 10
_UUID_BYTES = 16
_VARIETY = 100

_INTEGERS: Mapping[str, int] = {
    "TINYINT": 2**7 - 1,
    "SMALLINT": 2**15 - 1,
    "small_integer": 2**15 - 1,
    "MEDIUMINT": 2**23 - 1,
    "BIGINT": 2**63 - 1,
    "big_integer": 2**63 - 1,
}
"""The largest number of each integer type, by SQLAlchemy's name."""

_FIXED: Mapping[str, str | int] = {
    "INET": "10.0.0.1",
    "INET4": "10.0.0.1",
    "INET6": "::1",
    "CIDR": "10.0.0.0/8",
    "MACADDR": "08:00:2b:01:02:03",
    "INTERVAL": "1 day",
    "MONEY": "1.00",
    "TSVECTOR": "made:1 up:2",
    "HSTORE": "",
    "ARRAY": "{}",
    "INT4RANGE": "[1,10)",
    "INT8RANGE": "[1,10)",
    "NUMRANGE": "[1,10)",
    "DATERANGE": "[2020-01-01,2020-02-01)",
    "TSRANGE": "[2020-01-01,2020-02-01)",
    "TSTZRANGE": "[2020-01-01,2020-02-01)",
    "YEAR": 2020,
}
"""Values for types of which one value is as good as another, by SQLAlchemy's name."""


class Kind(StrEnum):
    """What the values of a column are."""

    INTEGER = "integer"
    TEXT = "text"
    UUID = "uuid"
    BYTES = "bytes"
    JSON = "json"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True)
class Made:
    """How the values of one column are made.

    ``room`` is how many different ones there can be, ``length`` how many characters or bytes one
    has. A ``CHOICE`` takes its ``choices`` in turn. ``serial`` asks for a different value in every
    row.
    """

    name: str
    kind: Kind
    room: int = 1
    length: int = 0
    choices: tuple[Any, ...] = ()
    serial: bool = False

    def value(self, number: int) -> Any:
        """The value of row *number* (from 0)."""
        if not self.serial:
            number %= min(self.room, _VARIETY)
        match self.kind:
            case Kind.CHOICE:
                return self.choices[number % len(self.choices)]
            case Kind.INTEGER:
                return number + 1
            case Kind.TEXT:
                said = f"{number:0{min(self.length, _DIGITS)}}"
                return said if self.serial else f"{said} {_WORDS}"[: self.length]
            case Kind.UUID:
                return str(UUID(bytes=_digest(number, _UUID_BYTES)))
            case Kind.BYTES if self.length >= _UUID_BYTES:
                return _digest(number, self.length)
            case Kind.BYTES:
                return number.to_bytes(self.length, "big")
            case Kind.JSON:
                return f'{{"made_up": {number}}}'


def _digest(number: int, size: int) -> bytes:
    return blake2b(number.to_bytes(8, "big"), digest_size=size).digest()


def chosen(name: str, *choices: Any) -> Made:
    """A column that takes *choices* in turn."""
    return Made(name, Kind.CHOICE, max(1, len(choices)), choices=choices or (None,))


def made(name: str, type_: sa.types.TypeEngine[Any], *, nullable: bool) -> Made:
    """How to make values of a column.

    Raises ScratchRefused for a type that nothing is known about where NULL is not allowed.
    """
    length = getattr(type_, "length", None)
    match type_:
        case sa.Enum():
            return chosen(name, *type_.enums)
        case sa.Boolean():
            return chosen(name, True, False)
        case sa.Integer():
            return Made(name, Kind.INTEGER, _INTEGERS.get(type_.__visit_name__, 2**31 - 1))
        case sa.Numeric():
            return Made(name, Kind.INTEGER, _before_the_point(type_))
        case sa.Uuid():
            return Made(name, Kind.UUID, 2**63)
        case sa.JSON():
            return Made(name, Kind.JSON, _VARIETY)
        case sa.DateTime():
            return chosen(name, "2020-01-01 00:00:00")
        case sa.Date():
            return chosen(name, "2020-01-01")
        case sa.Time():
            return chosen(name, "12:00:00")
        case _ if (members := getattr(type_, "values", None)) is not None:
            return chosen(name, *members)  # MySQL's SET
        case sa.String():
            return Made(
                name, Kind.TEXT, 10 ** min(length or _DIGITS, _DIGITS), min(length or 32, 32)
            )
        case _ if _of_bytes(type_):
            size = min(length or 32, 32)
            return Made(name, Kind.BYTES, min(256**size, 2**63), size)
        case _ if type_.__visit_name__ in _FIXED:
            return chosen(name, _FIXED[type_.__visit_name__])
        case _ if (inner := getattr(type_, "data_type", None)) is not None:
            return made(name, inner, nullable=nullable)  # a domain's own type
        case _ if nullable:
            return chosen(name, None)
        case _:
            raise ScratchRefused(
                f"column {name}: nothing is known about its type ({type_!r}) to make up values of, "
                "and it may not be NULL"
            )


def _before_the_point(type_: sa.Numeric[Any]) -> int:
    digits = (type_.precision or _DIGITS) - (type_.scale or 0)
    return int(max(1, 10 ** min(digits, _DIGITS) - 1))


def _of_bytes(type_: sa.types.TypeEngine[Any]) -> bool:
    try:
        return type_.python_type is bytes
    except NotImplementedError:
        return False


@dataclass(frozen=True, slots=True)
class Recipe:
    """A table's made-up rows: ``rows`` of them, every other one old.

    ``timestamp`` is the column that says so, of ``kind``, in ``zone`` where the kind needs one.
    Old ones are before ``cutoff``, and none is after ``now``. ``offset`` is what has to stand
    behind an instant. ``touched`` is the column that a foreground changes, if there is one.
    """

    columns: tuple[Made, ...]
    key: tuple[str, ...]
    timestamp: str
    kind: TimestampKind
    zone: str | None
    cutoff: datetime
    now: datetime
    rows: int
    offset: str = ""
    touched: Made | None = None

    @property
    def old_rows(self) -> int:
        return (self.rows + 1) // 2

    def row(self, number: int) -> dict[str, Any]:
        """All values of row *number*; those from ``rows`` on are current."""
        values = {column.name: column.value(number) for column in self.columns}
        return values | {self.timestamp: self.written(self._time(number))}

    def key_of(self, number: int) -> dict[str, Any]:
        """The key of row *number*."""
        row = self.row(number)
        return {name: row[name] for name in self.key}

    def current(self, number: int) -> int:
        """The number of a current row, far from the one for ``number - 1``."""
        return number * 7919 % (self.rows // 2) * 2 + 1

    def bytes_of_a_row(self) -> int:
        """About how many bytes one takes, without indexes."""
        return 32 + sum(len(str(value)) for value in self.row(1).values())

    def written(self, moment: datetime) -> Any:
        """*moment* as the timestamp column holds it."""
        local = moment.astimezone(zones.zone(self.zone or "UTC"))
        match self.kind:
            case TimestampKind.EPOCH_S:
                return int(moment.timestamp())
            case TimestampKind.EPOCH_MS:
                return int(moment.timestamp() * 1000)
            case TimestampKind.ISO_TEXT:
                return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            case TimestampKind.DATE:
                return local.strftime("%Y-%m-%d")
            case TimestampKind.NAIVE:
                return local.strftime("%Y-%m-%d %H:%M:%S.%f")
            case _:
                return moment.astimezone(UTC).strftime(f"%Y-%m-%d %H:%M:%S.%f{self.offset}")

    def _time(self, number: int) -> datetime:
        share = number % self.rows / self.rows
        if number % 2 == 0 and number < self.rows:
            return self.cutoff - timedelta(days=2) - _OLD_FOR * (1 - share)
        return self.now - (self.now - self.cutoff) * (1 - share) / 4
