"""What SQLite's catalog says about foreign keys to a table, and which of them cannot work."""

import sqlite3
from collections.abc import Sequence

import pytest

from bestbefore.adapters.rows.dialect import ForeignKey
from bestbefore.adapters.rows.engine import Database
from bestbefore.contracts.row_world import OLD, RowWorld, table
from bestbefore.domain.finding import Level
from bestbefore.ports.rows import TableRefused
from support.row_databases import RowDatabase


@pytest.fixture(params=["sqlite"])
def row_database(row_database: object) -> object:
    return row_database


def foreign_keys(database: RowDatabase, name: str = "parent") -> Sequence[ForeignKey]:
    opened = Database(database.url)
    try:
        with opened.reading() as connection:
            return opened.dialect.foreign_keys(connection, "main", name)
    finally:
        opened.dispose()


def sqlite_refuses(database: RowDatabase) -> bool:
    """Whether SQLite itself calls a DELETE from the parent a foreign key mismatch."""
    try:
        database.run("DELETE FROM parent")
    except sqlite3.OperationalError as error:
        return "foreign key mismatch" in str(error)
    return False


BROKEN = {
    "the number of a row": ("id INTEGER PRIMARY KEY", "x REFERENCES parent (rowid)", ""),
    "no such column": ("id INT PRIMARY KEY", "x REFERENCES parent (nope)", ""),
    "no rowid": ("id INT PRIMARY KEY) WITHOUT ROWID --", "x REFERENCES parent (rowid)", ""),
    "one column for a key of two": ("a, b, PRIMARY KEY (a, b)", "x REFERENCES parent", ""),
    "part of a key": ("a, b, PRIMARY KEY (a, b)", "x REFERENCES parent (a)", ""),
    "more than a key": (
        "a INT PRIMARY KEY, b", "x, y, FOREIGN KEY (x, y) REFERENCES parent (a, b)", ""
    ),
    "one column twice": (
        "a, b, UNIQUE (a, b)", "x, y, FOREIGN KEY (x, y) REFERENCES parent (a, a)", ""
    ),
    "no primary key": ("a INT UNIQUE", "x REFERENCES parent", ""),
    "no index": ("a INT", "x REFERENCES parent (a)", ""),
    "not unique": ("a INT", "x REFERENCES parent (a)", "CREATE INDEX u ON parent (a)"),
    "not of all rows": (
        "a INT", "x REFERENCES parent (a)", "CREATE UNIQUE INDEX u ON parent (a) WHERE a > 0"
    ),
    "of an expression": (
        "a INT", "x REFERENCES parent (a)", "CREATE UNIQUE INDEX u ON parent (abs(a))"
    ),
    "wider than the column": (
        "a TEXT", "x REFERENCES parent (a)", "CREATE UNIQUE INDEX u ON parent (a COLLATE NOCASE)"
    ),
    "narrower than the column": (
        "a TEXT COLLATE NOCASE", "x REFERENCES parent (a)",
        "CREATE UNIQUE INDEX u ON parent (a COLLATE BINARY)",
    ),
}  # fmt: skip

