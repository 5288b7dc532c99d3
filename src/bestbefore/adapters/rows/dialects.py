"""Which databases there are."""

from collections.abc import Mapping

import sqlalchemy as sa

from bestbefore.adapters.rows.dialect import Dialect
from bestbefore.adapters.rows.mariadb import Mariadb
from bestbefore.adapters.rows.postgresql import Postgresql
from bestbefore.adapters.rows.sqlite import Sqlite

_DIALECTS: Mapping[str, Dialect] = {
    "postgresql": Postgresql(),
    "mysql": Mariadb(),
    "mariadb": Mariadb(),
    "sqlite": Sqlite(),
}


def dialect_named(name: str) -> Dialect:
    """The dialect called *name* in URLs. Raises ValueError for one we do not know."""
    try:
        return _DIALECTS[name]
    except KeyError:
        raise ValueError(
            f"rows cannot be in {name}; expected postgresql+psycopg, mysql+pymysql or sqlite"
        ) from None


def dialect_of(connection: sa.Connection) -> Dialect:
    """The dialect of *connection*."""
    return dialect_named(connection.dialect.name)
