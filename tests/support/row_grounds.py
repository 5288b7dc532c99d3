"""A world of `support.row_worlds` in a real database, as everybody but the product sees it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import hypothesis
import sqlalchemy as sa

from bestbefore.domain.policy import Policy
from bestbefore.domain.retention import Age
from bestbefore.domain.rows import COMPLETED_BATCHES, RowSource, TableArchive
from support.row_databases import RowDatabase
from support.row_keepers import Content
from support.row_worlds import READABLE, Change, Row, RowWorld, Stamp

AGE = timedelta(days=30)

_REFUSED = {"UniqueViolation", "IntegrityError"}
_OFFSETS = {"UTC": "+00:00", "America/New_York": "-05:00", "Asia/Tokyo": "+09:00"}


class Records(NamedTuple):
    """What completion records say, added up."""

    deleted: int
    archived: int
    children: int


class Ground:
    """The tables of *world*, in *database*."""

    def __init__(self, database: RowDatabase, world: RowWorld) -> None:
        self.database = database
        self.world = world
        self.kind = database.kind
        self.schema = database.schema if world.elsewhere else None
        names = world.names
        self.table = self._named(names.table)
        self.archive = self._named(f"{names.table} gone")
        self.keys = names.keys[: len(world.key_types)]
        self.owns = tuple(f"own {n}" for n in range(len(self.keys)))
        self.rows = dict.fromkeys(row.tag for row in world.rows)
        self._known: dict[int, Row] = {row.tag: row for row in world.rows}
        self._refers = {
            "child": dict(enumerate(world.children)),
            "grandchild": {
                n: of % len(world.children)
                for n, of in enumerate(world.grandchildren)
                if world.children
            },
        }

    # -- for the product ---------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where the product finds the database, whose sessions have another zone than UTC."""
        url, zone = sa.make_url(self.database.url), self.world.session
        if self.kind == "mysql":
            said = {"init_command": f"SET time_zone = '{_OFFSETS[zone]}'"}
            url = url.update_query_dict(said)
        elif self.kind == "postgresql":
            url = url.set(query={"options": f"{url.query['options']} -ctimezone={zone}"})
        return url.render_as_string(hide_password=False)

    @property
    def policy(self) -> Policy:
        world, names = self.world, self.world.names
        source = RowSource(
            "shop",
            self.table,
            _quoted(names.stamp),
            () if world.primary else tuple(map(_quoted, self.keys)),
            world.stamps.kind,
            world.stamps.zone,
            f"{self._mine(names.wanted)} = 1" if world.where else None,
            batch_size=world.size,
            dependents=world.dependents,
            allow_full_scan=True,
            archive=TableArchive(self.archive) if world.archive else None,
        )
        return Policy("stale", "v1", "ops", Age(0, int(AGE.total_seconds())), source)

    # -- what is there -----------------------------------------------------------------------

    def content(self) -> Content:
        """All rows that are there now."""
        found = {}
        for tag, *_ in self._ask(self._rows_of(self.table)):
            row = self._known[tag]
            found[tag] = row
        if self.world.own is not None:
            orphans = self._ask(
                f"SELECT tag FROM {self.table} WHERE {_quoted(self.owns[0])} IS NULL"  # noqa: S608
            )
            for (tag,) in orphans:
                found[tag] = replace(found[tag], parent=None)
        return Content(found, self._referring("child"), self._referring("grandchild"))

    def values(self) -> Mapping[int, tuple[Any, ...]]:
        """All that is in the rows of the table, by their tag."""
        return {row[0]: tuple(row[1:]) for row in self._ask(self._rows_of(self.table))}

    def archived(self) -> Mapping[int, tuple[Any, ...]]:
        """The same of the archive; no tag is there twice."""
        if not self.world.archive:
            return {}
        rows = self._ask(self._rows_of(self.archive))
        found = {row[0]: tuple(row[1:]) for row in rows}
        assert len(found) == len(rows), "a row is in the archive twice"
        return found

    def everything(self) -> tuple[Any, ...]:
        """To tell whether anything has changed."""
        content = self.content()
        return self.values(), content.children, content.grandchildren, self.archived()

    def records(self) -> Records:
        """What has gone by the completion records: of the table, to the archive, of the child."""
        try:
            rows = self._ask(
                f'SELECT "rows", archived, dependents FROM {self._named(COMPLETED_BATCHES)}'  # noqa: S608
            )
        except Exception as error:
            if type(error).__name__ not in (
                "UndefinedTable",
                "ProgrammingError",
                "OperationalError",
            ):
                raise
            return Records(0, 0, 0)  # no batch has been worked on
        left = archived = children = 0
        for gone, kept, dependents in rows:
            left += gone
            archived += kept
            for table, n in json.loads(dependents).items():
                if table.endswith(f".{self.world.names.table}"):
                    left += n
                elif table.endswith(".child"):
                    children += n
        return Records(left - archived, archived, children)

    # -- what others do ----------------------------------------------------------------------

    def change(self, changes: Sequence[Change]) -> None:
        """Make *changes*, as far as there is anything to change."""
        for change in changes:
            content = self.content()
            there = [tag for tag, row in content.rows.items() if row.stamp != READABLE]
            tag = there[change.which % len(there)] if there else None
            if change.what == "add":
                if change.row.tag >= 0 and change.row.tag not in self._known:
                    parent = change.row.parent if change.row.parent in content.rows else None
                    self._insert([replace(change.row, parent=parent)])
            elif tag is not None:
                self._change(change, tag, content)

    def _change(self, change: Change, tag: int, content: Content) -> None:
        row, names = self._known[tag], self.world.names
        match change.what:
            case "touch":
                self._known[tag] = replace(row, stamp=change.row.stamp)
                self._set(names.stamp, self._written(change.row.stamp), tag)
            case "want":
                self._known[tag] = replace(row, wanted=change.row.wanted)
                self._set(names.wanted, change.row.wanted, tag)
            case "remove":
                if tag not in content.children.values() and not any(
                    other.parent == tag for other in content.rows.values()
                ):
                    self._do(f"DELETE FROM {self.table} WHERE tag = {_mark(self.kind)}", [(tag,)])  # noqa: S608
                    self.rows.pop(tag)
            case "child" if self.world.child is not None:
                child = max(self._refers["child"], default=-1) + 1
                self._refers["child"][child] = tag
                self._insert_referring("child", {child: tag})

    def _set(self, column: str, value: Any, tag: int) -> None:
        mark = _mark(self.kind)
        self._do(
            f"UPDATE {self.table} SET {_quoted(column)} = {mark} WHERE tag = {mark}",  # noqa: S608
            [(value, tag)],
        )

    # -- making it ---------------------------------------------------------------------------

    @contextmanager
    def made(self) -> Iterator["Ground"]:
        """The tables are there meanwhile, with the rows that there are to begin with."""
        with closing(self.database.connect()) as self._connection:
            if self.kind == "mysql":
                self._run("SET time_zone = '+00:00'")
            try:
                yield from self._filled()
            finally:
                self._drop()

    def _filled(self) -> Iterator["Ground"]:
        self._create()
        self._insert(self.world.rows)
        for name in ("child", "grandchild"):
            self._insert_referring(name, self._refers[name])
        yield self

    def _drop(self) -> None:
        self._connection.rollback()
        tables = ["grandchild", "child", self.table, self.archive]
        drop = [f"DROP TABLE IF EXISTS {t}" for t in (*tables, self._named(COMPLETED_BATCHES))]
        # Else SQLite deletes rows one by one, and their order matters.
        free = ["PRAGMA foreign_keys = OFF"] if self.kind == "sqlite" else []
        self._run(*free, *drop)

    def _create(self) -> None:
        world, names = self.world, self.world.names
        keys = ", ".join(map(_quoted, self.keys))
        columns = [
            "tag INT NOT NULL",
            *(f"{_quoted(k)} {type_} NOT NULL" for k, type_ in self._typed(self.keys)),
            f"{_quoted(names.stamp)} {world.stamps.type}",
            f"{_quoted(names.wanted)} INT",
        ]
        if world.own is not None:
            columns += [f"{_quoted(o)} {type_}" for o, type_ in self._typed(self.owns)]
        unique = [f"PRIMARY KEY ({keys})"] if world.primary else [f"UNIQUE ({keys})"]
        foreign = (
            [] if world.own is None else [self._foreign(self.owns, self.table, keys, world.own)]
        )
        self._run(f"CREATE TABLE {self.table} ({', '.join(columns + unique + foreign)})")
        if world.archive:
            self._run(f"CREATE TABLE {self.archive} ({', '.join(columns + unique)})")
        if world.index:
            on = _quoted(names.stamp) + (f", {keys}" if world.index != "stamp" else "")
            self._run(f'CREATE INDEX "by time" ON {self.table} ({on})')
        if world.child is not None:
            of = tuple(f"of {n}" for n in range(len(self.keys)))
            columns = [f"{_quoted(o)} {type_}" for o, type_ in self._typed(of)]
            columns += ["id INT PRIMARY KEY", self._foreign(of, self.table, keys, world.child)]
            self._run(f"CREATE TABLE child ({', '.join(columns)})")
        if world.grandchild is not None:
            foreign = [f"FOREIGN KEY (child) REFERENCES child (id) {world.grandchild}"]
            columns = ["id INT PRIMARY KEY", "child INT", *foreign]
            self._run(f"CREATE TABLE grandchild ({', '.join(columns)})")

    def _typed(self, columns: Sequence[str]) -> Iterator[tuple[str, str]]:
        return zip(columns, self.world.key_types, strict=True)

    def _foreign(self, columns: Sequence[str], table: str, keys: str, how: str) -> str:
        return f"FOREIGN KEY ({', '.join(map(_quoted, columns))}) REFERENCES {table} ({keys}) {how}"

    def _insert(self, rows: Sequence[Row]) -> None:
        names, mine = self.world.names, []
        for row in rows:
            values = [row.tag, *row.key, self._written(row.stamp), row.wanted]
            self._known[row.tag] = row
            self.rows[row.tag] = None
            mine.append(values + (self._key(row.parent) if self.world.own is not None else []))
        columns = ["tag", *self.keys, names.stamp, names.wanted]
        columns += self.owns if self.world.own is not None else []
        listed, marks = (
            ", ".join(map(_quoted, columns)),
            ", ".join([_mark(self.kind)] * len(columns)),
        )
        try:
            self._do(f"INSERT INTO {self.table} ({listed}) VALUES ({marks})", mine)  # noqa: S608
        except Exception as error:
            if type(error).__name__ in _REFUSED:
                hypothesis.reject()  # two keys are one in this collation
            raise

    def _insert_referring(self, name: str, rows: Mapping[int, int]) -> None:
        if rows:
            child = name == "child"
            values = [(*(self._key(of) if child else [of]), id_) for id_, of in rows.items()]
            # The id comes last in the child and first in the grandchild.
            values = values if child else [(id_, of) for of, id_ in values]
            marks = ", ".join([_mark(self.kind)] * len(values[0]))
            self._do(f"INSERT INTO {name} VALUES ({marks})", values)  # noqa: S608

    def _key(self, tag: int | None) -> list[Any]:
        return [None] * len(self.keys) if tag is None else list(self._known[tag].key)

    def _written(self, stamp: Stamp) -> Any:
        """*stamp* as the driver is given it."""
        match stamp:
            case datetime(tzinfo=None):
                return stamp.isoformat(" ")
            case datetime():
                at = stamp.astimezone(UTC)
                # MariaDB reads no offset; sessions of ours are in UTC there.
                return at.isoformat(" ") if self.kind != "mysql" else f"{at:%Y-%m-%d %H:%M:%S.%f}"
            case date():
                return stamp.isoformat()
        return stamp

    # -- asking ------------------------------------------------------------------------------

    def _rows_of(self, table: str) -> str:
        names = self.world.names
        text = "CHAR" if self.kind == "mysql" else "TEXT"
        columns = [*map(_quoted, self.keys), f"CAST({_quoted(names.stamp)} AS {text})"]
        columns.append(_quoted(names.wanted))
        return f"SELECT tag, {', '.join(columns)} FROM {table} ORDER BY tag"  # noqa: S608

    def _referring(self, name: str) -> dict[int, int | None]:
        if (self.world.child if name == "child" else self.world.grandchild) is None:
            return {}
        of = '"of 0"' if name == "child" else "child"
        rows = self._ask(f"SELECT id, {of} IS NULL FROM {name}")  # noqa: S608
        return {id_: None if lost else self._refers[name][id_] for id_, lost in rows}

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        self._connection.rollback()  # to see what is there now
        cursor = self._connection.cursor()
        cursor.execute(query)
        found = [tuple(row) for row in cursor.fetchall()]
        self._connection.rollback()
        return found

    def _run(self, *statements: str) -> None:
        cursor = self._connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        self._connection.commit()

    def _do(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        if self.kind != "sqlite":
            statement = statement.replace("%", "%%").replace(_MARK, "%s")
        self._connection.cursor().executemany(statement, rows)
        self._connection.commit()

    def _named(self, name: str) -> str:
        return (f"{_quoted(self.schema)}." if self.schema else "") + _quoted(name)

    def _mine(self, name: str) -> str:
        """*name* as the database quotes it by itself, for a condition."""
        return f"`{name.replace('`', '``')}`" if self.kind == "mysql" else _quoted(name)


_MARK = "\x00"
"""Stands for a parameter until all else is escaped."""


def _mark(kind: str) -> str:
    return "?" if kind == "sqlite" else _MARK


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
