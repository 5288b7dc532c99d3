"""Worlds for the property of rows, drawn at random: a table, its rows, what happens to them between
a plan and its work, and how a worker dies.

    world: RowWorld = data.draw(worlds("postgresql"))

Values are Python's own; `support.row_grounds` knows how a database writes them down, and
`support.row_keepers` which rows a policy keeps.
"""

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from bestbefore.domain.rows import TimestampKind

KINDS = ("postgresql", "mysql", "sqlite")

Stamp = datetime | date | int | str | None
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Names:
    """What things are called, before anything is quoted. ``keys`` are as many as a key may have."""

    table: str
    keys: tuple[str, str]
    stamp: str
    wanted: str


@dataclass(frozen=True)
class Stamps:
    """The column that tells a row's age. ``type`` is its SQL type, ``unit`` what the database tells
    apart."""

    kind: TimestampKind
    type: str
    unit: timedelta
    zone: str | None = None


@dataclass(frozen=True)
class Row:
    """``tag`` tells rows apart for us alone; ``parent`` is the tag of the row it refers to. The
    policy's ``where`` asks whether ``wanted`` is 1."""

    tag: int
    key: tuple[int | str, ...]
    stamp: Stamp
    wanted: int | None = 1
    parent: int | None = None


@dataclass(frozen=True)
class Change:
    """What somebody else does. ``which`` chooses among what is there, ``row`` is what is added or
    what a row is changed to."""

    what: str
    which: int
    row: Row


@dataclass(frozen=True)
class Crash:
    """At the ``number``-th time a worker comes ``where`` (``commit``, ``committed`` or ``told``:
    right before the COMMIT of a batch, right after it, when the ledger knows), it is ``killed``, or
    else its session is."""

    where: str
    number: int
    killed: bool


@dataclass(frozen=True)
class RowWorld:
    """``child``, ``grandchild`` and ``own`` are what happens ON DELETE to rows that refer to the
    table, to the child, and to a row of the table itself; None where there are none. The first two
    are tables of their own, with the tag of the row that each of their rows refers to.

    ``key_types`` are SQL types, ``session`` is the zone that sessions have unless they say another.
    """

    names: Names
    elsewhere: bool
    key_types: tuple[str, ...]
    primary: bool
    stamps: Stamps
    index: str
    cutoff: datetime
    session: str
    where: bool
    size: int
    child: str | None
    grandchild: str | None
    own: str | None
    dependents: tuple[str, ...] | None
    archive: bool
    rows: tuple[Row, ...]
    children: tuple[int, ...]
    grandchildren: tuple[int, ...]
    before_work: tuple[Change, ...]
    after_crash: tuple[Change, ...]
    crash: Crash | None
    threads: int


NAMES = (
    Names("events", ("id", "sub"), "at", "wanted"),
    Names("Order", ("Id", "group"), "When", "Select"),
    Names('größe "x".y %s', ("k %(a)s", 'ключ"'), "a:t", "w`[?]"),
)

ZONES = ("UTC", "America/New_York", "Asia/Tokyo", "Europe/Berlin", "Australia/Lord_Howe")

CUTOFFS = st.sampled_from(
    [
        datetime(2026, 6, 1, tzinfo=UTC),
        datetime(2026, 6, 1, 12, 0, 0, 250_000, UTC),
        datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC),
        datetime(2026, 3, 8, 7, tzinfo=UTC),  # New York leaves an hour out
        datetime(2025, 11, 2, 5, 30, tzinfo=UTC),  # 01:30 in New York, for the first time
        datetime(2025, 11, 2, 6, 30, tzinfo=UTC),  # and for the second
        datetime(2025, 10, 26, 0, 30, tzinfo=UTC),  # the same in Berlin
        datetime(2026, 4, 4, 15, 15, tzinfo=UTC),  # half an hour of it in Lord Howe
        datetime(2026, 5, 31, 15, tzinfo=UTC),  # midnight in Tokyo
    ]
)

_AROUND = st.one_of(
    st.sampled_from(
        [
            timedelta(microseconds=n)
            for n in (0, 0, -1, 1, -1_000, 1_000, -1_000_000, 1_000_000, -250_000)
        ]
    ),
    st.integers(-8, 8).map(lambda n: timedelta(minutes=15 * n)),
    st.integers(-400, 3).map(lambda n: timedelta(days=n)),
    st.just(timedelta(days=400)),
)

_INSTANTS = {"postgresql": "timestamptz", "mysql": "TIMESTAMP(6) NULL"}
_WALLS = {"postgresql": "timestamp", "mysql": "DATETIME(6)", "sqlite": "DATETIME"}
_TEXTS = {"postgresql": "text", "mysql": "VARCHAR(60)", "sqlite": "TEXT"}

