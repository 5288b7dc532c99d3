"""Which place there is for a database, and which were left over."""

import re
import secrets
from hashlib import blake2b

import sqlalchemy as sa

from bestbefore.adapters.rows.scratch.files import SqlitePlace
from bestbefore.adapters.rows.scratch.place import PREFIX, Place
from bestbefore.adapters.rows.scratch.servers import MysqlPlace, PostgresPlace


def place_for(url: str) -> Place:
    """A place that is not there yet, for what is in the database at *url*."""
    there = sa.make_url(url)
    return _place(there, _prefix(there) + secrets.token_hex(4))


def leftovers(url: str) -> list[Place]:
    """Places that were not removed, or that a tune is using right now. Raises StoreError."""
    there, here = sa.make_url(url), place_for(url)
    if isinstance(here, SqlitePlace):
        names = here.beside()
    else:
        with here.connected() as connection:
            names = set(sa.inspect(connection).get_schema_names())
    ours = re.compile(rf"{_prefix(there)}[0-9a-f]{{8}}")
    return [_place(there, name) for name in sorted(names) if ours.fullmatch(name)]


def _prefix(url: sa.URL) -> str:
    """What the names of places begin with: on a MySQL server they lie beside those for others."""
    if _kind(url) is not MysqlPlace:
        return PREFIX
    return f"{PREFIX}{blake2b((url.database or '').encode(), digest_size=4).hexdigest()}_"


def _place(url: sa.URL, name: str) -> Place:
    return _kind(url)(url, name)


def _kind(url: sa.URL) -> type[Place]:
    match url.get_backend_name():
        case "postgresql":
            return PostgresPlace
        case "sqlite":
            return SqlitePlace
        case _:
            return MysqlPlace
