"""What is PostgreSQL's own.

Nothing outlives its transaction, so that a pooler that hands out another session for each of them
(PgBouncer) changes nothing.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from typing import cast as cast_to

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import (
    CONNECT_SECONDS,
    Access,
    Below,
    Column,
    Dialect,
    Expression,
    Family,
    ForeignKey,
    Index,
    Relation,
    cast,
    constant,
    explained,
)
from bestbefore.adapters.rows.iso import DAY, INSTANT

if TYPE_CHECKING:
    import psycopg

_IDLE_SECONDS = 60
_CONNECTION: Mapping[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "bestbefore",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}

_TEXTS = sa.ARRAY(sa.Text)

_BY_INDEX = {"Index Scan", "Index Only Scan", "Bitmap Index Scan"}

_FAMILIES = {
    "int2": Family.INTEGER,
    "int4": Family.INTEGER,
    "int8": Family.INTEGER,
    "text": Family.TEXT,
    "varchar": Family.TEXT,
    "bpchar": Family.TEXT,
    "citext": Family.TEXT,
    "timestamptz": Family.INSTANT,
    "timestamp": Family.WALL,
    "date": Family.DAY,
}

_RELATIONS = sa.text("""
    SELECT n.nspname, c.relname, CASE c.relkind WHEN 'v' THEN 'a view'
        WHEN 'm' THEN 'a materialized view' WHEN 'f' THEN 'a foreign table' ELSE '' END
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname = ANY(:names)
        AND CASE WHEN CAST(:schemas AS text[]) IS NULL
            THEN pg_catalog.pg_table_is_visible(c.oid) ELSE n.nspname = ANY(:schemas) END
""")

_OF_TABLE = """
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        AND n.nspname = :schema AND c.relname = :table AND c.relkind IN ('r', 'p')
"""

_COLUMNS = sa.text(f"""
    SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
        coalesce(base.typname, t.typname), NOT (a.attnotnull OR t.typnotnull),
        a.attgenerated <> '', quote_ident(cn.nspname) || '.' || quote_ident(co.collname),
        a.atthasdef OR a.attidentity <> ''
    {_OF_TABLE}
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_catalog.pg_type base ON base.oid = t.typbasetype AND t.typtype = 'd'
    LEFT JOIN pg_catalog.pg_collation co
        ON co.oid = a.attcollation AND a.attcollation <> t.typcollation
    LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace
    ORDER BY a.attnum
""")

_INDEXES = sa.text(f"""
    SELECT ic.relname, ARRAY(SELECT a.attname::text
            FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS part (attnum, at)
            LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = part.attnum
            WHERE part.at <= i.indnkeyatts ORDER BY part.at
        ),
        i.indisunique AND i.indimmediate, i.indisprimary,
        i.indisvalid AND i.indpred IS NULL AND am.amname = 'btree'
    {_OF_TABLE}
    JOIN pg_catalog.pg_index i ON i.indrelid = c.oid
    JOIN pg_catalog.pg_class ic ON ic.oid = i.indexrelid
    JOIN pg_catalog.pg_am am ON am.oid = ic.relam
    ORDER BY i.indisprimary DESC, ic.relname
""")  # noqa: S608  (as above)

# The table, and everything whose rows are rows of it too.
_TREE = f"""
    WITH RECURSIVE tree (oid) AS (
        SELECT c.oid {_OF_TABLE}
        UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree ON i.inhparent = tree.oid
    )
"""  # noqa: S608  (as above)

_BELOW = sa.text(f"""
    {_TREE} SELECT c.oid, n.nspname, c.relname, c.relispartition
    FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE (n.nspname, c.relname) <> (:schema, :table) ORDER BY c.oid
