"""Schemas for the property of rows that refer to each other, drawn at random: tables, foreign keys,
rows, a policy, and what happens beside its plan and its work.

    case = drawn("postgresql", seed)

The policy that is tried is about the first table. `support.row_schema_tables` makes the tables, and
`support.row_schema_model` says what may be removed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

CIRCLES = "rows in a circle that the database removes neither one by one nor at once"
"""Under RESTRICT on SQLite, and in other tables than the policy's on MariaDB."""

BEHIND = "keepers behind a reference of another table to itself"
TWICE = "keys of a partition beside keys of its table to itself"
DEEP = "policies of tables that refer to themselves, on SQLite"

LEFT_OUT = frozenset({CIRCLES, BEHIND, TWICE, DEEP})
"""What is not drawn, as the product does not know it yet."""

CODE = 100
"""What the ``code`` of a row is above its tag."""

_ACTIONS = ("NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT")


@dataclass(frozen=True)
class Table:
    """``key`` is what its primary key is: ``int``, ``pair`` (of integers), ``text`` (in which case
    means nothing, except on PostgreSQL) or ``parted``: the table has one partition before the
    cutoff and one behind it. ``dated``: its time has the name of the policy's; ``by_time``: an
    index begins with it."""

    key: str
    dated: bool = True
    by_time: bool = False


@dataclass(frozen=True)
class ForeignKey:
    """Tables are numbers. ``to_old`` and ``from_old``: it refers to the partition before the cutoff
    only, or is a constraint of that partition only. ``bare`` columns compare text as bytes."""

    name: str
    child: int
    columns: tuple[str, ...]
    parent: int
    referred: tuple[str, ...]
    on_delete: str
    on_update: str = "NO ACTION"
    deferred: bool = False
    indexed: bool = True
    to_old: bool = False
    from_old: bool = False
    bare: bool = False

    @property
    def changes(self) -> bool:
        return self.on_delete.startswith("SET")


@dataclass(frozen=True)
class Change:
    """What another session does: ``add``, ``touch`` or ``remove`` a row of a table, or ``refer``.

    ``which`` chooses the row, or the child's row; ``other`` the row that it refers to by the
    foreign key called ``via``, None for none. ``age`` is ``old``, ``new`` or ``none``. New rows
    refer to old ones, if there are any.
    """

    what: str
    table: int
    which: int = 0
    via: str | None = None
    other: int | None = None
    age: str = "old"


@dataclass(frozen=True)
class Delivery:
    """How a batch is delivered: ``plain``, or ``twice``; ``undone`` right before the ``number``-th
    statement of its transaction; ``beside`` a change that is committed there; ``held`` up by a
    transaction that ends with the change."""

    how: str = "plain"
    number: int = 0
    change: Change | None = None


@dataclass(frozen=True)
class Kill:
    """A worker is killed ``before`` or ``after`` a COMMIT, or in the ``middle`` of a transaction,
    at its ``number``-th DELETE."""

    how: str
    number: int


@dataclass(frozen=True)
class Policy:
    """``dependents`` are tables, or None for "auto". One that is ``idle`` removes nothing."""

    table: int
    dependents: tuple[int, ...] | None
    idle: bool = False


@dataclass(frozen=True)
class Case:
    """``policy`` is the one that is tried, and ``others`` are those of other tables."""

    kind: str
    tables: tuple[Table, ...]
    keys: tuple[ForeignKey, ...]
    policy: Policy
    others: tuple[Policy, ...]
    size: int
    rows: tuple[Change, ...]
    meanwhile: tuple[Change, ...]
    deliveries: tuple[Delivery, ...]
    later: tuple[Change, ...]
    kill: Kill | None

    def other(self, table: int) -> Policy | None:
        """The policy of its own that a table has."""
        return next((one for one in self.others if one.table == table), None)

    def of(self, other: Policy) -> "Case":
        """The case as one of the other policies sees it."""
        others = tuple(one for one in self.others if one is not other)
        return replace(self, policy=other, others=others)

    def key(self, name: str) -> ForeignKey:
        return next(key for key in self.keys if key.name == name)

    def named(self, table: int) -> tuple[str, ...]:
        """The columns of the primary key."""
        return {"pair": ("id", "sub"), "parted": ("id", "at")}.get(self.tables[table].key, ("id",))

    def is_text(self, table: int, column: str) -> bool:
        """Whether *column*, which is no foreign key's own, holds text."""
        return column == "word" or (column == "id" and self.tables[table].key == "text")

    def needs(self, table: int, column: str) -> bool:
        """Whether a foreign key needs *column*, which only some tables have."""
        return any(
            (key.parent == table and column in key.referred)
            or (key.child == table and column in key.columns)
            for key in self.keys
        )

    def has_default(self, table: int) -> bool:
        """Whether references to *table* fall back to its row 0, which is young and stays."""
        return any(key.parent == table and key.on_delete == "SET DEFAULT" for key in self.keys)


