"""What is SQLite's own: a file, values of any type in any column, and instants as text."""

import json
import re
import sqlite3
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import (
    Access,
    Column,
    Condition,
    Expression,
    Family,
    Unusable,
    explained,
    in_utc,
)
from bestbefore.adapters.rows.sqlite_catalog import ROWID, SqliteCatalog
from bestbefore.domain.finding import Finding, Level

_BUSY_SECONDS = 10.0
"""For the file's one write lock. Who waits for it keeps nobody else waiting, unlike elsewhere."""

_STEPS = 100_000
"""Of SQLite's virtual machine, some milliseconds, between two looks at the time."""

_NUMBER = re.compile(r"-?[0-9]{1,19}")


_TRIGGERS = sa.text("""
    SELECT 'main.' || tbl_name || ': ' || name FROM main.sqlite_master
    WHERE type = 'trigger' AND tbl_name = :table COLLATE NOCASE AND 'main' = :schema
        AND lower(replace(replace(sql, char(10), ' '), char(9), ' ')) LIKE :on
    ORDER BY name
""")


class Sqlite(SqliteCatalog):
    """SQLite 3.35 and newer."""

    times_are_text = True

    # One at a time writes to the file, and who waits looks again ever more rarely: without a rest
    # an application's insert beside a cleanup waited for 0.7 to 2.1 s (p99), with it for 70 ms.
    rest = 0.005

    def engine(self, url: sa.URL, access: Access) -> sa.Engine:
        # A file that is not there has to be an error, and not the beginning of another one.
        mode = "ro" if access.read_only else "rw"
        # With slashes for no host, as a path may begin with two.
        name = f"file://{quote(str(Path(url.database or '').absolute()))}?mode={mode}"

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(
                name, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )

        engine = sa.create_engine(url, creator=connect, poolclass=sa.QueuePool)
        begin = "BEGIN" if access.read_only else "BEGIN IMMEDIATE"

        @sa.event.listens_for(engine, "connect")
        def _configure(connection: sqlite3.Connection, record: Any) -> None:
            connection.execute("PRAGMA foreign_keys = ON")
            limit = record.info["limit"] = _Limit(access.statement)
            connection.set_progress_handler(limit.is_over, _STEPS)

        @sa.event.listens_for(engine, "begin")
        def _begin(connection: sa.Connection) -> None:
            connection.exec_driver_sql(begin)

        @sa.event.listens_for(engine, "before_cursor_execute")
        def _start(connection: sa.Connection, *_: Any) -> None:
            connection.info["limit"].start()

        return engine

    def place(self, connection: sa.Connection) -> str:
        file = "SELECT file FROM pragma_database_list WHERE name = 'main'"
        return f"sqlite://{connection.exec_driver_sql(file).scalar_one()}"

    def notes(self, connection: sa.Connection) -> Sequence[Finding]:
        mode = connection.exec_driver_sql("SELECT * FROM pragma_journal_mode").scalar_one()
        if mode == "wal":
            return ()
        return [
            Finding(
                "readers-block-writers",
                Level.WARNING,
                f"journal_mode is {mode}: while a plan looks for rows or counts them, nobody else "
                "can write to this file",
                "PRAGMA journal_mode = WAL, once, by whoever owns the file",
            )
        ]

    def now(self, connection: sa.Connection) -> datetime:
        said = connection.exec_driver_sql("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")
        return in_utc(datetime.fromisoformat(said.scalar_one()))

    def triggers(
        self, connection: sa.Connection, schema: str, table: str, event: str
    ) -> Sequence[str]:
        named = {"schema": schema, "table": table, "on": f"% {event.lower()} %on %"}
        return connection.execute(_TRIGGERS, named).scalars().all()

    def keyable(self, column: Column) -> None:
        if column.family is Family.OTHER and "BLOB" not in column.type.upper():
            raise Unusable(
                f"its type {column.type or '(none)'} may hold numbers that are not what is written"
            )

    def rendered(self, expression: Expression, column: Column) -> Expression:  # noqa: ARG002
        return expression

    def text(self, value: Any) -> str:
        return value.hex().upper() if isinstance(value, bytes) else str(value)

    def native(self, text: str, column: Column) -> int | str | bytes:
        if column.family is Family.OTHER:
            return bytes.fromhex(text)
        if column.family is Family.TEXT:
            return text
        if not _NUMBER.fullmatch(text):
            if column.family is Family.INTEGER:
                raise ValueError(f"{text!r} is no integer")
            return text  # which never looks like a number in a column that may hold some
        number = int(text)
        if not -(2**63) <= number < 2**63:
            raise ValueError(f"{text} is out of range")
        return number

    def sound(self, expression: Expression, column: Column) -> Condition | None:
        if column.type == ROWID:
            return None
        return sa.or_(*(sa.func.typeof(expression) == kind for kind in _CLASSES[column.family]))

    def moment(self, at: datetime, column: Column) -> Expression:  # noqa: ARG002
        # Whole seconds: fractions of texts are read to the millisecond, cut or rounded.
        return sa.literal(f"{at:%Y-%m-%d %H:%M:%S}.000", sa.Text)

    def read_iso(self, column: Expression, *, local: bool) -> Expression:
        fn = sa.func
        day, time_ = fn.substr(column, 1, 10), fn.substr(column, 11)
        # Only what it calculates with does SQLite bring in order: of 30 February it makes 2 March.
        there_is = (fn.typeof(column) == "text") & (fn.date(day, "+0 days") == day)
        if local:
            there_is &= ~_like(time_, "*[Zz+-]*")
        # It reads offsets only with both hours and minutes, and a colon.
        shorter = fn.substr(column, 1, fn.length(column) - 2)
        full = sa.case(
            (
                _like(column, "*[+-][0-1][0-9][0-5][0-9]"),
                shorter.concat(":").concat(fn.substr(column, -2)),
            ),
            (_like(time_, "*[+-][0-1][0-9]"), column.concat(":00")),
            else_=column,
        )
        is_time = _like(time_, "[T ][0-2][0-9]:[0-5][0-9]*") & (fn.substr(time_, 2, 2) < "24")
        read = sa.case(
            (time_ == "", column.concat(" 23:59:59.999")),
            (is_time, fn.strftime("%Y-%m-%d %H:%M:%f", full, "+0 days")),
        )
        return sa.case((there_is & (column >= "1000"), read))

    def sorted(
        self,
        connection: sa.Connection,
        columns: Sequence[tuple[sa.Column[Any], Column]],
        ends: Sequence[Sequence[str]],
    ) -> Sequence[int]:
        natives = [
            # Bytes are in the order of their hex digits, which JSON can hold.
            [
                text if of.family is Family.OTHER else self.native(text, of)
                for text, (_, of) in zip(end, columns, strict=True)
            ]
            for end in ends
        ]
        table = sa.func.json_each(json.dumps(natives)).table_valued("key", "value", name="ends")
        values = [sa.func.json_extract(table.c.value, f"$[{n}]") for n, _ in enumerate(columns)]
        # No pragma tells how a column is collated. A union is collated as its first part is.
        none: Any = sa.select(*(column for column, _ in columns), sa.literal(0)).where(sa.false())
        order = ", ".join(str(n + 1) for n, _ in enumerate([*columns, "place"]))
        places: Any = sa.union_all(none, sa.select(*values, table.c.key)).order_by(sa.text(order))
        rows: Any = connection.execute(places)
        return [row[-1] for row in rows]

    def full_scan(
        self, connection: sa.Connection, statement: sa.Select[Any], table: sa.Table
    ) -> str | None:
        plan = explained(connection, "EXPLAIN QUERY PLAN", statement).mappings()
        scan = f"SCAN {table.name}"
        steps = (str(row["detail"]) for row in plan)
        return next((step for step in steps if f"{step} ".startswith(f"{scan} ")), None)


class _Limit:
    """For how long a statement may run, as SQLite has no limit of its own."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._until = float("inf")

    def start(self) -> None:
        self._until = time.monotonic() + self._seconds

    def is_over(self) -> bool:
        return time.monotonic() > self._until


_CLASSES: Mapping[Family, Sequence[str]] = {
    Family.INTEGER: ("integer",),
    Family.TEXT: ("text",),
    Family.ANY: ("integer", "text"),
    Family.OTHER: ("blob",),
}
"""What a key column of each family holds, as far as it is gone through: the rest stays."""


def _like(expression: Expression, pattern: str) -> Condition:
    return expression.op("GLOB", is_comparison=True)(pattern)
