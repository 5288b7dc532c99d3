"""What MariaDB and MySQL hide from a user: foreign keys and triggers.

`information_schema` shows the foreign keys of a table only to users with some right on that table.
InnoDB's own lists hide none, and need the PROCESS right; other engines have no foreign keys.
Triggers need the TRIGGER right; some versions of MariaDB show them to users with less.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from bestbefore.adapters.rows.catalog.mariadb_names import NAME, quoted, unquoted
from bestbefore.adapters.rows.dialect import ForeignKey

_UNREADABLE = {1227, 1109}
"""Error numbers: the PROCESS right is missing; the list is switched off."""

_TRIGGERS = sa.text("""
    SELECT count(*) FROM information_schema.TRIGGERS
    WHERE EVENT_OBJECT_SCHEMA = :schema AND EVENT_OBJECT_TABLE = :table
""")

_FOLDED = "IF(@@lower_case_table_names = 0, {name}, LOWER({name}))"

# MariaDB lists tables as it names their files (`@0023` for a `#`), and cuts that off. MySQL does
# neither.
_LONGEST = 193
_ENCODED = "CONVERT(CONVERT(CONVERT({name} USING filename) USING binary) USING utf8mb4)"
_DECODED = "CONVERT(CONVERT(CONVERT({name} USING binary) USING filename) USING utf8mb4)"
_MARIADB_FOREIGN_KEYS = sa.text("""
    SELECT FOR_NAME FROM information_schema.INNODB_SYS_FOREIGN WHERE BINARY REF_NAME = :parent
""")
_MYSQL_FOREIGN_KEYS = sa.text("""
    SELECT IF(@@lower_case_table_names = 0, FOR_NAME, LOWER(FOR_NAME))
    FROM information_schema.INNODB_FOREIGN
    WHERE BINARY IF(@@lower_case_table_names = 0, REF_NAME, LOWER(REF_NAME)) = :parent
""")

_GRANT = re.compile(rf"GRANT (.+?) ON ({NAME})\.({NAME}) TO ")


class _Grant(NamedTuple):
    """``schema`` and ``table`` are ``*`` for all of them."""

    rights: frozenset[str]
    schema: str
    table: str


def hidden_foreign_keys(
    connection: sa.Connection, schema: str, table: str, seen: Sequence[ForeignKey]
) -> str | None:
    """See `Dialect.hidden_foreign_keys`. *seen* are the foreign keys that are shown."""
    user = _user(connection)
    existing = _children(connection, schema, table)
    if existing is None:
        if _may(connection, "SELECT"):
            return None
        return (
            f"{schema}.{table}: tables that {user} may not read may have foreign keys that refer "
            f"to it, and the catalog hides them; GRANT PROCESS ON *.* TO {user}, or "
            f"GRANT SELECT ON *.* TO {user}"
        )
    shown = Counter(_stored(connection, key.schema, key.table) for key in seen)
    hidden = [_called(connection, child) for child in sorted(existing - shown)]
    if not hidden:
        return None
    grants = "; ".join(f"GRANT SELECT ON {child} TO {user}" for child in hidden)
    return (
        f"{schema}.{table}: foreign keys of {', '.join(hidden)} refer to it, and are hidden from "
        f"{user}; {grants}"
    )


def hidden_triggers(connection: sa.Connection, schema: str, table: str) -> str | None:
    """See `Dialect.hidden_triggers`."""
    shown = connection.execute(_TRIGGERS, {"schema": schema, "table": table}).scalar_one()
    # A table's triggers are shown all or none.
    if shown or _may(connection, "TRIGGER", schema, table):
        return None
    user = _user(connection)
    return (
        f"{schema}.{table}: triggers may be hidden from {user}; "
        f"GRANT TRIGGER ON {quoted(schema)}.{quoted(table)} TO {user}"
    )


def _children(connection: sa.Connection, schema: str, table: str) -> Counter[str] | None:
    """How many foreign keys of which tables, by their stored names, refer to a table; None where
    this user may not know."""
    listed = _MARIADB_FOREIGN_KEYS if _is_mariadb(connection) else _MYSQL_FOREIGN_KEYS
    parent = _stored(connection, schema, table)
    try:
        return Counter(connection.execute(listed, {"parent": parent}).scalars())
    except sa.exc.DBAPIError as error:
        if error.orig is not None and error.orig.args[0] in _UNREADABLE:
            return None
        raise


def _stored(connection: sa.Connection, schema: str, table: str) -> str:
    """The name of a table in InnoDB's lists."""
    form = _ENCODED if _is_mariadb(connection) else "{name}"
    parts = (form.format(name=_FOLDED.format(name=name)) for name in (":schema", ":table"))
    statement = sa.text(f"SELECT LEFT(CONCAT_WS('/', {', '.join(parts)}), {_LONGEST})")
    found: str = connection.execute(statement, {"schema": schema, "table": table}).scalar_one()
    return found


def _called(connection: sa.Connection, stored: str) -> str:
    """What SQL calls a table that is *stored* so."""
    names: Sequence[str] = stored.partition("/")[::2]
    if _is_mariadb(connection):
        decode = sa.text(f"SELECT {_DECODED.format(name=':name')}")
        names = [connection.execute(decode, {"name": name}).scalar_one() for name in names]
    return ".".join(map(quoted, names))


def _may(connection: sa.Connection, right: str, schema: str = "*", table: str = "*") -> bool:
    """Whether this user surely has *right* on a table; on every table where none is named."""
    return any(
        not grant.rights.isdisjoint((right, "ALL PRIVILEGES"))
        and grant.schema in ("*", schema)
        and grant.table in ("*", table)
        for grant in _grants(connection)
    )


def _grants(connection: sa.Connection) -> Iterator[_Grant]:
    """What is granted to this user and to its active roles, as far as we can read it. Nothing where
    something of it is taken away again, as MySQL's partial revokes do."""
    lines = connection.exec_driver_sql("SHOW GRANTS").scalars().all()
    if any(line.startswith(("REVOKE", "DENY")) for line in lines):
        return
    for line in lines:
        if found := _GRANT.match(line):
            rights, schema, table = found.groups()
            # Of a schema it is a pattern: `my\_shop` is my_shop.
            named = re.sub(r"\\([_%])", r"\1", unquoted(schema))
            yield _Grant(frozenset(rights.split(", ")), named, unquoted(table))


def _user(connection: sa.Connection) -> str:
    """This user, as GRANT calls it."""
    name, _, host = connection.exec_driver_sql("SELECT current_user()").scalar_one().rpartition("@")
    return "@".join("'" + part.replace("'", "''") + "'" for part in (name, host))


def _is_mariadb(connection: sa.Connection) -> bool:
    return bool(getattr(connection.dialect, "is_mariadb", False))
