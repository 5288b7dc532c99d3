"""Whether a column can take every value of another one, told by the names of their types.

Only what is surely wide enough counts: a type we cannot judge has to be the very same.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_LADDERS: Sequence[Sequence[str]] = (
    ("smallint", "integer", "bigint"),
    ("tinyint", "smallint", "mediumint", "int", "bigint"),
    ("tinyint unsigned", "smallint unsigned", "mediumint unsigned", "int unsigned",
     "bigint unsigned"),
    ("real", "double precision"),
    ("float", "double"),
    ("character", "character varying", "text"),
    ("char", "varchar", "text", "mediumtext", "longtext"),
    ("tinytext", "text", "mediumtext", "longtext"),
    ("varbinary", "blob", "mediumblob", "longblob"),
    ("tinyblob", "blob", "mediumblob", "longblob"),
)  # fmt: skip
"""Types of which each takes what those before it take, if it has room for as many characters."""

_UNLIMITED = 1 << 40
_ROOM: Mapping[str, int] = {
    "character varying": _UNLIMITED,
    "bit varying": _UNLIMITED,
    "character": 1,
    "char": 1,
    "varchar": 0,
    "varbinary": 0,
    "timestamp with time zone": 6,
    "timestamp without time zone": 6,
    "time with time zone": 6,
    "time without time zone": 6,
    "datetime": 0,
    "timestamp": 0,
    "time": 0,
}
"""What a number in brackets says of these, and what it is where there is none: characters, or
digits of a second. A longer one takes what a shorter one does."""

_ENDLESS = frozenset(
    {"text", "mediumtext", "longtext", "tinytext", "blob", "mediumblob", "longblob", "tinyblob"}
)
_TEXT_BYTES: Mapping[str, int] = {
    "tinytext": 2**8 - 1,
    "text": 2**16 - 1,
    "mediumtext": 2**24 - 1,
    "longtext": 2**32 - 1,
}
"""MySQL's and MariaDB's texts that are limited in bytes of their character set, not characters."""

_LONGEST = 2**30
"""Bytes: no value is longer, whatever its type would take, as no packet is (max_allowed_packet)."""

_UTF8_PER_BYTE: Mapping[str, float] = {
    **dict.fromkeys(("ascii", "utf8", "utf8mb3", "utf8mb4", "utf32"), 1),
    **dict.fromkeys(("ucs2", "utf16", "utf16le", "gb18030"), 1.5),
}
"""Bytes of utf8mb4 that one byte of a character set becomes at most; 3 for those not listed."""

_UTF8_PER_CHARACTER: Mapping[str, int] = {
    "ascii": 1,
    **dict.fromkeys(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"), 4),
}
"""Bytes of utf8mb4 that one character takes at most; 3 in the sets not listed, which have none
beyond the first 65,536 of Unicode."""

_FLOATS = frozenset({"float", "double"})
_EXACT = ("numeric", "decimal", "decimal unsigned")
_QUOTED = re.compile("['\"]")
_WRITTEN = re.compile(r"([a-z ]+?) ?\(([\d, ]+)\)(.*)")


class _Type(NamedTuple):
    name: str
    numbers: tuple[int, ...] = ()


def wide_enough(there: str, here: str) -> bool:
    """Whether a column of type *there* takes every value of one of type *here*.

    Both as PostgreSQL, MySQL or MariaDB writes them in full.
    """
    to, of = _read(there), _read(here)
    if of.name in _EXACT and to.name == of.name:
        return _holds_digits(to, of)
    if to.name == of.name:
        return _holds_room(to, of)
    for ladder in _LADDERS:
        if to.name in ladder and of.name in ladder:
            higher = ladder.index(to.name) > ladder.index(of.name)
            # double(10,2) rounds what a float holds.
            return higher and (_holds_room(to, of) if to.name in _ROOM else not to.numbers)
    return False


def utf8_bytes(here: str, charset: str) -> int:
    """How many bytes of utf8mb4 a value of the text type *here* in *charset* takes at most."""
    of = _read(here)
    if (limit := _TEXT_BYTES.get(_base(here))) is not None:
        return int(min(limit, _LONGEST) * _UTF8_PER_BYTE.get(charset, 3))
    return sum(of.numbers) * _UTF8_PER_CHARACTER.get(charset, 3)


def text_bytes(there: str) -> int | None:
    """How many bytes a text type of MySQL or MariaDB takes, None if it is limited in characters."""
    return _TEXT_BYTES.get(_base(there))


def text_for(size: int) -> str:
    """The smallest text type that takes *size* bytes."""
    return next(name for name, limit in _TEXT_BYTES.items() if limit >= size)


def same_affinity(there: str, here: str) -> bool:
    """Whether SQLite stores the same value in a column declared *there* as in one *here*."""
    return affinity(there) in (affinity(here), "BLOB")


def affinity(declared: str) -> str:
    """What SQLite makes of a declared type; its documentation has these rules, in this order."""
    said = declared.upper()
    for words, found in (
        (("INT",), "INTEGER"),
        (("CHAR", "CLOB", "TEXT"), "TEXT"),
        (("BLOB",), "BLOB"),
        (("REAL", "FLOA", "DOUB"), "REAL"),
    ):
        if any(word in said for word in words):
            return found
    return "NUMERIC" if said else "BLOB"


def widened(there: str, here: str) -> str:
    """The type *here*, or where both are decimals, one that takes every value of either."""
    to, of = _read(there), _read(here)
    if of.name not in _EXACT or to.name != of.name or not (to.numbers and of.numbers):
        return here
    (digits, behind), (wanted, wanted_behind) = ((*t.numbers, 0)[:2] for t in (to, of))
    most_behind = max(behind, wanted_behind)
    before = max(digits - behind, wanted - wanted_behind)
    return here.replace(
        here[here.index("(") : here.index(")")], f"({before + most_behind},{most_behind}"
    )


def _holds_room(to: _Type, of: _Type) -> bool:
    if to.name not in _ROOM:
        rounds_nothing = to.name in _FLOATS and not to.numbers
        return to == of or to.name in _ENDLESS or rounds_nothing
    return _room(to) >= _room(of)


def _room(type_: _Type) -> int:
    return type_.numbers[0] if type_.numbers else _ROOM[type_.name]


def _holds_digits(to: _Type, of: _Type) -> bool:
    """Digits before and behind the point; PostgreSQL's numeric without numbers takes all."""
    if not to.numbers:
        return True
    if not of.numbers:
        return False
    (digits, behind), (wanted, wanted_behind) = ((*t.numbers, 0)[:2] for t in (to, of))
    return behind >= wanted_behind and digits - behind >= wanted - wanted_behind


def _read(written: str) -> _Type:
    """A type's name without its numbers, and those. What a display width says is left out."""
    if _QUOTED.search(written):
        return _Type(written)  # names, of a type or of the values of an ENUM: case matters
    found = _WRITTEN.fullmatch(written.lower())
    if found is None:
        return _Type(written.lower())
    name = f"{found[1]}{found[3]}"
    if name.removesuffix(" unsigned").endswith("int"):
        return _Type(name)
    return _Type(name, tuple(int(number) for number in found[2].split(",")))


def _base(written: str) -> str:
    """The name of a type without anything behind it."""
    return written.lower().partition("(")[0].partition(" ")[0]
