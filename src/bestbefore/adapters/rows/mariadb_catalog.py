"""What MariaDB and MySQL say about their tables."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from bestbefore.adapters.rows.catalog import mariadb_keys, mariadb_rights
from bestbefore.adapters.rows.dialect import Column, Dialect, Family, ForeignKey, Index, Relation

INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})

_FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(INTEGERS, Family.INTEGER),
    **dict.fromkeys(TEXTS, Family.TEXT),
    "timestamp": Family.INSTANT,
    "datetime": Family.WALL,
    "date": Family.DAY,
}


_RELATIONS = sa.text("""
    SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.TABLE_TYPE, t.ENGINE, e.TRANSACTIONS = 'YES',
        @@lower_case_table_names
    FROM information_schema.TABLES t LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
    WHERE TABLE_SCHEMA = coalesce(:schema, database()) AND TABLE_NAME = :name
""")

_COLUMNS = sa.text("""
    SELECT COLUMN_NAME, COLUMN_TYPE, DATA_TYPE, IS_NULLABLE = 'YES',
        EXTRA LIKE '%VIRTUAL%' OR EXTRA LIKE '%STORED%' OR EXTRA LIKE '%PERSISTENT%',
        COLLATION_NAME, CHARACTER_SET_NAME,
        COLUMN_DEFAULT IS NOT NULL OR EXTRA LIKE '%auto_increment%'
    FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = :schema AND TABLE_NAME = :table
    ORDER BY ORDINAL_POSITION
""")

_INDEXES = sa.text("""
    SELECT INDEX_NAME, CASE WHEN SUB_PART IS NULL THEN COLUMN_NAME END,
        NON_UNIQUE = 0, INDEX_NAME = 'PRIMARY', INDEX_TYPE = 'BTREE'
    FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = :schema AND TABLE_NAME = :table
    ORDER BY INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX
""")


class MariadbCatalog(Dialect):
    """The part of the dialect that reads the catalog."""

    folds = True

    def fold(self, name: str) -> str:
        return name

    def relations(
        self, connection: sa.Connection, schemas: Sequence[str] | None, names: Sequence[str]
    ) -> Sequence[Relation]:
        found = []
        for schema in schemas or (None,):
            for name in names:
                rows = connection.execute(_RELATIONS, {"schema": schema, "name": name})
                found += [
                    Relation(in_schema, called, _what(type_, engine, bool(transactions)))
                    for in_schema, called, type_, engine, transactions, lower_case in rows
                    if lower_case or (called == name and schema in (None, in_schema))
                ]
        return found

    def columns(self, connection: sa.Connection, schema: str, table: str) -> Sequence[Column]:
        rows = connection.execute(_COLUMNS, {"schema": schema, "table": table})
        return [
            Column(
                name, full, _FAMILIES.get(base, Family.OTHER), bool(nullable), bool(generated),
                collation, charset, bool(filled),
            )
            for name, full, base, nullable, generated, collation, charset, filled in rows
        ]  # fmt: skip

    def indexes(self, connection: sa.Connection, schema: str, table: str) -> Sequence[Index]:
        found: dict[str, Index] = {}
        for name, column, unique, primary, whole in connection.execute(
            _INDEXES, {"schema": schema, "table": table}
        ):
            before = found[name].columns if name in found else ()
            found[name] = Index(name, (*before, column), bool(unique), bool(primary), bool(whole))
        return list(found.values())

    def foreign_keys(
        self, connection: sa.Connection, schema: str, table: str
    ) -> Sequence[ForeignKey]:
        indexes = self.indexes(connection, schema, table)
        return mariadb_keys.foreign_keys(connection, schema, table, indexes)

    def hidden_foreign_keys(self, connection: sa.Connection, schema: str, table: str) -> str | None:
        seen = self.foreign_keys(connection, schema, table)
        return mariadb_rights.hidden_foreign_keys(connection, schema, table, seen)

    def hidden_triggers(self, connection: sa.Connection, schema: str, table: str) -> str | None:
        return mariadb_rights.hidden_triggers(connection, schema, table)


def _what(type_: str, engine: str | None, transactions: bool) -> str:
    if type_ not in ("BASE TABLE", "SYSTEM VERSIONED"):
        return f"a {type_.lower()}"
    if transactions:
        return ""
    return f"one of the engine {engine}, which cannot take a batch back; use InnoDB"