def drawn(kind: str, seed: int) -> Case:
    """The case that *seed* draws for a *kind* of database."""
    return _Drawing(kind, Random(f"{kind} {seed}")).case()


class _Drawing:
    def __init__(self, kind: str, random: Random) -> None:
        self.kind = kind
        self.random = random
        kinds = ["int", "int", "pair", "text"]
        if kind == "postgresql":
            kinds += ["parted", "parted"]
        self.tables = tuple(
            Table(random.choice(kinds), number == 0 or self.chance(0.8), self.chance(0.4))
            for number in range(random.randint(2, 5))
        )
        self.tables = tuple(
            replace(table, dated=True) if table.key == "parted" else table for table in self.tables
        )
        self.keys: list[ForeignKey] = []

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    def case(self) -> Case:
        number = len(self.tables)
        for place in range(self.random.randint(1, number + 2)):
            self.keys.append(self._key(f"k{place}"))
        governed = self.random.sample(range(1, number), self.random.choice([1, 1, number - 1]))
        policy = self._policy(0)
        others = tuple(map(self._policy, governed)) if self.chance(0.3) else ()
        if self.kind == "sqlite" and DEEP in LEFT_OUT:
            itself = {key.child for key in self.keys if key.child == key.parent}
            others = tuple(one for one in others if one.table not in itself)
        all_may_go = policy.dependents is None and not others
        self.keys = [key for key in self.keys if not self._is_left_out(key, all_may_go)]
        return Case(
            self.kind, self.tables, tuple(self.keys), policy, others,
            self.random.randint(1, 4),
            tuple(self._rows()),
            tuple(self._change() for _ in range(self.random.randint(0, 4))),
            tuple(self._delivery() for _ in range(self.random.randint(1, 6))),
            tuple(self._change() for _ in range(self.random.randint(0, 3))),
            self._kill() if self.chance(0.06) else None,
        )  # fmt: skip

    def _is_left_out(self, key: ForeignKey, all_may_go: bool) -> bool:
        """See `LEFT_OUT`."""
        if key.child != key.parent:
            return False
        here = [one for one in self.keys if one.child != one.parent]
        behind = key.parent and not key.changes and any(one.parent == key.parent for one in here)
        twice = any(one.child == key.child and one.from_old for one in here)
        return bool(
            (BEHIND in LEFT_OUT and behind and not all_may_go) or (TWICE in LEFT_OUT and twice)
        )

    def _policy(self, table: int) -> Policy:
        number = len(self.tables)
        reached = sorted({key.child for key in self.keys if key.parent == table}) or [0]
        of = reached if self.chance(0.7) else range(number)
        some = self.random.sample(of, self.random.randint(1, len(of)))
        lists: list[tuple[int, ...] | None] = [(), None, tuple(sorted(some))]
        return Policy(table, self.random.choice(lists), bool(table) and self.chance(0.3))

    def _key(self, name: str) -> ForeignKey:
        numbers = range(len(self.tables))
        parent = self.random.choice([0, 0, *numbers])
        child = self.random.choice(numbers if self.chance(0.2) else numbers[parent:])
        above = self.tables[parent].key
        referred = self._referred(parent)
        new = tuple(f"{name}_{place}" for place, _ in enumerate(referred))
        columns = self._columns(child, parent, referred) or new
        shared = columns != new
        actions = list(_ACTIONS[: 4 if self.kind == "mysql" else 5])
        if shared or referred not in (("id",), ("code",)) or above == "text":
            actions = actions[:4]
        if any(key.child == parent and key.columns in (("id",), referred) for key in self.keys):
            actions = actions[:4]  # there may be no row 0 to fall back to
        if columns == ("id",):
            actions = actions[:3]
        deferrable = self.kind != "mysql"
        return ForeignKey(
            name, child, columns, parent, referred, self.random.choice(actions),
            "CASCADE" if columns != ("id",) and self.chance(0.25) else "NO ACTION",
            deferred=deferrable and self.chance(0.3),
            indexed=self.chance(0.7),
            to_old=above == "parted" and child != parent and self.chance(0.3),
            from_old=self.tables[child].key == "parted" and child != parent and self.chance(0.3),
            bare=self.kind == "sqlite" and not shared and self.chance(0.5),
        )  # fmt: skip

    def _referred(self, parent: int) -> tuple[str, ...]:
        key = self.tables[parent].key
        names = {"pair": ("id", "sub"), "parted": ("id", "at")}.get(key, ("id",))
        options: list[tuple[str, ...]] = [names, names, names]
        if key != "parted":
            options += [("code",), ("word",)]
            if any(key.child == parent and key.columns == ("code",) for key in self.keys):
                options += [("code",)] * 4
            if self.kind == "mysql":
                options.append(("num",))
        return self.random.choice(options)

    def _columns(
        self, child: int, parent: int, referred: tuple[str, ...]
    ) -> tuple[str, ...] | None:
        """Columns that the child has for other reasons, None for its own ones."""
        is_text = referred == ("word",) or (
            referred == ("id",) and self.tables[parent].key == "text"
        )
        if len(referred) > 1 or is_text or self.chance(0.6):
            return None
        here = self.tables[child].key
        options: list[tuple[str, ...]] = [
            key.columns
            for key in self.keys
            if key.child == child and len(key.columns) == 1 and key.on_delete != "SET DEFAULT"
            and not self._is_text(key)
        ]  # fmt: skip
        fallen_back_to = any(
            key.parent == child and key.on_delete == "SET DEFAULT" for key in self.keys
        )
        if here != "parted" and not fallen_back_to:
            options.append(("code",))
        if here == "int" and child > parent and not fallen_back_to:
            options.append(("id",))
        options = [columns for columns in options if child != parent or columns != referred]
        return self.random.choice(options) if options else None

    def _is_text(self, key: ForeignKey) -> bool:
        return key.referred == ("word",) or self.tables[key.parent].key == "text"

    def _rows(self) -> Iterator[Change]:
        for table, _ in enumerate(self.tables):
            for _ in range(self.random.randint(2, 7) if table == 0 else self.random.randint(1, 5)):
                yield Change("add", table, age=self._age())
        for _ in range(3):
            for key in self.random.sample(self.keys, len(self.keys)):
                yield self._reference(key)

    def _reference(self, key: ForeignKey) -> Change:
        return Change(
            "refer", key.child, self.random.randrange(12), key.name, self.random.randrange(12)
        )

    def _age(self) -> str:
        return self.random.choices(["old", "new", "none"], [6, 3, 1])[0]

    def _change(self) -> Change:
        key = self.random.choice(self.keys)
        which, other = self.random.randrange(12), self.random.randrange(12)
        match self.random.choices(["child", "refer", "unrefer", "touch", "remove", "add"],
                                  [4, 4, 1, 2, 1, 1])[0]:  # fmt: skip
            case "child":
                return Change("add", key.child, via=key.name, other=other, age=self._age())
            case "refer":
                return Change("refer", key.child, which, key.name, other)
            case "unrefer":
                return Change("refer", key.child, which, key.name)
            case "touch":
                return Change("touch", self._table(), which, age=self._age())
            case "remove":
                return Change("remove", self._table(), which)
        return Change("add", self._table(), age=self._age())

    def _table(self) -> int:
        return self.random.choice([0, 0, *range(len(self.tables))])

    def _delivery(self) -> Delivery:
        how = self.random.choices(["plain", "twice", "undone", "beside", "held"], [3, 2, 2, 3, 3])
        change = self._last_moment() if self.chance(0.6) else self._change()
        return Delivery(how[0], self.random.randint(1, 12), change)

    def _last_moment(self) -> Change:
        """A young row that refers to what may be about to be removed."""
        key = self.random.choice([key for key in self.keys if not key.parent] or self.keys)
        other = self.random.randrange(12)
        return Change("add", key.child, via=key.name, other=other, age="new")

    def _kill(self) -> Kill:
        return Kill(self.random.choice(["before", "after", "middle"]), self.random.randint(1, 4))


