"""Rules about several keys together, of databases and of policies about their rows."""

from collections.abc import Iterable, Iterator, Mapping

from bestbefore.adapters.state.schema import metadata
from bestbefore.app.settings.model import SQLITE, DatabaseSettings
from bestbefore.app.settings.problems import Place, Problem, section, shown
from bestbefore.app.settings.raw import Raw, named
from bestbefore.app.settings.urls import home
from bestbefore.domain.names import texts
from bestbefore.domain.policy import Policy
from bestbefore.domain.rows import COMPLETED_BATCHES, RowSource, TableArchive, TimestampKind

_ZONED = (TimestampKind.AUTO, TimestampKind.NAIVE, TimestampKind.DATE)
_OF_THE_LEDGER = frozenset({*metadata.tables, "alembic_version"})


def database(place: Place, written: Raw, stores: Iterable[str]) -> Iterator[Problem]:
    """What is wrong with one ``[databases.NAME]``."""
    if not written.keys() & {"url", "url_env", "url_file"}:
        yield Problem(
            (*place, "url"),
            "expected the address of the database, found none",
            f'add url_env = "DATABASE_URL", or url or url_file, to {section(place)}',
        )
    if place[-1] in stores:
        yield Problem(
            place,
            "a store has this name too, and breakers, holds and dead letters tell them by it",
            "rename one of them",
        )


def rows(place: Place, policy: Raw, written: Raw, databases: Iterable[str]) -> Iterator[Problem]:
    """What is wrong with one ``[policies.NAME.rows]``, at *place*."""
    yield from named(place, written, "database", databases)
    yield from _zone(place, written)
    partitions = written.get("partitions")
    if partitions in ("detach", "drop"):
        for key, found in (("where", "where" in written), ("archive", "archive" in policy)):
            if found:
                yield Problem(
                    (*place, "partitions"),
                    f"{shown(partitions)} takes whole partitions, which does not go with {key}",
                    f'write partitions = "rows", or remove {key}',
                )
    archive = policy.get("archive")
    to_files = isinstance(archive, dict) and "store" in archive
    if to_files and written.get("completion") == "ledger":
        yield Problem(
            (*place, "completion"),
            "rows go to files only where a batch leaves its record beside the data, as nothing "
            "else tells after a crash what a file holds",
            'write completion = "target", or archive to a table',
        )
    if policy.get("action") == "archive":
        for key in sorted(written.keys() & {"synchronous_below", "synchronous_within"}):
            yield Problem(
                (*place, key),
                "only what is deleted is done while somebody waits, never what is archived",
                'remove it, or write action = "delete"',
            )


def _zone(place: Place, written: Raw) -> Iterator[Problem]:
    kind = written.get("timestamp_kind", TimestampKind.AUTO)
    if kind not in list(TimestampKind):
        return
    if "timestamp_zone" in written and kind not in _ZONED:
        yield Problem(
            (*place, "timestamp_zone"),
            f"timestamps of kind {shown(kind)} do not depend on a zone",
            f"remove it, or write one of the kinds that do: {', '.join(_ZONED)}",
        )
    elif "timestamp_zone" not in written and kind == TimestampKind.NAIVE:
        yield Problem(
            (*place, "timestamp_zone"),
            'expected it beside timestamp_kind = "naive", found none',
            'add the zone of the clock that wrote the column, as in timestamp_zone = "UTC"',
        )


def throttles(databases: Mapping[str, DatabaseSettings]) -> Iterator[Problem]:
    """What makes a database wait for something that it does not have."""
    for name, one in databases.items():
        for key in ("replica_lag", "lock_wait"):
            if one.url.startswith(SQLITE) and getattr(one.throttle, key) is not None:
                yield Problem(
                    ("databases", name, "throttle", key),
                    "SQLite has neither replicas nor a list of who waits for a lock",
                    f"remove {key}; pause, rows_per_second, sql and http work",
                )


def tables(
    policies: Mapping[str, Policy], databases: Mapping[str, DatabaseSettings], state: str
) -> Iterator[Problem]:
    """Tables that no policy may be about, or that are named for two things at once.

    *state* is the address of the state database.
    """
    ledger = home(state)
    for name, policy in policies.items():
        if not isinstance(source := policy.source, RowSource):
            continue
        place = ("policies", name)
        there = home(databases[source.database].url)
        for where, table in _named(source):
            *above, last = texts(table.lower())  # not every database tells Runs from runs
            if last == COMPLETED_BATCHES:
                yield Problem(
                    (*place, *where),
                    f"{COMPLETED_BATCHES} is where the database itself remembers what is done",
                    "name another table; old entries are taken out of it by bestbefore",
                )
            elif last in _OF_THE_LEDGER and (there[0], *(above or there[1:])) == ledger:
                yield Problem(
                    (*place, *where),
                    f"{table} is a table of the ledger, which is in this database",
                    "name another table; [state] keep limits how much the ledger holds",
                )
        if source.dependents and texts(source.table) in map(texts, source.dependents):
            yield Problem(
                (*place, "rows", "dependents"),
                f"{source.table} is the policy's own table",
                "remove it; rows that refer to rows of their own table need no mention",
            )
        archived = source.archive
        if isinstance(archived, TableArchive) and texts(archived.table) == texts(source.table):
            yield Problem(
                (*place, "archive", "table"),
                f"{archived.table} is the policy's own table",
                "name the table that the rows go to",
            )


def _named(source: RowSource) -> Iterator[tuple[Place, str]]:
    yield ("rows", "table"), source.table
    for table in source.dependents or ():
        yield ("rows", "dependents"), table
    if isinstance(source.archive, TableArchive):
        yield ("archive", "table"), source.archive.table