""")  # noqa: S608  (as above)

# A foreign key of, or to, a partitioned table is in the catalog once more for each partition. One
# that refers to a partition only is not: its rows are those of that partition and of its own ones.
# One that refers to the table that ours is a partition of refers to our rows.
_FOREIGN_KEYS = sa.text(f"""
    {_TREE}, above (oid) AS (
        SELECT c.oid {_OF_TABLE}
        UNION SELECT i.inhparent FROM above JOIN pg_catalog.pg_class c ON c.oid = above.oid
            JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid WHERE c.relispartition
    )
    SELECT f.conname, kn.nspname, k.relname,
        ARRAY(SELECT a.attname::text FROM unnest(f.conkey) WITH ORDINALITY AS part (attnum, at)
            JOIN pg_catalog.pg_attribute a ON a.attrelid = k.oid AND a.attnum = part.attnum
            ORDER BY part.at),
        ARRAY(SELECT a.attname::text FROM unnest(f.confkey) WITH ORDINALITY AS part (attnum, at)
            JOIN pg_catalog.pg_attribute a
                ON a.attrelid = f.confrelid AND a.attnum = part.attnum
            ORDER BY part.at),
        CASE f.confdeltype WHEN 'r' THEN 'RESTRICT' WHEN 'c' THEN 'CASCADE'
            WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' ELSE 'NO ACTION' END,
        EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = k.oid AND i.indisvalid
            AND i.indpred IS NULL
            AND (i.indkey::int2[])[0:array_length(f.conkey, 1) - 1] @> f.conkey),
        CASE WHEN f.confrelid NOT IN (SELECT oid FROM above) THEN ARRAY(
            WITH RECURSIVE part (oid) AS (
                SELECT f.confrelid
                UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN part
                    ON i.inhparent = part.oid)
            SELECT oid::int8 FROM part) ELSE '{{}}' END,
        has_schema_privilege(kn.oid, 'USAGE') AND has_any_column_privilege(k.oid, 'SELECT'),
        row_security_active(k.oid),
        quote_ident(kn.nspname), quote_ident(k.relname), quote_ident(current_user)
    FROM (SELECT oid FROM tree UNION SELECT oid FROM above) AS related
    JOIN pg_catalog.pg_constraint f ON f.confrelid = related.oid AND f.contype = 'f'
    JOIN pg_catalog.pg_class k ON k.oid = f.conrelid
    JOIN pg_catalog.pg_namespace kn ON kn.oid = k.relnamespace
    WHERE f.conparentid = 0
    ORDER BY kn.nspname, k.relname, f.conname
""")  # noqa: S608  (as above)

_TRIGGERS = sa.text(f"""
    {_TREE}, named (oid, said) AS (
        SELECT c.oid, quote_ident(n.nspname) || '.' || quote_ident(c.relname) || ': '
        FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    )
    SELECT named.said || t.tgname
    FROM named JOIN pg_catalog.pg_trigger t ON t.tgrelid = named.oid
    WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & :bit <> 0
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger above
            JOIN tree ON tree.oid = above.tgrelid
            WHERE above.oid::text = to_jsonb(t) ->> 'tgparentid')
    UNION ALL
    SELECT named.said || r.rulename || ' (rule)' FROM named
    JOIN pg_catalog.pg_rewrite r ON r.ev_class = named.oid
    WHERE r.ev_type = :type AND r.ev_enabled <> 'D' AND r.rulename <> '_RETURN'
    ORDER BY 1