def shrunk(case: Case, breaks: Callable[[Case], object]) -> Case:
    """*case*, which breaks, without what it breaks without: by halves at first, as to try takes
    time."""
    plain = replace(case, kill=None, deliveries=tuple(Delivery() for _ in case.deliveries))
    for less in (replace(case, kill=None), plain):
        case = less if breaks(less) else case
    before = None
    while case != before:
        before = case
        for field in ("later", "meanwhile", "deliveries", "keys", "rows", "others"):
            case = _with_less_of(case, field, breaks)
    return case


def _with_less_of(case: Case, field: str, breaks: Callable[[Case], object]) -> Case:
    size = max(1, len(getattr(case, field)) // 2)
    while True:
        start = 0
        while start < len(have := getattr(case, field)):
            less = replace(case, **{field: have[:start] + have[start + size :]})
            less = _without_lost_keys(less)
            if breaks(less):
                case = less
            else:
                start += size
        if size == 1:
            return case
        size //= 2


def _without_lost_keys(case: Case) -> Case:
    """*case* without changes by foreign keys that it has no more."""
    there = {None, *(key.name for key in case.keys)}

    def kept(changes: tuple[Change, ...]) -> tuple[Change, ...]:
        return tuple(one for one in changes if one.via in there)

    return replace(
        case, rows=kept(case.rows), meanwhile=kept(case.meanwhile), later=kept(case.later),
        deliveries=tuple(
            one if one.change is None or one.change.via in there else Delivery()
            for one in case.deliveries
        ),
    )  # fmt: skip
