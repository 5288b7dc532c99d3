"""What is MariaDB's and MySQL's own."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import (
    CONNECT_SECONDS,
    Access,
    Column,
    Condition,
    Expression,
    Family,
    Unusable,
    cast,
    constant,
    explained,
    in_utc,
)
from bestbefore.adapters.rows.iso import DAY, INSTANT
from bestbefore.adapters.rows.mariadb_catalog import INTEGERS, TEXTS, MariadbCatalog

_ANSWER_SECONDS = 15
"""How much longer than the server's own limit we wait for it to say so."""

_BYTES = {"binary", "varbinary"}
_TIMES = {"timestamp", "datetime", "date"}
_KEYABLE = INTEGERS | TEXTS | _BYTES | _TIMES | {"decimal", "uuid"}

_EXACT = "DATETIME(6)"

_LONGEST_KEY = 6_144
"""Characters: an index takes 3,072 bytes. What may be longer, such as LONGTEXT, is not sorted."""

_INTEGER, _DECIMAL = re.compile("-?[0-9]{1,20}"), re.compile(r"-?[0-9]+(\.[0-9]+)?")

_UNWANTED_MODES = {
    # A row that is archived keeps its zero dates.
    "NO_ZERO_DATE", "NO_ZERO_IN_DATE", "TRADITIONAL",
    # Other words mean other things, and texts are not what was stored.
    "EMPTY_STRING_IS_NULL", "ORACLE", "PAD_CHAR_TO_FULL_LENGTH",
}  # fmt: skip
_WANTED_MODES = {
    # A row that is archived keeps its number 0.
    "NO_AUTO_VALUE_ON_ZERO",
    # A value that does not fit is an error. Without these it would be cut, and its row deleted.
    "STRICT_ALL_TABLES", "STRICT_TRANS_TABLES",
}  # fmt: skip
_QUOTING_MODES = {"ANSI_QUOTES", "ANSI", "DB2", "MAXDB", "MSSQL", "POSTGRESQL"}
"""With each of them, what stands in double quotes is a name."""

_AS_IT_COMES = (
    "SET SESSION sql_select_limit = 18446744073709551615, foreign_key_checks = 1,"
    " unique_checks = 1, sql_safe_updates = 0, completion_type = 0"
)
"""Whatever a server sets for all sessions: with fewer rows than there are, batches would be missed,
and without foreign keys rows would lose what they refer to."""


_TRIGGERS = sa.text("""
    SELECT CONCAT(EVENT_OBJECT_SCHEMA, '.', EVENT_OBJECT_TABLE, ': ', TRIGGER_NAME)
    FROM information_schema.TRIGGERS WHERE EVENT_MANIPULATION = :event
        AND EVENT_OBJECT_SCHEMA = :schema AND EVENT_OBJECT_TABLE = :table
    ORDER BY TRIGGER_NAME
""")