WORKING = {
    "the number of a row by its name": ("id INTEGER PRIMARY KEY", "x REFERENCES Parent (ID)", ""),
    "an unnamed number": ("id INTEGER PRIMARY KEY", "x REFERENCES PARENT", ""),
    "a number downwards": ("id INTEGER PRIMARY KEY DESC", "x REFERENCES parent", ""),
    "a column called rowid": ("a INT PRIMARY KEY, rowid UNIQUE", "x REFERENCES parent(rowid)", ""),
    "no rowid": ("id INTEGER PRIMARY KEY) WITHOUT ROWID --", "x REFERENCES parent", ""),
    "a generated column": ("a INT, g AS (a + 1) UNIQUE", "x REFERENCES parent (g)", ""),
    "another order": (
        "a, b, PRIMARY KEY (a, b)", "x, y, FOREIGN KEY (x, y) REFERENCES parent (B, A)", ""
    ),
    "an index of its own": (
        "a TEXT COLLATE RTRIM", "x REFERENCES parent (a)", "CREATE UNIQUE INDEX u ON parent (a)"
    ),
    "one index of several": (
        "a TEXT UNIQUE", "x REFERENCES parent (a)",
        "CREATE UNIQUE INDEX u ON parent (a COLLATE NOCASE)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("parent", "child", "index"), BROKEN.values(), ids=BROKEN)
def test_a_foreign_key_that_never_worked_is_refused_with_its_child_and_a_remedy(
    row_database: RowDatabase, parent: str, child: str, index: str
) -> None:
    """S-STORE-09."""
    row_database.run(f"CREATE TABLE parent ({parent})", f"CREATE TABLE child ({child})", index)
    assert sqlite_refuses(row_database)

    with pytest.raises(TableRefused) as refused:
        foreign_keys(row_database)

    said = str(refused.value)
    assert "of child refers to parent" in said
    assert "foreign key mismatch" in said
    assert "rebuild child without this key" in said


@pytest.mark.parametrize(("parent", "child", "index"), WORKING.values(), ids=WORKING)
def test_a_foreign_key_that_sqlite_works_with_is_read(
    row_database: RowDatabase, parent: str, child: str, index: str
) -> None:
    """S-STORE-09."""
    row_database.run(f"CREATE TABLE parent ({parent})", f"CREATE TABLE child ({child})", index)
    assert not sqlite_refuses(row_database)
    (key,) = foreign_keys(row_database)
    assert (key.schema, key.table, key.unique) == ("main", "child", True)
    assert len(key.columns) == len(key.referred) == len(key.collations)


def test_a_check_of_a_table_says_which_foreign_key_never_worked(world: RowWorld) -> None:
    """S-STORE-09."""
    world.run(
        "CREATE TABLE events (id INTEGER PRIMARY KEY, at BIGINT)",
        "CREATE TABLE details (event REFERENCES events (rowid))",
    )
    world.insert("events", (1, OLD))
    refused = {finding.code: finding for finding in world.deleter.check(table())}["table-refused"]
    assert refused.level is Level.ERROR
    assert "details refers to events(rowid), but there is no column rowid" in refused.message


def test_columns_that_are_left_out_are_the_primary_key_in_its_own_order(
    row_database: RowDatabase,
) -> None:
    row_database.run(
        "CREATE TABLE parent (a INT, b INT, PRIMARY KEY (b, a))",
        "CREATE TABLE child (x INT, y INT, FOREIGN KEY (x, y) REFERENCES parent)",
        "INSERT INTO parent (a, b) VALUES (1, 2)",
        "INSERT INTO child VALUES (2, 1)",  # which SQLite would refuse in the other order
    )
    (key,) = foreign_keys(row_database)
    assert (key.columns, key.referred) == (("x", "y"), ("b", "a"))


def test_names_come_back_as_the_parent_spells_them(row_database: RowDatabase) -> None:
    row_database.run(
        "CREATE TABLE parent (Id INT, Code TEXT, UNIQUE (Id, Code))",
        "CREATE TABLE child (x, y, FOREIGN KEY (x, y) REFERENCES PARENT (CODE, ID))",
    )
    (key,) = foreign_keys(row_database)
    assert key.referred == ("Code", "Id")


@pytest.mark.parametrize("collation", ["BINARY", "NOCASE", "RTRIM"])
@pytest.mark.parametrize("named", ["", "(a)"])
def test_values_are_compared_as_the_parent_compares_them(
    row_database: RowDatabase, collation: str, named: str
) -> None:
    """S-STORE-09: what SQLite removes with a parent is what the catalog's collation finds."""
    row_database.run(
        f"CREATE TABLE parent (a TEXT COLLATE {collation} PRIMARY KEY)",
        f"CREATE TABLE child (x TEXT COLLATE NOCASE REFERENCES parent {named} ON DELETE CASCADE)",
        "PRAGMA foreign_keys = OFF",
        "INSERT INTO parent VALUES ('a')",
        "INSERT INTO child VALUES ('a'), ('A'), ('a ')",
    )
    (key,) = foreign_keys(row_database)
    assert key.collations == (collation,)
    found = row_database.ask(
        f"SELECT x FROM child WHERE x = 'a' COLLATE {collation}"  # noqa: S608
    )
    row_database.run("DELETE FROM parent")
    left = row_database.ask("SELECT x FROM child")
    assert sorted(found + left) == [("A",), ("a",), ("a ",)]


def test_the_number_of_a_row_has_no_collation(row_database: RowDatabase) -> None:
    row_database.run(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY)", "CREATE TABLE child (x REFERENCES parent)"
    )
    assert [key.collations for key in foreign_keys(row_database)] == [(None,)]


@pytest.mark.parametrize(("column", "key"), [("", "NOCASE"), ("NOCASE", "BINARY")])
def test_a_primary_key_that_compares_otherwise_than_its_column_is_refused(
    row_database: RowDatabase, column: str, key: str
) -> None:
    """SQLite takes it, and then removes children of other parents, or leaves some behind."""
    collate = f"COLLATE {column}" if column else ""
    row_database.run(
        f"CREATE TABLE parent (a TEXT {collate}, PRIMARY KEY (a COLLATE {key}))",
        "CREATE TABLE child (x REFERENCES parent ON DELETE CASCADE)",
    )
    with pytest.raises(TableRefused, match="its primary key has other collations than its columns"):
        foreign_keys(row_database)


@pytest.mark.parametrize(
    ("index", "indexed"),
    [
        ("CREATE INDEX i ON child (x, y)", True),
        ("CREATE INDEX i ON child (y, x)", False),
        ("CREATE INDEX i ON child (x) WHERE y > 0", False),
        ("CREATE INDEX i ON child (x COLLATE BINARY)", False),
        ("CREATE INDEX i ON child (lower(x))", False),
        ("", False),
    ],
)
def test_an_index_of_the_child_counts_where_sqlite_finds_rows_by_it(
    row_database: RowDatabase, index: str, indexed: bool
) -> None:
    row_database.run(
        "CREATE TABLE parent (a TEXT COLLATE NOCASE PRIMARY KEY)",
        "CREATE TABLE child (x TEXT COLLATE NOCASE REFERENCES parent, y INT)",
        index,
    )
    (key,) = foreign_keys(row_database)
    assert key.indexed is indexed
    plan = row_database.ask("EXPLAIN QUERY PLAN SELECT 1 FROM child WHERE x = 'a' COLLATE NOCASE")
    assert ("SEARCH" in plan[0][-1]) is indexed
