"""Rows of PostgreSQL, MySQL, MariaDB and SQLite, on SQLAlchemy Core."""

from bestbefore.adapters.rows.deleting import SqlRowDeleter
from bestbefore.adapters.rows.engine import Database
from bestbefore.adapters.rows.reading import SqlRowReader
from bestbefore.adapters.rows.restoring import SqlRowRestorer

__all__ = ["SqlRowRestorer", "connect"]


def connect(url: str) -> tuple[SqlRowReader, SqlRowDeleter]:
    """Both sides of the database at *url*. Nothing is connected before it is used.

    Raises ImportError where the driver is absent, and ValueError for a URL we cannot use.
    """
    database = Database(url)
    return SqlRowReader(database), SqlRowDeleter(database)
