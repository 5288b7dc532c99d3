"""The tables of a `row_schemas.Case` on a real database, as another session sees and changes them.

tables = SchemaTables(row_database, case, "17")
tables.make()
before = tables.content()
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
import pymysql

from bestbefore.contracts.row_world import CUTOFF, NEW, OLD
from support.row_databases import RowDatabase
from support.row_schemas import CIRCLES, CODE, LEFT_OUT, Case, Change, ForeignKey

ERRORS = (psycopg.Error, pymysql.err.MySQLError, sqlite3.Error)

Row = Mapping[str, Any]
Content = Mapping[int, Mapping[int, Row]]
"""All rows: by the number of the table, then by tag."""

_AT_ONCE = {
    "postgresql": ("SET lock_timeout = '20ms'",),
    "mysql": ("SET SESSION innodb_lock_wait_timeout = 0",
              "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
    "sqlite": ("PRAGMA synchronous = OFF", "PRAGMA journal_mode = MEMORY"),
}  # fmt: skip


class SchemaTables:
    """``said`` are the statements that made the tables and changed them, to be tried by hand."""

    def __init__(self, database: RowDatabase, case: Case, serial: str) -> None:
        self.database = database
        self.case = case
        self.names = [f"{letter}{serial}" for letter in "abcde"[: len(case.tables)]]
        self.said: list[str] = []
        self._tags: Counter[int] = Counter()
        self._other = _opened(database)

    def close(self) -> None:
        """Drop the tables."""
        names = ", ".join(self.names)
        match self.case.kind:
            case "postgresql":
                self._run(f"DROP TABLE IF EXISTS {names} CASCADE")
            case "mysql":
                self._run("SET foreign_key_checks = 0")
                self._run(f"DROP TABLE IF EXISTS {names}")
            case _:
                self._run("PRAGMA foreign_keys = OFF")
                for name in self.names:
                    self._run(f"DROP TABLE IF EXISTS {name}")
        self._other.close()

    # -- what is there

    def columns(self, table: int) -> dict[str, str]:
        """The names and SQL types of its columns."""
        case, own = self.case, self.case.tables[table]
        found = {"tag": "INT", "id": f"{self._text() if own.key == 'text' else 'INT'} NOT NULL"}
        if own.key == "pair":
            found["sub"] = "INT NOT NULL"
        found["at" if own.dated else "born"] = "BIGINT"
        if case.needs(table, "code") and own.key != "parted":
            found["code"] = "INT UNIQUE"
        if case.needs(table, "word"):
            found["word"] = f"{self._text()} UNIQUE"
        if case.needs(table, "num"):
            found["num"] = "INT"
        for key in case.keys:
            if key.child == table:
                added = {name: self._type(key, place) for place, name in enumerate(key.columns)}
                found |= {name: of for name, of in added.items() if name not in found}
        return found

    def content(self, connection: Any = None) -> Content:
        """All rows, as *connection* sees them."""
        cursor = (connection or self._other).cursor()
        found = {}
        for table, name in enumerate(self.names):
            columns = list(self.columns(table))
            cursor.execute(f"SELECT {', '.join(columns)} FROM {name}")  # noqa: S608
            rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
            found[table] = {row["tag"]: row for row in rows}
        return found

    def number(self, said: str) -> int:
        """Which table the product means."""
        name = said.rpartition(".")[2].strip('"')
        return self.names.index(re.sub("_(old|new)$", "", name))

    # -- making it

    def make(self) -> None:
        """Create the tables with their first rows."""
        for statement in self._statements():
            self._run(statement)
        for table, _ in enumerate(self.names):
            if self.case.has_default(table):
                self._run(self._insert(table, 0, "new", {}))
        for change in self.case.rows:
            self.change(change)

    def _statements(self) -> Iterator[str]:
        inside = self.case.kind != "postgresql"
        if self.case.kind == "mysql":
            yield "SET foreign_key_checks = 0"
        for table, name in enumerate(self.names):
            columns = [f"{column} {of}" for column, of in self.columns(table).items()]
            keys = [key for key in self.case.keys if key.child == table]
            said = [self._constraint(key) for key in keys] if inside else []
            if self.case.kind == "mysql":
                said += [f"KEY ({', '.join(columns)})" for columns in self._indexed(table)]
            key = f"PRIMARY KEY ({', '.join(self.case.named(table))})"
            create = f"CREATE TABLE {name} ({', '.join([*columns, key, *said])})"
            if self.case.tables[table].key != "parted":
                yield create
                continue
            yield f"{create} PARTITION BY RANGE (at)"
            cutoff = int(CUTOFF.timestamp())
            yield f"CREATE TABLE {name}_old PARTITION OF {name} FOR VALUES FROM (MINVALUE) TO ({cutoff})"  # noqa: E501
            yield f"CREATE TABLE {name}_new PARTITION OF {name} FOR VALUES FROM ({cutoff}) TO (MAXVALUE)"  # noqa: E501
        if self.case.kind == "mysql":
            yield "SET foreign_key_checks = 1"
            return
        for table, name in enumerate(self.names):
            for place, columns in enumerate(self._indexed(table)):
                yield f"CREATE INDEX {name}_i{place} ON {name} ({', '.join(columns)})"
        for key in self.case.keys:
            if not inside:
                child = self.names[key.child] + ("_old" if key.from_old else "")
                yield f"ALTER TABLE {child} ADD {self._constraint(key)}"

    def _indexed(self, table: int) -> Iterator[tuple[str, ...]]:
        """What other indexes it has than those that constraints need."""
        if self.case.tables[table].by_time:
            yield ("at" if self.case.tables[table].dated else "born",)
        if self.case.needs(table, "num"):
            yield ("num",)
        for key in self.case.keys:
            new = key.columns[0].startswith(key.name)
            if key.child == table and key.indexed and new and self.case.kind != "mysql":
                yield key.columns

    def _constraint(self, key: ForeignKey) -> str:
        parent = self.names[key.parent] + ("_old" if key.to_old else "")
        return (
            f"CONSTRAINT {self.names[key.child]}_{key.name}_key "
            f"FOREIGN KEY ({', '.join(key.columns)}) "
            f"REFERENCES {parent} ({', '.join(key.referred)}) "
            f"ON DELETE {key.on_delete} ON UPDATE {key.on_update}"
            + (" DEFERRABLE INITIALLY DEFERRED" if key.deferred else "")
        )

    def _type(self, key: ForeignKey, place: int) -> str:
        referred = key.referred[place]
        if self.case.is_text(key.parent, referred):
            return "TEXT" if key.bare else self._text()
        of = "BIGINT" if referred == "at" else "INT"
        if key.on_delete == "SET DEFAULT":
            of += f" DEFAULT {CODE if referred == 'code' else 0}"
        return of

    def _text(self) -> str:
        kinds = {"postgresql": "TEXT", "mysql": "VARCHAR(20)", "sqlite": "TEXT COLLATE NOCASE"}
        return kinds[self.case.kind]

    # -- changing it

    def change(self, change: Change) -> bool:
        """Have another session do it. Whether it was done: a constraint or a lock may forbid it."""
        statement = self.statement(change)
        return statement is not None and self._tried(self._other, statement)

    def statement(self, change: Change) -> str | None:
        """The SQL of *change*, None where there is no such row."""
        content = self.content()
        if change.what == "add":
            self._tags[change.table] += 1
            values = {}
            if change.via is not None:
                key, tag = self.case.key(change.via), self._tags[change.table]
                if change.age == "new":
                    content = {**content, key.parent: _old(content[key.parent])}
                values = self._values(key, content, tag, change.other) or {}
            return self._insert(change.table, self._tags[change.table], change.age, values)
        tag = _picked(content[change.table], change.which)
        if tag is None:
            return None
        name, where = self.names[change.table], f"WHERE tag = {tag}"
        if change.what == "remove":
            return f"DELETE FROM {name} {where}"  # noqa: S608
        if change.what == "touch":
            at = "at" if self.case.tables[change.table].dated else "born"
            said = {at: _at(change.age, tag)}
        else:
            said = self._values(self.case.key(str(change.via)), content, tag, change.other)
        if said is None or "id" in said:
            return None
        new = ", ".join(f"{column} = {_literal(value)}" for column, value in said.items())
        return f"UPDATE {name} SET {new} {where}"  # noqa: S608

    def _values(
        self, key: ForeignKey, content: Content, child: int, other: int | None
    ) -> dict[str, Any] | None:
        """What a row has in the columns of *key* that refers to one of its parent's."""
        if other is None:
            return dict.fromkeys(key.columns)
        rows = content[key.parent]
        if not rows:
            return None
        tag = sorted(rows)[other % len(rows)]
        if key.child == key.parent and not self._may_refer(key, child, tag):
            return None
        return {
            column: _swapped(rows[tag][referred]) if key.bare else rows[tag][referred]
            for column, referred in zip(key.columns, key.referred, strict=True)
        }

    def _may_refer(self, key: ForeignKey, child: int, parent: int) -> bool:
        """See `CIRCLES`. SQLite removes rows in a circle, but for RESTRICT."""
        itself = {one.on_delete for one in self.case.keys if one.child == one.parent == key.child}
        own = key.child == self.case.policy.table
        fails = {"mysql": not own, "sqlite": "RESTRICT" in itself}
        known = CIRCLES not in LEFT_OUT
        return known or not fails.get(self.case.kind) or child > parent

    def _insert(self, table: int, tag: int, age: str, values: Mapping[str, Any]) -> str:
        text = f"k{tag:02}" if tag % 2 or self.case.kind == "postgresql" else f"K{tag:02}"
        of_pair = self.case.tables[table].key == "pair"
        made = {
            "tag": tag,
            "id": text if self.case.tables[table].key == "text" else tag // (1 + of_pair),
            "sub": tag % 2,
            "at": _at(age, tag),
            "born": _at(age, tag),
            "code": CODE + tag,
            "word": text,
            "num": tag % 3,
        }
        columns = list(self.columns(table))
        refers = {column for key in self.case.keys if key.child == table for column in key.columns}
        given = {"id"} | ({"at"} if self.case.tables[table].key == "parted" else set())
        made |= dict.fromkeys(refers - given) | {k: v for k, v in values.items() if k != "id"}
        said = ", ".join(_literal(made.get(column)) for column in columns)
        return f"INSERT INTO {self.names[table]} ({', '.join(columns)}) VALUES ({said})"  # noqa: S608

    def _run(self, statement: str) -> None:
        self.said.append(statement)
        self._other.cursor().execute(statement)

    def _tried(self, connection: Any, statement: str) -> bool:
        try:
            connection.cursor().execute(statement)
        except ERRORS:
            return False
        self.said.append(statement)
        return True

    @contextmanager
    def holding(self, change: Change) -> Iterator[Any]:
        """Another session's transaction with *change* in it, not yet committed; None where it
        cannot be."""
        statement = self.statement(change)
        with closing(self.database.connect()) as connection:
            cursor = connection.cursor()
            for setting in _AT_ONCE[self.case.kind]:
                cursor.execute(setting)
            connection.commit()
            yield connection if statement and self._tried(connection, statement) else None
            with suppress(ERRORS):
                connection.rollback()


def _opened(database: RowDatabase) -> Any:
    connection = database.connect()
    if isinstance(connection, sqlite3.Connection):
        connection.isolation_level = None
    elif isinstance(connection, psycopg.Connection):
        connection.autocommit = True
    else:
        connection.autocommit(True)
    cursor = connection.cursor()
    for setting in _AT_ONCE[database.kind]:
        cursor.execute(setting)
    return connection


def _picked(rows: Mapping[int, Row], which: int) -> int | None:
    """The tag of a row that may be changed, which row 0 may not."""
    tags: Sequence[int] = sorted(rows.keys() - {0})
    return tags[which % len(tags)] if tags else None


def _old(rows: Mapping[int, Row]) -> Mapping[int, Row]:
    """The old ones of *rows*, or all where there are none."""
    found = {tag: row for tag, row in rows.items() if (row.get("at") or NEW) < CUTOFF.timestamp()}
    return found or rows


def _at(age: str, tag: int) -> int | None:
    around = tag * 7 % 5
    return {"old": OLD - around, "new": NEW + around}.get(age)


def _swapped(value: Any) -> Any:
    return value.swapcase() if isinstance(value, str) else value


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else f"'{value}'"
