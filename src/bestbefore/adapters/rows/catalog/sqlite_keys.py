"""Foreign keys to a table of SQLite, and whether SQLite can work with them.

SQLite takes any definition of a foreign key. Only a DELETE from the parent finds out that it refers
to no key, and fails with "foreign key mismatch". The rules: https://sqlite.org/foreignkeys.html,
section 3, and `sqlite3FkLocateIndex` in its source.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import ForeignKey
from bestbefore.ports.rows import TableRefused

_DECLARED = sa.text("""
    SELECT m.name, f.id, f."from", f."to", f.on_delete
    FROM main.sqlite_master m JOIN pragma_foreign_key_list(m.name, 'main') f
    WHERE m.type = 'table' AND f."table" = :table COLLATE NOCASE
    ORDER BY m.name, f.id, f.seq
""")

_COLUMNS = sa.text("""
    SELECT name, pk, upper(type) AS type FROM pragma_table_xinfo(:table, 'main')
    WHERE hidden <> 1 ORDER BY pk, cid
""")

# Only indexes that cover every row. The name of a part that is an expression is NULL.
_INDEXES = sa.text("""
    SELECT i.name, i."unique", i.origin, p.name, upper(p.coll)
    FROM pragma_index_list(:table, 'main') i JOIN pragma_index_xinfo(i.name, 'main') p ON p.key
    WHERE NOT i.partial ORDER BY i.name, p.seqno
""")


_FAILS = 'SQLite refuses to delete from that table at all: "foreign key mismatch"'


class _Index(NamedTuple):
    """``collations`` are those that the index orders ``columns`` by; None for a row's number."""

    columns: tuple[str | None, ...]
    collations: tuple[str | None, ...]
    unique: bool
    primary: bool


class _Table(NamedTuple):
    """``columns`` by folded name, ``affinities`` likewise. ``key`` is the primary key in its own
    order, or empty."""

    name: str
    columns: Mapping[str, str]
    affinities: Mapping[str, str]
    key: tuple[str, ...]
    indexes: Sequence[_Index]


class _Declared(NamedTuple):
    """A foreign key as it is written. ``named`` is empty where it names no columns of the parent,
    and means the primary key."""

    child: str
    number: int
    columns: tuple[str, ...]
    named: tuple[str, ...]
    on_delete: str


class _Unusable(Exception):
    """SQLite cannot work with a foreign key. The arguments are why, and the remedy."""


def foreign_keys(connection: sa.Connection, table: str) -> Sequence[ForeignKey]:
    """Every foreign key that refers to *table*, with the parent's spelling of its columns.

    ``collations`` are those of the parent's columns: SQLite compares with them, and not with those
    of the child. None stands for the number of a row.

    Raises TableRefused for a foreign key that fails every DELETE from *table*.
    """
    declared = _declared(connection, table)
    if not declared:
        return ()
    parent = _table(connection, table)
    return [_followed(connection, parent, key) for key in declared]


def _declared(connection: sa.Connection, table: str) -> Sequence[_Declared]:
    found: dict[tuple[str, int], _Declared] = {}
    for child, number, column, named, on_delete in connection.execute(_DECLARED, {"table": table}):
        key = found.get((child, number)) or _Declared(child, number, (), (), on_delete)
        found[child, number] = key._replace(
            columns=(*key.columns, column),
            named=key.named if named is None else (*key.named, named),
        )
    return list(found.values())


def _table(connection: sa.Connection, name: str) -> _Table:
    columns = connection.execute(_COLUMNS, {"table": name}).all()
    key = tuple(row.name for row in columns if row.pk)
    by_name: dict[str, _Index] = {}
    for index, unique, origin, column, collation in connection.execute(_INDEXES, {"table": name}):
        before = by_name.get(index) or _Index((), (), bool(unique), origin == "pk")
        by_name[index] = before._replace(
            columns=(*before.columns, column), collations=(*before.collations, collation)
        )
    indexes = list(by_name.values())
    if len(key) == 1 and not any(index.primary for index in indexes):
        # INTEGER PRIMARY KEY: the column is the number of its row.
        indexes.append(_Index(key, (None,), unique=True, primary=True))
    folded = {_folded(row.name): row for row in columns}
    return _Table(
        name,
        {name: row.name for name, row in folded.items()},
        {name: _affinity(row.type) for name, row in folded.items()},
        key,
        indexes,
    )