""")  # noqa: S608  (as above)
_EVENTS = {"DELETE": {"bit": 8, "type": "4"}, "UPDATE": {"bit": 16, "type": "2"}}
_ROW_SECURITY = sa.text(f"SELECT row_security_active(c.oid) {_OF_TABLE}")


class Postgresql(Dialect):
    """PostgreSQL 12 and newer, through psycopg."""

    folds = False
    joins_ranges = True

    def engine(self, url: sa.URL, access: Access) -> sa.Engine:
        given = {name: value for name, value in _CONNECTION.items() if name not in url.query}
        engine = sa.create_engine(
            url,
            use_native_hstore=False,
            # A statement prepared in one transaction is unknown in the session of the next.
            connect_args=given | {"client_encoding": "utf8", "prepare_threshold": None},
            # Part of BEGIN itself, whatever the role's defaults are. But who makes a role or a
            # database read-only means us, too. Statements that only look see one state of the
            # data, so that what is counted beside a batch belongs to its rows.
            execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            if access.read_only
            else {"isolation_level": "READ COMMITTED"},
        )
        settings = _set(_settings(access)) + _WITH_FOREIGN_KEYS

        @sa.event.listens_for(engine, "begin")
        def _enter(connection: sa.Connection) -> None:
            connection.exec_driver_sql(settings)

        return engine

    def walks(self, connection: sa.Connection) -> None:
        # Half of a table is cheaper to sort than to walk, once; not for every slice of it.
        # Nor may what is looked at of it once go to a disk.
        connection.exec_driver_sql(_set({"enable_seqscan": "off", "work_mem": "32MB"}))

    def joins(self, connection: sa.Connection) -> None:
        # To hash all of a table is cheaper than to walk its index, once; not for every slice.
        connection.exec_driver_sql(_set({"enable_hashjoin": "off"}))

    def place(self, connection: sa.Connection) -> str:
        url, driver = connection.engine.url, connection.connection.dbapi_connection
        there = cast_to("psycopg.Connection", driver).info
        said = os.environ.get
        # Several hosts, or the folder of a socket, stand in the query: all of them are the place,
        # whichever answers. What is not in the URL may come from the environment or from a service
        # file, and be another place tomorrow.
        host = url.host or url.query.get("host") or said("PGHOST") or there.host
        host = url.query.get("hostaddr") or said("PGHOSTADDR") or host
        name = connection.exec_driver_sql("SELECT current_database()").scalar_one()
        port = url.port or url.query.get("port") or said("PGPORT") or there.port
        return f"postgresql://{_listed(host)}:{_listed(port)}/{name}"

    def now(self, connection: sa.Connection) -> datetime:
        at: datetime = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        return at

    def fold(self, name: str) -> str:
        return name.lower()

    def relations(
        self, connection: sa.Connection, schemas: Sequence[str] | None, names: Sequence[str]
    ) -> Sequence[Relation]:
        there = {"names": list(names), "schemas": None if schemas is None else list(schemas)}
        return [Relation(*row) for row in connection.execute(_RELATIONS, there)]

    def columns(self, connection: sa.Connection, schema: str, table: str) -> Sequence[Column]:
        rows = connection.execute(_COLUMNS, {"schema": schema, "table": table})
        return [
            Column(
                name, full, _FAMILIES.get(base, Family.OTHER), nullable, generated, collation,
                filled=filled,
            )
            for name, full, base, nullable, generated, collation, filled in rows
        ]  # fmt: skip

    def indexes(self, connection: sa.Connection, schema: str, table: str) -> Sequence[Index]:
        rows = connection.execute(_INDEXES, {"schema": schema, "table": table})
        return [Index(name, tuple(columns), *rest) for name, columns, *rest in rows]

    def foreign_keys(
        self, connection: sa.Connection, schema: str, table: str
    ) -> Sequence[ForeignKey]:
        found = connection.execute(_FOREIGN_KEYS, {"schema": schema, "table": table})
        return [
            ForeignKey(
                name, in_schema, child, columns, referred, on_delete, indexed,
                relations=tuple(relations), unseen=_unseen(*seen),
            )
            for name, in_schema, child, columns, referred, on_delete, indexed, relations, *seen
            in found
        ]  # fmt: skip

    def below(self, connection: sa.Connection, schema: str, table: str) -> Sequence[Below]:
        rows = connection.execute(_BELOW, {"schema": schema, "table": table})
        return [Below(*row) for row in rows]

    def row_security(self, connection: sa.Connection, schema: str, table: str) -> bool:
        named = {"schema": schema, "table": table}
        return bool(connection.execute(_ROW_SECURITY, named).scalar_one())

    def triggers(
        self, connection: sa.Connection, schema: str, table: str, event: str
    ) -> Sequence[str]:
        named = {"schema": schema, "table": table}
        return connection.execute(_TRIGGERS, named | _EVENTS[event]).scalars().all()

    def keyable(self, column: Column) -> None:
        """Every type goes through text and back, as what the settings of a transaction render."""

    def rendered(self, expression: Expression, column: Column) -> Expression:  # noqa: ARG002
        return cast(expression, "text")

    def typed(self, given: Expression, column: Column) -> Expression:
        return cast(given, column.type)

    def moment(self, at: datetime, column: Column) -> Expression:
        type_ = _TIMES.get(column.family, "timestamptz")
        return cast(constant(at.isoformat()), type_)

    def read_iso(self, column: Expression, *, local: bool) -> Expression:  # noqa: ARG002
        text = cast(column, "text")
        # An error in one value would fail the statement: nothing is cast that does not match.
        return sa.case(
            (text.op("~")(sa.literal_column(f"'^{INSTANT}$'")), cast(text, "timestamptz")),
            (
                text.op("~")(sa.literal_column(f"'^{DAY}$'")),
                cast(text.op("||")(sa.literal_column("'T23:59:59.999999'")), "timestamptz"),
            ),
        )

    def sorted(
        self,
        connection: sa.Connection,
        columns: Sequence[tuple[sa.Column[Any], Column]],
        ends: Sequence[Sequence[str]],
    ) -> Sequence[int]:
        names = [f"v{n}" for n, _ in enumerate(columns)]
        arrays = [sa.literal([end[n] for end in ends], _TEXTS) for n, _ in enumerate(columns)]
        table = (
            sa.func.unnest(*arrays)
            .table_valued(*names, with_ordinality="place", name="ends")
            .render_derived()
        )
        order = []
        for name, (_, column) in zip(names, columns, strict=True):
            value = self.typed(table.c[name], column)
            like = column.collation
            order.append(value.op("COLLATE")(sa.literal_column(like)) if like else value)
        places = sa.select(table.c.place).order_by(*order)
        return [place - 1 for place in connection.execute(places).scalars()]

    def full_scan(
        self,
        connection: sa.Connection,
        statement: sa.Select[Any],
        table: sa.Table,  # noqa: ARG002
    ) -> str | None:
        (plan,) = explained(connection, "EXPLAIN (FORMAT JSON)", statement).scalar_one()
        return next(_scans(plan["Plan"]), None)


_TIMES = {Family.WALL: "timestamp", Family.DAY: "date"}

# In a session like a replica's no foreign key holds, and no trigger runs. Fails with "permission
# denied" where the role may not change it.
_WITH_FOREIGN_KEYS = (
    "; SELECT set_config('session_replication_role', 'origin', true)"
    " WHERE current_setting('session_replication_role') = 'replica'"
)


def _settings(access: Access) -> dict[str, str]:
    # What is between two ends is a small part of a table, and taken for a large one.
    walking = {} if access.read_only else {"enable_seqscan": "off"}
    return walking | {
        "TimeZone": "UTC",
        "DateStyle": "ISO, YMD",
        "IntervalStyle": "postgres",
        "bytea_output": "hex",
        "extra_float_digits": "1",
        # How a policy's `where` is read before it is sent.
        "standard_conforming_strings": "on",
        "lock_timeout": f"{access.lock}s",
        "statement_timeout": f"{access.statement}s",
        "idle_in_transaction_session_timeout": f"{_IDLE_SECONDS}s",
        # Compiling what runs for milliseconds takes longer than running it.
        "jit": "off",
    }


def _set(settings: Mapping[str, str]) -> str:
    """What sets them for a transaction, in one round trip and without a result to be read."""
    return "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in settings.items())


def _scans(node: Mapping[str, Any]) -> Iterator[str]:
    """Scans below *node* that no condition narrows down. What is asked once per row, about other
    tables, is not among them."""
    if node.get("Parent Relationship") in ("SubPlan", "InitPlan"):
        return
    kind = node["Node Type"]
    if kind == "Seq Scan" or (kind in _BY_INDEX and "Index Cond" not in node):
        yield f"{kind} on {node.get('Relation Name') or node.get('Index Name')}"
    for child in node.get("Plans", ()):
        yield from _scans(child)


def _unseen(
    readable: bool, secured: bool, schema: str, name: str, role: str
) -> str | None:  # fmt: skip
    """Why rows of the table *name* may not be visible to *role*; None where all of them are."""
    if not readable:
        return (
            f"this role may not read it: GRANT USAGE ON SCHEMA {schema} TO {role}; "
            f"GRANT SELECT ON {schema}.{name} TO {role}"
        )
    if secured:
        return (
            "row security may hide rows of it from this role, and foreign keys reach hidden rows "
            f"as well: give {role} a policy for all rows, or BYPASSRLS"
        )
    return None


def _listed(values: object) -> str:
    return ",".join(map(str, values)) if isinstance(values, tuple) else str(values)
