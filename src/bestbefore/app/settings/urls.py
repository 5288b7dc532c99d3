"""Addresses of databases: what they may look like, and which of them mean the same place.

No message shows an address, as it may hold a password.
"""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from bestbefore.app.settings.model import POSTGRESQL, SQLITE
from bestbefore.app.settings.problems import Unfit, shown

MYSQL = "mysql+pymysql://"
MARIADB = "mariadb+pymysql://"

DEFAULT_STATE = f"{SQLITE}bestbefore.db"

_SERVERS = {
    "postgresql": POSTGRESQL,
    "postgres": POSTGRESQL,
    "mysql": MYSQL,
    "mariadb": MARIADB,
}
"""How an address begins, by what people have in its place: without the driver, or the short one."""

_SEARCH_PATH = re.compile(r"search_path\s*=\s*\"?([^\s,\"]+)")


def state_url(url: str, folder: Path) -> str:
    """*url* if a state database can be there; raises Unfit.

    A relative SQLite file is relative to *folder*.
    """
    scheme, _, _ = url.partition(":")
    if scheme.startswith("postgres"):
        return _server(url, POSTGRESQL)
    remedy = f'write for example "{DEFAULT_STATE}"'
    if not url.startswith(SQLITE):
        raise Unfit(f"expected {SQLITE}FILE or {POSTGRESQL}…, found {shown(scheme)}", remedy)
    return _sqlite(url, folder, "as the ledger outlives every process", remedy)


def database_url(url: str, folder: Path) -> str:
    """*url* if rows can be cleaned up there; raises Unfit. Relative files as for `state_url`."""
    scheme, _, _ = url.partition(":")
    if url.startswith(SQLITE):
        why = "as several processes work on it"
        return _sqlite(url, folder, why, f'write for example "{SQLITE}shop.db"')
    if (beginning := _SERVERS.get(scheme.partition("+")[0])) is not None:
        return _server(url, beginning)
    raise Unfit(
        f"expected {SQLITE}FILE, {POSTGRESQL}… or {MYSQL}…, found {shown(scheme)}",
        f'write for example "{POSTGRESQL}USER:PASSWORD@HOST/DATABASE"',
    )


def home(url: str) -> tuple[str, str]:
    """Server and database that a good *url* leads to, without user and password; and the schema in
    which it looks for a table without one."""
    parts = urlsplit(url)
    if url.startswith(SQLITE):
        return f"{SQLITE}{Path(url.removeprefix(SQLITE)).resolve()}", "main"
    sort = parts.scheme.partition("+")[0].replace("mariadb", "mysql")
    port = parts.port or (5432 if sort == "postgresql" else 3306)
    database = parts.path.strip("/")
    options = " ".join(parse_qs(parts.query).get("options", []))
    chosen = _SEARCH_PATH.search(options)
    schema = database if sort == "mysql" else chosen[1] if chosen else "public"
    return f"{sort}://{parts.hostname or ''}:{port}/{database}", schema


def _sqlite(url: str, folder: Path, why: str, remedy: str) -> str:
    file = url.removeprefix(SQLITE)
    if not file or file == ":memory:" or file.endswith("/"):
        raise Unfit(f"expected a file, {why}", remedy)
    if "?" in file or not file.isprintable() or file.startswith(("~", "file:")):
        raise Unfit(f"expected a plain path, found {shown(file)}", remedy)
    return f"{SQLITE}{folder / file}"


def _server(url: str, beginning: str) -> str:
    """*url* if it begins as it should, and names a database on a server."""
    remedy = f'write "{beginning}USER:PASSWORD@HOST:PORT/DATABASE"'
    if not url.startswith(beginning):
        raise Unfit(f"expected {beginning}…, found {shown(url.partition(':')[0])}", remedy)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise Unfit(
            "expected an address with a port that is a number",
            f"{remedy}, with %2F for / and %40 for @ in the password",
        ) from error
    if not parts.path.strip("/") or not url.isprintable():
        raise Unfit("expected the name of a database after the host", remedy)
    return url
