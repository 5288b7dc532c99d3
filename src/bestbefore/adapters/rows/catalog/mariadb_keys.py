"""Foreign keys to a table of MariaDB or MySQL, as far as its user may see them."""

import re
from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa

from bestbefore.adapters.rows.catalog.mariadb_names import NAME, quoted, unquoted
from bestbefore.adapters.rows.dialect import ForeignKey, Index
from bestbefore.ports.rows import TableRefused

# Names are compared here as if their case meant nothing, also where it tells tables apart.
_FOREIGN_KEYS = sa.text("""
    SELECT CONSTRAINT_NAME, TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, REFERENCED_COLUMN_NAME
    FROM information_schema.KEY_COLUMN_USAGE
    WHERE REFERENCED_TABLE_SCHEMA = :schema AND REFERENCED_TABLE_NAME = :table
        AND (@@lower_case_table_names <> 0 OR (BINARY REFERENCED_TABLE_SCHEMA = :schema
            AND BINARY REFERENCED_TABLE_NAME = :table))
    ORDER BY TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION
""")

_RULES = sa.text("""
    SELECT CONSTRAINT_NAME, DELETE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS
    WHERE CONSTRAINT_SCHEMA = :schema AND TABLE_NAME = :table
""")

_WRITTEN = re.compile(
    rf"^ *CONSTRAINT ({NAME}) FOREIGN KEY \(.*\) REFERENCES .*\)"
    r"(?: ON DELETE (CASCADE|SET NULL|SET DEFAULT|NO ACTION|RESTRICT))?(?: ON UPDATE [A-Z ]+)?,?$",
    re.MULTILINE,
)


def foreign_keys(
    connection: sa.Connection, schema: str, table: str, indexes: Sequence[Index]
) -> Sequence[ForeignKey]:
    """Foreign keys that refer to a table with *indexes*.

    Raises TableRefused where one does not say what a DELETE does to it.
    """
    found: dict[tuple[str, str, str], ForeignKey] = {}
    for name, in_schema, child, column, referred in connection.execute(
        _FOREIGN_KEYS, {"schema": schema, "table": table}
    ):
        id_ = (in_schema, child, name)
        before = found.get(id_) or ForeignKey(name, in_schema, child, (), (), "", indexed=True)
        found[id_] = before._replace(
            columns=(*before.columns, column), referred=(*before.referred, referred)
        )
    children = {(key.schema, key.table) for key in found.values()}
    rules = {child: _delete_rules(connection, *child) for child in children}
    unique = [_folded(i.columns) for i in indexes if i.unique and None not in i.columns]
    return [
        key._replace(
            on_delete=_rule(key, rules[key.schema, key.table]),
            unique=any(columns <= _folded(key.referred) for columns in unique),
        )
        for key in found.values()
    ]


def _delete_rules(connection: sa.Connection, schema: str, table: str) -> Mapping[str, str]:
    """What each foreign key of a table has ON DELETE, by its name."""
    named = {"schema": schema, "table": table}
    found = {row.CONSTRAINT_NAME: row.DELETE_RULE for row in connection.execute(_RULES, named)}
    if found:
        return found
    # MariaDB shows no rules to a user with SELECT only, and the statement with all of them.
    shown = connection.execute(sa.text(f"SHOW CREATE TABLE {_escaped(schema)}.{_escaped(table)}"))
    written = _WRITTEN.findall(shown.one()[1])
    return {unquoted(name): rule or "RESTRICT" for name, rule in written}


def _rule(key: ForeignKey, rules: Mapping[str, str]) -> str:
    if key.name not in rules:
        raise TableRefused(
            f"{key.schema}.{key.table}: SHOW CREATE TABLE does not say what its foreign key "
            f"{key.name} has ON DELETE; define it anew"
        )
    return rules[key.name]


def _folded(columns: Iterable[str | None]) -> set[str]:
    return {column.lower() for column in columns if column is not None}


def _escaped(name: str) -> str:
    return quoted(name).replace(":", "\\:")