def _followed(connection: sa.Connection, parent: _Table, key: _Declared) -> ForeignKey:
    try:
        if key.named:
            referred, collations = _by_name(connection, parent, key.named)
        else:
            referred, collations = _by_primary_key(connection, parent, len(key.columns))
    except _Unusable as unusable:
        why, remedy = unusable.args
        named = f"({', '.join(key.named)})" if key.named else ""
        raise TableRefused(
            f"{parent.name}: the foreign key ({', '.join(key.columns)}) of {key.child} refers to "
            f"{parent.name}{named}, but {why}; {remedy}, or rebuild {key.child} without this key"
        ) from None
    child = _table(connection, key.child)
    return ForeignKey(
        f"foreign key {key.number} of {key.child}", "main", key.child, key.columns, referred,
        key.on_delete, _has_index(child, key.columns, collations),
        collations=collations, converts=_converts(parent, child, key.columns, referred),
    )  # fmt: skip


def _by_name(
    connection: sa.Connection, parent: _Table, named: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str | None, ...]]:
    for name in named:
        if _folded(name) not in parent.columns:
            raise _Unusable(
                f"there is no column {name}, and {_FAILS}",
                f"have it refer to the primary key of {parent.name}",
            )
    referred = tuple(parent.columns[_folded(name)] for name in named)
    if any(index.columns == referred and None in index.collations for index in parent.indexes):
        return referred, (None,)
    own = _collations(connection, parent, referred)
    collated = dict(zip(referred, own, strict=True))
    for index in parent.indexes:
        parts = zip(index.columns, index.collations, strict=True)
        if (
            index.unique
            and len(index.columns) == len(referred)
            and all(column in collated and collated[column] == by for column, by in parts)
        ):
            return referred, own
    raise _Unusable(
        f"no unique index of all rows has exactly these columns with their own collations, and "
        f"{_FAILS}",
        f"create one: CREATE UNIQUE INDEX ... ON {parent.name} ({', '.join(referred)})",
    )


def _by_primary_key(
    connection: sa.Connection, parent: _Table, size: int
) -> tuple[tuple[str, ...], tuple[str | None, ...]]:
    if len(parent.key) != size:
        there = f"a primary key of {len(parent.key)} columns" if parent.key else "no primary key"
        raise _Unusable(
            f"there is {there}, and {_FAILS}",
            "have it name the columns of a unique index",
        )
    collations = next(index.collations for index in parent.indexes if index.primary)
    if None not in collations and collations != _collations(connection, parent, parent.key):
        raise _Unusable(
            "its primary key has other collations than its columns: SQLite compares by those of "
            "the key when a row is inserted, and by those of the columns when one is deleted",
            f"rebuild {parent.name} with one collation",
        )
    return parent.key, collations


def _converts(
    parent: _Table, child: _Table, columns: Sequence[str], referred: Sequence[str]
) -> bool:
    """Whether values of the child are converted before they are compared: of '01' in a column of
    texts and 1 in one of numbers, only the foreign key says that they are equal."""
    return any(
        child.affinities[_folded(here)] != parent.affinities[_folded(there)]
        for here, there in zip(columns, referred, strict=True)
    )


def _affinity(type_: str) -> str:
    """What a declared type is for comparisons (https://sqlite.org/datatype3.html, section 3.1)."""
    if "INT" in type_:
        return "number"
    if any(word in type_ for word in ("CHAR", "CLOB", "TEXT")):
        return "text"
    return "any" if not type_ or "BLOB" in type_ else "number"


def _collations(
    connection: sa.Connection, table: _Table, columns: Sequence[str]
) -> tuple[str | None, ...]:
    return tuple(_collation(connection, table.name, column) for column in columns)


def _collation(connection: sa.Connection, table: str, column: str) -> str:
    """How a column is collated, which no pragma says: a union is collated as its first part is.

    A collation that an application brings along is unknown to SQLite here, which says so.
    """
    folds, trims = connection.exec_driver_sql(
        f"SELECT said = 'A', said = 'a ' FROM (SELECT {_quoted(column)} AS said"  # noqa: S608
        f" FROM main.{_quoted(table)} WHERE 0 UNION SELECT 'a')"
    ).one()
    return "NOCASE" if folds else "RTRIM" if trims else "BINARY"


def _has_index(child: _Table, columns: Sequence[str], collations: Sequence[str | None]) -> bool:
    """Whether an index of *child* finds rows by *columns*, compared by *collations*."""
    wanted = dict(zip(columns, collations, strict=True))
    for index in child.indexes:
        parts = list(zip(index.columns, index.collations, strict=True))[: len(columns)]
        if {column for column, _ in parts} == wanted.keys() and all(
            None in (by, wanted[str(column)]) or by == wanted[str(column)] for column, by in parts
        ):
            return True
    return False


def _folded(name: str) -> str:
    """*name* as SQLite compares names: only A to Z have no case."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
