"""What answers behind a connection, for people."""

import sqlalchemy as sa

_PRODUCTS = {"postgresql": "PostgreSQL", "mysql": "MySQL", "sqlite": "SQLite"}


def product(connection: sa.Connection) -> str:
    """Its name and version: ``PostgreSQL 16.4``."""
    dialect = connection.dialect
    name = _PRODUCTS.get(dialect.name, dialect.name)
    if getattr(dialect, "is_mariadb", False):
        name = "MariaDB"
    return " ".join([name, ".".join(map(str, dialect.server_version_info or ()))]).rstrip()