class Mariadb(MariadbCatalog):
    """MariaDB 10.6 and newer, MySQL 8 and newer, through PyMySQL."""

    asks_recursively = False
    keeps_itself = True
    locks_entries = True

    def engine(self, url: sa.URL, access: Access) -> sa.Engine:
        seconds = access.statement + _ANSWER_SECONDS
        engine = sa.create_engine(
            url,
            connect_args={
                "charset": "utf8mb4",
                "connect_timeout": CONNECT_SECONDS,
                "read_timeout": seconds,
                "write_timeout": seconds,
            },
        )

        @sa.event.listens_for(engine, "connect")
        def _configure(connection: Any, _record: Any) -> None:
            settings = [
                _AS_IT_COMES,
                "SET time_zone = '+00:00'",
                # Statements that only look see one state of the data, so that what is counted
                # beside a batch belongs to its rows.
                "SET SESSION TRANSACTION ISOLATION LEVEL "
                + ("REPEATABLE READ" if access.read_only else "READ COMMITTED"),
                f"SET SESSION innodb_lock_wait_timeout = {access.lock}",
                f"SET SESSION lock_wait_timeout = {access.lock}",
                f"SET SESSION max_statement_time = {access.statement}"
                if "MariaDB" in connection.get_server_info()
                else f"SET SESSION max_execution_time = {access.statement * 1000}",
            ]
            if access.read_only:
                settings.append("SET SESSION TRANSACTION READ ONLY")
            with connection.cursor() as cursor:
                cursor.execute("SELECT @@sql_mode")
                given = set(cursor.fetchone()[0].split(",")) - {""}
                modes = sorted(given - _UNWANTED_MODES - _QUOTING_MODES | _WANTED_MODES)
                # SQLAlchemy looks once how names are quoted. A name in double quotes would be a
                # text for a connection that is made after the server's mode was changed.
                if engine.dialect.identifier_preparer.initial_quote == '"':
                    modes.append("ANSI_QUOTES")
                for setting in (f"SET SESSION sql_mode = '{','.join(modes)}'", *settings):
                    cursor.execute(setting)

        return engine

    def place(self, connection: sa.Connection) -> str:
        url = connection.engine.url
        name = connection.exec_driver_sql("SELECT database()").scalar_one()
        where = url.query.get("unix_socket") or f"{url.host or 'localhost'}:{url.port or 3306}"
        return f"mysql://{where}/{name or ''}"

    def now(self, connection: sa.Connection) -> datetime:
        return in_utc(connection.exec_driver_sql("SELECT utc_timestamp(6)").scalar_one())

    def triggers(
        self, connection: sa.Connection, schema: str, table: str, event: str
    ) -> Sequence[str]:
        named = {"schema": schema, "table": table, "event": event}
        return connection.execute(_TRIGGERS, named).scalars().all()

    def keyable(self, column: Column) -> None:
        if _base(column) not in _KEYABLE:
            raise Unusable(f"its type {column.type} is not compared as it is written")

    def rendered(self, expression: Expression, column: Column) -> Expression:
        if column.family is Family.TEXT:
            return expression
        if _base(column) in _BYTES:
            return sa.func.hex(expression)
        return cast(expression, "CHAR")

    def native(self, text: str, column: Column) -> str:
        base = _base(column)
        if base in _BYTES:
            bytes.fromhex(text)
        elif base == "decimal" and not _DECIMAL.fullmatch(text):
            raise ValueError(f"{text!r} is no number")
        elif base in INTEGERS:
            # A cast would make the nearest integer of anything.
            low, high = (0, 2**64) if "unsigned" in column.type else (-(2**63), 2**63)
            if not (_INTEGER.fullmatch(text) and low <= int(text) < high):
                raise ValueError(f"{text!r} is no {column.type}")
        return text

    def typed(self, given: Expression, column: Column) -> Expression:
        base = _base(column)
        if base in _BYTES:
            return sa.func.unhex(given)
        if column.family is Family.TEXT:
            same = sa.func.convert(given.op("USING")(sa.literal_column(str(column.charset))))
            return sa.collate(same, str(column.collation))
        if base in INTEGERS:
            return cast(given, "UNSIGNED" if "unsigned" in column.type else "SIGNED")
        # Of a decimal without its "unsigned", which a cast does not take.
        return cast(given, column.type.partition(" ")[0].replace("timestamp", "datetime"))

    def at_least(
        self, columns: Sequence[Expression], values: Sequence[Expression], *, strictly: bool
    ) -> Condition:
        return _beyond(columns, values, strictly, lambda a, b: a >= b, lambda a, b: a > b)

    def at_most(
        self, columns: Sequence[Expression], values: Sequence[Expression], *, strictly: bool
    ) -> Condition:
        return _beyond(columns, values, strictly, lambda a, b: a <= b, lambda a, b: a < b)

    def moment(self, at: datetime, column: Column) -> Expression:
        day = column.family is Family.DAY
        return cast(constant(_said(at)), "DATE" if day else _EXACT)

    def real(self, expression: Expression, column: Column) -> Condition | None:
        # 2026-00-00 has no number, 2026-02-31 that of another day; what a session allows to be
        # written depends on its sql_mode.
        del column
        return sa.func.from_days(sa.func.to_days(expression)) == sa.func.date(expression)

    def read_iso(self, column: Expression, *, local: bool) -> Expression:  # noqa: ARG002
        fn = sa.func
        rest = fn.substr(column, 17)  # seconds, their fraction and the offset
        seconds = sa.case((fn.left(rest, 1) == ":", fn.left(rest, 3)), else_=":00")
        fraction = fn.left(fn.regexp_substr(rest, "[.][0-9]+"), 7)
        wall = fn.concat(fn.left(column, 10), " ", fn.substr(column, 12, 5), seconds, fraction)
        # Zeros behind it, so that what is taken of it are always digits: a warning would be an
        # error in a DELETE.
        offset = fn.concat(fn.replace(fn.regexp_substr(rest, "[+-].*"), ":", ""), "00000")
        minutes = cast(fn.substr(offset, 2, 2), "SIGNED") * 60
        minutes += cast(fn.substr(offset, 4, 2), "SIGNED")
        back = sa.case((fn.left(offset, 1) == "-", minutes), else_=-minutes)
        in_utc = fn.timestampadd(sa.literal_column("MINUTE"), back, cast(wall, _EXACT))
        last = cast(constant("9999-12-31"), _EXACT)
        return sa.case(
            (column.op("REGEXP")(f"^{DAY}$"), cast(fn.concat(column, " 23:59:59.999999"), _EXACT)),
            (~column.op("REGEXP")(f"^{INSTANT}$"), sa.null()),
            (fn.left(column, 4) == "9999", last),  # an offset might lead out of what there is
            else_=in_utc,
        )

    def sorted(
        self,
        connection: sa.Connection,
        columns: Sequence[tuple[sa.Column[Any], Column]],
        ends: Sequence[Sequence[str]],
    ) -> Sequence[int]:
        parts = ", ".join(
            f"v{n} VARCHAR({_LONGEST_KEY}) PATH '$[{n}]'" for n, _ in enumerate(columns)
        )
        table = sa.text(
            f"JSON_TABLE(:ends, '$[*]' COLUMNS (place FOR ORDINALITY, {parts})) AS ends"
        ).bindparams(ends=json.dumps(ends, ensure_ascii=False))
        order = [self.typed(sa.literal_column(f"v{n}"), of) for n, (_, of) in enumerate(columns)]
        places = (
            sa.select(sa.literal_column("place", sa.Integer)).select_from(table).order_by(*order)
        )
        return [place - 1 for place in connection.execute(places).scalars()]

    def full_scan(
        self, connection: sa.Connection, statement: sa.Select[Any], table: sa.Table
    ) -> str | None:
        for row in explained(connection, "EXPLAIN", statement).mappings():
            of_ours = row["table"] == table.name and "SUBQUERY" not in row["select_type"]
            if of_ours and row["type"] in ("ALL", "index"):
                return f"type {row['type']}, {row['Extra']}"
        return None

    def walking(self, select: sa.Select[Any], table: sa.Table, index: str | None) -> sa.Select[Any]:
        if index is None:
            return select
        quoted = "`" + index.replace("`", "``").replace("%", "%%%%") + "`"
        hint = f"FORCE INDEX ({quoted})"
        return select.with_hint(table, hint, "mysql").with_hint(table, hint, "mariadb")


def _said(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat(" ", "microseconds")


def _base(column: Column) -> str:
    """The name of a type without length, precision and the rest."""
    return column.type.partition("(")[0].partition(" ")[0]


def _beyond(
    columns: Sequence[Expression],
    values: Sequence[Expression],
    strictly: bool,
    reaches: Callable[[Expression, Expression], Condition],
    passes: Callable[[Expression, Expression], Condition],
) -> Condition:
    """*columns* beyond *values*, spelt out: rows as a whole are not looked up in an index."""
    column, value = columns[0], values[0]
    if len(columns) == 1:
        return passes(column, value) if strictly else reaches(column, value)
    rest = _beyond(columns[1:], values[1:], strictly, reaches, passes)
    # The first part says nothing new, and is what has the range found.
    return sa.and_(
        reaches(column, value), sa.or_(passes(column, value), sa.and_(column == value, rest))
    )