_FEW = "aAbBzZ09äÄéжЖ'\"\\%_ ;,[]?"
_CHARACTERS = f"{_FEW}ßøあ😀:.{{}}()-\n\t/*#$\u0301\u00a0"
"""Few where the database takes different letters for the same: more than Python knows of."""
_LONG = st.integers(-(2**63), 2**63 - 1)
_LONGS = st.one_of(
    st.sampled_from([0, -1, 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, -(2**63)]),
    st.integers(2**53 - 4, 2**53 + 9),
    _LONG,
)
_INTS = st.one_of(st.integers(-9, 30), st.integers(-(2**31), 2**31 - 1))
_UUIDS = st.sampled_from([1, 4, 5]).flatmap(lambda n: st.uuids(version=n)).map(str)

_TYPES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "int": dict.fromkeys(KINDS, ("INTEGER",)),
    "long": dict.fromkeys(KINDS, ("BIGINT",)),
    "uuid": {"postgresql": ("uuid",), "mysql": ("UUID", "CHAR(36)"), "sqlite": ("CHAR(36)",)},
    "text": {
        "postgresql": ("text", 'text COLLATE "C"', "varchar(40)"),
        "mysql": (
            "VARCHAR(40)",
            "VARCHAR(40) COLLATE utf8mb4_bin",
            "VARCHAR(40) COLLATE utf8mb4_unicode_ci",
        ),
        "sqlite": ("TEXT", "TEXT COLLATE NOCASE"),
    },
}
_KEYS = (("int",), ("long",), ("uuid",), ("text",), ("text",), ("int", "int"), ("text", "long"),
         ("uuid", "text"))  # fmt: skip

_HOW = ("", "ON DELETE CASCADE", "ON DELETE RESTRICT", "ON DELETE SET NULL")


@st.composite
def worlds(draw: Draw, kind: str) -> RowWorld:
    """Worlds for the *kind* of database, of at most a dozen rows to begin with."""
    stamps = draw(_stamps(kind))
    cutoff = draw(CUTOFFS)
    if kind == "sqlite":
        cutoff = cutoff.replace(microsecond=0)  # it rounds, so there a cutoff is a whole second
    key = draw(st.sampled_from(_KEYS))
    types = tuple(draw(st.sampled_from(_TYPES[part][kind])) for part in key)
    keys = draw(
        st.lists(st.tuples(*map(_values, key, types)), min_size=1, max_size=16, unique_by=_folded)
    )
    own = draw(st.one_of(st.none(), st.sampled_from(_HOW)))
    rows = []
    for tag, value in enumerate(keys):
        parent = None if own is None or not tag else draw(st.none() | st.integers(0, tag - 1))
        wanted = draw(st.sampled_from([1, 1, 1, 0, None]))
        rows.append(Row(tag, value, draw(_times(stamps, cutoff)), wanted, parent))
    # Of MariaDB, chains of more than nine go in more than one run.
    most = min(len(rows), 12 if own is None else 9)
    there = draw(st.integers(min(len(rows), 3), most))
    if stamps.kind is TimestampKind.ISO_TEXT:
        rows[0] = Row(0, rows[0].key, READABLE, rows[0].wanted)
    child = draw(st.one_of(st.none(), st.sampled_from(_HOW)))
    grandchild = None if child is None else draw(st.one_of(st.none(), st.sampled_from(_HOW)))
    archive = draw(st.booleans())
    lists = [(), ("child",)] if child is not None else [()]
    changes = st.lists(_changes(rows[there:], stamps, cutoff), max_size=5).map(tuple)
    return RowWorld(
        names=draw(st.sampled_from(NAMES)),
        elsewhere=kind != "sqlite" and draw(st.booleans()),
        key_types=types,
        primary=draw(st.booleans()),
        stamps=stamps,
        index=draw(st.sampled_from(["", "stamp", "stamp and key"])),
        cutoff=cutoff,
        session=draw(st.sampled_from(["UTC", "America/New_York", "Asia/Tokyo"])),
        where=draw(st.booleans()),
        size=draw(st.integers(1, 7)),
        child=child,
        grandchild=grandchild,
        own=own,
        dependents=draw(st.sampled_from(lists if archive else [None, None, *lists])),
        archive=archive,
        rows=tuple(rows[:there]),
        children=tuple(draw(_some(there))) if child is not None else (),
        grandchildren=tuple(draw(_some(6))) if grandchild is not None else (),
        before_work=draw(changes),
        after_crash=draw(changes),
        crash=draw(st.none() | _crashes(kind)),
        threads=draw(st.integers(1, 3)),
    )


