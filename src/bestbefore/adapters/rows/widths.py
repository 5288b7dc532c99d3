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
_EXACT = ("numeric", "decimal", "decimal unsigned")
_WRITTEN = re.compile(r"([a-z ]+?) ?\(([\d, ]+)\)(.*)")


class _Type(NamedTuple):
    name: str
    numbers: tuple[int, ...] = ()


def wide_enough(there: str, here: str) -> bool:
    """Whether a column of type *there* takes every value of one of type *here*.

    Both as PostgreSQL, MySQL or MariaDB writes them in full.
    """
    if there.lower() == here.lower():
        return True
    to, of = _read(there), _read(here)
    if of.name in _EXACT and to.name == of.name:
        return _holds_digits(to, of)
    if to.name == of.name:
        return _holds_room(to, of)
    for ladder in _LADDERS:
        if to.name in ladder and of.name in ladder:
            higher = ladder.index(to.name) > ladder.index(of.name)
            return higher and (to.name not in _ROOM or _holds_room(to, of))
    return False


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


def _holds_room(to: _Type, of: _Type) -> bool:
    if to.name not in _ROOM:
        return to == of or to.name in _ENDLESS
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
    found = _WRITTEN.fullmatch(written.lower())
    if found is None:
        return _Type(written.lower())
    name = f"{found[1]}{found[3]}"
    if name.removesuffix(" unsigned").endswith("int"):
        return _Type(name)
    return _Type(name, tuple(int(number) for number in found[2].split(",")))
