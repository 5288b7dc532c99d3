"""What SQLite says about its tables."""

from collections.abc import Sequence

import sqlalchemy as sa

from bestbefore.adapters.rows.catalog.sqlite_keys import foreign_keys
from bestbefore.adapters.rows.dialect import Column, Dialect, Family, ForeignKey, Index, Relation

ROWID = "INTEGER PRIMARY KEY"
"""The type of a column that is the number of its row: never NULL, and never anything else."""

_RELATIONS = sa.text("""
    SELECT 'main', name, CASE WHEN type = 'view' THEN 'a view'
        WHEN sql LIKE 'create virtual table%' THEN 'a virtual table' ELSE '' END
    FROM main.sqlite_master WHERE type IN ('table', 'view') AND name = :name COLLATE NOCASE
""")

# Hidden columns of 2 and 3 are generated ones.
_COLUMNS = sa.text("""
    SELECT c.name, c.type, c."notnull", c.pk, c.hidden IN (2, 3), c.dflt_value IS NOT NULL,
        (SELECT count(*) FROM pragma_table_xinfo(:table) WHERE pk > 0) = 1
        AND NOT EXISTS (SELECT 1 FROM pragma_index_list(:table) WHERE origin = 'pk')
    FROM pragma_table_xinfo(:table) c WHERE c.hidden <> 1 ORDER BY c.cid
""")

_INDEXES = sa.text("""
    SELECT i.name, i."unique", i.origin = 'pk', i.partial, p.name
    FROM pragma_index_list(:table) i JOIN pragma_index_xinfo(i.name) p ON p.key
    ORDER BY i.origin <> 'pk', i.name, p.seqno
""")

_KEY = sa.text("SELECT name FROM pragma_table_xinfo(:table) WHERE pk > 0 ORDER BY pk")


class SqliteCatalog(Dialect):
    """The part of the dialect that reads the catalog."""

    folds = True

    def fold(self, name: str) -> str:
        return name

    def relations(
        self, connection: sa.Connection, schemas: Sequence[str] | None, names: Sequence[str]
    ) -> Sequence[Relation]:
        if schemas is not None and "main" not in schemas:
            return []
        rows = (connection.execute(_RELATIONS, {"name": name}) for name in names)
        return [Relation(*row) for found in rows for row in found]

    def columns(self, connection: sa.Connection, schema: str, table: str) -> Sequence[Column]:  # noqa: ARG002
        rows = connection.execute(_COLUMNS, {"table": table})
        return [
            Column(
                name,
                ROWID if pk and by_rowid else type_,
                _family(type_),
                nullable=not (notnull or pk),  # rows with a NULL there are not walked to
                generated=bool(generated),
                filled=bool(default or (pk and by_rowid)),
            )
            for name, type_, notnull, pk, generated, default, by_rowid in rows
        ]

    def indexes(self, connection: sa.Connection, schema: str, table: str) -> Sequence[Index]:  # noqa: ARG002
        found: dict[str, Index] = {}
        for name, unique, primary, partial, column in connection.execute(
            _INDEXES, {"table": table}
        ):
            before = found[name].columns if name in found else ()
            found[name] = Index(
                name, (*before, column), bool(unique), bool(primary), whole=not partial
            )
        if not any(index.primary for index in found.values()):
            (rowid,) = connection.execute(_KEY, {"table": table}).scalars().all() or (None,)
            if rowid is not None:
                found[""] = Index("", (rowid,), unique=True, primary=True, whole=True)
        return list(found.values())

    def foreign_keys(
        self,
        connection: sa.Connection,
        schema: str,  # noqa: ARG002
        table: str,
    ) -> Sequence[ForeignKey]:
        return foreign_keys(connection, table)


def _family(type_: str) -> Family:
    """What SQLite makes of a declared type (its "affinity")."""
    said = type_.upper()
    if "INT" in said:
        return Family.INTEGER
    if any(word in said for word in ("CHAR", "CLOB", "TEXT")):
        return Family.TEXT
    if not said or any(word in said for word in ("BLOB", "REAL", "FLOA", "DOUB")):
        return Family.OTHER
    return Family.ANY