def _values(part: str, type_: str) -> st.SearchStrategy[int | str]:
    match part:
        case "int":
            return _INTS
        case "long":
            return _LONGS
        case "uuid":
            return _UUIDS
    few = type_ in ("VARCHAR(40)", "VARCHAR(40) COLLATE utf8mb4_unicode_ci")
    return st.text(st.sampled_from(_FEW if few else _CHARACTERS), max_size=6)


def _some(of: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, of - 1), max_size=6)


def _crashes(kind: str) -> st.SearchStrategy[Crash]:
    killed = st.just(True) if kind == "sqlite" else st.booleans()  # else there are no sessions
    around = st.builds(Crash, st.sampled_from(["commit", "committed"]), st.integers(1, 3), killed)
    return around | st.builds(Crash, st.just("told"), st.integers(1, 2), st.just(True))


@st.composite
def _changes(draw: Draw, spare: list[Row], stamps: Stamps, cutoff: datetime) -> Change:
    what = draw(st.sampled_from(["touch", "touch", "want", "remove", "add", "add", "child"]))
    if what == "add" and spare:
        row = draw(st.sampled_from(spare))
    else:
        row = Row(-1, (), draw(_times(stamps, cutoff)), draw(st.sampled_from([1, 0, None])))
    return Change(what, draw(st.integers(0, 11)), row)


@st.composite
def _stamps(draw: Draw, kind: str) -> Stamps:
    kinds = [of for of in TimestampKind if of is not TimestampKind.AUTO]
    if kind == "sqlite":
        kinds.remove(TimestampKind.TIMESTAMPTZ)
    of = draw(st.sampled_from(kinds))
    unit = timedelta(microseconds=1_000 if kind == "sqlite" else 1)
    match of:
        case TimestampKind.TIMESTAMPTZ:
            return Stamps(of, _INSTANTS[kind], unit)
        case TimestampKind.NAIVE:
            return Stamps(of, _WALLS[kind], unit, draw(st.sampled_from(ZONES)))
        case TimestampKind.DATE:
            return Stamps(of, "DATE", unit, draw(st.none() | st.sampled_from(ZONES)))
        case TimestampKind.ISO_TEXT:
            return Stamps(of, _TEXTS[kind], unit)
        case _:
            return Stamps(of, "BIGINT", unit)


def _times(stamps: Stamps, cutoff: datetime) -> st.SearchStrategy[Stamp]:
    """Values of the column, most of them close to *cutoff*."""
    around = _AROUND.map(lambda by: by - by % stamps.unit)
    there = ZoneInfo(stamps.zone or "UTC")
    wall = cutoff.astimezone(there).replace(tzinfo=None)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    found: st.SearchStrategy[Stamp]
    match stamps.kind:
        case TimestampKind.TIMESTAMPTZ:
            found = around.map(lambda by: cutoff + by)
        case TimestampKind.NAIVE:
            found = around.map(lambda by: wall + by)
        case TimestampKind.DATE:
            found = st.integers(-40, 2).map(lambda days: wall.date() + timedelta(days=days))
        case TimestampKind.EPOCH_S:
            counted = around.map(lambda by: (cutoff + by - epoch) // timedelta(seconds=1))
            found = st.one_of(counted, st.sampled_from([0, -5]))
        case TimestampKind.EPOCH_MS:
            counted = around.map(lambda by: (cutoff + by - epoch) // timedelta(milliseconds=1))
            found = st.one_of(counted, counted, st.sampled_from([0, -5]))
        case _:
            written = st.builds(_written, around.map(lambda by: cutoff + by), _OFFSETS, _FORMS)
            found = st.one_of(written, written, st.sampled_from(_NO_INSTANTS))
    return st.one_of(found, found, found, st.none())


READABLE = "2037-01-01T00:00:00Z"
"""A row with this stays as it is: texts of which none can be read are refused."""

_OFFSETS = st.sampled_from(["Z", "+00:00", "-05:00", "+05:30", "+14:00", ""])
_FORMS = st.sampled_from(["T%H:%M:%S.%f", " %H:%M:%S.%f", "T%H:%M:%S", " %H:%M", ""])
_NO_INSTANTS = ["", "yesterday", "2026-02-30T00:00:00Z", "2026-13-01", "1700000000"]


def _written(at: datetime, offset: str, form: str) -> str:
    """*at* as ISO 8601, cut off to the precision of *form*."""
    zone = datetime.fromisoformat(f"2000-01-01T00:00{offset}").tzinfo or UTC
    return at.astimezone(zone).strftime(f"%Y-%m-%d{form}") + (offset if form else "")


def _folded(key: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """What no collation takes for two different keys, as far as Python can tell."""
    return tuple(
        "".join(c for c in unicodedata.normalize("NFKD", part).casefold() if c.isprintable())
        .replace("\u0301", "")
        .rstrip()
        if isinstance(part, str)
        else part
        for part in key
    )
